"""Signatures: the vectors of RFC 8032, section 7.1, what another implementation signs, and what nobody signed."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.hub.repositories.signatures import is_signed

VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
]
ORDER = 2**252 + 27742317777372353535851937790883648493


@pytest.mark.parametrize(("key", "content", "signature"), VECTORS)
def test_the_vectors_of_the_standard(key: str, content: str, signature: str) -> None:
    assert is_signed(bytes.fromhex(content), bytes.fromhex(signature), bytes.fromhex(key))


def test_what_another_program_signed_is_signed_and_a_changed_bit_is_not() -> None:
    private = Ed25519PrivateKey.generate()
    key, content = private.public_key().public_bytes_raw(), b"a catalogue"
    signature = private.sign(content)
    assert is_signed(content, signature, key)
    assert not is_signed(b"a catalogve", signature, key)
    for at in (0, 31, 32, 62):
        changed_signature = bytearray(signature)
        changed_signature[at] ^= 1
        assert not is_signed(content, bytes(changed_signature), key)
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    assert not is_signed(content, signature, other)


def test_a_signature_cannot_be_written_another_way() -> None:
    key, content, signature = (bytes.fromhex(text) for text in VECTORS[1])
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    assert not is_signed(content, signature[:32] + scalar.to_bytes(32, "little"), key)


@pytest.mark.parametrize(
    ("signature", "key"), [(b"", b""), (bytes(64), bytes(31)), (bytes(63), bytes(32)), (b"\xff" * 64, b"\xff" * 32)]
)
def test_nonsense_is_not_a_signature(signature: bytes, key: bytes) -> None:
    assert not is_signed(b"", signature, key)
