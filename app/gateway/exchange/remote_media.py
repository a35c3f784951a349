"""Refuse media that would have to be fetched: whoever may ask a model must not make this computer call other addresses.

llama.cpp downloads the http and https URLs of images by itself, wherever they lead: a router's settings page, a cloud
machine's credentials. So a request that names one never reaches an engine, in whatever dialect; images come along as
data: URLs. Requests without media, nearly all, cost a search through their bytes.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from app.core.errors import BadRequest
from app.gateway.entry.bodies import decode_body

_KEYS = frozenset({"url", "uri", "image_url", "audio_url", "video_url", "file_url", "input_audio", "image", "file"})
"""What dialects call the place of an image or a recording, inside a part of a message."""
_HOLDERS = frozenset(
    {"content", "source", "parts", "image_url", "audio_url", "video_url", "input_audio", "image", "file"}
)
HIDDEN = rb"\\u00[4-7]"
"""Letters written as escapes, which no JSON writer does: they could hide a key from the search."""
_HINT = re.compile(b"|".join([*(f'{key}"'.encode() for key in sorted(_KEYS)), HIDDEN]))
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_MAX_DEPTH = 16
"""Parts of messages nest four deep in every dialect."""


class _MediaFields(msgspec.Struct, frozen=True, kw_only=True):
    """Where dialects keep what was said; the rest, such as long lists of tools, is passed over."""

    messages: Any = None
    input: Any = None
    prompt: Any = None
    system: Any = None
    content: Any = None


def refuse_remote_media(body: bytes) -> None:
    """Return if no part of the request has to be fetched. Raises BadRequest that names the kind of address.

    What cannot be read here is refused too: the engine's reader might understand it.
    """
    if not _HINT.search(body):
        return
    fields = decode_body(body, _MediaFields)
    said = [fields.messages, fields.input, fields.prompt, fields.system, fields.content]
    for address in _iter_addresses(said, 0):
        scheme = _SCHEME.match(address)
        if scheme and scheme[1].lower() != "data":
            raise BadRequest(
                f"Media at other addresses ({scheme[1].lower()}:) is not downloaded.",
                hint="Send it along as a data: URL or in base64.",
                code="remote_media",
            )


def _iter_addresses(value: object, depth: int) -> Iterator[str]:
    """Yield every text that stands where an engine would look for an address."""
    if depth > _MAX_DEPTH:
        raise BadRequest("The parts of the messages are nested too deeply.", code="invalid_value")
    if isinstance(value, list):
        for item in value:
            yield from _iter_addresses(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in _KEYS and isinstance(item, str):
                yield item
            if key in _HOLDERS:
                yield from _iter_addresses(item, depth + 1)
