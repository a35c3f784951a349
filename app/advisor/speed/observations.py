"""What answers on this machine say: as samples a calibration learns from, and as the rate of a model that already ran.

Measured beats calibrated beats predicted beats looked up; a rate says which it is.
"""

from collections.abc import Sequence
from statistics import median

import msgspec

from app.advisor.memory.setting import RunSetting
from app.advisor.speed.calibration import SpeedSample, is_usable
from app.advisor.speed.device import devices_in_use
from app.advisor.speed.estimate import decode_rate, device_read_seconds
from app.advisor.speed.families import SOFTWARE, software_class
from app.advisor.speed.prefill import prefill_operations
from app.advisor.speed.reads import token_reads
from app.core.advice import Calibration, EstimateConfidence, Generation, Rate
from app.core.machine import Machine
from app.core.model_facts import ModelFacts

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
    software = SOFTWARE[software_class(setting, device.kind)]
    read = reads.device_bytes + reads.device_cache_bytes
    uncached = generation.prompt_tokens if generation.prompt_tokens >= LEAST_PROMPT else 0
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
        prefill_operations=prefill_operations(facts, tokens=uncached) if uncached else 0.0,
        prefill_s=generation.prefill_s,
        at=generation.at,
    )


def depth_of(generation: Generation) -> int:
    """Return the tokens that were cached halfway through the answer."""
    return generation.cached_tokens + generation.prompt_tokens + generation.completion_tokens // 2


def correct_by_answers(predicted: Rate, expected: Sequence[Rate | None], generations: Sequence[Generation]) -> Rate:
    """Return the prediction corrected by what this very model did here; unchanged when no answer counts.

    `expected` holds what would have been predicted for each answer, at its depth: `predict_answers` gives it.
    """
    pairs = [
        generation.completion_tokens / generation.decode_s / rate.tokens_per_second
        for rate, generation in zip(expected, generations, strict=True)
        if rate and is_usable(generation)
    ][-LATEST:]
    if not pairs:
        return predicted
    ratio = median(pairs)
    spread = max(LEAST_SPREAD, 2 * median(abs(pair / ratio - 1) for pair in pairs))
    rate = predicted.tokens_per_second * ratio
    return msgspec.structs.replace(
        predicted,
        tokens_per_second=rate,
        low=rate / (1 + spread),
        high=rate * (1 + spread),
        confidence=EstimateConfidence.MEASURED,
        arithmetic=f"{predicted.arithmetic}; {len(pairs)} answers on this machine were {ratio:.2f} times as fast",
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
