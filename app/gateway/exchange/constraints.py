"""Refuse what no answer can be held to, and what an engine cannot make a grammar of and live.

llama.cpp writes repetitions out. Of what must be there more often than it may be (`minLength` 5 with `maxLength` 2, or
`a{5,2}`) that goes on until the memory is gone, and of lists of a thousand million, which some programs write for "any
number", it takes tens of GB; 1,000,000 items take 0.1 GB and half a second (measured with b11549). A pattern that is no
regular expression it passes over. `grammar_triggers` is what its parts tell one another: a kind it does not know ends
the process. Requests without any of it, nearly all, cost one search through their bytes.

Refuse media that would have to be fetched: whoever may ask a model must not make this computer call other addresses.

llama.cpp downloads the http and https URLs of images by itself, wherever they lead: a router's settings page, a cloud
machine's credentials. So a request that names one never reaches an engine, in whatever dialect; images come along as
data: URLs. Requests without media, nearly all, cost a search through their bytes.
"""

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import msgspec

from app.core.errors import BadRequest, quote_value
from app.core.json_schemas import is_pattern
from app.gateway.entry.bodies import decode_body

_KEYS = frozenset({"url", "uri", "image_url", "audio_url", "video_url", "file_url", "input_audio", "image", "file"})
"""What dialects call the place of an image or a recording, inside a part of a message."""
_HOLDERS = frozenset(
    {"content", "source", "parts", "image_url", "audio_url", "video_url", "input_audio", "image", "file"}
)
_URL, _URI, _AUDIO, _IMAGE, _FILE = b'url"', b'uri"', b'input_audio"', b'image"', b'file"'
"""How every one of these keys ends. Each is looked for by itself: a pattern of all takes forty times as long."""
_ESCAPE = b"\\u00"
_HIDDEN = re.compile(rb"\\u00[4-7]")
"""Letters written as escapes, which no JSON writer does: they could hide a key from the search."""
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\s-]+={0,2}")
_SHORTEST_MEDIA = 64
"""Characters; the smallest image in any format has more, and a path without a dot seldom."""
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
    if not (_URL in body or _URI in body or _AUDIO in body or _IMAGE in body or _FILE in body or _HIDDEN.search(body)):
        return
    fields = decode_body(body, _MediaFields)
    texts = [fields.messages, fields.input, fields.prompt, fields.system, fields.content]
    for address in _iter_addresses(texts, 0):
        scheme = _SCHEME.match(address)
        kind = "" if scheme is None else scheme[1].lower()
        if kind != "data" and (kind or not _is_base64(address)):
            raise BadRequest(
                f"Media at other addresses ({kind}:) is not downloaded."
                if kind
                else "Media is neither read from files nor downloaded.",
                hint="Send it along as a data: URL or in base64.",
                code="remote_media",
            )


def _is_base64(text: str) -> bool:
    """Tell whether a text can be an image or a recording in base64, and no place of one.

    Engines take what has no scheme for a file (LMDeploy) or complete it (back-slashes, `//host`). Of base64, only a
    JPEG begins with a slash.
    """
    text = text.strip()
    return not text or (
        _BASE64.fullmatch(text) is not None
        and (len(text) >= _SHORTEST_MEDIA or text.endswith("="))
        and (not text.startswith("/") or text.startswith("/9j/"))
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


MOST_ITEMS = 1_000_000
"""Of all lists of a request together."""
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"))
_TOGETHER = [tuple(f'{name}"'.encode() for name in pair) for pair in _BOUNDS]
_ALONE = (b'pattern"', b'grammar"')
_INTERNAL = ("grammar_triggers", "chat_parser")
"""Fields by which llama.cpp's own parts talk to one another; from a client they end the engine, or worse."""
_LENGTH, _ITEMS, _PATTERN, _GRAMMAR, _PARSER = b'Length"', b'Items"', b'pattern"', b"grammar", b"chat_parser"
_COUNTS = re.compile(rb'"(?:min|max)Items"\s*:\s*(\d+(?:\.\d+)?(?:[eE]\+?\d+)?)')
_REPEATED = re.compile(r"\{\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\}")
_LITERAL = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|\[(?:[^\]\\]++|\\.)*+(?:\]|\\?\Z)', re.DOTALL)
"""What stands in a grammar as it is; one without its end goes to the end of all, or each would be looked for again."""
_LONGEST_GRAMMAR = 1 << 18
"""Characters of a grammar, and of all patterns of a schema together; those that programs write have a tenth."""
_TRIED_PATTERNS = 4000
"""Characters of patterns that are tried: Python takes four microseconds for each."""


