"""A client for the MCP conformance suite: an agent that uses the suite's server through a host of ours.

usage: mcp_conformance_client.py FRITH URL

The suite says in MCP_CONFORMANCE_SCENARIO what is to be done. Standard library only.
"""

import json
import os
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

CALLS = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "sse-retry": ("test_reconnection", {}),
}


def main(frith, url):
    place = urlsplit(url)
    config = {
        "plugins": [
            {"name": "tools", "type": "tools"},
            {"name": "mcp", "type": "mcp", "private_hosts": [place.netloc]},
        ]
    }
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "frith.yaml")
        with open(file, "w") as out:
            json.dump(config, out)
        command = [frith, "stdio", "--config", file, "--data", os.path.join(folder, "data")]
        host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(**message):
            host.stdin.write(json.dumps(message) + "\n")
            host.stdin.flush()
            while True:
                heard = json.loads(host.stdout.readline())
                if heard.get("req_id") == message["id"] and not heard["type"].endswith("/event"):
                    return heard

        assert ask(type="handshake/req", id="h", agent_caps=["tools", "mcp"])["ok"]
        server = {"server_id": "suite", "transport": "http", "url": url}
        registered = ask(type="mcp/server/register/req", id="r", config=server)
        assert registered.get("ok"), registered
        call = CALLS.get(os.environ["MCP_CONFORMANCE_SCENARIO"])
        if call:
            name, arguments = call
            result = ask(type="tool/call/req", id="c", tool_name=f"suite__{name}", arguments=arguments)
            assert result["data"]["success"], result
        host.stdin.close()
        host.wait()


main(*sys.argv[1:])
