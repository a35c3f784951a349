"""Two receipts against each other: what was not the same, and which differences are more than noise.

A difference counts where the interval of the ratio, by bootstrap over single requests, leaves out 1. Receipts of a list
have no requests; of these the intervals of the medians are set against each other, which finds fewer differences.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from app.benchmark.gains import is_noise
from app.benchmark.statistics import bootstrap_ratio
from app.core.benchmarks import BenchmarkLevel, BenchmarkReceipt, BenchmarkSample, Figure


class FigureComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both; `ratio` is the second to the first."""

    name: str
    unit: str
    concurrency: int
    first: float
    second: float
    ratio: Figure
    is_lower_better: bool

    @property
    def is_noise(self) -> bool:
        """Whether the two may as well be equal."""
        return is_noise(self.ratio)

    @property
    def is_better(self) -> bool:
        """Whether the second is better by more than noise."""
        return not self.is_noise and (self.ratio.value < 1) == self.is_lower_better


class ReceiptDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was not the same: a version, a hash, a setting, the computer."""

    name: str
    first: str
    second: str


class ReceiptComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both receipts' names, what was not the same, and the figures of the levels that both have."""

    first: str
    second: str
    differences: list[ReceiptDifference]
    figures: list[FigureComparison]


def compare_receipts(first: BenchmarkReceipt, second: BenchmarkReceipt) -> ReceiptComparison:
    """Return the comparison; without figures where no level is in both."""
    levels = {level.concurrency: level for level in second.levels}
    return ReceiptComparison(
        first=first.title,
        second=second.title,
        differences=list(_find_differences(first, second)),
        figures=[
            figure
            for level in first.levels
            if level.concurrency in levels
            for figure in _compare_levels((first, level), (second, levels[level.concurrency]))
        ],
    )


def _find_differences(first: BenchmarkReceipt, second: BenchmarkReceipt) -> Iterator[ReceiptDifference]:
    pairs: list[tuple[str, object, object]] = [("roundhouse", first.roundhouse, second.roundhouse)]
    for part in ("target", "machine", "settings"):
        before, after = getattr(first, part), getattr(second, part)
        pairs += [(name, getattr(before, name), getattr(after, name)) for name in before.__struct_fields__]
    pairs.append(("prompts_sha256", first.prompts_sha256, second.prompts_sha256))
    for name, before, after in pairs:
        if before != after:
            yield ReceiptDifference(name=name, first=_show_value(before), second=_show_value(after))


def _show_value(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text or "-"


_Values = Callable[[BenchmarkSample], float]
_MEASURES: tuple[tuple[str, str, bool, _Values, Callable[[BenchmarkLevel], Figure]], ...] = (
    ("TTFT", "s", True, lambda sample: sample.ttft_s, lambda level: level.ttft_s.median),
    ("TPOT", "s", True, lambda sample: sample.tpot_s, lambda level: level.tpot_s.median),
    ("End to end", "s", True, lambda sample: sample.e2e_s, lambda level: level.e2e_s.median),
)


def _compare_levels(
    first: tuple[BenchmarkReceipt, BenchmarkLevel], second: tuple[BenchmarkReceipt, BenchmarkLevel]
) -> Iterator[FigureComparison]:
    concurrency = first[1].concurrency
    for name, unit, is_lower_better, value_of, figure_of in _MEASURES:
        before, after = figure_of(first[1]), figure_of(second[1])
        samples = [_sample_values(receipt.samples, concurrency, value_of) for receipt, _ in (first, second)]
        ratio = bootstrap_ratio(*samples) if all(samples) else _ratio_of(before, after)
        yield FigureComparison(
            name=name,
            unit=unit,
            concurrency=concurrency,
            first=before.value,
            second=after.value,
            ratio=ratio,
            is_lower_better=is_lower_better,
        )
    before, after = first[1].answer_tokens_s, second[1].answer_tokens_s
    yield FigureComparison(
        name="Tokens per second",
        unit="",
        concurrency=concurrency,
        first=before.value,
        second=after.value,
        ratio=_ratio_of(before, after),
        is_lower_better=False,
    )


def _sample_values(samples: Sequence[BenchmarkSample], concurrency: int, value_of: _Values) -> list[float]:
    return [value_of(sample) for sample in samples if sample.concurrency == concurrency]


def _ratio_of(first: Figure, second: Figure) -> Figure:
    """Return the ratio of two figures, with the widest interval that theirs allow."""
    least = 1e-12  # no division by zero
    return Figure(
        value=second.value / max(first.value, least),
        low=second.low / max(first.high, least),
        high=second.high / max(first.low, least),
    )
