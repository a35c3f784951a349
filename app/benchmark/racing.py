"""Who won: the engine whose whole answers come clearly sooner than those of the engine of before.

A challenger has to save enough to be worth it with 95 % confidence, by bootstrap over single requests. Otherwise the
engine of before stays.
"""

from collections.abc import Mapping, Sequence

from app.benchmark.gains import describe_bound, is_faster_by
from app.benchmark.statistics import bootstrap_time_ratio
from app.benchmark.workloads import CHARACTERS_PER_TOKEN, make_workload, pick_conversations, prompt_characters
from app.core.benchmarks import BenchmarkReceipt, BenchmarkSample, BenchmarkSettings, Figure, RaceEntry

LEAST_GAIN = 0.05
"""A twentieth: less is not felt, and changes with the weather of a computer."""

DOWNLOAD_BYTES_S = 6.25e6
"""50 Mbit/s: the middle of what homes have."""
_LOAD_BYTES_S, _START_S = 5e8, 8.0
"""Of a solid-state drive; and an engine's start, the look for quiet, the warm-up and the prompts asked again."""


def duration_of(receipt: BenchmarkReceipt) -> float:
    """Return how long a benchmark took that was made before."""
    return _START_S + (receipt.load_s or 0.0) + sum(part.e2e_s / part.concurrency for part in receipt.samples)


def predict_duration_s(
    settings: BenchmarkSettings, *, size_bytes: int, prefill_tokens_s: float, decode_tokens_s: float
) -> float:
    """Return how long a benchmark takes with the speeds that are predicted for one request at a time."""
    conversations = make_workload(settings)
    duration_s = _START_S + size_bytes / _LOAD_BYTES_S
    for level in set(settings.concurrency):
        prompts = [
            prompt
            for conversation_prompts in pick_conversations(conversations, settings, level)
            for prompt in conversation_prompts
        ]
        read_s = sum(map(prompt_characters, prompts)) / CHARACTERS_PER_TOKEN / prefill_tokens_s
        written_s = sum(prompt.answer_tokens for prompt in prompts) / decode_tokens_s
        duration_s += settings.rounds * (read_s + written_s)
    return duration_s


def race_entry(receipt: BenchmarkReceipt, before: BenchmarkReceipt | None, *, note: str = "") -> RaceEntry:
    """Return how an engine did against that of before; None where that came to nothing."""
    ratio: Figure | None = None
    if before is not None:
        ratio = bootstrap_time_ratio(
            _first_samples(before), _first_samples(receipt), lambda sample: sample.e2e_s, seed=receipt.settings.seed
        )
    return RaceEntry(
        engine=receipt.target.engine,
        receipt=receipt.id,
        e2e_s=receipt.first_level.e2e_s.median.value,
        ratio=ratio,
        note=note,
    )


def pick_winner(entries: Sequence[RaceEntry], before: str) -> str:
    """Return the engine to use: that of before unless another is clearly faster, or that came to nothing."""
    finished_entries = [entry for entry in entries if entry.e2e_s is not None]
    if not any(entry.engine == before for entry in finished_entries):
        return min(finished_entries, key=_answer_time).engine if finished_entries else before
    faster = [entry for entry in finished_entries if entry.engine != before and _is_clearly_faster(entry)]
    return min(faster, key=_answer_time).engine if faster else before


def describe_race(entries: Sequence[RaceEntry], before: str, winner: str, names: Mapping[str, str]) -> str:
    """Return what came of a race, in a sentence."""
    entry = next((entry for entry in entries if entry.engine == winner), None)
    name, old = names.get(winner, winner), names.get(before, before)
    if winner == before:
        least = f"at least {LEAST_GAIN * 100:.0f} %, with 95 % confidence"
        return f"{old} stays: no other engine is clearly faster (by {least})."
    if entry is None or entry.ratio is None:
        return f"{name} is used from now on: {old} could not be measured."
    return f"{name} is used from now on: its answers take {describe_bound(entry.ratio, f'with {old}')}."


def _is_clearly_faster(entry: RaceEntry) -> bool:
    return entry.ratio is not None and is_faster_by(entry.ratio, LEAST_GAIN)


def _answer_time(entry: RaceEntry) -> float:
    return entry.e2e_s if entry.e2e_s is not None else float("inf")


def _first_samples(receipt: BenchmarkReceipt) -> list[BenchmarkSample]:
    level = receipt.first_level.concurrency
    return [sample for sample in receipt.samples if sample.concurrency == level]
