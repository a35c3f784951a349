"""Is this signature good? Ed25519 (RFC 8032), checked by `cryptography`, which is imported when something is signed."""


def is_signed(content: bytes, signature: bytes, key: bytes) -> bool:
    """Tell whether the owner of a public key (32 bytes) signed exactly this (64 bytes)."""
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 -- 10 ms that starting can do without
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415 -- as above

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
