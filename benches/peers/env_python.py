"""Environments in Python under load, told what to do on standard input (see benches/src/client.rs).

usage: env_python.py gymnasium | openenv
"""

import asyncio
import socket
import subprocess
import sys
import time


def report(times, start):
    times.sort()
    at = lambda share: times[min(int(len(times) * share), len(times) - 1)]
    print(len(times) / (time.perf_counter() - start), at(0.5), at(0.99), flush=True)


def gymnasium_steps():
    """CartPole in process, as a program would use it; begun anew where it ends."""
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    env.reset(seed=1)
    for line in sys.stdin:
        slice = int(line.split()[1]) / 1000
        start, times = time.perf_counter(), []
        while not times or time.perf_counter() - start < slice:
            sent = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(0)
            if terminated or truncated:
                env.reset()
            times.append(time.perf_counter() - sent)
        report(times, start)


SERVER = """
import os
import sys
import threading
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
import uvicorn


class Count(Action):
    amount: int = 0


class Counted(Observation):
    count: int = 0


class Counter(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.count = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self.count = 0
        return Counted(count=0, done=False, reward=0.0)

    def step(self, action, timeout_s=None, **kwargs):
        self.count += action.amount
        return Counted(count=self.count, done=False, reward=0.0)

    @property
    def state(self):
        return State(episode_id="e", step_count=self.count)


app = create_fastapi_app(Counter, Count, Counted, max_concurrent_envs=64)
# It ends with whoever started it, however that ends.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
"""


async def openenv_steps():
    """A counter behind OpenEnv's own server, over its own client."""
    from openenv.core.generic_client import GenericEnvClient

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stdin=subprocess.PIPE)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
        clients = []
        for line in sys.stdin:
            in_flight, slice = int(line.split()[0]), int(line.split()[1]) / 1000
            while len(clients) < in_flight:
                client = GenericEnvClient(base_url=f"http://127.0.0.1:{port}")
                await client.connect()
                await client.reset()
                clients.append(client)
            start, times = time.perf_counter(), []

            async def steps(client):
                first = True
                while first or time.perf_counter() - start < slice:
                    first = False
                    sent = time.perf_counter()
                    await client.step({"amount": 1})
                    times.append(time.perf_counter() - sent)

            await asyncio.gather(*(steps(client) for client in clients[:in_flight]))
            report(times, start)
    finally:
        server.kill()


if __name__ == "__main__":
    if sys.argv[1] == "gymnasium":
        gymnasium_steps()
    else:
        asyncio.run(openenv_steps())
