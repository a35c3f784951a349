"""How well speeds of a model never measured are predicted here: each model left out in turn, predicted from the others.

Before: by the tables alone. After: by what the other models' answers say of the device and the engine build. An error
is that of a ratio, so that twice too fast and twice too slow are alike.
"""

from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import median

import msgspec

from app.advisor.speed.calibration import SpeedSample, predict_seconds, solve_calibration, table_seconds


class LeftOutErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Of each model that was left out, on each engine build: its error by the tables, and by the others."""

    before: list[float]
    after: list[float]


def measure_left_out(by_model: Mapping[str, Sequence[SpeedSample]]) -> LeftOutErrors:
    """Return the errors of every model for which there is another on the same device and engine build."""
    before: list[float] = []
    after: list[float] = []
    for others, own in _split_samples(by_model):
        calibration = solve_calibration(others)
        before.append(_error_of([log(part.seconds / sum(table_seconds(part))) for part in own]))
        after.append(_error_of([log(part.seconds / sum(predict_seconds(calibration, part))) for part in own]))
    return LeftOutErrors(before=before, after=after)


def _split_samples(by_model: Mapping[str, Sequence[SpeedSample]]) -> list[tuple[list[SpeedSample], list[SpeedSample]]]:
    """Return the others' samples and its own, of each model on each device and engine build."""
    builds: dict[tuple[str, ...], dict[str, list[SpeedSample]]] = {}
    for model, samples in by_model.items():
        for part in samples:
            key = (part.device, part.engine, part.version, part.backend)
            builds.setdefault(key, {}).setdefault(model, []).append(part)
    return [
        ([part for name, parts in models.items() if name != model for part in parts], own)
        for models in builds.values()
        if len(models) > 1
        for model, own in models.items()
    ]


def _error_of(surprises: Sequence[float]) -> float:
    """Return how many times off the median is, less one."""
    return exp(abs(median(surprises))) - 1
