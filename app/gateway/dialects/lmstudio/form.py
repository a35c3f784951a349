"""`/api/v0` as a `Form`: the engine's own answer in OpenAI's dialect, with three blocks at its end.

In a stream they are in the last event before `[DONE]`. Which one that is shows only when `[DONE]` comes, so from the
first event with a finish_reason on, one event is held back; until then bytes pass as they are.
"""

import re
import time
from collections.abc import Callable

from app.core.errors import RoundhouseError
from app.gateway.dialects.form import Editor, Refusal
from app.gateway.dialects.lmstudio.answers import About, Clock, Stats, Told, stats_of, told, with_blocks
from app.gateway.dialects.openai.form import OPENAI, OpenAI

_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
"""Inside a text the quotes would have backslashes before them."""
_DONE = re.compile(rb"data:\s*\[DONE\]")
_DATA = b"data:"


class V0:
    """One exchange. `about` is asked when the answer is there, since only then the model is surely loaded.

    `openai` is what the answer is in OpenAI's dialect, before the blocks come to it.
    """

    def __init__(
        self,
        about: Callable[[], About],
        *,
        started: float,
        clock: Callable[[], float] = time.perf_counter,
        openai: OpenAI = OPENAI,
    ) -> None:
        self._about = about
        self._openai = openai
        self._started = started
        self._clock = clock

    def refusal(self, body: bytes, status: int) -> Refusal:
        """Return OpenAI's error document."""
        return self._openai.refusal(body, status)

    def ping(self) -> bytes:
        """Return a comment."""
        return OPENAI.ping()

    def event(self, refusal: bytes) -> bytes:
        """Return an event with the document in it."""
        return OPENAI.event(refusal)

    def in_band(self, error: RoundhouseError) -> bytes:
        """Return an event with an error in it."""
        return OPENAI.in_band(error)

    def is_complete(self, tail: bytes) -> bool:
        """Tell whether a stream said that it was over."""
        return OPENAI.is_complete(tail)

    def whole(self, body: bytes) -> bytes:
        """Return the document with the blocks."""
        body = self._openai.whole(body)
        said = told(body)
        return body if said is None else self.with_blocks(body, said, Clock(rest_s=self._clock() - self._started))

    def editor(self) -> Editor:
        """Return what adds the blocks to one stream."""
        edit, stream = self._openai.editor(), _Stream(self, started=self._started, clock=self._clock)
        return lambda chunk: stream(edit(chunk))

    def with_blocks(self, document: bytes, said: Told, clock: Clock) -> bytes:
        """Return the document, or the event, with the blocks."""
        about = self._about()
        return with_blocks(document, _stats(said, clock, about), about)


def _stats(said: Told, clock: Clock, about: About) -> Stats:
    return stats_of(said, clock, about.model.context_length)


class _Stream:
    def __init__(self, form: V0, *, started: float, clock: Callable[[], float]) -> None:
        self._form = form
        self._started = started
        self._clock = clock
        self._first: float | None = None
        self._rest = b""
        self._held = b""
        self._said: Told | None = None

    def __call__(self, chunk: bytes) -> bytes:
        """Return what to send for a chunk: whole events only."""
        self._first = self._first or self._clock()
        if not self._rest and self._said is None and chunk.endswith(b"\n\n") and not _FINISH.search(chunk):
            return chunk
        data, at, out = self._rest + chunk, 0, []
        for end in (match.end() for match in _BOUNDARY.finditer(data)):
            out.append(self._event(data[at:end]))
            at = end
        self._rest = data[at:]
        return b"".join(out)

    def _event(self, event: bytes) -> bytes:
        if self._said is None and not _FINISH.search(event):
            return event
        if _DONE.match(event):
            last, self._held = self._held, b""
            return self._ended(last) + event
        said = told(event.removeprefix(_DATA)) if event.startswith(_DATA) else None
        if said is None:  # a comment, or an error
            return event
        self._said = (self._said or Told()).then(said)
        before, self._held = self._held, event
        return before

    def _ended(self, last: bytes) -> bytes:
        if not last or self._said is None:
            return last
        first = self._first or self._started
        clock = Clock(first_s=first - self._started, rest_s=self._clock() - first)
        return self._form.with_blocks(last, self._said, clock)
