"""The limits of a key: what it was used for lately, and who is refused for it, before an engine is asked.

Counted in memory, in windows that slide; a day's begins with what the store knows of an earlier process. Tokens count
when an answer ends, so it is the next request that is refused; an answer that breaks off counts too, by what its engine
said, or else by what went by.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator

from aiohttp import web

from app.core.errors import TooManyRequests
from app.core.keys import KeyLimits, KeyUsage, LimitName
from app.gateway.dialects.record import RateState, RateUnit
from app.gateway.exchange.observer import ExchangeOutcome, Observation

_MINUTE_S = 60.0
DAY_S = 86_400.0
_HOUR_S = 3600.0
_STEPS = 240
"""Of a window, which slides by steps: a quarter of a second of a minute, six minutes of a day."""
_BUSY_RETRY_S = 1.0
"""When an answer ends, nobody knows."""
LONGEST_RETRY_S = 60.0
"""SDKs wait so long for `Retry-After` at most; where it is longer they would try again much too early."""
_BYTES_PER_TOKEN = 4
_LONGEST_WORD_BYTES = 4096
_FAILURES = frozenset({ExchangeOutcome.REFUSED, ExchangeOutcome.ENGINE_FAILED, ExchangeOutcome.BUG})


class RateLimitExceeded(TooManyRequests):
    """A key's limit is used up for `wait_s` seconds."""

    default_code = "rate_limit_exceeded"

    def __init__(self, sentence: str, wait_s: float) -> None:
        super().__init__(
            f"{sentence} Try again in {_wait_text(wait_s)}.",
            hint="Whoever runs this endpoint can change the limits of a key: `roundhouse keys limit NAME`.",
            retry_after=str(math.ceil(wait_s)),
        )
        self.is_soon = wait_s <= LONGEST_RETRY_S


class SlidingWindow:
    """A sum over the last `span_s` seconds. Times in seconds, of any clock that is not set back."""

    def __init__(self, span_s: float) -> None:
        self._span_s, self._step_s = span_s, span_s / _STEPS
        self._steps: deque[tuple[int, int]] = deque()
        self._sum = 0

    def add(self, amount: int, at: float) -> None:
        """Count an amount."""
        step = math.floor(at / self._step_s)
        if self._steps and self._steps[-1][0] == step:
            amount_before = self._steps.pop()[1]
            self._steps.append((step, amount_before + amount))
        else:
            self._steps.append((step, amount))
        self._sum += amount

    def total(self, at: float) -> int:
        """Return the sum now."""
        while self._steps and self._end_of(self._steps[0][0]) <= at:
            self._sum -= self._steps.popleft()[1]
        return self._sum

    def wait_s(self, limit: int, at: float) -> float:
        """Return in how many seconds the sum is below the limit, if nothing is added."""
        surplus = self.total(at)
        for step, amount in self._steps:
            if surplus < limit:
                break
            surplus -= amount
            wait_s = self._end_of(step) - at
            if surplus < limit:
                return wait_s
        return 0.0

    def reset_s(self, at: float) -> float:
        """Return in how many seconds the sum is nothing, if nothing is added."""
        return self._end_of(self._steps[-1][0]) - at if self.total(at) and self._steps else 0.0

    def _end_of(self, step: int) -> float:
        """Return when a step falls out: at most a step too early, since SDKs wait for no longer than a minute."""
        return step * self._step_s + self._span_s


