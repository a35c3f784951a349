"""From requests as they were timed to what a receipt says: levels, prefix reuse, correctness, disturbances."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

import msgspec

from app.benchmark.answers import satisfies_schema
from app.benchmark.statistics import MOST_SPREAD, bootstrap, bootstrap_time_ratio, describe_values, is_noisy, spread
from app.core.benchmarks import (
    BenchmarkCost,
    BenchmarkLevel,
    BenchmarkPrompt,
    BenchmarkSample,
    Correctness,
    PrefixReuse,
    SpeedRatio,
)

LEAST_SWAP_BYTES = 16 << 20
"""What a system moves to and from swap in a minute without anything being slowed down."""
LEAST_PREFILL_TOKENS = 32
"""Shorter prompts say more about starting than about reading."""
_MILLION = 1e6
_JOULES_KWH = 3.6e6


class RequestTiming(msgspec.Struct, frozen=True, kw_only=True):
    """One request that was answered: its times, the gaps between its pieces, and what came."""

    sample: BenchmarkSample
    gaps_s: list[float]
    answer: str
    prompt: BenchmarkPrompt
    """As it was sent, but for the mark."""


class BenchmarkRound(msgspec.Struct, frozen=True, kw_only=True):
    """Equal requests side by side, and what went on meanwhile."""

    concurrency: int
    duration_s: float
    requests: list[RequestTiming]
    failures: int = 0
    other_share: float = 0.0
    """Of all processors, what programs other than the engine took."""
    is_busy: bool = False
    """Whether that is so much that the engine was slowed down."""
    swap_bytes: int = 0
    throttles: int = 0
    """How often the processor was slowed down because of its heat."""
    joules: float | None = None
    energy_source: str = ""
    """Who counted them."""

    @property
    def answer_tokens_s(self) -> float:
        """Tokens of all its answers over its time."""
        return sum(request.sample.answer_tokens for request in self.requests) / max(self.duration_s, 1e-9)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.is_busy and self.swap_bytes < LEAST_SWAP_BYTES and not self.throttles


def pick_rounds(rounds: Sequence[BenchmarkRound], count: int) -> list[BenchmarkRound]:
    """Return the `count` rounds that count: the first quiet ones; disturbed ones where those are too few."""
    quiet = [part for part in rounds if part.is_quiet][:count]
    others = [part for part in rounds if not part.is_quiet]
    return quiet + others[: count - len(quiet)]


def summarize_level(rounds: Sequence[BenchmarkRound], *, seed: int = 0) -> BenchmarkLevel:
    """Return what the rounds of one level come to. Raises ValueError for no rounds, or none with an answer."""
    samples = [request.sample for part in rounds for request in part.requests]
    if not samples:
        raise ValueError("A level without answers has no figures.")
    joules = [part.joules for part in rounds if part.joules is not None]
    tokens = sum(sample.answer_tokens for sample in samples)
    return BenchmarkLevel(
        concurrency=rounds[0].concurrency,
        requests=len(samples),
        failures=sum(part.failures for part in rounds),
        rounds=len(rounds),
        spread=spread([part.answer_tokens_s for part in rounds]),
        ttft_s=describe_values([sample.ttft_s for sample in samples], seed=seed),
        itl_s=describe_values(
            [gap for part in rounds for request in part.requests for gap in request.gaps_s], seed=seed
        ),
        tpot_s=describe_values([sample.tpot_s for sample in samples if sample.answer_tokens > 1], seed=seed),
        e2e_s=describe_values([sample.e2e_s for sample in samples], seed=seed),
        answer_tokens_s=bootstrap([part.answer_tokens_s for part in rounds], seed=seed),
        requests_s=bootstrap([len(part.requests) / max(part.duration_s, 1e-9) for part in rounds], seed=seed),
        decode_tokens_s=bootstrap([1 / sample.tpot_s for sample in samples if sample.tpot_s > 0] or [0.0], seed=seed),
        prefill_tokens_s=bootstrap(list(_prefill_rates(samples)) or [0.0], seed=seed),
        tokens_j=tokens / sum(joules) if len(joules) == len(rounds) and sum(joules) > 0 else None,
        duration_s=sum(part.duration_s for part in rounds),
    )


def _prefill_rates(samples: Iterable[BenchmarkSample]) -> Iterator[float]:
    for sample in samples:
        uncached_tokens = sample.prompt_tokens - sample.cached_tokens
        if uncached_tokens >= LEAST_PREFILL_TOKENS and sample.prefill_s > 0:
            yield uncached_tokens / sample.prefill_s


def round_disturbances(rounds: Sequence[BenchmarkRound]) -> list[str]:
    """Return what speaks against the rounds of one level, each as a sentence; empty if nothing does."""
    level = f"With {rounds[0].concurrency} at once" if rounds else ""
    sentences: list[str] = []
    busy = max((part.other_share for part in rounds if part.is_busy), default=0.0)
    if busy:
        sentences.append(f"{level}, other programs used {busy * 100:.0f} % of the processors.")
    swap_bytes = max((part.swap_bytes for part in rounds), default=0)
    if swap_bytes >= LEAST_SWAP_BYTES:
        sentences.append(f"{level}, the system moved {swap_bytes / _MILLION:.0f} MB to or from swap.")
    if any(part.throttles for part in rounds):
        sentences.append(f"{level}, the processor was slowed down because of its heat.")
    rates = [part.answer_tokens_s for part in rounds]
    if is_noisy(rates):
        sentences.append(
            f"{level}, equal rounds came to between {min(rates):.1f} and {max(rates):.1f} tokens a second, "
            f"more than {MOST_SPREAD * 100:.0f} % apart."
        )
    return sentences


def check_answers(requests: Sequence[RequestTiming]) -> Correctness:
    """Return how many answers to equal prompts are equal, and how many satisfy what they were held to."""
    by_prompt: dict[bytes, list[str]] = {}
    for request in requests:
        by_prompt.setdefault(msgspec.json.encode(request.prompt.messages), []).append(request.answer)
    repeats = [answer == answers[0] for answers in by_prompt.values() for answer in answers[1:]]
    schema_answers = [
        satisfies_schema(request.answer, request.prompt.json_schema)
        for request in requests
        if request.prompt.json_schema is not None
    ]
    return Correctness(equal_answers=_share(repeats), valid_json=_share(schema_answers))


def _share(results: Sequence[bool]) -> float | None:
    return sum(results) / len(results) if results else None


def summarize_prefix(
    cold: Sequence[BenchmarkSample], warm: Sequence[BenchmarkSample], *, seed: int = 0
) -> PrefixReuse | None:
    """Return what reading a prompt again saves; None where it was not tried."""
    if not cold or not warm:
        return None
    return PrefixReuse(
        prompt_tokens=int(median(sample.prompt_tokens for sample in cold)),
        cold_ttft_s=bootstrap([sample.ttft_s for sample in cold], seed=seed),
        warm_ttft_s=bootstrap([sample.ttft_s for sample in warm], seed=seed),
    )


def compare_speeds(
    without: Sequence[RequestTiming], with_it: Sequence[RequestTiming], *, seed: int = 0
) -> SpeedRatio | None:
    """Return how many times as long the second took; None where one of them has no answers."""
    first, second = ([request.sample for request in part] for part in (without, with_it))
    if not first or not second:
        return None
    return SpeedRatio(
        ttft=bootstrap_time_ratio(first, second, lambda sample: sample.ttft_s, seed=seed),
        token=bootstrap_time_ratio(first, second, _token_time, seed=seed),
    )


def _token_time(sample: BenchmarkSample) -> float:
    """Return the seconds of an answer for each of its tokens, with those until the first."""
    return sample.e2e_s / max(1, sample.answer_tokens)


def summarize_cost(rounds: Sequence[BenchmarkRound], *, price_kwh: float | None) -> BenchmarkCost | None:
    """Return what the rounds used; None unless energy was told in all of them, of the same parts."""
    joules = [part.joules for part in rounds if part.joules is not None]
    duration_s = sum(part.duration_s for part in rounds)
    sources = {part.energy_source for part in rounds}
    if len(joules) != len(rounds) or len(sources) != 1 or duration_s <= 0:
        return None
    tokens = sum(request.sample.answer_tokens for part in rounds for request in part.requests)
    price = None
    if price_kwh is not None and tokens:
        price = sum(joules) / _JOULES_KWH * price_kwh / tokens * _MILLION
    return BenchmarkCost(
        joules=sum(joules), watts=sum(joules) / duration_s, source=sources.pop(), price_per_million_tokens=price
    )
