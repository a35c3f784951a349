"""What this machine shows about its speed: two figures from a short run, then a little more from every real answer.

    seconds per token = bytes / (efficiency x bandwidth) + layers x layer_seconds

A run of two models solves it; each answer moves it by as much as it is believed. What cannot be physical is never
returned: more than the bandwidth there is, or a negative cost.
"""

from collections.abc import Sequence
from math import exp, hypot, log, sqrt

import msgspec

from app.core.advice import Calibration, Generation

LEAST_TOKENS = 32
"""Shorter answers say more about starting than about speed."""
BOUNDS_EFFICIENCY = (0.02, 1.5)
"""A data sheet's bandwidth is never exceeded; one that was probed while other programs ran may be."""
BOUNDS_LAYER_S = (1e-7, 5e-3)
"""A kernel alone takes about a microsecond; five milliseconds a layer is a processor waking its threads."""

_RUN_NOISE = 0.04
"""How well two figures describe a run: it repeats to 1 or 2 %, and models differ from the formula by 4 %."""
_TRUST_EFFICIENCY = 0.15
_TRUST_LAYERS = 0.4
"""How far, as a share, the tables are usually off for a machine never seen (`tests.bench.speed_accuracy`)."""
_ANSWER_NOISE = 0.08
"""How well answers in daily use repeat: other programs run, and chips get warm."""
_DOUBT_EFFICIENCY, _DOUBT_LAYERS = 0.10, 0.30
"""How far a fresh calibration may be off; shrinks with the samples it rests on, up to `_MEMORY` of them."""
_MEMORY = 20
"""Samples remembered: the calibration follows a machine that changes."""
_OUTLIER = log(2)
"""An answer at twice or half the expected time had another cause: a sleeping laptop, a swapped-out model."""
_CLIP = 2.0
"""What lies further out than so many standard deviations moves no more than those."""
_ROUNDS = 12
"""Passes of the robust fit; it changes in the fourth digit after six."""
_FIRST_BELIEF = 0.01
"""The first pass hears the samples, not the tables."""


class SpeedSample(msgspec.Struct, frozen=True, kw_only=True):
    """One run or answer: what one token read and took. `app.advisor.speed.observations.sample_from` makes it from an answer.

    `layers` counts plain layers' worth of kernels; the expected figures are what the tables say of this device.
    """

    device: str
    engine: str
    version: str
    backend: str
    bandwidth_gb_s: float
    bytes: float
    layers: float
    seconds: float
    """Per token generated."""
    expected_efficiency: float
    expected_layer_s: float
    prefill_operations: float = 0.0
    """Floating-point operations of the prompt; zero when there was none to speak of."""
    prefill_s: float = 0.0
    at: float = 0.0


def solve_calibration(samples: Sequence[SpeedSample]) -> Calibration:
    """Return the two figures that explain the samples best, in relative error, one wild sample not counting for much.

    Two samples decide them; where they hardly differ in kind, the tables say how to share the time. Raises ValueError
    for no samples, or samples of different devices or engines.
    """
    if not samples or len({_sample_key(sample) for sample in samples}) != 1:
        raise ValueError("A calibration needs samples of one device and one engine.")
    weights, beliefs = [1.0] * len(samples), (_FIRST_BELIEF, _FIRST_BELIEF)
    scales = (1.0, 1.0)
    for _ in range(_ROUNDS):
        scales = _fit_scales(samples, weights, beliefs)
        weights = [_huber_weight(_sample_seconds(sample, scales) / sample.seconds - 1) for sample in samples]
        beliefs = _prior_weight(scales[0], _TRUST_EFFICIENCY), _prior_weight(scales[1], _TRUST_LAYERS)
    first, latest = samples[0], max(sample.at for sample in samples)
    return Calibration(
        device=first.device,
        engine=first.engine,
        version=first.version,
        backend=first.backend,
        efficiency=_clamp_value(_largest_sample(samples).expected_efficiency / max(scales[0], 1e-3), BOUNDS_EFFICIENCY),
        layer_seconds=_clamp_value(first.expected_layer_s * scales[1], BOUNDS_LAYER_S),
        bandwidth_gb_s=first.bandwidth_gb_s,
        prefill_flops=_prefill_rate(samples),
        samples=len(samples),
        measured_at=latest,
        source="calibration run",
    )


def refine_calibration(calibration: Calibration, sample: SpeedSample) -> Calibration:
    """Return the calibration moved towards one real answer (`is_usable` says which are); unchanged if it tells nothing."""
    if (
        _sample_key(sample) != (calibration.device, calibration.engine, calibration.version, calibration.backend)
        or sample.seconds <= 0
    ):
        return calibration
    reading = sample.bytes / (calibration.efficiency * calibration.bandwidth_gb_s * 1e9)
    starting = sample.layers * calibration.layer_seconds
    surprise = log(sample.seconds / (reading + starting))
    if abs(surprise) > _OUTLIER:
        return calibration
    towards = _kalman_gains(reading / (reading + starting), calibration.samples, surprise)
    return msgspec.structs.replace(
        calibration,
        efficiency=_clamp_value(calibration.efficiency * exp(-towards[0]), BOUNDS_EFFICIENCY),
        layer_seconds=_clamp_value(calibration.layer_seconds * exp(towards[1]), BOUNDS_LAYER_S),
        prefill_flops=_update_prefill(calibration, sample),
        samples=calibration.samples + 1,
        measured_at=max(calibration.measured_at, sample.at),
        source="generations",
    )