class KeyUse:
    """What a key is used for. Entered for as long as a request runs; belongs to the event loop."""

    def __init__(self, limits: KeyLimits, clock: Callable[[], float]) -> None:
        self.limits, self._clock = limits, clock
        self._requests, self._tokens = SlidingWindow(_MINUTE_S), SlidingWindow(_MINUTE_S)
        self._day_tokens = SlidingWindow(DAY_S)
        self._refusals = SlidingWindow(_HOUR_S)
        self._in_flight = 0

    def __enter__(self) -> None:
        """Count a request. Raises RateLimitExceeded for one over a limit, which does not count."""
        now = self._clock()
        if (reached_limit := self._find_reached(now)) is not None:
            self._refusals.add(1, now)
            raise self._refusal_error(*reached_limit)
        self._requests.add(1, now)
        self._in_flight += 1

    def __exit__(self, *_error: object) -> None:
        """Note that a request is over."""
        self._in_flight -= 1

    def note_tokens(self, tokens: int, at: float | None = None) -> None:
        """Count tokens, now or as of a moment before, in Unix seconds."""
        now = self._clock() if at is None else at
        self._tokens.add(tokens, now)
        self._day_tokens.add(tokens, now)

    def note_end(self, exchange: Observation) -> int:
        """Count what an exchange used that has ended, however it did. Return its tokens."""
        if tokens := _tokens_of(exchange):
            self.note_tokens(tokens)
        return tokens

    def usage(self) -> KeyUsage:
        """Return what was used lately."""
        now = self._clock()
        reached_limit, wait_s = self._find_reached(now) or (None, None)
        return KeyUsage(
            requests_last_minute=self._requests.total(now),
            tokens_last_minute=self._tokens.total(now),
            tokens_last_day=self._day_tokens.total(now),
            requests_in_flight=self._in_flight,
            refused_last_hour=self._refusals.total(now),
            limit_reached=reached_limit,
            wait_s=wait_s,
        )

    def rate_states(self) -> list[RateState]:
        """Return how the limits on requests and on tokens stand; of two on tokens the one of which less is left."""
        now, limits = self._clock(), self.limits
        requests = _rate_state(RateUnit.REQUESTS, limits.requests_per_minute, self._requests, now)
        tokens = [
            state
            for limit, window in ((limits.tokens_per_minute, self._tokens), (limits.tokens_per_day, self._day_tokens))
            if (state := _rate_state(RateUnit.TOKENS, limit, window, now)) is not None
        ]
        least = min(tokens, key=lambda state: state.remaining, default=None)
        return [state for state in (requests, least) if state is not None]

    def _find_reached(self, now: float) -> tuple[LimitName, float | None] | None:
        """Return the first limit that is used up, and for how long; None where the next request is let in."""
        limits = self.limits
        if limits.concurrent_requests is not None and self._in_flight >= limits.concurrent_requests:
            return LimitName.CONCURRENT_REQUESTS, None
        for name, limit, window in self._windows():
            if limit is not None and window.total(now) >= limit:
                return name, window.wait_s(limit, now)
        return None

    def _refusal_error(self, name: LimitName, wait_s: float | None) -> RateLimitExceeded:
        limit = getattr(self.limits, name)
        if wait_s is None:
            return RateLimitExceeded(
                f"This key may have {limit} requests answered at once, and has that many.", _BUSY_RETRY_S
            )
        used_count = next(window.total(self._clock()) for other, _, window in self._windows() if other is name)
        words = name.replace("_", " ")
        return RateLimitExceeded(f"The limit of this key is {limit} {words}, and {used_count} were used.", wait_s)

    def _windows(self) -> Iterator[tuple[LimitName, int | None, SlidingWindow]]:
        limits = self.limits
        yield LimitName.REQUESTS_PER_MINUTE, limits.requests_per_minute, self._requests
        yield LimitName.TOKENS_PER_MINUTE, limits.tokens_per_minute, self._tokens
        yield LimitName.TOKENS_PER_DAY, limits.tokens_per_day, self._day_tokens


KEY_USE = web.RequestKey("key_use", KeyUse)
"""Of the key that let a request in, if it has limits: its answers say how they stand."""


def _rate_state(unit: RateUnit, limit: int | None, window: SlidingWindow, now: float) -> RateState | None:
    if limit is None:
        return None
    reset_s = window.reset_s(now)
    return RateState(
        unit=unit,
        limit=limit,
        remaining=max(0, limit - window.total(now)),
        reset_at=now + reset_s,
        reset_s=reset_s,
    )


def _tokens_of(exchange: Observation) -> int:
    """Return the tokens of prompt and answer: the engine's counts, else what went by; 0 where no engine answered."""
    counts = exchange.tokens
    prompt, completion = counts.all_prompt, counts.all_completion
    if prompt is None and completion is None and (exchange.leased_at is None or _has_no_answer(exchange)):
        return 0
    if prompt is None:
        prompt = estimate_tokens(exchange.request_body)
    return prompt + (exchange.events_with_tokens if completion is None else completion)


def _has_no_answer(exchange: Observation) -> bool:
    return exchange.outcome in _FAILURES and exchange.first_at is None


def estimate_tokens(body: bytes) -> int:
    """Return about how many tokens the texts of a JSON document are. Pictures and sounds in it are passed over.

    Those are long, and one word: base64 has neither blanks nor backslashes, and is ASCII.
    """
    if not body.startswith(b"{"):
        return 0
    texts = (part for part in body.split(b'"') if len(part) < _LONGEST_WORD_BYTES or not _is_word(part))
    return sum(map(len, texts)) // _BYTES_PER_TOKEN


def _is_word(part: bytes) -> bool:
    return b" " not in part and b"\\" not in part and part.isascii()


def _wait_text(wait_s: float) -> str:
    seconds = math.ceil(wait_s)
    if wait_s < 2 * _MINUTE_S:
        return f"{seconds} second{'' if seconds == 1 else 's'}"
    if wait_s < 2 * _HOUR_S:
        return f"{math.ceil(wait_s / _MINUTE_S)} minutes"
    return f"{math.ceil(wait_s / _HOUR_S)} hours"
