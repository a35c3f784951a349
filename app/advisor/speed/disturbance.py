"""Whether a calibration was disturbed, and by what: other programs, rounds that differ, a result that cannot be right.

Whatever else runs only ever slows a computer down. So of equal rounds the fastest counts, once a second confirms it and
both were quiet; and a result far below the device table, or below an earlier quiet one, is not the device's own.
"""

from collections.abc import Iterator, Sequence

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.calibration import SpeedSample, predict_seconds
from app.advisor.speed.families import DEVICES, devices_in_use
from app.core.advice import Calibration, Generation
from app.core.machine import Fact, Machine

ROUNDS, MOST_ROUNDS = 3, 8
"""Equal rounds of one model at least, and at most where they disagree or are disturbed."""
AGREEMENT = 0.06
"""How far the two fastest rounds may differ: on a quiet machine they repeat to 1 or 2 %, on a shared one to 5 %."""
_QUIET_SHARE, _QUIET_SHARE_GPU = 0.15, 0.5
"""What others may take of all processors: beside an engine on the processor, and where a graphics card computes."""
_TABLE_MARGIN = 1.25
"""How far below the device table's interval, which holds nine of ten, a result is called disturbed."""
_SLOWER = 1.3
"""How much slower than an earlier quiet result: drivers and heat change less than that."""


class SpeedRound(msgspec.Struct, frozen=True, kw_only=True):
    """One answer's timing, and the share of all processors that other programs took meanwhile (0..1)."""

    generation: Generation
    other_share: float = 0.0

    @property
    def token_s(self) -> float:
        """Seconds per token generated."""
        return self.generation.decode_s / self.generation.completion_tokens

    @property
    def is_quiet(self) -> bool:
        """Whether what other programs took leaves the round's speed as it is."""
        return is_quiet(self.other_share, self.generation.backend)


def is_quiet(other_share: float, backend: str = "cpu") -> bool:
    """Return whether others take so little of the processors that an engine on the backend is not slowed down."""
    return other_share <= (_QUIET_SHARE if backend == "cpu" else _QUIET_SHARE_GPU)


def needs_round(rounds: Sequence[SpeedRound]) -> bool:
    """Return whether another round may tell more: too few yet, or the fastest is not confirmed by a quiet one."""
    if len(rounds) < ROUNDS:
        return True
    return len(rounds) < MOST_ROUNDS and not _is_confirmed(rounds)


def fastest_round(rounds: Sequence[SpeedRound]) -> SpeedRound:
    """Return the round that counts."""
    return min(rounds, key=lambda speed_round: speed_round.token_s)


def expected_gb_s(machine: Machine, setting: RunSetting) -> tuple[float, float] | None:
    """Return what the device table has the device read in GB/s, and the least that still agrees; None if unknown.

    What was probed of system memory is left out: it may have been disturbed by the same programs.
    """
    memory = msgspec.structs.replace(machine.memory, bandwidth_gb_s=Fact(unit="GB/s"))
    devices = devices_in_use(msgspec.structs.replace(machine, memory=memory), setting)
    if len(devices) != 1 or devices[0].is_assumed:
        return None
    traits = DEVICES[devices[0].kind]
    rate = devices[0].bandwidth * traits.efficiency / 1e9
    return rate, rate / (1 + traits.spread) / _TABLE_MARGIN


def find_disturbances(
    runs: Sequence[Sequence[SpeedRound]],
    samples: Sequence[SpeedSample],
    calibration: Calibration,
    *,
    least_gb_s: float | None,
    earlier: Calibration | None,
) -> list[str]:
    """Return why a calibration is not the device's own speed, each as a sentence; empty if nothing speaks against it.

    `runs` has the rounds of each model, `samples` what the calibration was solved from; `earlier` is an undisturbed
    result of the same device and engine build.
    """
    reached_gb_s = calibration.efficiency * calibration.bandwidth_gb_s
    sentences = list(round_disturbances(runs))
    if least_gb_s is not None and reached_gb_s < least_gb_s:
        sentences.append(
            f"It read {reached_gb_s:.1f} GB/s, where the device table leads to expect at least {least_gb_s:.1f} GB/s."
        )
    if earlier is not None:
        factor = min(sample.seconds / sum(predict_seconds(earlier, sample)) for sample in samples)
        if factor > _SLOWER:
            sentences.append(f"It took {factor:.1f} times as long as an earlier quiet run.")
    return sentences


def _is_confirmed(rounds: Sequence[SpeedRound]) -> bool:
    first, second = sorted(rounds, key=lambda speed_round: speed_round.token_s)[:2]
    return first.is_quiet and second.token_s <= first.token_s * (1 + AGREEMENT)


def round_disturbances(runs: Sequence[Sequence[SpeedRound]]) -> Iterator[str]:
    """Yield what speaks against rounds, in sentences: busy programs, and equal answers that differ."""
    busy = [fastest.other_share for rounds in runs if not (fastest := fastest_round(rounds)).is_quiet]
    if busy:
        yield f"Other programs used {max(busy):.0%} of the processors.".replace("%", " %")
    for rounds in runs:
        first, second = sorted(speed_round.token_s for speed_round in rounds)[:2]
        if second > first * (1 + AGREEMENT):
            yield f"Equal answers took {first * 1e3:.1f} and {second * 1e3:.1f} ms a token."
