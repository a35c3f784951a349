"""A request's place in a trace: what its client says of it, what its engine is told, and what happened on the way.

https://www.w3.org/TR/trace-context/ -- `traceparent` is taken from a client where it is valid, with `tracestate`; else
a trace begins here. The engine is told the same trace, with the call to it as the parent of what it does.
"""

import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec
from multidict import CIMultiDictProxy

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_LONGEST_PARENT, _LONGEST_STATE = 256, 512
"""Characters: a valid one has 55, later versions may add to it. Of a state so much has to be passed on at least."""
_STATE = re.compile(r"[ -~]*")
_SAMPLED = 1
_MOST_EVENTS = 32
"""Of one request: more says no more of why it took long."""
_FINISH_REASON = re.compile(rb'"(?:finish_reason|stop_reason)"\s*:\s*"(\w{1,40})"')
"""OpenAI's and Anthropic's. Inside a text the quotes would have backslashes before them."""

AttributeValue = str | bool | int | float | tuple[str, ...]


class TraceParent(msgspec.Struct, frozen=True):
    """Where a trace comes from."""

    trace_id: str
    span_id: str
    is_sampled: bool
    state: str = ""


class TraceEvent(msgspec.Struct, frozen=True):
    """What happened in a span. `at` as `time.perf_counter()` counts."""

    name: str
    at: float
    attributes: Mapping[str, AttributeValue] = {}


class RequestTrace:
    """One request in its trace: the span of the request itself, and that of the call to an engine."""

    __slots__ = (
        *("call_id", "called_at", "events", "finish_reasons", "is_sampled", "parent_id"),
        *("request_body", "span_id", "state", "target_url", "trace_id"),
    )

    def __init__(self, parent: TraceParent | None, *, span_id: str = "") -> None:
        """`span_id` is that of a request of which this is a further call; else a span is begun for it."""
        self.trace_id = f"{random.getrandbits(128) or 1:032x}" if parent is None else parent.trace_id
        self.parent_id = "" if parent is None else parent.span_id
        self.is_sampled = parent is None or parent.is_sampled
        self.state = "" if parent is None else parent.state
        self.span_id = span_id or _make_span_id()
        self.call_id = _make_span_id()
        self.called_at: float | None = None
        """When an engine was first called."""
        self.target_url = ""
        """Where the last call went."""
        self.events: list[TraceEvent] = []
        self.request_body = b""
        self.finish_reasons: tuple[str, ...] = ()

    @classmethod
    def from_headers(cls, headers: CIMultiDictProxy[str]) -> Self:
        """Return the trace of a client's request."""
        return cls(parse_trace_parent(headers.getall(TRACEPARENT, ()), headers.getall(TRACESTATE, ())))

    @property
    def is_further_call(self) -> bool:
        """Whether the span of the request is another's."""
        return self.parent_id == self.span_id

    def begin_further_call(self) -> "RequestTrace":
        """Return what another call within the same request is traced by."""
        parent = TraceParent(self.trace_id, self.span_id, self.is_sampled, self.state)
        return RequestTrace(parent, span_id=self.span_id)

    def begin_call(self, url: str) -> bytes:
        """Note that an engine is called there, and return the header lines that tell it of the trace."""
        self.target_url = url
        if self.called_at is None:
            self.called_at = time.perf_counter()
        state = f"{TRACESTATE}: {self.state}\r\n" if self.state else ""
        return f"{TRACEPARENT}: 00-{self.trace_id}-{self.call_id}-{int(self.is_sampled):02x}\r\n{state}".encode()

    def note_event(self, name: str, attributes: Mapping[str, AttributeValue]) -> None:
        """Note what happened now."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(TraceEvent(name, time.perf_counter(), attributes))

    def note_end(self, request_body: bytes, tail: bytes) -> None:
        """Take what is known at the end: what the engine was asked, and the last of what it answered."""
        self.request_body = request_body
        self.finish_reasons = tuple(reason.decode() for reason in _FINISH_REASON.findall(tail))


def parse_trace_parent(parents: Sequence[str], states: Sequence[str]) -> TraceParent | None:
    """Return what a client's headers say of its trace; None where that is nothing, or not valid."""
    if len(parents) != 1 or len(parents[0]) > _LONGEST_PARENT:
        return None
    match = _PARENT.fullmatch(parents[0].strip(" \t"))
    if match is None or (match[1] == "00" and match[5]):
        return None
    state = ",".join(states)
    is_valid = len(state) <= _LONGEST_STATE and _STATE.fullmatch(state)
    return TraceParent(match[2], match[3], bool(int(match[4], 16) & _SAMPLED), state if is_valid else "")


def _make_span_id() -> str:
    return f"{random.getrandbits(64) or 1:016x}"
