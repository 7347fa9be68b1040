"""The official Python SDK of MCP with a whole node: memory, environments, processes, skills, artifacts.

usage: mcp_whole.py SKILLS stdio COMMAND ARGUMENT...
       mcp_whole.py SKILLS http URL TOKEN

SKILLS is the node's folder of skills, with the skill `greet` in it. Skills are added there.
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

OWN = {
    "memory_store", "memory_recall", "memory_forget", "env_space", "env_reset", "env_step",
    "env_observe", "env_render", "env_close", "proc_spawn", "proc_read", "proc_write", "proc_kill",
    "proc_status", "run_command",
}


async def call(client: Client, tool: str, **arguments: object) -> dict:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    return result.structured_content


async def memory(client: Client, mark: str) -> None:
    await call(client, "memory_store", key="color", content={"name": mark}, tags=["paint"])
    found = await call(client, "memory_recall", keys=["color"])
    assert found["entries"][0]["content"] == {"name": mark}, found
    await call(client, "memory_forget", keys=["color"])
    assert (await call(client, "memory_recall", keys=["color"]))["entries"] == []


async def environment(client: Client) -> None:
    space = await call(client, "env_space", env_name="counter")
    assert "inc" in json.dumps(space), space
    episode = (await call(client, "env_reset", env_name="counter"))["obs"]["episode_id"]
    await call(client, "env_step", episode_id=episode, action={"type": "inc"})
    seen = await call(client, "env_observe", episode_id=episode)
    assert '"count": 1' in json.dumps(seen), seen
    await call(client, "env_close", episode_id=episode)


async def process(client: Client) -> None:
    started = await call(client, "proc_spawn", cmd=["cat"])
    await call(client, "proc_write", proc_id=started["proc_id"], data="a word\n", eof=True)
    heard = ""
    while "a word" not in heard:
        heard += json.dumps(await call(client, "proc_read", proc_id=started["proc_id"], wait_ms=30000))


async def artifact(client: Client) -> None:
    result = await client.call_tool("run_command", {"command": "seq 1 100000"})
    links = [part for part in result.content if part.type == "resource_link"]
    assert links, result.content[:1]
    listed = (await client.list_resources()).resources
    assert links[0].uri in [resource.uri for resource in listed], listed
    read = await client.read_resource(links[0].uri)
    assert "99999\n100000" in read.contents[0].text


async def skills(client: Client) -> None:
    listed = (await client.list_prompts()).prompts
    assert "greet" in [prompt.name for prompt in listed], listed
    got = await client.get_prompt("greet")
    assert "Say hello" in got.messages[0].content.text, got


async def changes(client: Client, folder: Path, name: str, heard: asyncio.Event) -> None:
    """Adds a skill, and waits until the node says so by itself."""

    def add() -> None:
        (folder / name).mkdir()
        front = f"---\nname: {name}\ndescription: Added while the node runs\n---\n"
        (folder / name / "SKILL.md").write_text(front + "Do it.\n")

    if client.protocol_version < "2026-07-28":
        heard.clear()
        add()
        await heard.wait()
    else:
        async with client.listen(prompts_list_changed=True) as listening:
            # The node is asked to tell of changes when the list is asked for, at the latest.
            await client.list_prompts()
            add()
            async for _ in listening:
                break
    # The SDK is not to answer by itself.
    listed = (await client.list_prompts(cache_mode="bypass")).prompts
    assert name in [prompt.name for prompt in listed], listed


async def check(server: object, mode: str, kind: str, folder: Path) -> None:
    heard = asyncio.Event()

    async def told(message: object) -> None:
        if getattr(message, "method", "") == "notifications/prompts/list_changed":
            heard.set()

    async with Client(server, mode=mode, message_handler=told) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert OWN <= names, OWN - names
        await memory(client, f"{kind} {mode}")
        await environment(client)
        await process(client)
        await artifact(client)
        await skills(client)
        await changes(client, folder, f"added-{kind}-{mode}", heard)


async def main() -> None:
    folder, kind, *rest = sys.argv[1:]
    for mode in ("legacy", "2026-07-28"):
        if kind == "stdio":
            server = StdioServerParameters(command=rest[0], args=rest[1:])
            await check(server, mode, kind, Path(folder))
            continue
        url, token = rest
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            await check(streamable_http_client(url, http_client=http), mode, kind, Path(folder))


asyncio.run(main())
