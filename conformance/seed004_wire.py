"""What carries the messages of the peer in seed004.py: HTTP/1.1 over TLS 1.3, or lines of JSON that a test carries itself.

usage: seed004_wire.py serve FOLDER             HTTPS on a free port of 127.0.0.1 until the input ends; FOLDER/roots.pem is its certificate
       seed004_wire.py call URL ROOTS INTENT…   shakes hands with the agent at URL and asks it for each intent (JSON)
       seed004_wire.py lines client|server      no network: one JSON object a line on standard input and output
options: --did DID      (call) the agent that must answer
         --bare-did     its own DID spelled as in the specification's pseudo-code, without 0xed01
         --kid          names the key in what it signs
         --did-web DID  is this agent, which publishes nothing but its did.json
         --policy JSON  (serve, lines server) members of its policy
         --time SECONDS (lines) the time that it always is
"""

import argparse
import datetime
import http.client
import http.server
import ipaddress
import json
import os
import ssl
import sys
import threading
import time
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

sys.dont_write_bytecode = True

from seed004 import Client, Refused, retry, verify_manifest
from seed004_server import Server

MANIFEST = "/.well-known/agent-manifest.json"


def make_certificate(folder):
    """A certificate for 127.0.0.1 that is its own root."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "seed 004 peer")])
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(),
                                      now - datetime.timedelta(hours=1), now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    paths = os.path.join(folder, "roots.pem"), os.path.join(folder, "key.pem")
    for path, data in zip(paths, (certificate, secret)):
        with open(path, "wb") as file:
            file.write(data)
    return paths


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        place = {"/a2a/handshake": "handshake", "/a2a/request": "request"}.get(self.path)
        if place is None:
            return self.answer(404, {})
        with self.server.lock:
            status, message = self.server.agent.handle(place, body, self.headers["X-Session-ID"])
        self.answer(status, message)

    def do_GET(self):
        found = self.path == MANIFEST
        self.answer(200 if found else 404, self.server.agent.manifest if found else {})

    def answer(self, status, message):
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """The audit log is the agent's."""


class Port(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Whoever cannot speak TLS 1.3, or hangs up, is no error of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(*_)


def listen(agent, folder):
    """Serves an agent in the background; returns the server and its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(*make_certificate(folder))
    server = Port(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.agent, server.lock = agent, threading.Lock()
    url = f"https://127.0.0.1:{server.server_port}/a2a/handshake"
    agent.publish(url)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, url


class Http:
    """Runs a client's generators against the agent at a URL."""

    def __init__(self, url, roots):
        context = ssl.create_default_context(cafile=roots)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        parts = urllib.parse.urlsplit(url)
        self.paths = {"handshake": parts.path, "request": parts.path.rsplit("/", 1)[0] + "/request"}
        self.connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=10, context=context)

    def run(self, steps):
        answer = None
        while True:
            try:
                place, message, session_id = steps.send(answer)
            except StopIteration as end:
                return end.value
            headers = {"Content-Type": "application/json", **({"X-Session-ID": session_id} if session_id else {})}
            self.connection.request("POST", self.paths[place], json.dumps(message), headers)
            answer = json.loads(self.connection.getresponse().read())

    def manifest(self):
        self.connection.request("GET", MANIFEST)
        response = self.connection.getresponse()
        body = response.read()
        return json.loads(body) if response.status == 200 else None


def call(options, client):
    link = Http(options.url, options.roots)
    manifest = link.manifest()
    session = retry(lambda: link.run(client.handshake(options.did)))
    if manifest and verify_manifest(manifest) != session["server_manifest_hash"]:
        raise Refused("INVALID_MANIFEST", "the published manifest is not the one of the handshake")
    show({"did": client.did, "server": session["server_did"], "policy": session["policy"], "manifest": manifest is not None})
    for intent in options.intents:
        try:
            show({"result": link.run(client.request(session, json.loads(intent)))})
        except Refused as refused:
            show(failure(refused))


def failure(refused):
    return {"error": refused.code, "text": refused.text, "details": refused.details, "signed": refused.signed}


def show(value):
    print(json.dumps(value), flush=True)


def questions():
    return (json.loads(line) for line in sys.stdin)


def lines_server(server):
    for question in questions():
        if question.get("ask") == "agent":
            show({"did": server.did, "manifest": server.manifest, "document": server.document})
        elif question.get("ask") == "audit":
            show({"audit": server.audit})
        else:
            status, message = server.handle(question["place"], question["body"].encode(), question.get("session"))
            show({"status": status, "body": json.dumps(message)})


def lines_client(client):
    """`{"ask":"handshake"}` and `{"ask":"request","intent":…}` begin; each answer is a message to carry, or what came of it all."""
    session, steps, shaking = None, None, False
    for question in questions():
        if question.get("ask") == "agent":
            show({"did": client.did, "document": client.document})
            continue
        try:
            shaking = question.get("ask", "handshake" if shaking else None) == "handshake"
            if question.get("ask") == "handshake":
                steps, answer = client.handshake(question.get("did")), None
            elif question.get("ask") == "request":
                steps, answer = client.request(session, question["intent"]), None
            else:
                answer = json.loads(question["body"])
            place, message, session_id = steps.send(answer)
            show({"place": place, "body": json.dumps(message), "session": session_id})
        except StopIteration as end:
            if shaking:
                session, shaking = end.value, False
                show({"done": {name: session[name] for name in ("session_id", "server_did", "policy", "expires_at")}})
            else:
                show({"done": end.value})
        except Refused as refused:
            show(failure(refused))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["serve", "call", "lines"])
    parser.add_argument("words", nargs="+")
    parser.add_argument("--did")
    parser.add_argument("--policy", type=json.loads)
    parser.add_argument("--bare-did", action="store_true")
    parser.add_argument("--kid", action="store_true")
    parser.add_argument("--did-web")
    parser.add_argument("--time", type=int)
    options = parser.parse_intermixed_args()
    clock = (lambda: options.time) if options.time else time.time
    own = {"bare_did": options.bare_did, "with_kid": options.kid, "did_web": options.did_web, "clock": clock}
    if options.what == "call":
        options.url, options.roots, *options.intents = options.words
        try:
            call(options, Client("seed-client", **own))
        except Refused as refused:
            show(failure(refused))
            sys.exit(1)
    elif options.what == "serve":
        agent = Server("seed-server", options.policy, **own)
        _, url = listen(agent, options.words[0])
        show({"url": url, "did": agent.did})
        sys.stdin.read()
        show({"audit": agent.audit})
    elif options.words == ["server"]:
        lines_server(Server("seed-server", options.policy, **own))
    else:
        lines_client(Client("seed-client", **own))


if __name__ == "__main__":
    main()
