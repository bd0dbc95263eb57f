"""A key pair by which the pods of one Job reach each other.

Takes 32 random bytes, gives an Ed25519 pair (RFC 8032) as OpenSSH writes it. The arithmetic takes time that depends on
the key: it is done once, in our own process, for a key that lives as long as its Job. Must not keep or log a key.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import NamedTuple

_TYPE = b"ssh-ed25519"
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202

#: a point of the curve as x/z, y/z, and x*y/z
_Point = tuple[int, int, int, int]
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


class Pair(NamedTuple):
    """The private key in OpenSSH's own format, and the line of its public half; both end in a line end."""

    private: str
    public: str


def pair(seed: bytes, comment: str) -> Pair:
    """The pair of 32 secret bytes; the comment, such as the Job's name, stands in both halves."""
    public = public_half(seed)
    line = _string(_TYPE) + _string(public)
    said = comment.encode()
    check = hashlib.sha256(b"check" + seed).digest()[:4]
    inner = check + check + line + _string(seed + public) + _string(said)
    inner += bytes(range(1, 1 + -len(inner) % 8))
    outer = b"openssh-key-v1\0" + _string(b"none") * 2 + _string(b"") + struct.pack(">I", 1)
    body = base64.b64encode(outer + _string(line) + _string(inner)).decode()
    rows = [body[start : start + 70] for start in range(0, len(body), 70)]
    private = "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *rows, "-----END OPENSSH PRIVATE KEY-----", ""])
    return Pair(private, f"{_TYPE.decode()} {base64.b64encode(line).decode()} {comment}\n")


def public_half(seed: bytes) -> bytes:
    """The 32 bytes of the public key of a seed (RFC 8032, 5.1.5)."""
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    scalar = scalar & ((1 << 254) - 8) | (1 << 254)
    x, y, z, _ = _times(scalar)
    inverse = pow(z, -1, _P)
    return (y * inverse % _P | (x * inverse % _P & 1) << 255).to_bytes(32, "little")


def _times(scalar: int) -> _Point:
    """The base point added to itself so many times."""
    total: _Point = (0, 1, 1, 0)
    power = _BASE
    while scalar:
        if scalar & 1:
            total = _add(total, power)
        power = _add(power, power)
        scalar >>= 1
    return total


def _add(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content
