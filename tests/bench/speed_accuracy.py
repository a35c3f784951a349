"""How far the advisor's tokens per second are from what people measured: held out by device, and after a calibration.

Constants come from training rows (`speed_rows`); no other row touches them. A chip that is in both is predicted with
constants fitted without any of its rows, so every error here is one of a machine never seen.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from statistics import median

import msgspec

from app.advisor.speed.calibration import SpeedSample, sample_from, solve_calibration
from app.advisor.speed.estimate import decode_rate, prefill_rate
from app.core.advice import Generation
from tests.bench.figures import BenchFigure, at_least, at_most, not_measured
from tests.bench.fit_speed import SpeedFit, fit_constants, fit_prefill, has_experts, has_prefill
from tests.bench.speed_rows import (
    BOARD,
    MAIN,
    MEASURED,
    OTHER_ENGINE,
    SEVERAL,
    SPILL,
    UNQUANTISED,
    SpeedRow,
    all_rows,
    evaluation_rows,
    fit_rows,
)

MEDIAN, P90, COVERAGE = 12.0, 32.0, 90.0
CALIBRATED_MEDIAN, CALIBRATED_P90 = 4.0, 12.0
PREFILL_MEDIAN = 25.0
CALL_MS = 1.0
ASIDE = (SPILL, BOARD, SEVERAL, UNQUANTISED, OTHER_ENGINE)
"""Sets with no target: what a row leaves open there decides more than the prediction."""
FEWEST_RUNS = 5
"""Rows of one chip and engine from which on two can calibrate and the rest be predicted."""
APART = 6.0
"""Two models calibrate where one reads so many times the other's bytes; a calibration run's two differ far more."""
MOST_PAIRS = 40
_TOKENS = 128
_FALLBACKS = frozenset({"Q5_0", "Q5_1", "Q8_0", "IQ4_NL"})
"""What a K-quant mix takes for rows that are no multiple of 256 numbers: such small models say little of others."""


class SpeedCase(msgspec.Struct, frozen=True):
    """One prediction beside its measurement, in tokens per second."""

    row: SpeedRow
    prediction: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """Return how far off the prediction is, as a share of what was measured."""
        return self.prediction / self.row.decode - 1

    @property
    def is_covered(self) -> bool:
        """Whether the measurement lies in the stated interval."""
        return self.low <= self.row.decode <= self.high


def measure() -> Sequence[BenchFigure]:
    """Return the figures of the rows kept, or that they are not here."""
    if not MEASURED.exists():
        return [not_measured("speed", f"<= {MEDIAN:g} %", "needs a source checkout")]
    main, prompts, runs = cross_validated_cases(), prefill_errors(), errors_after_calibration()
    rows, unreadable = all_rows()
    kept_rows = f"{len(main)} rows, {len({case.row.chip for case in main})} chips"
    return [
        at_most(f"decode, chip never seen, median error ({kept_rows})", 100 * median(_sizes(main)), MEDIAN, "%"),
        at_most("decode, chip never seen, p90", 100 * p90(_sizes(main)), P90, "%"),
        at_least("decode, inside the stated interval", 100 * coverage(main), COVERAGE, "%"),
        *_calibration_figures(runs),
        at_most(
            f"prefill, chip never seen, median error ({len(prompts)} rows)", 100 * median(prompts), PREFILL_MEDIAN, "%"
        ),
        at_most("decode and prefill, one call each", call_ms(main[0].row), CALL_MS, "ms"),
        *map(_aside_figure, ASIDE),
        _plain_figure(f"rows without a known model, of {len(rows) + len(unreadable)}", str(len(unreadable))),
    ]


@cache
def cross_validated_cases() -> tuple[SpeedCase, ...]:
    """Return a prediction for each held-out row whose model lies in the memory of one device."""
    return tuple(predict_row(row, fit_without(row.chip)) for row in evaluation_rows())


def predict_row(row: SpeedRow, constants: SpeedFit) -> SpeedCase:
    """Return the prediction of a row with these constants and the interval that the advisor states."""
    shipped_rate = decode_rate(row.facts, row.machine, row.setting, depth=row.depth)
    if shipped_rate is None:
        raise ValueError(f"Nothing is known of {row.device}.")
    rate = constants.tokens_per_second(row)
    scale = rate / shipped_rate.tokens_per_second
    return SpeedCase(row, rate, shipped_rate.low * scale, shipped_rate.high * scale)


@cache
def fit_without(chip: str) -> SpeedFit:
    """Return the constants fitted to all training rows but those of a chip."""
    return fit_constants([row for row in fit_rows() if row.chip != chip])


def cases_aside(group: str) -> list[SpeedCase]:
    """Return the predictions, with what is shipped, of a set that is reported apart."""
    cases = []
    for row in evaluation_rows(group):
        rate = decode_rate(row.facts, row.machine, row.setting, depth=row.depth)
        if rate is not None:
            cases.append(SpeedCase(row, rate.tokens_per_second, rate.low, rate.high))
    return cases


def errors_after_calibration() -> list[float]:
    """Return the errors of every model of a chip after a calibration with two others of it, over many such pairs."""
    return [error for rows in rows_by_chip().values() for error in _after_pairs(rows)]


def rows_by_chip() -> dict[tuple[str, str], list[SpeedRow]]:
    """Return the held-out rows by chip and engine, where there are enough to calibrate with two and predict more."""
    rows_of_chip: dict[tuple[str, str], list[SpeedRow]] = {}
    for row in evaluation_rows():
        rows_of_chip.setdefault((row.device, row.setting.engine.id), []).append(row)
    return {name: rows for name, rows in rows_of_chip.items() if len(rows) >= FEWEST_RUNS}


def _after_pairs(rows: Sequence[SpeedRow]) -> Iterator[float]:
    plain = [row for row in rows if _can_calibrate(row)]
    runs = {id(row): as_sample(row) for row in plain}
    pairs = [
        (first, second) for first, second in combinations(plain, 2) if _are_apart(runs[id(first)], runs[id(second)])
    ]
    for first, second in pairs[:: max(1, len(pairs) // MOST_PAIRS)]:
        calibration = solve_calibration([runs[id(first)], runs[id(second)]])
        used_models = {first.model, second.model}
        for row in rows:
            if row.model not in used_models:
                rate = decode_rate(row.facts, row.machine, row.setting, depth=row.depth, calibration=calibration)
                assert rate is not None
                yield abs(rate.tokens_per_second / row.decode - 1)


def as_sample(row: SpeedRow) -> SpeedSample:
    """Return a row as what a calibration run would have given. Raises ValueError where it rests on two memories."""
    generation = Generation(
        model=row.model,
        engine=row.setting.engine.id,
        version="",
        backend=row.setting.backend,
        device="",
        prompt_tokens=max(0, row.depth - _TOKENS // 2),
        cached_tokens=0,
        completion_tokens=_TOKENS,
        prefill_s=0.0,
        decode_s=_TOKENS / row.decode,
    )
    sample_found = sample_from(generation, row.facts, row.machine, row.setting)
    if sample_found is None:
        raise ValueError(f"{row.model} on {row.device} rests on more than one memory.")
    return sample_found


def prefill_errors() -> list[float]:
    """Return the errors of prompts, each chip predicted with shares fitted without it."""
    prefill_rows = [row for row in all_rows()[0] if row.group == MAIN and has_prefill(row)]
    errors = []
    for chip in sorted({row.chip for row in prefill_rows}):
        shares = fit_prefill([row for row in fit_rows() if row.chip != chip])
        errors += [
            abs(shares.tokens_per_second(row) / row.prefill - 1)
            for row in prefill_rows
            if row.chip == chip and row.prefill
        ]
    return errors


def call_ms(row: SpeedRow, times: int = 50) -> float:
    """Return the milliseconds that decode and prefill take together, the median of some calls."""
    times_ms = []
    for _ in range(times):
        began = time.perf_counter()
        decode_rate(row.facts, row.machine, row.setting, depth=1000)
        prefill_rate(row.facts, row.machine, row.setting, depth=1000)
        times_ms.append(time.perf_counter() - began)
    return 1e3 * median(times_ms)


def p90(errors: Sequence[float]) -> float:
    """Return the error that nine of ten do not exceed."""
    return sorted(errors)[min(len(errors) - 1, int(0.9 * len(errors)))]


def coverage(cases: Sequence[SpeedCase]) -> float:
    """Return the share of measurements inside their interval."""
    return sum(case.is_covered for case in cases) / len(cases)


def _sizes(cases: Sequence[SpeedCase]) -> list[float]:
    return [abs(case.error) for case in cases]


def _calibration_figures(errors: Sequence[float]) -> list[BenchFigure]:
    if not errors:
        return [not_measured("decode after calibration", f"<= {CALIBRATED_MEDIAN:g} %", "too few rows of one chip")]
    chips = len(rows_by_chip())
    return [
        at_most(
            f"decode after two models, median error ({chips} machines)", 100 * median(errors), CALIBRATED_MEDIAN, "%"
        ),
        at_most("decode after two models, p90", 100 * p90(errors), CALIBRATED_P90, "%"),
    ]


def _aside_figure(group: str) -> BenchFigure:
    cases = cases_aside(group)
    if not cases:
        return _plain_figure(f"decode, {group}", "no row")
    sizes = _sizes(cases)
    return _plain_figure(
        f"decode, {group}, median and p90 error ({len(cases)} rows)",
        f"{100 * median(sizes):.0f} %, {100 * p90(sizes):.0f} %, {100 * coverage(cases):.0f} % covered",
    )


def _plain_figure(name: str, measurement: str) -> BenchFigure:
    return BenchFigure(name=name, measurement=measurement, target="none", ok=None)


def _can_calibrate(row: SpeedRow) -> bool:
    """Whether a model is like those a calibration runs: no experts, no recurrence, and no type but its mix's own."""
    plain = not has_experts(row) and not any(layer.state_elements or layer.conv_elements for layer in row.facts.layers)
    return plain and not any(group.type in _FALLBACKS for group in row.facts.weights if group.layer is not None)


def _are_apart(first: SpeedSample, second: SpeedSample) -> bool:
    return max(first.bytes, second.bytes) > APART * min(first.bytes, second.bytes)
