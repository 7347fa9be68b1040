"""An agent in plain Python: it finds a node, shakes hands, calls tools and comes back after a break.

    python3 examples/agents/agent.py [DATA]     # the node's data directory, ~/.local/share/frith if not said
"""

import json
import os
import pathlib
import socket
import sys


class Refused(Exception):
    """What a host answers instead of a result. `code` and `detail.reason` are for programs."""

    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = error


class Agent:
    def __init__(self, data, capabilities):
        self.data = pathlib.Path(data)
        self.capabilities = capabilities
        self.session = None  # what to come back to
        self.last_eid = 0  # the last message that arrived
        self.number = 0
        self.connect()

    def connect(self):
        """Shakes hands; if there was a session, goes on with it."""
        endpoints = json.loads((self.data / "endpoints.json").read_text())
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(endpoints["unix"].removeprefix("unix:"))
        self.lines = self.socket.makefile("rb")
        hello = {"type": "handshake/req", "id": "hello", "agent_id": "example", "agent_caps": self.capabilities,
                 "auth_token": (self.data / "token").read_text().strip()}
        if self.session:
            hello["resume"] = {"session_id": self.session, "last_eid": self.last_eid}
        self.say(hello)
        answer = self.hear()
        if not answer["ok"]:
            raise ConnectionError(answer["reason"])
        self.session = answer["session_id"]

    def say(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def hear(self):
        line = self.lines.readline()
        if not line:
            raise ConnectionError("the host is gone")
        message = json.loads(line)
        self.last_eid = message.get("eid", self.last_eid)
        return message

    def ask(self, kind, on_event=lambda event: None, **body):
        """Asks, and waits for the answer. After a break the same request, with the same id, is sent again:
        the host does it once, and gives the answer that it has given before."""
        self.number += 1
        request = {"type": kind, "id": f"{os.getpid()}-{self.number}", **body}
        for is_last in (False, True):
            try:
                self.say(request)
                return self.answer_of(request["id"], on_event)
            except ConnectionError:
                if is_last:
                    raise
                self.connect()

    def answer_of(self, id, on_event):
        while True:
            message = self.hear()
            if message.get("req_id") != id:
                continue  # of something else, or pushed
            if message["type"].endswith("event"):
                on_event(message)
            elif message["type"] == "error":
                raise Refused(message)
            else:
                return message

    def call(self, tool, on_event=lambda event: None, **arguments):
        answer = self.ask("tool/call/req", on_event, tool_name=tool, arguments=arguments, streaming=True, timeout=60)
        return answer["data"]["data"]

    def leave(self):
        """Ends the session. Without this it waits for the agent to come back."""
        self.say({"type": "shutdown", "id": "bye", "timeout": 0})


def main():
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    agent = Agent(sys.argv[1] if len(sys.argv) > 1 else f"{home}/frith", ["tools"])

    # Which tool is there for this? Searching costs less of a model's attention than a list of all.
    found = agent.ask("tool/list/req", query="current time")
    print("found", found["tools"][0]["name"])

    def show(event):
        print(event["kind"], event["data"].get("message", "").strip())

    ran = agent.call("run_command", show, command="echo one")
    print("exit code", ran["exit_code"])

    agent.socket.shutdown(socket.SHUT_RDWR)  # as a network does
    print("still there:", agent.call("current_time")["utc"] is not None)

    try:
        agent.call("read_file", path="../../etc/passwd")
    except Refused as refused:
        print("refused", refused.error["code"])
    agent.leave()


if __name__ == "__main__":
    main()
