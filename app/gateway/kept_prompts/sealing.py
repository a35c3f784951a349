"""A kept prompt as a sealed file: nobody can read it, change it, cut it off or pass it off as another's unnoticed.

    magic | owner tag 16 | model tag 16 | salt 32 | length 4 | description, sealed | frames, sealed

AES-256-GCM, with keys made for this one file from the master key and the salt (HKDF-SHA256), so that counters are safe
nonces. The description and the frames have different keys, and that of the frames depends on whose prompt it is. A
frame's nonce has its number and whether it is the last: one that is missing, moved or added is noticed. The tags are
hashes of names, with which a file can be removed by somebody who cannot open it.
"""

import hashlib
import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from app.gateway.kept_prompts.policy import PromptRecord

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MASTER_BYTES = 32
FRAME_BYTES = 1 << 20
"""So much is sealed at once: half a millisecond, in which nothing else of the process runs."""
TAG_BYTES = 16
_MAGIC = b"RHKEPT\x01\n"
_HEAD = struct.Struct(f">{len(_MAGIC)}s{TAG_BYTES}s{TAG_BYTES}s32sI")
_SEAL_BYTES = 16
_MOST_DESCRIPTION = 16 << 20
"""Hashes of a prompt of 2 GiB; what is longer is none of ours."""
_DESCRIPTION, _STATE = b"roundhouse kept prompt: description", b"roundhouse kept prompt: state of "


class PromptDamageError(Exception):
    """A sealed file is not what it should be: damaged, cut off, of another key or another owner."""


class FileHead(msgspec.Struct, frozen=True, kw_only=True):
    """What can be read without a key."""

    owner_tag: bytes
    model_tag: bytes
    salt: bytes
    description_bytes: int
    raw: bytes


def name_tag(name: str) -> bytes:
    """Return the hash by which a file says whose it is, or of which model."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:TAG_BYTES]


def read_head(file: BinaryIO) -> FileHead:
    """Return a file's head. Raises PromptDamageError, OSError."""
    raw = file.read(_HEAD.size)
    if len(raw) != _HEAD.size:
        raise PromptDamageError
    magic, owner_tag, model_tag, salt, size = _HEAD.unpack(raw)
    if magic != _MAGIC or size > _MOST_DESCRIPTION:
        raise PromptDamageError
    return FileHead(owner_tag=owner_tag, model_tag=model_tag, salt=salt, description_bytes=size, raw=raw)


def seal_prompt(master: bytes, record: PromptRecord, state: BinaryIO, into: BinaryIO) -> None:
    """Write a prompt's description and its engine's state, sealed. Raises OSError."""
    description, salt = msgspec.msgpack.encode(record), os.urandom(32)
    sizes = len(description) + _SEAL_BYTES
    head = _HEAD.pack(_MAGIC, name_tag(record.owner), name_tag(record.model), salt, sizes)
    into.write(head)
    into.write(_cipher(master, salt, _DESCRIPTION).encrypt(_nonce(0, is_last=True), description, head))
    cipher = _cipher(master, salt, _STATE + record.owner.encode(errors="surrogatepass"))
    frames = enumerate(_read_frames(state, FRAME_BYTES))
    into.writelines(cipher.encrypt(_nonce(number, is_last=last), frame, head) for number, (frame, last) in frames)


def open_record(master: bytes, file: BinaryIO) -> PromptRecord:
    """Return what a sealed file says of itself. Raises PromptDamageError, OSError."""
    return _open_description(master, file, read_head(file))


def open_state(master: bytes, file: BinaryIO, owner: str, into: BinaryIO) -> None:
    """Write the engine's state that a sealed file holds, if it is `owner`'s and whole.

    Raises PromptDamageError, after part of it may have been written; OSError.
    """
    head = read_head(file)
    if _open_description(master, file, head).owner != owner:
        raise PromptDamageError
    cipher = _cipher(master, head.salt, _STATE + owner.encode(errors="surrogatepass"))
    frames = enumerate(_read_frames(file, FRAME_BYTES + _SEAL_BYTES))
    into.writelines(_decrypt(cipher, _nonce(number, is_last=last), frame, head.raw) for number, (frame, last) in frames)


def _open_description(master: bytes, file: BinaryIO, head: FileHead) -> PromptRecord:
    sealed_text = file.read(head.description_bytes)
    plain = _decrypt(_cipher(master, head.salt, _DESCRIPTION), _nonce(0, is_last=True), sealed_text, head.raw)
    try:
        return msgspec.msgpack.decode(plain, type=PromptRecord)
    except msgspec.DecodeError as error:  # of another version
        raise PromptDamageError from error


def _read_frames(file: BinaryIO, size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the rest of a file in pieces of `size`, each with whether it is the last; an empty file is one piece."""
    frame = file.read(size)
    while True:
        next_bytes = file.read(size) if len(frame) == size else b""
        yield frame, not next_bytes
        if not next_bytes:
            return
        frame = next_bytes


def _cipher(master: bytes, salt: bytes, purpose: bytes) -> "AESGCM":
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- 20 ms that starting can do without
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 -- as above
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415 -- as above

    return AESGCM(HKDF(algorithm=SHA256(), length=32, salt=salt, info=purpose).derive(master))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return struct.pack(">3xQ?", number, is_last)


def _decrypt(cipher: "AESGCM", nonce: bytes, sealed_bytes: bytes, head: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- as above

    if len(sealed_bytes) < _SEAL_BYTES:
        raise PromptDamageError
    try:
        return cipher.decrypt(nonce, sealed_bytes, head)
    except InvalidTag as error:
        raise PromptDamageError from error
