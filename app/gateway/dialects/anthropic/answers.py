"""Mend a stream of llama.cpp's as it goes by. Text, which is nearly all of it, keeps its bytes.

Chunks of the network end anywhere; only whole events are sent on, so that a stream never ends in the middle of one.
"""

from collections.abc import Callable  # noqa: TC003 -- as everywhere else here

import msgspec

from app.gateway.dialects.anthropic import reply
from app.gateway.dialects.anthropic.refusals import refusal_document
from app.gateway.dialects.anthropic.reply import Fields, Wishes
from app.gateway.exchange.engine.error_document import understood

_END = b"\n\n"
_SERVER_ERROR = 500
_DELTA = b"event: content_block_delta"
_SIGNATURE = b'"signature_delta"'


def event(name: str, data: object) -> bytes:
    """Return one server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + _END


class StreamMender:
    """An `app.gateway.dialects.form.Editor` for one stream.

    llama.cpp signs and ends all blocks together at the end; here a block ends before the next one begins.
    """

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._rest = b""
        self._usage: Fields = reply.usage({})
        self._calls = 0
        self._open: object = None
        """The index of the block being written."""
        self._is_thinking = False
        self._is_muted = False
        self._mends: dict[bytes, Callable[[Fields], bytes]] = {
            b"message_start": self._start,
            b"content_block_start": self._begin,
            b"content_block_stop": self._end,
            b"message_delta": self._finish,
        }

    def __call__(self, chunk: bytes) -> bytes:
        """Return what is sent for a chunk, which may be nothing yet."""
        *events, self._rest = (self._rest + chunk).split(_END)
        return b"".join(self._event(one) for one in events)

    def _event(self, raw: bytes) -> bytes:
        if raw.startswith(_DELTA):
            return b"" if self._is_muted or _SIGNATURE in raw else raw + _END
        name, payload = _parts(raw)
        if name == b"error":
            return event("error", refusal_document(understood(payload, _SERVER_ERROR)))
        mend = self._mends.get(name)
        return raw + _END if mend is None else mend(_decoded(payload))

    def _start(self, data: Fields) -> bytes:
        message = _fields(data.get("message"))
        self._usage = reply.usage(_fields(message.get("usage")))
        message.update(id=reply.message_id(), usage=self._usage)
        return event("message_start", {**data, "message": message})

    def _begin(self, data: Fields) -> bytes:
        ended, block = self._ended(), reply.block(_fields(data.get("content_block")))
        self._calls += block.get("type") == "tool_use"
        self._is_muted = self._wishes.one_tool and self._calls > 1
        if self._is_muted:
            return ended
        self._open, self._is_thinking = data.get("index"), block.get("type") == "thinking"
        return ended + event("content_block_start", {**data, "content_block": block})

    def _end(self, data: Fields) -> bytes:
        return self._ended() if data.get("index") == self._open else b""

    def _ended(self) -> bytes:
        index, self._open = self._open, None
        if index is None:
            return b""
        stop = event("content_block_stop", {"type": "content_block_stop", "index": index})
        return _signature(index) + stop if self._is_thinking else stop

    def _finish(self, data: Fields) -> bytes:
        delta, counts = _fields(data.get("delta")), {**self._usage, **_fields(data.get("usage"))}
        delta["stop_reason"] = reply.stop_reason(
            delta.get("stop_reason"), delta.get("stop_sequence"), counts.get("output_tokens"), self._wishes
        )
        return self._ended() + event("message_delta", {**data, "delta": delta, "usage": counts})


def _signature(index: object) -> bytes:
    """Return the empty signature that ends reasoning here: nobody vouches for it."""
    delta = {"type": "signature_delta", "signature": ""}
    return event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    """Return an event's name and data."""
    lines = [line.partition(b":") for line in raw.split(b"\n")]
    name = next((value.strip() for field, _, value in lines if field == b"event"), b"")
    return name, b"\n".join(value.strip() for field, _, value in lines if field == b"data")


def _decoded(payload: bytes) -> Fields:
    try:
        return msgspec.json.decode(payload, type=Fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _fields(value: object) -> Fields:
    return dict(value) if isinstance(value, dict) else {}
