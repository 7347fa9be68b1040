"""An A2E agent that shares no code with Frith, against a host of Frith's.

usage: a2e.py stdio PROGRAM [ARGUMENT ...]
       a2e.py tcp ADDRESS:PORT TOKEN
       a2e.py unix PATH TOKEN
       a2e.py curl URL TOKEN          (the program curl, for POST /send and the stream of events)
       a2e.py websocket URL TOKEN     (the package websockets)

Every message of a session is checked. Exits with 0 if all is as the specification says.
"""

import json
import socket
import subprocess
import sys


class Stdio:
    """Python's standard library, as the parent of the host."""

    def __init__(self, *command):
        self.host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, line):
        self.host.stdin.write(line + b"\n")
        self.host.stdin.flush()

    def receive(self):
        line = self.host.stdout.readline()
        assert line.endswith(b"\n"), line
        return line

    def ends(self):
        return self.host.stdout.read() == b"" and self.host.wait(timeout=10) == 0


class Socket:
    """Python's standard library, over a socket."""

    def __init__(self, stream):
        stream.settimeout(10)
        self.stream = stream
        self.lines = stream.makefile("rb")

    def send(self, line):
        self.stream.sendall(line + b"\n")

    def receive(self):
        line = self.lines.readline()
        assert line.endswith(b"\n"), line
        return line

    def ends(self):
        return self.lines.read() == b""


class Curl:
    """The program curl: one run for each message, one for the stream."""

    def __init__(self, url):
        self.url = url
        answer = self.run("-X", "POST", url + "/session")
        session = json.loads(answer)["session_id"]
        assert len(session) == 32, answer
        self.session = "X-Session-Id: " + session
        assert json.loads(self.run(url + "/health")) == {"status": "ok"}
        # Posted before there is a stream: what it answers waits.
        self.stream = None
        self.event = 0

    def run(self, *arguments, data=None):
        done = subprocess.run(["curl", "-sS", "--max-time", "10", *arguments], input=data, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def send(self, line):
        answer = self.run("-H", self.session, "-H", "Content-Type: text/plain", "--data-binary", "@-", self.url + "/send", data=line)
        assert json.loads(answer) == {"ok": True}, answer

    def receive(self):
        if self.stream is None:
            command = ["curl", "-sSNi", "-H", self.session, "-H", "Accept: text/event-stream", self.url + "/stream"]
            self.stream = subprocess.Popen(command, stdout=subprocess.PIPE)
            head = b"".join(iter(self.stream.stdout.readline, b"\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            assert b"content-type: text/event-stream; charset=utf-8" in head, head
            assert b"cache-control: no-cache" in head and b"transfer-encoding: chunked" in head, head
        fields = {}
        while "data" not in fields:
            line = self.stream.stdout.readline()
            assert line.isascii() and line.endswith(b"\n"), line
            if line not in (b"\n", b":\n"):
                name, value = line.decode().rstrip("\n").split(": ", 1)
                fields[name] = value
        self.event += 1
        assert fields["id"] == str(self.event), fields
        assert json.loads(fields["data"])["eid"] == self.event, fields
        return fields["data"]

    def ends(self):
        rest = self.stream.stdout.read()
        assert self.stream.wait(timeout=10) == 0
        status = self.run("-o", "/dev/null", "-w", "%{http_code}", "-H", self.session, self.url + "/stream")
        return rest.strip(b"\n:") == b"" and status == b"404"


class WebSocket:
    """The package websockets."""

    def __init__(self, url):
        from websockets.sync.client import connect

        self.socket = connect(url, open_timeout=10, close_timeout=10)

    def send(self, line):
        self.socket.send(line.decode(), text=True)

    def receive(self):
        message = self.socket.recv(timeout=10)
        assert type(message) is str, message
        return message

    def ends(self):
        from websockets.exceptions import ConnectionClosedOK

        try:
            self.socket.recv(timeout=10)
        except ConnectionClosedOK:
            return True


class Agent:
    def __init__(self, link):
        self.link = link

    def say(self, **message):
        self.link.send(json.dumps(message).encode())

    def hear(self):
        message = json.loads(self.link.receive())
        for key, kind in {"a2e": str, "version": str, "type": str, "id": str, "ts": float}.items():
            assert type(message[key]) is kind, (key, message)
        assert message["a2e"] == message["version"] == "1.0", message
        return message

    def ask(self, **message):
        self.say(**message)
        answer = self.hear()
        assert answer["req_id"] == message.get("id", ""), answer
        return answer


def connect(transport, *words):
    """The link, and the token to say in the handshake."""
    if transport == "stdio":
        return Stdio(*words), ""
    where, token = words
    if transport == "tcp":
        address, port = where.rsplit(":", 1)
        return Socket(socket.create_connection((address, int(port)))), token
    if transport == "unix":
        stream = socket.socket(socket.AF_UNIX)
        stream.connect(where)
        return Socket(stream), token
    return {"curl": Curl, "websocket": WebSocket}[transport](where), token


def main():
    link, token = connect(*sys.argv[1:])
    agent = Agent(link)

    pong = agent.ask(type="ping", id="p1")
    assert pong["type"] == "pong" and pong["uptime_seconds"] >= 0, pong

    error = agent.ask(type="tool/list/req", id="early")
    early = "unauthorized" if token else "capability_missing"
    assert (error["type"], error["code"]) == ("error", early), error

    if token:
        refused = agent.ask(type="handshake/req", id="h-1", agent_caps=["tools"], auth_token=token + "x")
        assert refused["ok"] is False and refused["reason"] == "auth_failed", refused

    # What the SDK's client asks for by default: no capability at all, which is no error.
    hello = agent.ask(type="handshake/req", id="h0", agent_caps=["streaming", "artifacts"], auth_token=token)
    assert hello["ok"] is True and hello["accepted_caps"] == [] and hello["reason"] == "", hello

    hello = agent.ask(type="handshake/req", id="h1", agent_id="py", agent_caps=["tools", "chains"], auth_token=token)
    assert hello["ok"] is True and hello["max_parallel"] == 4 and len(hello["session_id"]) == 32, hello
    tools, chains = hello["accepted_caps"]
    assert tools["capability"] == "tools" and tools["enabled"] is True, tools
    assert set(tools["metadata"]) == {"name", "type", "priority", "exclusive"}, tools
    assert chains["enabled"] is False and chains["metadata"]["reason"] == "no plugin loaded", chains

    listed = agent.ask(type="tool/list/req", id="l1")
    assert [tool["name"] for tool in listed["tools"]] == ["echo", "clock", "fail", "stream", "wait"], listed

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

    link.send(b"this is not JSON")
    error = agent.hear()
    assert (error["code"], error["req_id"]) == ("parse_error", ""), error

    # A line that is too long is refused, and the session goes on.
    link.send(b'{"type":"ping","id":"' + b"x" * 10_000_000 + b'"}')
    error = agent.hear()
    assert (error["code"], error["req_id"]) == ("invalid_message", ""), error
    assert agent.ask(type="ping", id="p2")["type"] == "pong"

    if token:
        # The same request again is answered again; another one with its id is refused.
        again = agent.ask(type="tool/call/req", id="c1", tool_name="echo", arguments={"text": text})
        assert again["data"] == result["data"], again
        reused = agent.ask(type="tool/call/req", id="c1", tool_name="echo", arguments={})
        assert (reused["code"], reused["detail"]["reason"]) == ("invalid_message", "id_reused"), reused

    agent.say(type="shutdown", id="bye", timeout=1)
    assert link.ends()
    print("every message was as the specification says")


main()
