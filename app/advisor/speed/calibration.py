"""What this machine shows about its speed: two figures from a short run, then a little more from every real answer.

    seconds per token = bytes / (efficiency x bandwidth) + layers x layer_seconds

A run of two models solves it; each answer moves it by as much as it is believed. What cannot be physical is never
returned: more than the bandwidth there is, or a negative cost.

What answers on this machine say: as samples a calibration learns from, and as the rate of a model that already ran.

Measured beats calibrated beats predicted beats looked up; a rate says which it is.
"""

from collections.abc import Sequence
from math import exp, hypot, log, sqrt
from statistics import median

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.estimate import decode_rate, device_read_seconds, prefill_operations
from app.advisor.speed.families import SOFTWARE, devices_in_use, software_class
from app.advisor.speed.reads import token_reads
from app.core.advice import Calibration, EstimateConfidence, Generation, Rate
from app.core.machine import Machine
from app.core.model_facts import ModelFacts

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
    """One run or answer: what one token read and took. `sample_from` makes it from an answer.

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
    """Return the calibration moved towards one real answer (see `is_usable`); unchanged if it tells nothing."""
    if (
        _sample_key(sample) != (calibration.device, calibration.engine, calibration.version, calibration.backend)
        or sample.seconds <= 0
    ):
        return calibration
    read_s, start_s = predict_seconds(calibration, sample)
    surprise = log(sample.seconds / (read_s + start_s))
    if abs(surprise) > _OUTLIER:
        return calibration
    towards = _kalman_gains(read_s / (read_s + start_s), calibration.samples, surprise)
    return msgspec.structs.replace(
        calibration,
        efficiency=_clamp_value(calibration.efficiency * exp(-towards[0]), BOUNDS_EFFICIENCY),
        layer_seconds=_clamp_value(calibration.layer_seconds * exp(towards[1]), BOUNDS_LAYER_S),
        prefill_flops=_update_prefill(calibration, sample),
        samples=calibration.samples + 1,
        measured_at=max(calibration.measured_at, sample.at),
        source="generations",
    )


def predict_seconds(calibration: Calibration, sample: SpeedSample) -> tuple[float, float]:
    """Return the seconds of one token that the calibration has a sample's reading and its layers take."""
    read_s = sample.bytes / (calibration.efficiency * calibration.bandwidth_gb_s * 1e9)
    return read_s, sample.layers * calibration.layer_seconds


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
        read_share, start_share = (part / sample.seconds for part in table_seconds(sample))
        precision = weight / _RUN_NOISE**2
        rr += precision * read_share * read_share
        rl += precision * read_share * start_share
        ll += precision * start_share * start_share
        r += precision * read_share
        ell += precision * start_share
    determinant = rr * ll - rl * rl
    scales = (r * ll - ell * rl) / determinant, (ell * rr - r * rl) / determinant
    if scales[1] > 0 and scales[0] > 0:
        return scales
    return (r / rr, 0.0) if scales[1] <= 0 else (0.0, ell / ll)


def table_seconds(sample: SpeedSample) -> tuple[float, float]:
    """Return the seconds that the tables expect for reading and for layers."""
    rate = sample.expected_efficiency * sample.bandwidth_gb_s * 1e9
    return sample.bytes / rate, sample.layers * sample.expected_layer_s


def _sample_seconds(sample: SpeedSample, scales: tuple[float, float]) -> float:
    read_s, start_s = table_seconds(sample)
    return scales[0] * read_s + scales[1] * start_s


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
    clipped_surprise = max(-_CLIP * spread, min(_CLIP * spread, surprise))
    gains = [share * doubt**2 / spread**2 * clipped_surprise for share, doubt in zip(shares, doubts, strict=True)]
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


LATEST = 20
"""Answers looked at: a machine changes with drivers and seasons."""
LEAST_SPREAD = 0.06
"""How far answers of one model differ on a quiet machine."""
LEAST_PROMPT = 128
"""Shorter prompts do not fill a batch and say little about the rate."""


def sample_from(generation: Generation, facts: ModelFacts, machine: Machine, setting: RunSetting) -> SpeedSample | None:
    """Return an answer as a sample to calibrate with; None when it says nothing or rests on two devices.

    What is left on the host is another memory's speed and would be taken for the GPU's.
    """
    devices = devices_in_use(machine, setting)
    reads = token_reads(facts, setting, depth=depth_of(generation))
    if len(devices) != 1 or reads.host_bytes or not is_usable(generation):
        return None
    (device,) = devices
    software = SOFTWARE[software_class(setting, device.kind, device.architecture)]
    read = reads.device_bytes + reads.device_cache_bytes
    uncached_tokens = generation.prompt_tokens if generation.prompt_tokens >= LEAST_PROMPT else 0
    return SpeedSample(
        device=device.id,
        engine=generation.engine,
        version=generation.version,
        backend=generation.backend,
        bandwidth_gb_s=device.bandwidth / 1e9,
        bytes=read,
        layers=reads.plain_layers + reads.expert_layers * software.expert_layer_s / software.layer_s,
        seconds=generation.decode_s / generation.completion_tokens,
        expected_efficiency=read / (device_read_seconds(reads, device) * device.bandwidth),
        expected_layer_s=software.layer_s,
        prefill_operations=prefill_operations(facts, tokens=uncached_tokens) if uncached_tokens else 0.0,
        prefill_s=generation.prefill_s,
        at=generation.at,
    )


def depth_of(generation: Generation) -> int:
    """Return the tokens that were cached halfway through the answer."""
    return generation.cached_tokens + generation.prompt_tokens + generation.completion_tokens // 2


def correct_by_answers(
    prediction: Rate, expected_rates: Sequence[Rate | None], generations: Sequence[Generation]
) -> Rate:
    """Return the prediction corrected by what this very model did here; unchanged when no answer counts.

    `expected` holds what would have been predicted for each answer, at its depth: `predict_answers` gives it.
    """
    pairs = [
        generation.completion_tokens / generation.decode_s / rate.tokens_per_second
        for rate, generation in zip(expected_rates, generations, strict=True)
        if rate and is_usable(generation)
    ][-LATEST:]
    if not pairs:
        return prediction
    ratio = median(pairs)
    spread = max(LEAST_SPREAD, 2 * median(abs(pair / ratio - 1) for pair in pairs))
    rate = prediction.tokens_per_second * ratio
    return msgspec.structs.replace(
        prediction,
        tokens_per_second=rate,
        low=rate / (1 + spread),
        high=rate * (1 + spread),
        confidence=EstimateConfidence.MEASURED,
        arithmetic=f"{prediction.arithmetic}; {len(pairs)} answers on this machine were {ratio:.2f} times as fast",
    )


def predict_answers(
    generations: Sequence[Generation],
    facts: ModelFacts,
    machine: Machine,
    setting: RunSetting,
    calibration: Calibration | None = None,
) -> list[Rate | None]:
    """Return what would have been predicted for each answer."""
    return [
        decode_rate(facts, machine, setting, depth=depth_of(generation), calibration=calibration)
        for generation in generations
    ]
