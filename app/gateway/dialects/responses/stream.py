"""Canonical events -> the typed events of a response, and the response object they come to.

    response.created  response.in_progress  (items)*  response.completed | response.incomplete | response.failed

When an answer breaks off, the items being written are not said to be done: clients run a call that is.
"""

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from app.gateway.canonical.events import Event, Failed, Finish, Finished, ReasoningDelta, TextDelta, ToolCallDelta
from app.gateway.dialects.responses.assembling import Manner, Output
from app.gateway.dialects.responses.input_items import NewId
from app.gateway.dialects.responses.output_items import Sink
from app.gateway.dialects.responses.record import RESPONSES_DIALECT
from app.gateway.dialects.responses.wire import Incomplete, Response, Trimmed, Trouble, used

STOPPED = "request_stopped"
"""The code of an answer that somebody ended by hand."""
_SERVER_ERROR = 500
_REASONS = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}


class Encoder:
    """One response. Every method returns bytes to send; `response` is the object, as far as it is made."""

    def __init__(
        self, begun: Response, manner: Manner, new_id: NewId, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._response = begun
        self._clock = clock
        self._sink = Sink()
        self._output = Output(self._sink, manner, new_id)
        self._has_begun = False

    @property
    def is_over(self) -> bool:
        """Tell whether the response has ended."""
        return self._response.status != "in_progress"

    @property
    def response(self) -> Response:
        """The response with what was written so far."""
        if self.is_over:
            return self._response
        return msgspec.structs.replace(self._response, output=self._output.items("in_progress"))

    def begin(self) -> bytes:
        """Open the stream, if it is not open yet."""
        if self._has_begun:
            return b""
        self._has_begun = True
        begun = msgspec.Raw(msgspec.json.encode(self._response))
        told = ("response.created", "response.in_progress")
        return b"".join(self._sink.event(kind, response=begun) for kind in told)

    def trimmed(self, messages: int) -> None:
        """Note that so many of the oldest messages were left out."""
        self._response = msgspec.structs.replace(self._response, roundhouse=Trimmed(dropped_messages=messages))

    def take(self, event: Event) -> bytes:
        """Encode the next event. Nothing comes after `Finished` and `Failed`."""
        if self.is_over:
            return b""
        return self.begin() + self._taken(event)

    def cancel(self) -> None:
        """End a response that nobody encodes any more, and of which nobody is told."""
        if not self.is_over:
            self._response = msgspec.structs.replace(
                self._response, status="cancelled", output=self._output.items("incomplete")
            )

    def _taken(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._output.say(event)
            case ReasoningDelta():
                return self._output.think(event)
            case ToolCallDelta():
                return self._output.call(event)
            case Finished():
                return self._finish(event)
            case Failed():
                return self._fail(event)
            case _:
                return b""

    def _finish(self, end: Finished) -> bytes:
        reason = _REASONS.get(end.reason)
        told = self._output.finish(is_cut=reason is not None)
        status: Literal["completed", "incomplete"] = "incomplete" if reason else "completed"
        self._response = msgspec.structs.replace(
            self._response,
            status=status,
            completed_at=None if reason else int(self._clock()),
            incomplete_details=Incomplete(reason) if reason else None,
            usage=used(end.usage, thoughts=self._output.thoughts),
            output=self._output.items(status),
        )
        return told + self._sink.event(f"response.{status}", response=self._response)

    def _fail(self, failed: Failed) -> bytes:
        is_stopped = failed.error.code == STOPPED
        self._response = msgspec.structs.replace(
            self._response,
            status="cancelled" if is_stopped else "failed",
            error=_trouble(failed),
            output=self._output.items("incomplete"),
        )
        return self._sink.event("response.failed", response=self._response)


def _trouble(failed: Failed) -> Trouble:
    """Return the error; its code is OpenAI's where the mistake is not the caller's."""
    error = failed.error
    code = "server_error" if failed.status >= _SERVER_ERROR else error.code
    return Trouble(code=code, message=RESPONSES_DIALECT.words(error.text, failed.overflow))
