"""Which rounds confirm each other, which are repeated, and what makes a calibration's result doubtful."""

import msgspec
import pytest

from app.advisor.speed.calibration import SpeedSample
from app.advisor.speed.disturbance import (
    MOST_ROUNDS,
    SpeedRound,
    expected_gb_s,
    fastest_round,
    find_disturbances,
    is_quiet,
    needs_round,
)
from app.core.advice import Calibration, Generation
from app.hardware.description import machine_from
from tests.unit.advisor.engines import setting_for


def speed_round(token_ms: float, *, other_share: float = 0.0, backend: str = "cpu") -> SpeedRound:
    generation = Generation(
        model="m",
        engine="llama.cpp",
        version="1",
        backend=backend,
        device="cpu",
        prompt_tokens=512,
        cached_tokens=0,
        completion_tokens=100,
        prefill_s=1.0,
        decode_s=token_ms / 10,
    )
    return SpeedRound(generation=generation, other_share=other_share)


RESULT = Calibration(
    device="cpu", engine="llama.cpp", version="1", backend="cpu", efficiency=0.5, layer_seconds=2e-5, bandwidth_gb_s=40
)
SAMPLE = SpeedSample(
    device="cpu",
    engine="llama.cpp",
    version="1",
    backend="cpu",
    bandwidth_gb_s=40,
    bytes=0.18e9,
    layers=50,
    seconds=0.01,
    expected_efficiency=0.85,
    expected_layer_s=2e-5,
)
QUIET = [speed_round(10.0), speed_round(10.2), speed_round(14.0)]


def test_the_fastest_counts_once_a_second_confirms_it() -> None:
    assert needs_round(QUIET[:2])
    assert not needs_round(QUIET)
    assert needs_round([speed_round(10.0), speed_round(11.0), speed_round(14.0)])
    assert fastest_round(QUIET) is QUIET[0]


def test_a_fastest_round_beside_busy_programs_confirms_nothing() -> None:
    busy = [speed_round(10.0, other_share=0.4), speed_round(10.1), speed_round(10.2)]
    assert needs_round(busy)
    assert not needs_round([*busy, speed_round(9.9), speed_round(9.9)])
    assert not needs_round([speed_round(10.0, other_share=0.4)] * MOST_ROUNDS), "it ends"


def test_a_graphics_card_minds_other_programs_less() -> None:
    assert not is_quiet(0.4)
    assert is_quiet(0.4, "cuda")
    assert not is_quiet(0.8, "cuda")


def test_a_quiet_result_has_nothing_against_it() -> None:
    assert find_disturbances([QUIET, QUIET], [SAMPLE], RESULT, least_gb_s=19.0, earlier=RESULT) == []


@pytest.mark.parametrize(
    ("rounds", "least", "earlier", "words"),
    [
        ([speed_round(10.0, other_share=0.61)] * 3, None, 0.5, "Other programs used 61 % of the processors."),
        ([speed_round(10.0), speed_round(15.0)], None, 0.5, "10.0 and 15.0 ms a token"),
        (QUIET, 21.0, 0.5, "the device table leads to expect at least 21.0 GB/s"),
        (QUIET, None, 0.9, "It took 1.7 times as long as an earlier quiet run."),
    ],
)
def test_what_speaks_against_a_result_is_a_sentence(
    rounds: list[SpeedRound], least: float | None, earlier: float, words: str
) -> None:
    before = msgspec.structs.replace(RESULT, efficiency=earlier)
    (sentence,) = find_disturbances([rounds], [SAMPLE], RESULT, least_gb_s=least, earlier=before)
    assert words in sentence


def test_the_table_is_asked_for_the_device_and_not_the_probe() -> None:
    description = {"os": "linux", "cpu": "Somebody's processor", "ram_gb": 16, "cores": 8, "ram_bandwidth_gb_s": 40}
    setting = setting_for()
    assert expected_gb_s(machine_from(msgspec.json.encode(description)), setting) is None
    card = {"os": "linux", "ram_gb": 32, "cores": 8, "gpus": [{"name": "NVIDIA GeForce RTX 3090"}]}
    on_card = msgspec.structs.replace(setting, backend="cuda", gpus=1)
    rates = expected_gb_s(machine_from(msgspec.json.encode(card)), on_card)
    assert rates is not None
    assert 800 < rates[0] < 936
    assert 500 < rates[1] < 650
