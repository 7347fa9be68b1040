"""An A2A peer that knows the A2A Protocol Specification v1.0 and nothing else: client and server. Who it speaks to is a did:key.

It takes the specification's text literally (its section numbers are in the comments) and shares nothing with the Rust code. Ed25519 is
`cryptography`'s; all else is Python's own library. `seed004_wire.py` carries the messages.
"""

import base64
import hashlib
import json
import secrets
import time
import uuid

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

VERSION = "1.0"
RECENT = 5 * 60  # §5, HELLO: "within 5 min"
HANDSHAKE_SECONDS = 30  # §5, Timeout Behavior
HTTP_STATUS = {  # §8, Standard Error Codes
    "UNVERIFIED_AGENT": 401, "INVALID_MANIFEST": 400, "POLICY_VIOLATION": 403, "RATE_LIMIT_EXCEEDED": 429,
    "UNSUPPORTED_CAPABILITY": 400, "INVALID_INTENT": 400, "PROTOCOL_VERSION_UNSUPPORTED": 400, "HANDSHAKE_FAILED": 500,
    "HANDSHAKE_TIMEOUT": 500, "SESSION_EXPIRED": 401, "TIMEOUT": 504, "SERVICE_UNAVAILABLE": 503, "INTERNAL_ERROR": 500,
}
RETRYABLE = {"RATE_LIMIT_EXCEEDED", "TIMEOUT", "SERVICE_UNAVAILABLE", "HANDSHAKE_FAILED", "SESSION_EXPIRED"}
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Refused(Exception):
    """What is answered with, or was answered with, an error message."""

    def __init__(self, code, text="", details=None):
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.details, self.signed = code, text, details or {}, False


