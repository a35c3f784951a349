"""One answer while it is written: tokens become text, text is kept until it can be sent, and times are noted."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engines.serving.answer_request import AnswerRequest
from engines.serving.backend import BackendFinish, Decoder, StepOutcome, Token
from engines.serving.refusals import RequestRefused
from engines.serving.text import StopSequences

_MS = 1000.0


@dataclass(slots=True)
class AnswerTimes:
    """When an answer was asked for, begun, had its first token and ended: `time.perf_counter()` readings."""

    requested_at: float = field(default_factory=time.perf_counter)
    begun_at: float = 0.0
    first_token_at: float = 0.0
    last_token_at: float = 0.0

    def prefill_timings(self, tokens: int) -> dict[str, float]:
        """Return llama-server's figures of how long reading a prompt took."""
        return {"prompt_n": tokens, **_span_timings("prompt", tokens, self.first_token_at - self.begun_at)}

    def decode_timings(self, tokens: int) -> dict[str, float]:
        """Return its figures of how long writing took. The first token came of reading the prompt."""
        return {
            "predicted_n": tokens,
            **_span_timings("predicted", tokens - 1, self.last_token_at - self.first_token_at),
        }


class PromptSize(NamedTuple):
    """How long a prompt is, and whether parts of it may be in a cache without anybody's knowing."""

    tokens: int
    hides_cache: bool = False


class WorkerAnswer:
    """Takes tokens as they come and hands on text. `announce` is called whenever there is something to send."""

    def __init__(
        self,
        request: AnswerRequest,
        decoder: Decoder,
        prompt: PromptSize,
        *,
        announce: Callable[["WorkerAnswer"], None],
    ) -> None:
        self.request = request
        self.prompt_tokens = prompt.tokens
        self.written = 0
        self.cached: int | None = None
        self.finish: BackendFinish | None = None
        self.error: RequestRefused | None = None
        self.times = AnswerTimes()
        self._decoder = decoder
        self._stops = StopSequences(request.stops)
        self._is_plain = not request.stops and request.logprobs is None
        self._announce = announce
        self._hides_cache = prompt.hides_cache
        self._text: list[str] = []
        self._tokens: list[tuple[str, Token]] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self.finish is not None or self.error is not None

    def take_outcome(self, outcome: StepOutcome) -> bool:
        """Take what a step brought; return False once no more is wanted."""
        if outcome.error is not None:
            self.error = outcome.error
            return False
        if outcome.cached is not None:
            self.cached = outcome.cached
        if outcome.tokens:
            self._write(outcome.tokens)
        if outcome.finish is not None:
            self._keep(self._stops.feed(self._decoder.flush()))
            self._keep(self._stops.flush())
        if outcome.finish is not None or self._stops.is_met:
            self._end(BackendFinish.STOP if self._stops.is_met else outcome.finish)
        return not self.is_over

    def fail_with(self, error: RequestRefused) -> None:
        """End it with an error."""
        self.error = error
        self._announce(self)

    def announce_text(self) -> None:
        """Have what was collected sent."""
        if self._text or self.is_over:
            self._announce(self)

    def take_text(self) -> str:
        """Return the text that came since this was last asked."""
        text = "".join(self._text)
        self._text.clear()
        return text

    def take_tokens(self) -> Sequence[tuple[str, Token]]:
        """Return the tokens with their text that came since this was last asked; only where figures are wanted."""
        tokens, self._tokens = self._tokens, []
        return tokens

    def collect_timings(self) -> dict[str, float]:
        """Return how long what took."""
        decode = self.times.decode_timings(self.written)
        if self.cached is not None:
            return {"cache_n": self.cached, **self.times.prefill_timings(self.prompt_tokens - self.cached), **decode}
        return decode if self._hides_cache else {**self.times.prefill_timings(self.prompt_tokens), **decode}

    def _write(self, tokens: Sequence[Token]) -> None:
        self.times.last_token_at = time.perf_counter()
        if not self.written:
            self.times.first_token_at = self.times.last_token_at
        if self._is_plain:  # every token of every answer comes by here: a fast model writes thousands a second
            self.written += len(tokens)
            self._text += filter(
                None, [self._decoder.feed(token.id) if token.text is None else token.text for token in tokens]
            )
            return
        for token in tokens:
            self.written += 1
            piece = self._decoder.feed(token.id) if token.text is None else token.text
            if self.request.logprobs is not None:
                self._tokens.append((piece, token))
            if piece:
                self._keep(self._stops.feed(piece))
            if self._stops.is_met:
                break

    def _keep(self, text: str) -> None:
        if text:
            self._text.append(text)

    def _end(self, finish: BackendFinish | None) -> None:
        self.finish = finish
        if not self.times.first_token_at:
            self.times.first_token_at = self.times.last_token_at = time.perf_counter()


def _span_timings(what: str, tokens: int, seconds: float) -> dict[str, float]:
    rate = tokens / seconds if seconds > 0 else 0.0
    return {f"{what}_ms": round(seconds * _MS, 3), f"{what}_per_second": round(rate, 3)}
