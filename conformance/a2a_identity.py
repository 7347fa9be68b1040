"""A2A identity by other people's libraries: JWS by joserfc and PyJWT, canonical JSON by rfc8785.

usage: a2a_identity.py manifest FILE     check a manifest of a did:key; exits with 0 if it is valid
       a2a_identity.py exchange          answer questions on standard input, one JSON object a line

It follows the profile's text (sections 1 to 5), and shares nothing with the Rust code.
"""

import base64
import hashlib
import json
import re
import sys
import time

import base58
import jwt
import rfc8785
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc import jws
from joserfc.jwk import OKPKey

SKEW = 300
MAX_AGE = 30 * 24 * 3600


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text):
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert b64(data) == text, "not strict base64url"
    return data


def digest(value):
    return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def did_of(public):
    return "did:key:z" + base58.b58encode(b"\xed\x01" + public).decode()


def key_of(did):
    assert did.startswith("did:key:z"), "not a did:key"
    data = base58.b58decode(did[len("did:key:z"):])
    assert len(data) == 34 and data[:2] == b"\xed\x01", "not an Ed25519 did:key"
    assert did_of(data[2:]) == did, "not in its one spelling"
    return data[2:]


def strict(text):
    def members(pairs):
        names = [name for name, _ in pairs]
        assert len(set(names)) == len(names), "a member stands twice"
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members)


def verify(token, public, typ):
    """The payload of a JWS, verified by two libraries that must agree."""
    header = strict(unb64(token.split(".")[0]))
    assert header["alg"] == "EdDSA" and header["typ"] == typ, header
    assert set(header) == {"alg", "kid", "typ"}, header
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": b64(public)})
    first = jws.deserialize_compact(token, key, algorithms=["EdDSA"]).payload
    options = {"verify_exp": False, "verify_aud": False}
    second = jwt.decode(token, Ed25519PublicKey.from_public_bytes(public), algorithms=["EdDSA"], options=options)
    assert strict(first) == second
    return header, second


def check_manifest(path):
    document = strict(open(path, "rb").read())
    assert document["manifest_version"] == "1.0"
    public = key_of(document["agent_did"])
    assert document["endpoints"] and all(re.match("(https|wss)://", e["url"]) for e in document["endpoints"])
    assert document.get("expires_at") is None or document["expires_at"] > time.time(), "expired"
    keys = {key["kid"]: key for key in document["public_keys"]}
    assert len(keys) == len(document["public_keys"]), "a kid stands twice"
    header, payload = verify(document["manifest_signature"], public, "a2a-manifest+jws")
    signer = keys[header["kid"]]
    assert unb64(signer["key"]) == public and signer.get("status", "active") == "active"
    assert payload["issuer"] == document["agent_did"]
    content = {name: value for name, value in document.items() if name != "manifest_signature"}
    assert digest(content) == payload["manifest_hash"], "the hash differs"
    assert digest(payload["manifest"]) == payload["manifest_hash"]
    assert time.time() - MAX_AGE <= payload["timestamp"] <= time.time() + SKEW


def answer(question):
    if question["ask"] == "verify":
        header, payload = verify(question["jws"], unb64(question["key"]), question["typ"])
        return {"header": header, "payload": payload}
    if question["ask"] == "canonical":
        return {"canonical": rfc8785.dumps(question["value"]).decode(), "hash": digest(question["value"])}
    if question["ask"] == "open":
        password = question["passphrase"] and question["passphrase"].encode()
        key = serialization.load_pem_private_key(question["pem"].encode(), password)
        return {"key": b64(key.public_key().public_bytes_raw())}
    seed = unb64(question["seed"])
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    if question["ask"] == "did":
        return {"did": did_of(public)}
    if question["ask"] == "pem":
        way = serialization.BestAvailableEncryption(question["passphrase"].encode())
        pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return {"pem": Ed25519PrivateKey.from_private_bytes(seed).private_bytes(*pem, way).decode()}
    assert question["ask"] == "sign", question
    key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": b64(public), "d": b64(seed)})
    payload = json.dumps(question["payload"]).encode()
    token = jws.serialize_compact(question["header"], payload, key, algorithms=["EdDSA"])
    again = jwt.api_jws.encode(payload, Ed25519PrivateKey.from_private_bytes(seed), algorithm="EdDSA", headers=question["header"])
    return {"joserfc": token, "pyjwt": again}


def main():
    if sys.argv[1] == "manifest":
        try:
            check_manifest(sys.argv[2])
        except Exception as error:
            sys.exit(f"not valid: {error!r}")
        print("valid")
        return
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"error": repr(error)}
        print(json.dumps(reply), flush=True)


main()
