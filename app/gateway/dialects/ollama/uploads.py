"""Which uploaded files a model can be made of, told by their names and first bytes. Nothing is unpacked or executed."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from app.core.errors import BadRequest, NotFound

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
_GGUF = b"GGUF"
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
"""A PyTorch archive is a zip of pickles; a bare pickle begins with its protocol."""
_PROGRAMS = "can carry programs that run when it is opened"


def checked_files(files: Mapping[str, str], blob: Callable[[str], Path]) -> dict[str, str]:
    """Return the files under names that can be on any disk. `blob` says where a digest's bytes are.

    Raises BadRequest for what is no GGUF file, NotFound for a blob that is not here.
    """
    return {_checked_name(name, _first_bytes(name, digest, blob)): digest for name, digest in files.items()}


def _checked_name(name: str, start: bytes) -> str:
    plain = name.replace("\\", "/").removeprefix("./")
    if not _NAME.fullmatch(plain) or ".." in plain:
        raise BadRequest(f"{name[:80]!r} is no name for a file.", hint="Send its last part only.", code="invalid_value")
    if plain.lower().endswith(_PICKLE_ENDINGS) or start.startswith(_PICKLE_STARTS):
        raise BadRequest(f"{plain} {_PROGRAMS}.", hint="Upload the model as a GGUF file.", code="unsafe_format")
    if start != _GGUF:
        kind = "a safetensors file" if plain.lower().endswith(".safetensors") else "no GGUF file"
        raise BadRequest(
            f"{plain} is {kind}, and models are created from GGUF files here.",
            hint="Upload it as GGUF, or put the folder of a safetensors model into a model folder.",
            code="unsupported_format",
        )
    return plain if plain.lower().endswith(".gguf") else plain + ".gguf"


def _first_bytes(name: str, digest: str, blob: Callable[[str], Path]) -> bytes:
    try:
        with blob(digest).open("rb") as file:
            return file.read(len(_GGUF))
    except FileNotFoundError:
        raise NotFound(f"There is no blob {digest} for {name[:80]!r}.", hint="Upload it first.") from None
