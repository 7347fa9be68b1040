"""An echo agent on the Python SDK of Google's A2A protocol, over TLS; prints where it listens.

usage: a2a_agent.py FOLDER
"""

import asyncio
import socket
import ssl
import sys
from pathlib import Path

import uvicorn
from a2a.helpers import get_message_text, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from starlette.applications import Starlette


class Echo(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = get_message_text(context.message)
        await event_queue.enqueue_event(new_text_message(text, role=Role.ROLE_AGENT))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


folder = Path(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
address = "{}:{}".format(*listener.getsockname())
card = AgentCard(
    name="echo",
    description="Gives its text back",
    version="1",
    supported_interfaces=[
        AgentInterface(
            url=f"https://{address}/", protocol_binding="JSONRPC", protocol_version="1.0"
        )
    ],
    capabilities=AgentCapabilities(),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[AgentSkill(id="echo", name="echo", description="echo", tags=["echo"])],
)
handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), card)
routes = create_agent_card_routes(card) + create_jsonrpc_routes(handler, "/")
config = uvicorn.Config(
    Starlette(routes=routes),
    log_level="error",
    ssl_certfile=folder / "cert.pem",
    ssl_keyfile=folder / "key.pem",
)
config.load()
config.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
print(address, flush=True)
asyncio.run(uvicorn.Server(config).serve([listener]))
