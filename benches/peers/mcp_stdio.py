"""An echo tool on the Python MCP SDK, over standard input and output."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("echo", log_level="ERROR")


@server.tool()
async def echo(text: str) -> str:
    return text


server.run("stdio")
