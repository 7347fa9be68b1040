"""An A2E agent in nothing but Python's standard library, against `frith stdio`.

usage: a2e_stdio.py PROGRAM [ARGUMENT ...]

Every message of a session is checked. Exits with 0 if all is as the specification says.
"""

import json
import subprocess
import sys


class Agent:
    def __init__(self, command):
        self.host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, **message):
        self.host.stdin.write(json.dumps(message).encode() + b"\n")
        self.host.stdin.flush()

    def hear(self):
        line = self.host.stdout.readline()
        assert line.endswith(b"\n"), line
        message = json.loads(line)
        for key, kind in {"a2e": str, "version": str, "type": str, "id": str, "ts": float}.items():
            assert type(message[key]) is kind, (key, message)
        assert message["a2e"] == message["version"] == "1.0", message
        return message

    def ask(self, **message):
        self.say(**message)
        answer = self.hear()
        assert answer["req_id"] == message.get("id", ""), answer
        return answer


def main():
    agent = Agent(sys.argv[1:])

    pong = agent.ask(type="ping", id="p1")
    assert pong["type"] == "pong" and pong["uptime_seconds"] >= 0, pong

    error = agent.ask(type="tool/list/req", id="early")
    assert (error["type"], error["code"]) == ("error", "capability_missing"), error

    # What the SDK's client asks for by default: no capability at all, which is no error.
    hello = agent.ask(type="handshake/req", id="h0", agent_caps=["streaming", "artifacts"])
    assert hello["ok"] is True and hello["accepted_caps"] == [] and hello["reason"] == "", hello

    hello = agent.ask(type="handshake/req", id="h1", agent_id="py", agent_caps=["tools", "chains"], auth_token="")
    assert hello["ok"] is True and hello["max_parallel"] == 4 and len(hello["session_id"]) == 32, hello
    tools, chains = hello["accepted_caps"]
    assert tools["capability"] == "tools" and tools["enabled"] is True, tools
    assert set(tools["metadata"]) == {"name", "type", "priority", "exclusive"}, tools
    assert chains["enabled"] is False and chains["metadata"]["reason"] == "no plugin loaded", chains

    listed = agent.ask(type="tool/list/req", id="l1")
    assert [tool["name"] for tool in listed["tools"]] == ["echo", "clock", "fail", "stream"], listed

    text = "h\u00e9 \u2028 \U0001f600 \n"
    result = agent.ask(type="tool/call/req", id="c1", tool_name="echo", arguments={"text": text})
    assert result["type"] == "tool/call/resp" and result["data"]["data"] == {"text": text}, result
    assert type(result["data"]["duration_ms"]) is int, result

    agent.say(type="tool/call/req", id="s1", tool_name="stream", arguments={"count": 3}, streaming=True)
    for number in range(3):
        event = agent.hear()
        assert (event["type"], event["req_id"], event["seq"]) == ("tool/event", "s1", number), event
        assert event["data"] == {"number": number + 1}, event
    assert agent.hear()["data"]["data"] == {"counted": 3}

    for message, code in [
        (dict(type="tool/call/req", id="e1", tool_name="fail", arguments={}), "tool_error"),
        (dict(type="tool/call/req", id="e2", tool_name="none", arguments={}), "unknown_tool"),
        (dict(type="tool/call/req", id="e3", tool_name="echo", arguments=[]), "schema_violation"),
        (dict(type="memory/init/req", id="e4"), "capability_missing"),
        (dict(type="no/such/req", id="e5"), "invalid_message"),
        (dict(a2e="2.0", type="ping", id="e6"), "version_mismatch"),
    ]:
        error = agent.ask(**message)
        assert (error["type"], error["code"]) == ("error", code), error
        assert type(error["detail"]) is dict and type(error["retryable"]) is bool, error

    agent.host.stdin.write(b"this is not JSON\n")
    agent.host.stdin.flush()
    error = agent.hear()
    assert (error["code"], error["req_id"]) == ("parse_error", ""), error

    agent.say(type="shutdown", id="bye", timeout=1)
    assert agent.host.stdout.read() == b""
    assert agent.host.wait(timeout=10) == 0
    print("every message was as the specification says")


main()
