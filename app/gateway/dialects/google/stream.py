"""Canonical events -> Google's answers, whole or piece by piece: every piece is a small answer, the last says why.

A stream is server-sent events with `alt=sse`, else one JSON array that grows. Calls come whole, as Google's do.
"""

import secrets
from collections.abc import Iterable
from typing import Protocol

import msgspec

from app.gateway.canonical.events import (
    BROKE_OFF,
    AnswerFailed,
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    TokenUsage,
    ToolCallAssembler,
    ToolCallDelta,
    WholeAnswer,
)
from app.gateway.canonical.request import ToolCall
from app.gateway.dialects.google.record import GOOGLE_DIALECT
from app.gateway.dialects.google.wire import (
    GenerateContentReply,
    GoogleCandidate,
    GoogleLogprobs,
    GoogleReplyCall,
    GoogleReplyContent,
    GoogleReplyPart,
    GoogleTokenLogprob,
    GoogleTopCandidates,
    GoogleUsage,
)
from app.gateway.dialects.raw_fields import object_in

_ENCODER = msgspec.json.Encoder()
_REASONS = {
    FinishReason.STOP: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
}


class StreamFraming(Protocol):
    """How the documents of a stream are put one after another."""

    def frame(self, document: bytes) -> bytes:
        """Return the next."""

    def close(self) -> bytes:
        """Return what ends the stream."""


class EventFraming:
    """Server-sent events."""

    def frame(self, document: bytes) -> bytes:
        """Return the document as an event."""
        return b"data: " + document + b"\r\n\r\n"

    def close(self) -> bytes:
        """Return nothing: these streams just end."""
        return b""


class ArrayFraming:
    """One array of JSON."""

    def __init__(self) -> None:
        self._has_begun = False

    def frame(self, document: bytes) -> bytes:
        """Return the document as the array's next item."""
        separator = b",\r\n" if self._has_begun else b"["
        self._has_begun = True
        return separator + document

    def close(self) -> bytes:
        """Return the array's end."""
        return b"]" if self._has_begun else b"[]"


class GoogleReplyForm(msgspec.Struct, frozen=True, kw_only=True):
    """What all pieces of an answer have in common."""

    model: str
    shows_thoughts: bool = False
    id: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(16))

    def reply(
        self,
        parts: list[GoogleReplyPart],
        end: AnswerFinished | None = None,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> GenerateContentReply:
        """Return one piece; it is the last if `end` says why."""
        logprobs_result = _to_logprobs(logprobs)
        candidate = GoogleCandidate(
            content=GoogleReplyContent(parts=parts) if parts else None,
            finish_reason="" if end is None else _REASONS[end.reason],
            index=0,
            logprobs_result=logprobs_result,
            avg_logprobs=None if logprobs_result is None else sum(token.logprob for token in logprobs) / len(logprobs),
        )
        return GenerateContentReply(
            candidates=[candidate],
            model_version=self.model,
            response_id=self.id,
            usage_metadata=None if end is None else usage_of(end.usage),
        )


class GoogleEncoder:
    """Encodes one stream. After its last document, whatever comes adds nothing."""

    def __init__(self, form: GoogleReplyForm, framing: StreamFraming) -> None:
        self._form, self._framing = form, framing
        self._calls = ToolCallAssembler()
        self.is_over = False

    def begin(self) -> bytes:
        """Return nothing: the first document is the first of the answer."""
        return b""

    def feed(self, events: Iterable[Event]) -> bytes:
        """Return what some events are."""
        return b"".join(self._encode_event(event) for event in events if not self.is_over)

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case TextDelta(text=text, logprobs=logprobs):
                return self._frame(self._form.reply([GoogleReplyPart(text=text)], logprobs=logprobs))
            case ReasoningDelta(text=text) if self._form.shows_thoughts:
                return self._frame(self._form.reply([GoogleReplyPart(text=text, thought=True)]))
            case ToolCallDelta():
                self._calls.add_delta(event)
            case AnswerFinished():
                self.is_over = True
                parts = call_parts(self._calls.all_calls()) or [GoogleReplyPart(text="")]
                return self._frame(self._form.reply(parts, event)) + self._framing.close()
            case AnswerFailed():
                self.is_over = True
                return self._frame(GOOGLE_DIALECT.error_document(event)) + self._framing.close()
            case _:
                pass
        return b""

    def _frame(self, document: msgspec.Struct) -> bytes:
        return self._framing.frame(_ENCODER.encode(document))


def build_reply(answer: WholeAnswer, form: GoogleReplyForm) -> GenerateContentReply | AnswerFailed:
    """Return the reply that says all of an answer at once, or why there is none."""
    if not isinstance(answer.end, AnswerFinished):
        return answer.end or BROKE_OFF
    parts = [GoogleReplyPart(text=answer.thinking, thought=True)] if answer.thinking and form.shows_thoughts else []
    parts += [GoogleReplyPart(text=answer.text)] if answer.text or not answer.calls else []
    return form.reply([*parts, *call_parts(answer.calls)], answer.end, answer.logprobs)


def call_parts(calls: Iterable[ToolCall]) -> list[GoogleReplyPart]:
    """Return the calls; of arguments that are no object, one has the text, so that nothing is lost."""
    return [GoogleReplyPart(function_call=_to_reply_call(call)) for call in calls]


def _to_reply_call(call: ToolCall) -> GoogleReplyCall:
    arguments = object_in(call.arguments or "{}")
    return GoogleReplyCall(
        id=call.id or f"call_{secrets.token_hex(4)}",
        name=call.name,
        args={"arguments": call.arguments} if arguments is None else arguments,
    )


def usage_of(usage: TokenUsage) -> GoogleUsage:
    """Return the counts. `completion` has the reasoning in it, which is apart here."""
    thoughts = usage.reasoning or 0
    known_counts = [count for count in (usage.prompt, usage.completion) if count is not None]
    return GoogleUsage(
        prompt_token_count=usage.prompt,
        cached_content_token_count=usage.cached or None,
        candidates_token_count=None if usage.completion is None else max(0, usage.completion - thoughts),
        thoughts_token_count=thoughts or None,
        total_token_count=sum(known_counts) if known_counts else None,
    )


def _to_logprobs(tokens: tuple[TokenLogprob, ...]) -> GoogleLogprobs | None:
    if not tokens:
        return None
    return GoogleLogprobs(
        chosen_candidates=[GoogleTokenLogprob(token=token.token, log_probability=token.logprob) for token in tokens],
        top_candidates=[
            GoogleTopCandidates(
                candidates=[
                    GoogleTokenLogprob(token=other.token, log_probability=other.logprob) for other in token.top_logprobs
                ]
            )
            for token in tokens
        ],
    )
