"""The server of the peer that knows only the A2A Protocol Specification v1.0; see seed004.py."""

import json
import secrets
import time

from seed004 import (
    HANDSHAKE_SECONDS, HTTP_STATUS, VERSION, Agent, Refused, TokenBucket, b64, commitment, demand, keys_of, recent, sha256,
    sort_keys, unb64, verify,
)

POLICY = {  # §5, POLICY
    "rate_limit": 1000, "rate_period": 3600, "session_timeout": 3600, "data_retention": "24h",
    "max_payload_size": 1048576, "allowed_intents": [], "blocked_intents": ["delete_database"],
}


def translate(inputs):
    words = {"Hello": "Hola"}
    demand(inputs.get("target_language") == "es" and inputs.get("text") in words, "INVALID_INTENT", "this agent knows one word")
    return {"translated_text": words[inputs["text"]], "language_detected": "en"}


HANDLERS = {"nlp.translate": translate, "echo": lambda inputs: {"echo": inputs}}


class Server(Agent):
    """`handle` takes a message and returns the status and the message that answers it."""

    def __init__(self, agent_id, policy=None, **settings):
        super().__init__(agent_id, **settings)
        self.policy = {**POLICY, **(policy or {})}
        self.policy_hash = sha256(sort_keys(self.policy))
        self.half_open, self.accepting, self.sessions, self.audit = {}, {}, {}, []

    def handle(self, place, body, session_header):
        message = {}
        try:
            message = json.loads(body)
            if place == "request":
                return 200, self.on_request(message, len(body), session_header)
            step = {"hello": self.on_hello, "proof": self.on_proof, "accept_policy": self.on_accept}.get(message["type"])
            demand(step, "HANDSHAKE_FAILED", "this message has no place in a handshake")
            return 200, step(message)
        except Refused as refused:
            return HTTP_STATUS[refused.code], self.error(message, refused)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            code = "INVALID_INTENT" if place == "request" else "HANDSHAKE_FAILED"
            return HTTP_STATUS[code], self.error(message, Refused(code, f"malformed: {problem!r}"))

    def error(self, message, refused):
        answer = {"type": "error", "error_code": refused.code, "error_message": refused.text, "details": refused.details}
        if isinstance(message, dict) and message.get("session_id") in self.sessions:
            answer.update(session_id=message["session_id"], request_id=message.get("request_id", ""))
            answer["error_jws"] = self.sign(dict(answer))
        return answer

    def on_hello(self, hello):
        demand(hello["protocol_version"] == VERSION, "PROTOCOL_VERSION_UNSUPPORTED", f"this agent speaks {VERSION}")
        recent(hello["timestamp"], self.clock)
        demand(len(unb64(hello["nonce"])) >= 32, "HANDSHAKE_FAILED", "the nonce is too short")
        nonce_b = b64(secrets.token_bytes(32))
        self.half_open[nonce_b] = {**hello, "keys": keys_of(hello["agent_did"], hello["public_keys"]), "deadline": self.clock() + HANDSHAKE_SECONDS}
        challenge = {
            "type": "challenge", "nonce_b": nonce_b, "server_did": self.did, "manifest_hash": self.manifest_hash,
            "public_keys": self.public_keys, "policy_hash": self.policy_hash, "policy_signature": self.sign(self.policy),
            "timestamp": self.now(),
        }
        # §10: whoever names the versions it can is told which one it is.
        return {**challenge, "protocol_version": VERSION} if "supported_versions" in hello else challenge

    def in_time(self, state):
        demand(state and self.clock() < state["deadline"], "HANDSHAKE_TIMEOUT", "there is no such handshake any more")
        return state

    def on_proof(self, proof):
        # Which key it must be signed with is known from the nonce alone.
        claimed = json.loads(unb64(proof["proof_jws"].split(".")[1]))
        hello = self.in_time(self.half_open.pop(claimed["nonce_b"], None))
        demand(proof["agent_did"] == hello["agent_did"], "HANDSHAKE_FAILED", "another agent")
        payload = verify(proof["proof_jws"], hello["keys"])
        demand(payload["nonce_a"] == hello["nonce"], "HANDSHAKE_FAILED", "another nonce")
        hashes = payload["client_manifest_hash"], payload["server_manifest_hash"]
        demand(hashes == (hello["manifest_hash"], self.manifest_hash), "HANDSHAKE_FAILED", "other manifests")
        recent(payload["timestamp"], self.clock)
        self.accepting[commitment(hello["nonce"], payload["nonce_b"], self.policy_hash)] = hello
        return {"type": "policy", "policy": self.policy, "policy_hash": self.policy_hash, "policy_signature": self.sign(self.policy)}

    def on_accept(self, accept):
        claimed = json.loads(unb64(accept["acceptance_jws"].split(".")[1]))
        hello = self.in_time(self.accepting.pop(claimed["session_commitment"], None))
        demand(accept["agent_did"] == hello["agent_did"], "HANDSHAKE_FAILED", "another agent")
        payload = verify(accept["acceptance_jws"], hello["keys"])
        demand(accept["policy_hash"] == payload["policy_hash"] == self.policy_hash, "HANDSHAKE_FAILED", "another policy")
        recent(payload["timestamp"], self.clock)
        session_id = b64(secrets.token_bytes(32))
        expires_at = self.now() + self.policy["session_timeout"]
        bucket = TokenBucket(self.policy["rate_limit"], self.policy["rate_period"], self.clock)
        self.sessions[session_id] = {"did": hello["agent_did"], "keys": hello["keys"], "expires_at": expires_at, "bucket": bucket, "ids": set()}
        return {
            "type": "session", "session_id": session_id, "server_did": self.did, "created_at": self.now(),
            "expires_at": expires_at, "message_count": 0, "public_keys": self.public_keys,
        }

    def on_request(self, message, size, session_header):
        """§6, Server Processing, in its order; §9, Audit Logging, for whatever happens."""
        began, checks, status = time.monotonic(), {}, "INTERNAL_ERROR"
        session = self.sessions.get(session_header)
        try:
            result = self.perform(message, size, session, session_header, checks)
            status = "success"
        except Refused as refused:
            status = refused.code
            raise
        finally:
            intent = message.get("intent") if isinstance(message, dict) else None
            self.audit.append({
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.clock())), "event_type": "request_received",
                "session_id": session_header, "remote_agent_did": session and session["did"], "request_id": message.get("request_id"),
                "intent_goal": intent.get("goal") if isinstance(intent, dict) else None, "policy_checks": checks,
                "intent_domain": intent.get("domain") if isinstance(intent, dict) else None,
                "result": "approved" if status == "success" else "rejected", "response_status": status,
                "processing_time_ms": int((time.monotonic() - began) * 1000),
            })
        return {
            "type": "response", "session_id": message["session_id"], "request_id": message["request_id"], "status": "success",
            "result": result, "response_jws": self.sign(result),
        }

    def perform(self, message, size, session, session_header, checks):
        def check(name, condition, code, text, details=None):
            checks[name] = "passed" if condition else "failed"
            if not condition:
                raise Refused(code, text, details)

        # §7 has the session's id from the header; the message must not name another.
        check("session_valid", session and self.now() < session["expires_at"] and message["session_id"] == session_header, "SESSION_EXPIRED", "reconnect")
        check("request_id", message["request_id"] not in session["ids"], "POLICY_VIOLATION", "the request id was used before")
        signed = verify(message["request_jws"], session["keys"])
        check("signature_verified", signed == message["intent"], "UNVERIFIED_AGENT", "another intent was signed")
        session["ids"].add(message["request_id"])
        limit, period = self.policy["rate_limit"], self.policy["rate_period"]
        details = {"current_rate": len(session["ids"]), "limit": limit, "reset_at": period + self.now()}
        check("rate_limit", session["bucket"].check_and_consume(), "RATE_LIMIT_EXCEEDED", f"Rate limit: {limit} requests per {period} seconds", details)
        intent = message["intent"]
        names = {intent["goal"], ".".join(filter(None, [intent.get("domain"), intent["goal"]]))}
        allowed = self.policy["allowed_intents"]
        permitted = not names & set(self.policy["blocked_intents"]) and (not allowed or names & set(allowed))
        check("intent_allowed", permitted, "POLICY_VIOLATION", "this intent is not allowed here")
        check("payload_size", size < self.policy["max_payload_size"], "POLICY_VIOLATION", "the request is too large")
        handler = next((HANDLERS[name] for name in names if name in HANDLERS), None)
        demand(handler, "UNSUPPORTED_CAPABILITY", "this agent cannot do that")
        return handler(intent.get("inputs", {}))
