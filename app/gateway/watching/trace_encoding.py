"""Spans as OTLP has them over HTTP: protobuf, written here field by field.

What it writes is six messages whose fields keep their numbers for ever. OpenTelemetry's SDK takes 0.4 s and 17 MiB to
import, and sends from a thread past `app.network`; protobuf with its classes alone takes 0.15 s and 8 MiB.
Collectors such as Phoenix and MLflow take no JSON.
https://github.com/open-telemetry/opentelemetry-proto -- trace/v1/trace.proto; numbers of fields are from there.
"""

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from app.gateway.exchange.trace_context import AttributeValue

CONTENT_TYPE = "application/x-protobuf"
INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans."""
_ERROR = 2
_HAS_REMOTE, _IS_REMOTE, _SAMPLED = 0x100, 0x200, 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SEVEN_BITS, _MORE = 0x7F, 0x80
_WORD = 1 << 64
_SHORT = 32
"""Letters of a text that may come again."""
_SMALL = [bytes((value,)) for value in range(_MORE)]
"""Figures of one byte."""


class SpanEvent(msgspec.Struct, frozen=True):
    """What happened at a moment; `at_ns` is Unix time."""

    name: str
    at_ns: int
    attributes: Mapping[str, AttributeValue] = {}


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Times are Unix time; identifiers are hexadecimal."""

    trace_id: str
    span_id: str
    parent_id: str
    state: str
    name: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: Mapping[str, AttributeValue]
    events: tuple[SpanEvent, ...] = ()
    is_error: bool = False
    error: str = ""
    has_remote_parent: bool = False


def encode_request(resource: bytes, spans: Iterable[bytes]) -> bytes:
    """Return an ExportTraceServiceRequest of spans that are encoded already; `resource` as `encode_resource` has it."""
    scope_spans = _field(1, _text(1, "roundhouse")) + b"".join(_field(2, span) for span in spans)
    return _field(1, _field(1, resource) + _field(2, scope_spans))


def encode_resource(attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return what sends the spans."""
    return _encode_attributes(1, attributes)


def encode_span(span: Span) -> bytes:
    """Return a Span message."""
    flags = _SAMPLED | _HAS_REMOTE | (_IS_REMOTE if span.has_remote_parent else 0)
    status = _text(2, span.error) + _number(3, _ERROR) if span.is_error else b""
    return b"".join(
        (
            _field(1, bytes.fromhex(span.trace_id)),
            _field(2, bytes.fromhex(span.span_id)),
            _text(3, span.state),
            _field(4, bytes.fromhex(span.parent_id)) if span.parent_id else b"",
            _text(5, span.name),
            _number(6, span.kind),
            _time(7, span.start_ns),
            _time(8, span.end_ns),
            _encode_attributes(9, span.attributes),
            *(_field(11, _encode_event(event)) for event in span.events),
            _field(15, status) if status else b"",
            _tag(16, _FIXED32) + struct.pack("<I", flags),
        )
    )


def _encode_event(event: SpanEvent) -> bytes:
    return _time(1, event.at_ns) + _text(2, event.name) + _encode_attributes(3, event.attributes)


def _encode_attributes(number: int, attributes: Mapping[str, AttributeValue]) -> bytes:
    return b"".join(
        _encode_short(number, name, value)
        if isinstance(value, str) and len(value) <= _SHORT
        else _field(number, _text(1, name) + _field(2, _encode_value(value)))
        for name, value in attributes.items()
    )


@lru_cache(maxsize=512)
def _encode_short(number: int, name: str, value: str) -> bytes:
    """Return an attribute of a few letters: names of models, engines and routes come again in every span."""
    return _field(number, _text(1, name) + _field(2, _encode_value(value)))


def _encode_value(value: AttributeValue) -> bytes:
    """Return an AnyValue, whose kind is told by the field that is there, also where it is empty."""
    if isinstance(value, str):
        return _field(1, _encode_text(value))
    if isinstance(value, bool):
        return _tag(2, _VARINT) + _encode_varint(int(value))
    if isinstance(value, int):
        return _tag(3, _VARINT) + _encode_varint(value)
    if isinstance(value, float):
        return _tag(4, _FIXED64) + struct.pack("<d", value)
    return _field(5, b"".join(_field(1, _encode_value(item)) for item in value))


def _field(number: int, content: bytes) -> bytes:
    size = len(content)
    return _tag(number, _BYTES) + (_SMALL[size] if size <= _SEVEN_BITS else _encode_varint(size)) + content


def _text(number: int, text: str) -> bytes:
    return _field(number, _encode_text(text)) if text else b""


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _number(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + _encode_varint(value)


def _time(number: int, ns: int) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<Q", ns)


@lru_cache(maxsize=64)
def _tag(number: int, kind: int) -> bytes:
    return _encode_varint(number << 3 | kind)


def _encode_varint(value: int) -> bytes:
    if 0 <= value <= _SEVEN_BITS:
        return _SMALL[value]
    rest, parts = value % _WORD, bytearray()
    while rest > _SEVEN_BITS:
        parts.append(rest & _SEVEN_BITS | _MORE)
        rest >>= 7
    parts.append(rest)
    return bytes(parts)
