"""A2A over gRPC and WebSocket as foreign libraries speak them, against a server that echoes.

    a2a_transports.py grpc|websocket PORT CA_FILE PROTO_FOLDER

The server answers a request with what came; `do` in the message asks for an error or a stream instead.
"""

import asyncio
import json
import ssl
import sys
import tempfile


def request(request_id, what, **more):
    message = {"type": "request", "session_id": "s1", "request_id": request_id, "do": what}
    return json.dumps(message | more)


def over_grpc(port, ca, folder):
    import grpc
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as out:
        made = protoc.main(["protoc", f"-I{folder}", f"--python_out={out}", f"--grpc_python_out={out}", "a2a.proto"])
        assert made == 0, "the .proto cannot be compiled"
        sys.path.insert(0, out)
        import a2a_pb2
        import a2a_pb2_grpc

    with open(ca, "rb") as file:
        credentials = grpc.ssl_channel_credentials(file.read())
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        stub = a2a_pb2_grpc.A2AStub(channel)

        def frame(text):
            return a2a_pb2.Frame(json=text.encode())

        metadata = [("x-session-id", "s1")]
        answer = json.loads(stub.Exchange(frame(request("r1", "echo")), metadata=metadata, timeout=60).json)
        assert answer["carrier"] == "grpc", answer
        assert answer["hint"] == "s1", answer
        assert answer["message"]["request_id"] == "r1", answer
        assert 0 < answer["patience"] <= 60000, answer

        parts = [json.loads(part.json) for part in stub.ExchangeStream(frame(request("r2", "stream", parts=5)))]
        assert [part["type"] for part in parts] == ["response_chunk"] * 5 + ["response"], parts
        parts = list(stub.ExchangeStream(frame(request("r3", "echo"))))
        assert len(parts) == 1, parts

        for code, status in [
            ("UNVERIFIED_AGENT", grpc.StatusCode.UNAUTHENTICATED),
            ("RATE_LIMIT_EXCEEDED", grpc.StatusCode.RESOURCE_EXHAUSTED),
            ("PAYLOAD_TOO_LARGE", grpc.StatusCode.OUT_OF_RANGE),
        ]:
            try:
                stub.Exchange(frame(request("r4", f"error {code}")))
            except grpc.RpcError as error:
                assert error.code() == status, error
                trailers = dict(error.trailing_metadata())
                assert json.loads(trailers["a2a-error-bin"])["error_code"] == code, trailers
            else:
                raise AssertionError(f"{code} was no error")

        try:
            stub.Exchange(frame(request("r5", "hang")), timeout=0.2)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        else:
            raise AssertionError("the deadline did not count")


def over_websocket(port, ca, _folder):
    # Not the blocking client: it reads and writes from two threads, and until Python 3.13 a TLS socket
    # may lose what is written meanwhile.
    asyncio.run(websocket(port, ca))


async def websocket(port, ca):
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    context = ssl.create_default_context(cafile=ca)
    url = f"wss://localhost:{port}/a2a/ws"

    def opened(**more):
        arguments = {"ssl": context, "subprotocols": ["a2a.v1"], "compression": None} | more
        return connect(url, **arguments)

    async with opened() as socket:
        assert socket.subprotocol == "a2a.v1"

        async def received():
            return json.loads(await socket.recv())

        await socket.send(json.dumps({"type": "hello"}))
        assert (await received())["type"] == "challenge"
        for number in range(20):
            await socket.send(request(f"r{number}", "echo"))
        ids = {(await received())["request_id"] for _ in range(20)}
        assert ids == {f"r{number}" for number in range(20)}, ids
        await socket.send(request("s1", "stream", parts=5))
        types = [(await received())["type"] for _ in range(6)]
        assert types == ["response_chunk"] * 5 + ["response"], types
        await socket.send(request("e1", "error POLICY_VIOLATION"))
        assert (await received())["error_code"] == "POLICY_VIOLATION"
        await asyncio.wait_for(await socket.ping(), 10)
        # A request that fails leaves the connection open, a handshake that fails ends it.
        await socket.send(json.dumps({"type": "hello", "do": "error UNVERIFIED_AGENT"}))
        assert (await received())["error_code"] == "UNVERIFIED_AGENT"
        try:
            await socket.recv()
        except ConnectionClosed as closed:
            assert closed.rcvd.code == 4401, closed
        else:
            raise AssertionError("the connection stayed open")

    # Compression is not agreed to, whoever offers it.
    async with opened(compression="deflate") as socket:
        assert "permessage-deflate" not in str(socket.response.headers)
        await socket.send(request("r1", "echo"))
        assert json.loads(await socket.recv())["request_id"] == "r1"

    # Who asks for no subprotocol means ours.
    async with opened(subprotocols=None) as socket:
        assert socket.subprotocol is None
        await socket.send(request("r1", "echo"))
        assert json.loads(await socket.recv())["request_id"] == "r1"

    for more, status in [({"subprotocols": ["a2a.v2"]}, 400), ({"origin": "https://a.example"}, 403)]:
        try:
            async with opened(**more):
                raise AssertionError(f"{more} was let in")
        except InvalidStatus as refused:
            assert refused.response.status_code == status, refused


if __name__ == "__main__":
    kind, port, ca, folder = sys.argv[1:]
    {"grpc": over_grpc, "websocket": over_websocket}[kind](port, ca, folder)
    print("ok")