class _ConstraintFields(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests to engines keep what answers are held to."""

    tools: Any = None
    response_format: Any = None
    json_schema: Any = None
    output_config: Any = None
    output_format: Any = None
    grammar: Any = None
    grammar_triggers: Any = None
    chat_parser: Any = None


def refuse_constraints(body: bytes, *, has_our_engine: bool = True) -> None:
    """Return if the answer can be held to what the request says, as far as it can be told. Raises BadRequest.

    Without `has_our_engine`, what would be too much for llama.cpp is for whoever runs the endpoint to judge.
    """
    is_held = _LENGTH in body or _ITEMS in body or _PATTERN in body or _GRAMMAR in body
    if not (is_held or _PARSER in body or _ESCAPE in body):
        return
    if _ESCAPE in body and _HIDDEN.search(body):
        body = msgspec.json.encode(decode_body(body, object))
    if has_our_engine:
        _refuse_deadly(body)
    if _may_be_impossible(body):
        _refuse_impossible(body)


def _refuse_deadly(body: bytes) -> None:
    if sum(map(float, _COUNTS.findall(body))) > MOST_ITEMS:
        raise BadRequest(
            f"The schema's lists may have more than {MOST_ITEMS:,} items, for which no grammar can be made.",
            hint="Leave out `maxItems` where any number will do.",
            code="invalid_value",
        )
    for field in _INTERNAL:
        if f'"{field}"'.encode() in body and getattr(decode_body(body, _ConstraintFields), field) is not None:
            raise BadRequest(f"`{field}` is not accepted from clients.", code="unsupported_parameter")


def _refuse_impossible(body: bytes) -> None:
    fields = decode_body(body, _ConstraintFields)
    if isinstance(fields.grammar, str):
        if len(fields.grammar) > _LONGEST_GRAMMAR:
            raise _constraint_error(f"the grammar has more than {_LONGEST_GRAMMAR:,} characters.")
        _check_repetitions(_LITERAL.sub("", fields.grammar))
    held_fields = [fields.tools, fields.response_format, fields.json_schema, fields.output_config, fields.output_format]
    patterns: dict[str, None] = {}
    for schema in _iter_objects(held_fields):
        _check_bounds(schema)
        if isinstance(pattern := schema.get("pattern"), str):
            patterns[pattern] = None
    for pattern, length in zip(patterns, accumulate(map(len, patterns)), strict=True):
        if length > _LONGEST_GRAMMAR:
            raise _constraint_error(f"its patterns have more than {_LONGEST_GRAMMAR:,} characters.")
        _check_repetitions(pattern)
        if length <= _TRIED_PATTERNS:
            _check_pattern(pattern)


def _may_be_impossible(body: bytes) -> bool:
    """Tell whether there could be something to refuse: of bounds both must be there, and tools often have one."""
    return any(word in body for word in _ALONE) or any(low in body and high in body for low, high in _TOGETHER)


def _iter_objects(value: object) -> Iterator[dict[str, Any]]:
    """Yield every object in it."""
    values_left = [value]
    while values_left:
        value_at = values_left.pop()
        if isinstance(value_at, dict):
            yield value_at
            values_left += value_at.values()
        elif isinstance(value_at, list):
            values_left += value_at


def _check_bounds(schema: dict[str, Any]) -> None:
    for least, most in _BOUNDS:
        low, high = schema.get(least), schema.get(most)
        if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
            raise _constraint_error(f"`{least}` is {low:g} and `{most}` {high:g}.")


def _check_repetitions(text: str) -> None:
    for match in _REPEATED.finditer(text):
        if int(match[1]) > int(match[2]):
            raise _constraint_error(f"{match[0]} repeats more often than allowed.")


def _check_pattern(pattern: str) -> None:
    if not is_pattern(pattern):
        raise _constraint_error(f"the pattern {quote_value(pattern)} is not a regular expression.")


def _constraint_error(why: str) -> BadRequest:
    return BadRequest(f"No answer can be constrained to this: {why}", code="invalid_value")
