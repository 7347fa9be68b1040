"""A plugin in plain Python: a host with one tool, on standard input and output.

    frith call greet '{"name":"Ada"}' --host 'cmd:python3 examples/plugins/greeter.py'
"""

import json
import sys
import time

GREET = {
    "name": "greet",
    "description": "Says hello",
    "input_parameters": [
        {"name": "name", "type": "string", "description": "Whom to greet", "required": True}
    ],
}


def say(kind, request, **body):
    """Writes a message: one JSON object in one line. Nothing else may be printed."""
    base = {"a2e": "1.0", "version": "1.0", "type": kind, "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, "req_id": request["id"], **body}), flush=True)


def fail(request, code, message):
    say("error", request, code=code, message=message, retryable=False, detail={}, capability_name="tools")


def call(request):
    if request["tool_name"] != "greet":
        # Another plugin may have that tool: the node asks the next one.
        return fail(request, "unknown_tool", "there is no such tool")
    name = request["arguments"].get("name")
    if not isinstance(name, str):
        return fail(request, "schema_violation", "`name` must be a text")
    result = {"success": True, "tool_name": "greet", "data": {"text": f"Hello, {name}!"}, "duration_ms": 0}
    say("tool/call/resp", request, data=result, created_at=time.time())


for line in sys.stdin:
    request = json.loads(line)
    match request["type"]:
        case "handshake/req":
            asked = request["agent_caps"]
            caps = [{"capability": it, "enabled": it == "tools", "metadata": {}} for it in asked]
            session = {"session_id": "greeter", "max_parallel": 1, "ok": True, "reason": ""}
            say("handshake/resp", request, accepted_caps=caps, **session)
        case "tool/list/req":
            say("tool/list/resp", request, tools=[GREET])
        case "tool/call/req":
            call(request)
        case "ping":
            say("pong", request)
        case "shutdown":
            break
        case other:
            fail(request, "invalid_message", f"{other} is not served here")
