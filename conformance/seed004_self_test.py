"""The peer of seed004.py against itself, over HTTPS and without a network: it must keep to the specification it stands for.

Prints how many tests passed and the names of those that did not; with the word `exchange` it waits for a line on standard input first.
"""

import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import traceback
import urllib.parse

sys.dont_write_bytecode = True

from seed004 import Client, Refused, TokenBucket, b64, base58, key_of_did, retry, unb64, unbase58, verify_manifest
from seed004_server import Server
from seed004_wire import Http, listen

HELLO_WORLD = {"goal": "translate", "domain": "nlp", "inputs": {"text": "Hello", "target_language": "es"}}


class Clock:
    def __init__(self):
        self.time = 1_770_000_000

    def __call__(self):
        return self.time


def carry(server, steps, edit=lambda number, message: None):
    """Runs a client's generator against a server in this process; `edit` may change what is answered."""
    answer, number = None, 0
    while True:
        try:
            place, message, session_id = steps.send(answer)
        except StopIteration as end:
            return end.value
        _, answer = server.handle(place, json.dumps(message).encode(), session_id)
        number += 1
        edit(number, answer)


def refused(code, act):
    try:
        act()
    except Refused as error:
        assert error.code == code, error
        return error
    raise AssertionError(f"not refused with {code}")


def pair(policy=None, **settings):
    clock = Clock()
    client, server = Client("c", clock=clock, **settings), Server("s", policy, clock=clock, **settings)
    return clock, client, server


def test_base58_and_dids():
    for data in (b"", b"\0\0a", bytes(range(32)), b"\xff" * 34):
        assert unbase58(base58(data)) == data
    # The key and the DID of RFC 8032's first test vector, as other libraries spell it.
    key = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    did = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"
    assert key_of_did(did) == key and key_of_did("did:key:z" + base58(key)) == key
    refused("UNVERIFIED_AGENT", lambda: key_of_did("did:web:example.com"))
    refused("UNVERIFIED_AGENT", lambda: key_of_did("did:key:z" + base58(key[:31])))


def test_a_handshake_and_requests_over_https():
    for settings in ({}, {"bare_did": True}, {"with_kid": True}):
        with tempfile.TemporaryDirectory() as folder:
            agent = Server("s", **settings)
            server, url = listen(agent, folder)
            client, link = Client("c", **settings), Http(url, folder + "/roots.pem")
            session = link.run(client.handshake(agent.did))
            assert verify_manifest(link.manifest()) == session["server_manifest_hash"]
            assert link.run(client.request(session, HELLO_WORLD))["translated_text"] == "Hola"
            refused("POLICY_VIOLATION", lambda: link.run(client.request(session, {"goal": "delete_database"})))
            refused("UNSUPPORTED_CAPABILITY", lambda: link.run(client.request(session, {"goal": "fly"})))
            statuses = [entry["response_status"] for entry in agent.audit]
            assert statuses == ["success", "POLICY_VIOLATION", "UNSUPPORTED_CAPABILITY"], statuses
            link.connection.close()
            server.shutdown()


