"""The official Python SDK of MCP against ours, in both eras of the protocol.

usage: mcp_client.py stdio COMMAND ARGUMENT...
       mcp_client.py http URL TOKEN

The server is expected to have the tools of the demo plugin: echo, fail, stream, wait.
"""

import asyncio
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def check(client: Client) -> None:
    tools = (await client.list_tools()).tools
    names = {tool.name for tool in tools}
    assert {"echo", "stream", "tool_search"} <= names, names
    assert all(tool.input_schema["type"] == "object" for tool in tools)

    echoed = await client.call_tool("echo", {"text": "grüße"})
    assert echoed.structured_content == {"text": "grüße"}, echoed
    assert echoed.content[0].text == '{"text":"grüße"}', echoed

    failed = await client.call_tool("fail", {})
    assert failed.is_error, failed
    try:
        await client.call_tool("nothing", {})
    except MCPError as error:
        assert error.code == -32602, error
    else:
        raise AssertionError("a tool that is not there was called")

    heard = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    counted = await client.call_tool("stream", {"count": 3}, progress_callback=told)
    assert counted.structured_content == {"counted": 3}, counted
    assert heard == [1, 2, 3], heard

    # A call that is given up is cancelled; the connection goes on.
    try:
        async with asyncio.timeout(0.2):
            await client.call_tool("wait", {"seconds": 3600})
    except TimeoutError:
        pass
    else:
        raise AssertionError("a call of an hour was over at once")

    assert (await client.list_resources()).resources == []
    templates = (await client.list_resource_templates()).resource_templates
    assert templates[0].uri_template == "frith://artifact/{id}", templates
    assert (await client.list_prompts()).prompts == []


async def main() -> None:
    kind, *rest = sys.argv[1:]
    for mode in ("legacy", "auto", "2026-07-28"):
        if kind == "stdio":
            server = StdioServerParameters(command=rest[0], args=rest[1:])
            async with Client(server, mode=mode) as client:
                await check(client)
            continue
        url, token = rest
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                await check(client)
                era = client.protocol_version
                assert (era >= "2026-07-28") == (mode != "legacy"), (mode, era)


asyncio.run(main())
