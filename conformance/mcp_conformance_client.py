"""A client for the MCP conformance suite: an agent that uses the suite's server through a host of ours.

usage: mcp_conformance_client.py FRITH URL

The suite says in MCP_CONFORMANCE_SCENARIO what is to be done. Where that is about logins, a node has the
server in its configuration, and this is its operator, whose browser goes where it is sent. Standard
library only.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))

CALLS = {
    "tools_call": ("add_numbers", {"a": 5, "b": 3}),
    "sse-retry": ("test_reconnection", {}),
}

# A tool whose schema the other one is to be given as it is.
SCHEMA, ECHO = "suite__json_schema_2020_12_tool", "suite__json_schema_echo"

# Who the suite takes for a client that is described by a document.
DOCUMENT = "https://conformance-test.local/client-metadata.json"

# How often an operator logs in again when that was not enough.
LOGINS = 3


def agent(frith, url, folder):
    """An agent calls a tool of the server."""
    hosts, servers = [urlsplit(url).netloc], {"suite": {"url": url}}
    file = write(folder, [{"name": "mcp", "type": "mcp", "private_hosts": hosts, "servers": servers}])
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
    # Asking for its prompts waits for the server.
    waited = ask(type="mcp/prompt/list/req", id="w", server_id="suite")
    assert waited["type"] == "mcp/prompt/list/resp", waited
    listed = ask(type="tool/list/req", id="t")["tools"]
    tools = {tool["name"]: schema(tool) for tool in listed if tool["name"].startswith("suite__")}
    for number, (name, arguments) in enumerate(calls(tools)):
        result = ask(type="tool/call/req", id=f"c{number}", tool_name=f"suite__{name}", arguments=arguments)
        assert result["data"]["success"], result
    for resource in ask(type="mcp/resource/list/req", id="l", server_id="suite")["resources"]:
        ask(type="mcp/resource/read/req", id="u" + resource["uri"], server_id="suite", uri=resource["uri"])
    for prompt in ask(type="mcp/prompt/list/req", id="p", server_id="suite")["prompts"]:
        ask(type="mcp/prompt/get/req", id="g" + prompt["name"], server_id="suite", name=prompt["name"])
    host.stdin.close()
    host.wait()


def schema(tool):
    """What a tool takes; a schema that says no more than the parameters is not there."""
    parameters = tool["input_parameters"]
    properties = {it["name"]: {"type": it["type"]} for it in parameters}
    required = [it["name"] for it in parameters if it.get("required")]
    return tool.get("input_schema") or {"properties": properties, "required": required}


def calls(tools):
    """What is to be called: what the suite says, or each tool with something that it takes."""
    told = CONTEXT.get("toolCalls")
    if told is not None:
        # What is null is left out.
        given = lambda call: {key: value for key, value in call["arguments"].items() if value is not None}
        return [(call["name"], given(call)) for call in told]
    if SCENARIO in CALLS:
        return [CALLS[SCENARIO]]
    if ECHO in tools:
        return [(ECHO.removeprefix("suite__"), {"schema": tools[SCHEMA]})]
    values = {"string": "x", "integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}

    def arguments(schema):
        properties = schema.get("properties", {})
        return {name: values.get(properties[name].get("type"), "x") for name in schema.get("required", [])}

    return [(name.removeprefix("suite__"), arguments(schema)) for name, schema in tools.items()]


def operator(frith, url, folder):
    """An operator logs in to the server of a node, and calls a tool."""
    oauth = {key: CONTEXT[key] for key in ("client_id", "client_secret") if key in CONTEXT}
    grant = "client_credentials" if "client-credentials" in SCENARIO else "login"
    oauth.update(grant=grant, client_metadata_url=DOCUMENT)
    if "client_secret" in oauth:
        oauth["issuer"] = issuer(url)
    servers = {"suite": {"url": url, "oauth": oauth}}
    hosts = [urlsplit(url).netloc]
    file = write(folder, [{"name": "mcp", "type": "mcp", "private_hosts": hosts, "servers": servers}])
    data = ["--data", os.path.join(folder, "data")]
    up = [frith, "up", "--listen", "127.0.0.1:0", "--config", file, *data]
    node = subprocess.Popen(up, stdout=subprocess.PIPE, text=True)
    try:
        assert "frith" in node.stdout.readline()
        call = [frith, "call", "suite__test-tool", "{}", *data]
        for _ in range(LOGINS):
            if grant == "login":
                login(frith, data)
            else:
                # Asking for its prompts waits for the server.
                wait = json.dumps({"type": "mcp/prompt/list/req", "id": "p", "server_id": "suite"})
                subprocess.run([frith, "send", "-", *data], input=wait, capture_output=True, text=True)
            done = subprocess.run(call, capture_output=True, text=True)
            if done.returncode == 0:
                return
            print(done.stderr, file=sys.stderr)
        sys.exit("the tool cannot be called")
    finally:
        node.terminate()
        node.wait()


def issuer(url):
    """Who gives tokens for the server. An operator knows that; here the server says it."""
    try:
        request = Request(url, b"{}", {"Content-Type": "application/json"})
        return urlopen(request) and None
    except HTTPError as error:
        challenge = error.headers.get("WWW-Authenticate", "")
    named = re.search('resource_metadata="([^"]*)"', challenge)
    place = urlsplit(url)
    default = f"{place.scheme}://{place.netloc}/.well-known/oauth-protected-resource{place.path}"
    with urlopen(named[1] if named else default) as said:
        return json.load(said)["authorization_servers"][0]


def login(frith, data):
    command = [frith, "mcp", "login", "suite", *data]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = []
    for line in running.stderr:
        said.append(line)
        if line.strip().startswith("http"):
            try:
                urlopen(line.strip()).read()
            except HTTPError as error:
                said.append(f"the browser was shown {error.code}: {error.read()}\n")
    if running.wait() != 0:
        sys.exit("".join(said))


def write(folder, plugins):
    file = os.path.join(folder, "frith.yaml")
    with open(file, "w") as out:
        json.dump({"a2a": False, "plugins": [{"name": "tools", "type": "tools"}, *plugins]}, out)
    return file


def main(frith, url):
    is_login = SCENARIO.startswith("auth/")
    with tempfile.TemporaryDirectory() as folder:
        (operator if is_login else agent)(frith, url, folder)


main(*sys.argv[1:])
