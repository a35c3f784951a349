"""Is this signature good? Ed25519 as RFC 8032, section 5.1, has it: checking only, of small files everybody may read.

Python's library has no signatures, and a dependency for one file a day would be the largest of all. Checking handles
no secrets, so that its time may depend on what it is given; it takes a few milliseconds.
"""

import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64
_SIGN_BIT = 255

Point = tuple[int, int, int, int]
"""Extended homogeneous coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, x * y = T/Z."""


def is_signed(content: bytes, signature: bytes, key: bytes) -> bool:
    """Tell whether the owner of a public key signed exactly this."""
    if len(key) != _KEY_BYTES or len(signature) != _SIGNATURE_BYTES:
        return False
    owner, commitment = _decompressed(key), _decompressed(signature[:_KEY_BYTES])
    scalar = int.from_bytes(signature[_KEY_BYTES:], "little")
    if owner is None or commitment is None or scalar >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:_KEY_BYTES] + key + content).digest()
    challenge = int.from_bytes(digest, "little") % _ORDER
    return _is_equal(_times(scalar, _BASE), _sum(commitment, _times(challenge, owner)))


def _sum(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: Point) -> Point:
    found: Point = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            found = _sum(found, point)
        point = _sum(point, point)
        scalar >>= 1
    return found


def _is_equal(one: Point, other: Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % _P == 0 and (one[1] * other[2] - other[1] * one[2]) % _P == 0


def _decompressed(data: bytes) -> Point | None:
    said = int.from_bytes(data, "little")
    y, sign = said & ((1 << _SIGN_BIT) - 1), said >> _SIGN_BIT
    x = _x_of(y, sign) if y < _P else None
    return None if x is None else (x, y, 1, x * y % _P)


def _x_of(y: int, sign: int) -> int | None:
    squared = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if squared == 0:
        return None if sign else 0
    x = pow(squared, (_P + 3) // 8, _P)
    if (x * x - squared) % _P:
        x = x * _ROOT % _P
    if (x * x - squared) % _P:
        return None
    return _P - x if x & 1 != sign else x


def _base() -> Point:
    y = 4 * pow(5, _P - 2, _P) % _P
    x = _x_of(y, 0)
    assert x is not None  # noqa: S101 -- for the type checker: the generator lies on its curve
    return x, y, 1, x * y % _P


_BASE = _base()