def is_usable(generation: Generation) -> bool:
    """Whether an answer says something about speed: alone on the engine, and long enough."""
    return generation.concurrent <= 1 and generation.completion_tokens >= LEAST_TOKENS and generation.decode_s > 0


def _largest_sample(samples: Sequence[SpeedSample]) -> SpeedSample:
    """Return the sample that reads most: what is expected of it is nearest to what larger models will show."""
    return max(samples, key=lambda sample: sample.bytes)


def _prior_weight(scale: float, trust: float) -> float:
    """Return how far the tables still count: where a machine is clearly unlike them, they give way."""
    return 1 / (1 + ((scale - 1) / trust) ** 2)


def _fit_scales(
    samples: Sequence[SpeedSample], weights: Sequence[float], beliefs: tuple[float, float]
) -> tuple[float, float]:
    """Return by what factors reading and layers take longer than expected: least squares with the tables as prior."""
    rr, rl, ll = beliefs[0] / _TRUST_EFFICIENCY**2, 0.0, beliefs[1] / _TRUST_LAYERS**2
    r, ell = rr, ll
    for sample, weight in zip(samples, weights, strict=True):
        reading, starting = (part / sample.seconds for part in _table_seconds(sample))
        precision = weight / _RUN_NOISE**2
        rr += precision * reading * reading
        rl += precision * reading * starting
        ll += precision * starting * starting
        r += precision * reading
        ell += precision * starting
    determinant = rr * ll - rl * rl
    scales = (r * ll - ell * rl) / determinant, (ell * rr - r * rl) / determinant
    if scales[1] > 0 and scales[0] > 0:
        return scales
    return (r / rr, 0.0) if scales[1] <= 0 else (0.0, ell / ll)


def _table_seconds(sample: SpeedSample) -> tuple[float, float]:
    """Return the seconds that the tables expect for reading and for layers."""
    rate = sample.expected_efficiency * sample.bandwidth_gb_s * 1e9
    return sample.bytes / rate, sample.layers * sample.expected_layer_s


def _sample_seconds(sample: SpeedSample, scales: tuple[float, float]) -> float:
    reading, starting = _table_seconds(sample)
    return scales[0] * reading + scales[1] * starting


def _huber_weight(error: float) -> float:
    """Return Huber's weight: full within two standard deviations, less beyond."""
    limit = _CLIP * _RUN_NOISE
    return 1.0 if abs(error) <= limit else limit / abs(error)


def _kalman_gains(reading_share: float, samples: int, surprise: float) -> tuple[float, float]:
    """Return how far to move the logarithms of reading and layers: a Kalman step, with both doubts known."""
    shrink = 1 / sqrt(1 + min(samples, _MEMORY))
    doubts = (_DOUBT_EFFICIENCY * shrink, _DOUBT_LAYERS * shrink)
    shares = (reading_share, 1 - reading_share)
    spread = hypot(shares[0] * doubts[0], shares[1] * doubts[1], _ANSWER_NOISE)
    clipped = max(-_CLIP * spread, min(_CLIP * spread, surprise))
    gains = [share * doubt**2 / spread**2 * clipped for share, doubt in zip(shares, doubts, strict=True)]
    return gains[0], gains[1]


def _prefill_rate(samples: Sequence[SpeedSample]) -> float | None:
    """Return the best rate seen: what slows a prompt down is always something else."""
    return max((rate for rate in map(_rate_of, samples) if rate), default=None)


def _update_prefill(calibration: Calibration, sample: SpeedSample) -> float | None:
    rate = _rate_of(sample)
    if not rate or not calibration.prefill_flops:
        return rate or calibration.prefill_flops
    if abs(log(rate / calibration.prefill_flops)) > _OUTLIER:
        return calibration.prefill_flops
    share = 1 / (2 + min(calibration.samples, _MEMORY))
    return calibration.prefill_flops * exp(share * log(rate / calibration.prefill_flops))


def _rate_of(sample: SpeedSample) -> float | None:
    return sample.prefill_operations / sample.prefill_s if sample.prefill_operations and sample.prefill_s > 0 else None


def _sample_key(sample: SpeedSample) -> tuple[str, str, str, str]:
    return (sample.device, sample.engine, sample.version, sample.backend)


def _clamp_value(value: float, bounds: tuple[float, float]) -> float:
    return max(bounds[0], min(bounds[1], value))
