"""Signatures at the edges of Ed25519, on which verifiers differ: vectors/ed25519/edge-cases.json.

The conditions are those of "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020): keys and
commitments with a part of small order, equations that hold only times the cofactor, encodings that are
not canonical. `accepted` is what strict verification says: S reduced, A and R canonical and not of small
order, and the equation without the cofactor. Run it to write the file again; it is the same each time.
"""

import hashlib
import json
import pathlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
IDENTITY = (0, 1)


def add(a, b):
    (x, y), (u, v) = a, b
    k = D * x * y * u * v
    return ((x * v + y * u) * pow(1 + k, -1, P) % P, (y * v + x * u) * pow(1 - k, -1, P) % P)


def times(number, point):
    total = IDENTITY
    while number:
        if number & 1:
            total = add(total, point)
        point = add(point, point)
        number >>= 1
    return total


def encode(point):
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def on_curve(y):
    """The point with this y and an even x, if there is one."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if x * x % P != square:
        return None
    return (x if x % 2 == 0 else P - x, y)


def torsion():
    """A point of order 8."""
    for y in range(2, 1000):
        point = on_curve(y)
        small = point and times(L, point)
        if small and times(4, small) != IDENTITY:
            return small
    raise AssertionError


BASE = on_curve(4 * pow(5, -1, P) % P)
T8 = torsion()


def challenge(r, a, message):
    return int.from_bytes(hashlib.sha512(r + a + message).digest(), "little") % L


def seek(a, r, good):
    """The first message for which the challenge is as wanted."""
    for number in range(10000):
        message = f"edge case {number}".encode()
        if good(challenge(r, a, message)):
            return message
    raise AssertionError


def case(what, accepted, a, r, s, message):
    signature = r + s.to_bytes(32, "little")
    return {"case": what, "accepted": accepted, "key": a.hex(), "signature": signature.hex(), "message": message.hex()}


def cases():
    secret, nonce = 0x1234567890ABCDEF1234567890ABCDEF, 0xFEDCBA9876543210FEDCBA9876543210
    key, commitment = times(secret, BASE), times(nonce, BASE)
    small, mixed_key, mixed_commitment = encode(T8), add(key, T8), add(commitment, T8)
    plain_key, plain_commitment = encode(key), encode(commitment)

    message = b"plain"
    k = challenge(plain_commitment, plain_key, message)
    s = (nonce + k * secret) % L
    yield case("nothing special", True, plain_key, plain_commitment, s, message)
    yield case("S is not reduced", False, plain_key, plain_commitment, s + L, message)
    yield case("S is far too large", False, plain_key, plain_commitment, s + 8 * L, message)
    yield case("S of another message", False, plain_key, plain_commitment, (s + 1) % L, message)

    # S·B = 0 = R + k·A for the right k: one signature of a key of small order for many messages.
    negative = encode(times(7, T8))
    message = seek(negative, small, lambda k: k % 8 == 1)
    yield case("S = 0, R and A of small order", False, negative, small, 0, message)
    message = seek(small, plain_commitment, lambda k: k % 8 == 0)
    yield case("A of small order", False, small, plain_commitment, nonce, message)
    message = seek(plain_key, small, lambda k: True)
    s = challenge(small, plain_key, message) * secret % L
    yield case("R of small order, equal times the cofactor", False, plain_key, small, s, message)
    mixed = encode(mixed_key)
    message = seek(mixed, small, lambda k: k % 8 == 7)
    yield case("R of small order, A mixed, equal", False, mixed, small, challenge(small, mixed, message) * secret % L, message)
    zero = encode(IDENTITY)
    s = challenge(zero, plain_key, b"identity") * secret % L
    yield case("R is the identity, equal", False, plain_key, zero, s, b"identity")

    r = encode(mixed_commitment)
    message = seek(mixed, r, lambda k: k % 8 == 7)
    s = (nonce + challenge(r, mixed, message) * secret) % L
    yield case("A and R mixed, equal", True, mixed, r, s, message)
    message = seek(mixed, r, lambda k: k % 8 == 3)
    s = (nonce + challenge(r, mixed, message) * secret) % L
    yield case("A and R mixed, equal times the cofactor", False, mixed, r, s, message)
    message = seek(mixed, plain_commitment, lambda k: k % 8 == 5)
    s = (nonce + challenge(plain_commitment, mixed, message) * secret) % L
    yield case("A mixed, equal times the cofactor", False, mixed, plain_commitment, s, message)
    message = seek(mixed, plain_commitment, lambda k: k % 8 == 0)
    s = (nonce + challenge(plain_commitment, mixed, message) * secret) % L
    yield case("A mixed, equal", True, mixed, plain_commitment, s, message)

    # y = p + 1 is the identity, written otherwise.
    other = (P + 1).to_bytes(32, "little")
    s = challenge(other, plain_key, b"spelling") * secret % L
    yield case("R is not canonical", False, plain_key, other, s, b"spelling")
    s = challenge(zero, plain_key, b"spelling") * secret % L
    yield case("R is not canonical, hashed as if it were", False, plain_key, other, s, b"spelling")
    yield case("A is not canonical", False, other, plain_commitment, nonce, b"spelling")
    signed_zero = (1 | 1 << 255).to_bytes(32, "little")
    yield case("A has a sign for x = 0", False, signed_zero, plain_commitment, nonce, b"spelling")
    y = next(y for y in range(1, 19) if on_curve(y) and times(8, on_curve(y)) != IDENTITY)
    large = (P + y).to_bytes(32, "little")
    yield case("A is not canonical and of large order", False, large, plain_commitment, nonce, b"spelling")


def main():
    path = pathlib.Path(__file__).parent.parent / "vectors/ed25519/edge-cases.json"
    path.write_text(json.dumps(list(cases()), indent=1) + "\n")


if __name__ == "__main__":
    main()