def test_the_command_line():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seed004_wire.py")
    with tempfile.TemporaryDirectory() as folder:
        serve = subprocess.Popen([sys.executable, script, "serve", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        at = json.loads(serve.stdout.readline())

        def call(did):
            words = ["call", at["url"], folder + "/roots.pem", "--did", did, json.dumps(HELLO_WORLD), '{"goal": "fly"}']
            done = subprocess.run([sys.executable, script, *words], stdout=subprocess.PIPE, text=True)
            return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

        status, (session, result, error) = call(at["did"])
        assert status == 0 and session["server"] == at["did"] and session["manifest"], session
        assert result["result"]["translated_text"] == "Hola" and error["error"] == "UNSUPPORTED_CAPABILITY"
        status, (error,) = call(Client("x").did)
        assert status == 1 and error["error"] == "UNVERIFIED_AGENT"
        audit, _ = serve.communicate("")
        assert [entry["response_status"] for entry in json.loads(audit)["audit"]] == ["success", "UNSUPPORTED_CAPABILITY"]
        assert serve.returncode == 0


def test_tls_is_1_3_or_later():
    with tempfile.TemporaryDirectory() as folder:
        server, url = listen(Server("s"), folder)
        context = ssl.create_default_context(cafile=folder + "/roots.pem")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        connection = http.client.HTTPSConnection("127.0.0.1", urllib.parse.urlsplit(url).port, timeout=10, context=context)
        try:
            connection.request("GET", "/")
            raise AssertionError("connected with TLS 1.2")
        except (ssl.SSLError, ConnectionError):
            pass
        server.shutdown()


def test_answers_that_were_tampered_with():
    for number, change, code in (
        (1, lambda it: it.update(server_did=Client("x").did), "UNVERIFIED_AGENT"),
        (1, lambda it: it.update(public_keys=Client("x").public_keys), "UNVERIFIED_AGENT"),
        (1, lambda it: it.update(policy_signature=Client("x").sign({})), "UNVERIFIED_AGENT"),
        (1, lambda it: it.update(timestamp=it["timestamp"] - 301), "HANDSHAKE_FAILED"),
        (2, lambda it: it["policy"].update(rate_limit=5), "HANDSHAKE_FAILED"),
        (2, lambda it: it.update(policy_signature=Client("x").sign(it["policy"])), "UNVERIFIED_AGENT"),
        (3, lambda it: it.update(public_keys=Client("x").public_keys), "UNVERIFIED_AGENT"),
        (3, lambda it: it.update(expires_at=it["created_at"]), "HANDSHAKE_FAILED"),
    ):
        _, client, server = pair()
        refused(code, lambda: carry(server, client.handshake(), lambda at, it: change(it) if at == number else None))
    _, client, server = pair()
    session = carry(server, client.handshake())
    refused("UNVERIFIED_AGENT", lambda: carry(server, client.request(session, HELLO_WORLD), lambda _, it: it.update(request_id="x")))
    refused("UNVERIFIED_AGENT", lambda: carry(server, client.request(session, HELLO_WORLD), lambda _, it: it.update(response_jws=client.sign({}))))


def test_what_a_server_refuses_in_a_handshake():
    for change, code in (
        (lambda it: it.update(timestamp=it["timestamp"] + 301), "HANDSHAKE_FAILED"),
        (lambda it: it.update(nonce=b64(bytes(31))), "HANDSHAKE_FAILED"),
        (lambda it: it.update(protocol_version="2.0"), "PROTOCOL_VERSION_UNSUPPORTED"),
        (lambda it: it.update(public_keys=Client("x").public_keys), "UNVERIFIED_AGENT"),
        (lambda it: it.pop("nonce"), "HANDSHAKE_FAILED"),
    ):
        _, client, server = pair()
        _, hello, _ = client.handshake().send(None)
        change(hello)
        status, answer = server.handle("handshake", json.dumps(hello).encode(), None)
        assert answer["error_code"] == code and status != 200, answer
    clock, client, server = pair()
    steps = client.handshake()
    _, hello, _ = steps.send(None)
    _, challenge = server.handle("handshake", json.dumps(hello).encode(), None)
    _, proof, _ = steps.send(challenge)
    other = {**proof, "proof_jws": Client("x").sign(json.loads(unb64(proof["proof_jws"].split(".")[1])))}
    assert server.handle("handshake", json.dumps(other).encode(), None)[1]["error_code"] == "UNVERIFIED_AGENT"
    assert server.handle("handshake", json.dumps(proof).encode(), None)[1]["error_code"] == "HANDSHAKE_TIMEOUT", "one attempt"
    steps = client.handshake()
    _, challenge = server.handle("handshake", json.dumps(steps.send(None)[1]).encode(), None)
    _, proof, _ = steps.send(challenge)
    clock.time += 30
    assert server.handle("handshake", json.dumps(proof).encode(), None)[1]["error_code"] == "HANDSHAKE_TIMEOUT"


def resigned(agent, jws, change):
    payload = json.loads(unb64(jws.split(".")[1]))
    change(payload)
    return agent.sign(payload)


def test_what_the_right_agent_signs_must_be_right():
    for member, value in (("nonce_a", "x"), ("client_manifest_hash", "x"), ("server_manifest_hash", "x"), ("timestamp", 5)):
        _, client, server = pair()
        steps = client.handshake()
        _, challenge = server.handle("handshake", json.dumps(steps.send(None)[1]).encode(), None)
        _, proof, _ = steps.send(challenge)
        proof["proof_jws"] = resigned(client, proof["proof_jws"], lambda it: it.update({member: value}))
        assert server.handle("handshake", json.dumps(proof).encode(), None)[1]["error_code"] == "HANDSHAKE_FAILED", member
    for member, value in (("policy_hash", "x"), ("timestamp", 5)):
        _, client, server = pair()
        steps, answer = client.handshake(), None
        for _ in range(2):
            _, answer = server.handle("handshake", json.dumps(steps.send(answer)[1]).encode(), None)
        _, accept, _ = steps.send(answer)
        accept["acceptance_jws"] = resigned(client, accept["acceptance_jws"], lambda it: it.update({member: value}))
        assert server.handle("handshake", json.dumps(accept).encode(), None)[1]["error_code"] == "HANDSHAKE_FAILED", member
    _, client, server = pair()
    other = server.sign({**server.policy, "rate_limit": 5})
    refused("UNVERIFIED_AGENT", lambda: carry(server, client.handshake(), lambda at, it: it.update(policy_signature=other) if at == 2 else None))


def test_what_a_server_refuses_in_a_session():
    clock, client, server = pair({"rate_limit": 2, "rate_period": 60, "allowed_intents": ["nlp.translate", "echo"], "max_payload_size": 2000})
    session = carry(server, client.handshake())
    steps = client.request(session, HELLO_WORLD)
    _, message, session_id = steps.send(None)
    body = json.dumps(message).encode()
    assert server.handle("request", body, None)[1]["error_code"] == "SESSION_EXPIRED", "the header is what counts"
    forged = json.dumps({**message, "intent": {"goal": "echo"}}).encode()
    assert server.handle("request", forged, session_id)[1]["error_code"] == "UNVERIFIED_AGENT"
    assert server.handle("request", body, session_id)[0] == 200
    assert server.handle("request", body, session_id)[1]["error_code"] == "POLICY_VIOLATION", "a replay"
    refused("POLICY_VIOLATION", lambda: carry(server, client.request(session, {"goal": "fly"})))
    error = refused("RATE_LIMIT_EXCEEDED", lambda: carry(server, client.request(session, HELLO_WORLD)))
    assert error.details == {"current_rate": 3, "limit": 2, "reset_at": clock.time + 60}
    clock.time += 60
    refused("POLICY_VIOLATION", lambda: carry(server, client.request(session, {"goal": "echo", "inputs": {"x": "y" * 2000}})))
    clock.time += 3600
    refused("SESSION_EXPIRED", lambda: carry(server, client.request(session, HELLO_WORLD)))
    assert server.audit[2]["policy_checks"] == dict.fromkeys(
        ("session_valid", "request_id", "signature_verified", "rate_limit", "intent_allowed", "payload_size"), "passed")
    assert server.audit[-1]["remote_agent_did"] == client.did


def test_rates_and_retries():
    clock = Clock()
    bucket = TokenBucket(10, 100, clock)
    assert [bucket.check_and_consume() for _ in range(11)] == [True] * 10 + [False]
    clock.time += 10
    assert [bucket.check_and_consume(), bucket.check_and_consume()] == [True, False]
    waits, attempts = [], []

    def failing(code):
        attempts.append(code)
        raise Refused(code)

    refused("TIMEOUT", lambda: retry(lambda: failing("TIMEOUT"), waits.append))
    assert waits == [1, 2, 4, 8, 16] and len(attempts) == 5
    refused("UNVERIFIED_AGENT", lambda: retry(lambda: failing("UNVERIFIED_AGENT"), waits.append))
    assert len(attempts) == 6


def main():
    if sys.argv[1:] == ["exchange"]:
        sys.stdin.readline()
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    failed = []
    for name, test in tests.items():
        try:
            test()
        except Exception:
            failed.append(name)
            traceback.print_exc()
    print(json.dumps({"passed": len(tests) - len(failed), "failed": failed}))
    sys.exit(bool(failed))


main()
