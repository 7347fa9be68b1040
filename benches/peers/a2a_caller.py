"""The client of the Python SDK of Google's A2A protocol under load; obeys, see `benches::client`.

usage: a2a_caller.py ADDRESS FOLDER
"""

import asyncio
import ssl
import sys
import time
from pathlib import Path

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types import Role, SendMessageRequest

TEXT = "grey fox"


async def main() -> None:
    address, folder = sys.argv[1], Path(sys.argv[2])
    context = ssl.create_default_context(cafile=folder / "cert.pem")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
    http = httpx.AsyncClient(verify=context, limits=limits, timeout=30)
    factory = ClientFactory(ClientConfig(httpx_client=http, streaming=False))
    client = await factory.create_from_url(f"https://{address}")

    async def calls(start: float, seconds: float) -> list[float]:
        times = []
        while time.perf_counter() - start < seconds or not times:
            sent = time.perf_counter()
            request = SendMessageRequest(message=new_text_message(TEXT, role=Role.ROLE_USER))
            answers = [answer async for answer in client.send_message(request)]
            if [get_stream_response_text(answer) for answer in answers] != [TEXT]:
                raise ValueError(answers)
            times.append(time.perf_counter() - sent)
        return times

    for line in sys.stdin:
        in_flight, millis = map(int, line.split())
        start = time.perf_counter()
        all_times = await asyncio.gather(
            *(calls(start, millis / 1000) for _ in range(in_flight))
        )
        times = sorted(time for times in all_times for time in times)
        rate = len(times) / (time.perf_counter() - start)
        print(rate, times[len(times) // 2], times[int(len(times) * 0.99)], flush=True)


asyncio.run(main())
