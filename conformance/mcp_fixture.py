"""An A2E host with the tools, prompts and resources that the MCP conformance suite asks a server for.

A node mounts it; the suite then speaks MCP with the node. Standard library only.
"""

import json
import re
import sys
import time

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def text(words):
    return {"type": "text", "text": words}


def resource(uri, kind, words):
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


TOOLS = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_tool_with_progress": [text("It is done.")],
    "test_error_handling": [text("This tool intentionally returns an error for testing")],
    "json_schema_2020_12_tool": [text("It is valid.")],
    "test_tool_with_logging": [text("It is done.")],
    "test_sampling": [],
    # What the suite for the newer era wants to be there.
    "test_logging_tool": [text("It is done.")],
    "test_streaming_elicitation": [text("Nobody is asked.")],
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
# Those that are text are skills; the others are as an MCP server behind the host would have them.
SKILLS = {"test_simple_prompt": [], "test_prompt_with_arguments": ["arg1", "arg2"]}
PROMPTS = {"test_prompt_with_embedded_resource": ["resourceUri"], "test_prompt_with_image": []}
RESOURCES = {
    "test://static-text": {
        "mime_type": "text/plain", "type": "text",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mime_type": "image/png", "type": "blob", "blob": PIXEL},
    "test://watched-resource": {"mime_type": "text/plain", "type": "text", "text": "It may change."},
}
TEMPLATE = re.compile("test://template/([^/]+)/data")


def say(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)


def tool(name):
    listed = {"name": name, "description": f"The tool {name}", "streaming": True}
    if name == "json_schema_2020_12_tool":
        listed["input_schema"] = SCHEMA
    return listed


def skill(name):
    arguments = SKILLS[name]
    return {
        "name": name, "version": "1.0.0", "description": f"The prompt {name}", "triggers": [],
        "status": "Published", "arguments": arguments, "when_to_use": "", "argument_hint": "",
        "source": "system",
        "input_schema": {
            "type": "object",
            "properties": {argument: {"type": "string"} for argument in arguments},
            "required": arguments,
        },
    }


def answer(id):
    """What the agent answers to a request of ours; other requests wait."""
    for line in sys.stdin:
        heard = json.loads(line)
        if heard.get("req_id") == id:
            return heard
        waiting.append(heard)


def sample(prompt):
    say(type="mcp/sample/req", id="s", server_id="fixture", mcp_request_id="1", max_tokens=100,
        messages=[{"role": "user", "content": text(prompt)}])
    heard = answer("s")
    return text("LLM response: " + heard["content"]["text"])


def prompt_messages(name, arguments):
    if name == "test_prompt_with_image":
        parts = [IMAGE, text("Please analyze the image above.")]
    else:
        words = "Embedded resource content for testing."
        parts = [
            resource(arguments["resourceUri"], "text/plain", words),
            text("Please process the embedded resource above."),
        ]
    return [{"role": "user", "content": part} for part in parts]


def read(uri):
    found = TEMPLATE.fullmatch(uri)
    if not found:
        return RESOURCES.get(uri)
    words = json.dumps({"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"})
    return {"mime_type": "application/json", "type": "text", "text": words}


def call(id, name, arguments, streaming):
    if name in ("test_tool_with_logging", "test_logging_tool") and streaming:
        for seq, words in enumerate(("started", "working", "completed")):
            say(type="tool/event", req_id=id, kind="log", data={"level": "info", "message": words}, seq=seq)
    if name == "test_tool_with_progress" and streaming:
        for seq, percent in enumerate((0, 50, 100)):
            say(type="tool/event", req_id=id, kind="progress", data={"pct": percent, "message": ""}, seq=seq)
    content = [sample(arguments["prompt"])] if name == "test_sampling" else TOOLS[name]
    words = "\n".join(part["text"] for part in content if part["type"] == "text")
    result = {
        "success": name != "test_error_handling", "tool_name": name, "duration_ms": 0,
        "data": {"content": content, "text": words},
    }
    if not result["success"]:
        result.update(error=words, error_code="tool_error")
    say(type="tool/call/resp", req_id=id, data=result, created_at=time.time())


def messages():
    for line in sys.stdin:
        yield json.loads(line)
        while waiting:
            yield waiting.pop(0)


waiting = []
for m in messages():
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [
            {"capability": cap, "enabled": cap in ("tools", "skill", "mcp"), "metadata": {}}
            for cap in m["agent_caps"]
        ]
        say(type="handshake/resp", req_id=id, session_id="S" * 32, accepted_caps=caps,
            max_parallel=4, ok=True, reason="")
    elif kind == "tool/list/req":
        say(type="tool/list/resp", req_id=id, tools=[tool(name) for name in TOOLS])
    elif kind == "tool/call/req":
        call(id, m["tool_name"], m.get("arguments", {}), m.get("streaming", False))
    elif kind == "skill/discover/req":
        say(type="skill/discover/resp", req_id=id, skills=[skill(name) for name in SKILLS])
    elif kind == "skill/call/req" and m["name"] not in SKILLS:
        say(type="error", req_id=id, code="unknown_skill", message="there is no such skill")
    elif kind == "mcp/prompt/list/req":
        prompts = [
            {"name": name, "description": f"The prompt {name}",
             "arguments": [{"name": argument, "required": True} for argument in arguments]}
            for name, arguments in PROMPTS.items()
        ]
        say(type="mcp/prompt/list/resp", req_id=id, prompts=prompts)
    elif kind == "mcp/prompt/get/req":
        got = prompt_messages(m["name"], m["arguments"])
        say(type="mcp/prompt/get/resp", req_id=id, messages=got)
    elif kind == "mcp/resource/list/req":
        resources = [
            {"uri": uri, "name": uri, "mime_type": content["mime_type"]}
            for uri, content in RESOURCES.items()
        ]
        say(type="mcp/resource/list/resp", req_id=id, resources=resources)
    elif kind == "mcp/resource/read/req" and read(m["uri"]):
        say(type="mcp/resource/read/resp", req_id=id, contents=[{"uri": m["uri"], **read(m["uri"])}])
    elif kind == "mcp/resource/read/req":
        say(type="error", req_id=id, code="mcp_resource_not_found", message="there is no such resource")
    elif kind == "mcp/resource/subscribe/req":
        say(type="mcp/resource/subscribe/resp", req_id=id, ok=True)
    elif kind == "mcp/root/list/req":
        say(type="mcp/root/list/resp", req_id=id, roots=[])
    elif kind == "skill/call/req":
        values = ", ".join(f"{name}='{value}'" for name, value in m["arguments"].items())
        prompt = f"Prompt with arguments: {values}" if values else "This is a simple prompt for testing."
        result = {"success": True, "data": {"prompt": prompt}, "duration_ms": 0}
        say(type="skill/call/resp", req_id=id, name=m["name"], data=result, created_at=time.time())
    elif kind == "shutdown":
        break