def demand(condition, code, text):
    if not condition:
        raise Refused(code, text)


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sha256(text):
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def sort_keys(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def base58(data):
    number, text = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = BASE58[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def unbase58(text):
    number = 0
    for letter in text:
        number = number * 58 + BASE58.index(letter)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return b"\0" * (len(text) - len(text.lstrip("1"))) + data


def key_of_did(did):
    """§4: "key derived from DID directly". The pseudo-code encodes the bare key; the examples (z6Mk…) have 0xed01 before it."""
    try:
        assert did.startswith("did:key:z")
        data = unbase58(did[len("did:key:z"):])
    except (AssertionError, ValueError):
        raise Refused("UNVERIFIED_AGENT", "not a did:key") from None
    data = data[2:] if len(data) == 34 and data[:2] == b"\xed\x01" else data
    demand(len(data) == 32, "UNVERIFIED_AGENT", "the DID has no Ed25519 key")
    return data


def keys_of(agent_did, public_keys):
    """The keys by kid that match the DID. §4: no other is derived from it, and none is asked for over the network."""
    own = key_of_did(agent_did)
    keys = {key["kid"]: unb64(key["key"]) for key in public_keys if unb64(key["key"]) == own}
    demand(keys, "UNVERIFIED_AGENT", "no key matches the DID")
    return keys


def verify(jws, keys):
    """The payload of a JWS (RFC 7515) by one of these keys."""
    try:
        header, payload, signature = jws.split(".")
        fields = json.loads(unb64(header))
        assert fields["alg"] == "EdDSA"
        key = keys[fields["kid"]] if "kid" in fields else next(iter(keys.values()))
        Ed25519PublicKey.from_public_bytes(key).verify(unb64(signature), f"{header}.{payload}".encode())
        return json.loads(unb64(payload))
    except (AssertionError, InvalidSignature, KeyError, StopIteration, TypeError, ValueError):
        raise Refused("UNVERIFIED_AGENT", "the signature is not valid") from None


def verify_manifest(manifest):
    """§4, Manifest Signature."""
    payload = verify(manifest["manifest_signature"], keys_of(manifest["agent_did"], manifest["public_keys"]))
    canonical_manifest = sort_keys({name: value for name, value in manifest.items() if name != "manifest_signature"})
    demand(payload["issuer"] == manifest["agent_did"], "INVALID_MANIFEST", "signed by another agent")
    demand(payload["manifest_hash"] == sha256(canonical_manifest) == sha256(sort_keys(payload["manifest"])), "INVALID_MANIFEST", "the hash differs")
    return payload["manifest_hash"]


def recent(timestamp, clock):
    demand(isinstance(timestamp, int) and abs(clock() - timestamp) <= RECENT, "HANDSHAKE_FAILED", "the timestamp is not recent")


def commitment(nonce_a, nonce_b, policy_hash):
    """§5, ACCEPT_POLICY: sha256:nonce_a|nonce_b|policy_hash."""
    return sha256(f"{nonce_a}|{nonce_b}|{policy_hash}")


class Agent:
    """A key, its DID and its manifest."""

    def __init__(self, agent_id, endpoint="https://127.0.0.1/a2a/handshake", bare_did=False, with_kid=False, did_web=None, clock=time.time):
        self.private = Ed25519PrivateKey.generate()
        public = self.private.public_key().public_bytes_raw()
        self.did = did_web or "did:key:z" + base58(public if bare_did else b"\xed\x01" + public)
        if did_web:
            endpoint = f"https://{did_web.split(':')[2]}/a2a/handshake"
        self.agent_id, self.kid, self.clock = agent_id, "sig-2024-01", clock
        self.header = {"alg": "EdDSA", "kid": self.kid} if with_kid else {"alg": "EdDSA"}
        self.public_keys = [{"kid": self.kid, "kty": "EC", "alg": "EdDSA", "key": b64(public)}]
        self.publish(endpoint)

    def publish(self, endpoint):
        """Makes and signs the manifest (§4), and the document that a did:web has instead."""
        self.document = {"agent_did": self.did, "public_keys": self.public_keys, "endpoints": [{"type": "handshake", "url": endpoint}]}
        manifest = {
            "manifest_version": "1.0", "agent_did": self.did, "agent_id": self.agent_id, "public_keys": self.public_keys,
            "endpoints": [{"type": "handshake", "url": endpoint, "transport": "http"}],
            "capabilities": ["nlp.translate.v1"],
        }
        self.manifest_hash = sha256(sort_keys(manifest))
        payload = {"manifest": manifest, "manifest_hash": self.manifest_hash, "timestamp": self.now(), "issuer": self.did}
        self.manifest = {**manifest, "manifest_signature": self.sign(payload)}

    def now(self):
        return int(self.clock())

    def sign(self, payload):
        text = b64(json.dumps(self.header, separators=(",", ":")).encode()) + "." + b64(json.dumps(payload).encode())
        return text + "." + b64(self.private.sign(text.encode()))


class Client(Agent):
    """Generators of (place, message, session_id), which are sent the message that was answered; whoever runs them has the network."""

    def handshake(self, server_did=None):
        nonce_a = b64(secrets.token_bytes(32))
        challenge = expect("challenge", (yield "handshake", {
            "type": "hello", "protocol_version": VERSION, "agent_did": self.did, "agent_id": self.agent_id,
            "manifest_hash": self.manifest_hash, "nonce": nonce_a, "public_keys": self.public_keys,
            "timestamp": self.now(), "user_agent": "a2a-client/1.0",
        }, None))
        recent(challenge["timestamp"], self.clock)
        demand(server_did in (None, challenge["server_did"]), "UNVERIFIED_AGENT", "another agent answered")
        keys = keys_of(challenge["server_did"], challenge["public_keys"])
        verify(challenge["policy_signature"], keys)
        nonce_b = challenge["nonce_b"]
        proof = {"nonce_a": nonce_a, "nonce_b": nonce_b, "server_manifest_hash": challenge["manifest_hash"],
                 "client_manifest_hash": self.manifest_hash, "timestamp": self.now()}
        offer = expect("policy", (yield "handshake", {"type": "proof", "agent_did": self.did, "proof_jws": self.sign(proof)}, None))
        policy_hash = self.check_policy(offer, challenge["policy_hash"], keys)
        acceptance = {"policy_hash": policy_hash, "session_commitment": commitment(nonce_a, nonce_b, policy_hash), "timestamp": self.now()}
        session = expect("session", (yield "handshake", {
            "type": "accept_policy", "agent_did": self.did, "policy_hash": policy_hash, "acceptance_jws": self.sign(acceptance),
        }, None))
        demand(session["server_did"] == challenge["server_did"], "UNVERIFIED_AGENT", "the session is another agent's")
        demand(keys_of(session["server_did"], session["public_keys"]) == keys, "UNVERIFIED_AGENT", "the session has other keys")
        demand(session["message_count"] == 0 and session["expires_at"] > self.now(), "HANDSHAKE_FAILED", "the session is over")
        return {**session, "keys": keys, "policy": offer["policy"], "server_manifest_hash": challenge["manifest_hash"]}

    def check_policy(self, offer, announced, keys):
        policy_hash = sha256(sort_keys(offer["policy"]))
        signed = verify(offer["policy_signature"], keys)
        demand(policy_hash == announced == offer["policy_hash"], "HANDSHAKE_FAILED", "the policy is not the one announced")
        demand(signed == offer["policy"] or signed.get("policy_hash") == policy_hash, "UNVERIFIED_AGENT", "another policy was signed")
        demand(not offer["policy"].get("require_encryption"), "POLICY_VIOLATION", "this client does not encrypt")
        return policy_hash

    def request(self, session, intent):
        demand(self.now() < session["expires_at"], "SESSION_EXPIRED", "reconnect")
        request_id = str(uuid.uuid4())
        answer = yield "request", {
            "type": "request", "session_id": session["session_id"], "request_id": request_id,
            "intent": intent, "request_jws": self.sign(intent),
        }, session["session_id"]
        if answer.get("error_jws"):
            verify(answer["error_jws"], session["keys"])
        answer = expect("response", answer)
        demand(answer["session_id"] == session["session_id"], "UNVERIFIED_AGENT", "an answer of another session")
        demand(answer["request_id"] == request_id, "UNVERIFIED_AGENT", "an answer to another request")
        verify(answer["response_jws"], session["keys"])
        demand(answer["status"] == "success", "INTERNAL_ERROR", "neither success nor an error")
        return answer["result"]


def expect(kind, message):
    if message.get("type") == "error":
        refused = Refused(message["error_code"], message.get("error_message", ""), message.get("details"))
        refused.signed = "error_jws" in message
        raise refused
    demand(message.get("type") == kind, "HANDSHAKE_FAILED", f"{message.get('type')} instead of {kind}")
    return message


def retry(attempt, sleep=time.sleep):
    """§8, Retry Strategy: five attempts, 1, 2, 4, 8, 16 seconds apart."""
    for wait in (1, 2, 4, 8, 16):
        try:
            return attempt()
        except Refused as refused:
            if refused.code not in RETRYABLE:
                raise
            last = refused
            sleep(wait)
    raise last


class TokenBucket:
    """§7, verbatim but for the clock."""

    def __init__(self, rate, period, clock):
        self.rate, self.period, self.tokens, self.clock = rate, period, rate, clock
        self.last_refill = clock()

    def check_and_consume(self):
        now = self.clock()
        self.tokens = min(self.tokens + (now - self.last_refill) * self.rate / self.period, self.rate)
        self.last_refill = now
        if self.tokens >= 1:
            self.tokens -= 1
            return True
        return False
