"""Small JSON files that may be hostile: bounded in size and depth, and never more than plain values."""

from pathlib import Path
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.hub.sources import open_file

MAX_BYTES = 2 << 20
"""Configurations are below 100 KiB, but for lists of layers that were left alone by a quantiser."""

Object = dict[str, Any]
"""A decoded JSON object; its values are checked where they are used."""


def parse_object(text: bytes, name: str) -> Object:
    """Return a JSON object. Raises BadRequest (model_corrupt) for anything else."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable_json(name) from error
    if not isinstance(document, dict):
        raise _unreadable_json(name)
    return document


def read_text(path: Path, limit: int = MAX_BYTES) -> bytes:
    """Return a file of at most `limit` bytes. Raises NotFound or BadRequest."""
    with open_file(path) as source:
        if source.size > limit:
            raise BadRequest(f"{path.name} is larger than any such file.", code="model_corrupt")
        return source.read_at(0, limit)


def read_object(path: Path) -> Object:
    """Return the object in a file. Raises NotFound or BadRequest."""
    return parse_object(read_text(path), path.name)


def read_object_if_there(path: Path) -> Object:
    """Return the object in a file, or an empty one if there is no such file."""
    return read_object(path) if path.is_file() else {}


def _unreadable_json(name: str) -> BadRequest:
    return BadRequest(
        f"{name} is damaged: it holds no JSON object.",
        hint="Download it again; an interrupted download is the usual cause.",
        code="model_corrupt",
    )
