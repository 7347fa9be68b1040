"""An A2E host with the tools and prompts that the MCP conformance suite asks a server for.

A node mounts it; the suite then speaks MCP with the node. Standard library only.
"""

import json
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
}
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}
PROMPTS = {"test_simple_prompt": [], "test_prompt_with_arguments": ["arg1", "arg2"]}


def say(**message):
    base = {"a2e": "1.0", "version": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)


def tool(name):
    listed = {"name": name, "description": f"The tool {name}", "streaming": True}
    if name == "json_schema_2020_12_tool":
        listed["input_schema"] = SCHEMA
    return listed


def skill(name):
    arguments = PROMPTS[name]
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


def call(id, name, streaming):
    if name == "test_tool_with_progress" and streaming:
        for seq, percent in enumerate((0, 50, 100)):
            say(type="tool/event", req_id=id, kind="progress", data={"pct": percent, "message": ""}, seq=seq)
    content = TOOLS[name]
    words = "\n".join(part["text"] for part in content if part["type"] == "text")
    result = {
        "success": name != "test_error_handling", "tool_name": name, "duration_ms": 0,
        "data": {"content": content, "text": words},
    }
    if not result["success"]:
        result.update(error=words, error_code="tool_error")
    say(type="tool/call/resp", req_id=id, data=result, created_at=time.time())


for line in sys.stdin:
    m = json.loads(line)
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [
            {"capability": cap, "enabled": cap in ("tools", "skill"), "metadata": {}}
            for cap in m["agent_caps"]
        ]
        say(type="handshake/resp", req_id=id, session_id="S" * 32, accepted_caps=caps,
            max_parallel=4, ok=True, reason="")
    elif kind == "tool/list/req":
        say(type="tool/list/resp", req_id=id, tools=[tool(name) for name in TOOLS])
    elif kind == "tool/call/req":
        call(id, m["tool_name"], m.get("streaming", False))
    elif kind == "skill/discover/req":
        say(type="skill/discover/resp", req_id=id, skills=[skill(name) for name in PROMPTS])
    elif kind == "skill/call/req":
        values = ", ".join(f"{name}='{value}'" for name, value in m["arguments"].items())
        prompt = f"Prompt with arguments: {values}" if values else "This is a simple prompt for testing."
        result = {"success": True, "data": {"prompt": prompt}, "duration_ms": 0}
        say(type="skill/call/resp", req_id=id, name=m["name"], data=result, created_at=time.time())
    elif kind == "shutdown":
        break
