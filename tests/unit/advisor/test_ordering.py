"""When speed moves an engine before those the guide prefers: a clear lead, for one person, at no worse quality."""

from typing import Any

import msgspec
import pytest

from app.advisor.plans.quantisations import comparable_bits
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core.advice import Advice, Calibration, Intent
from app.core.machine import Machine
from app.gateway.advising.advice import forms_of
from app.hub.shapes import shape_facts
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.test_recipes import linux, mac, make_machine, several

MIXTURE = "Gemma 4 26B A4B"


def advice(machine: Machine, model: str, **wishes: Any) -> Advice:  # noqa: ANN401 -- fields of PlanInputs
    candidates = list(forms_of(model))
    return build_advice(
        PlanInputs(traits=engines_on(machine), machine=machine, candidates=candidates, model=model, **wishes)
    )


def first_engine(machine: Machine, model: str, **wishes: Any) -> str:  # noqa: ANN401 -- as above
    return advice(machine, model, **wishes).plans[0].engine


RTX_3090, RTX_4090, RTX_3060 = (make_machine(linux(name)) for name in ("RTX 3090", "RTX 4090", "RTX 3060 12GB"))


def test_the_clearly_faster_engine_stands_first_and_the_plan_says_why() -> None:
    plans = advice(RTX_3090, MIXTURE).plans
    first, second = (plan.estimate.decode for plan in plans[:2] if plan.estimate)
    assert [plan.engine for plan in plans[:2]] == ["llama.cpp", "exllamav3"]
    assert first
    assert second
    assert first.tokens_per_second > 1.32 * second.tokens_per_second, "of both engines' own spreads on Ampere"
    times = f"{first.tokens_per_second / second.tokens_per_second:.1f}"
    reasons = [reason.text for reason in plans[0].reasons]
    why = f"llama.cpp is predicted to write {times} times as fast here, at no worse quality."
    assert f"The guide prefers ExLlamaV3, but {why}" in reasons


def test_a_lead_within_the_uncertainty_changes_nothing() -> None:
    plans = advice(RTX_3060, "Gemma 4 12B").plans
    rates = {
        plan.engine: plan.estimate.decode.tokens_per_second for plan in plans if plan.estimate and plan.estimate.decode
    }
    assert rates["llama.cpp"] > 1.03 * rates["exllamav3"]
    assert plans[0].engine == "exllamav3"


@pytest.mark.parametrize(
    ("machine", "model", "first"),
    [
        pytest.param(RTX_3090, "Qwen3.8 27B", "exllamav3", id="a dense model"),
        pytest.param(make_machine(linux("RTX 4070")), MIXTURE, "llama.cpp", id="which one card does not hold"),
        pytest.param(make_machine(mac("Apple M3 Max", 64)), "Qwen3 8B", "mlx-lm", id="a Mac"),
        pytest.param(
            make_machine(linux(cpu="Intel Xeon Platinum 8480+", ram_gb=256)),
            "Qwen3 8B",
            "openvino",
            id="nothing published",
        ),
        pytest.param(make_machine(linux("Arc B580")), "Qwen3 8B", "openvino", id="nothing published of a card"),
        pytest.param(make_machine(linux(several("RTX 3090", 2))), "Llama 3.3 70B", "exllamav3", id="over two cards"),
    ],
)
def test_otherwise_the_guide_s_order_stays(machine: Machine, model: str, first: str) -> None:
    assert first_engine(machine, model) == first


def test_what_a_person_prefers_stays_first() -> None:
    assert first_engine(RTX_3090, MIXTURE, preferred=["exllamav3"]) == "exllamav3"


@pytest.mark.parametrize(
    ("intent", "first"), [(Intent.TEAM, "vllm"), (Intent.STRUCTURED, "sglang"), (Intent.AGENT, "llama.cpp")]
)
def test_work_that_asks_for_more_than_speed_keeps_the_guide_s_order(intent: Intent, first: str) -> None:
    assert first_engine(RTX_4090, "Qwen3 8B", intent=intent) == first


def calibration(engine: str, efficiency: float) -> Calibration:
    return Calibration(
        device="RTX 3060",
        engine=engine,
        version="1",
        backend="cuda",
        efficiency=efficiency,
        layer_seconds=40e-6,
        bandwidth_gb_s=360,
        measured_at=1.0,
    )


def test_what_this_machine_showed_of_both_engines_narrows_the_uncertainty() -> None:
    both = [calibration("llama.cpp", 0.95), calibration("exllamav3", 0.6)]
    assert first_engine(RTX_3060, "Gemma 4 12B", calibrations=both) == "llama.cpp"
    alike = [calibration("llama.cpp", 0.9), calibration("exllamav3", 0.9)]
    assert first_engine(RTX_3060, "Gemma 4 12B", calibrations=alike) == "exllamav3"


def test_a_calibration_of_one_engine_leaves_the_whole_interval_of_the_other() -> None:
    (alone,) = [calibration("llama.cpp", 0.95)]
    assert first_engine(RTX_3060, "Gemma 4 12B", calibrations=[alone]) == "exllamav3"


def test_i_quants_count_for_less_than_others_of_their_bits() -> None:
    bits = {
        name: comparable_bits(shape_facts("Qwen3 8B", name, format="gguf"))
        for name in ("Q4_K_M", "IQ4_XS", "Q3_K_M", "IQ3_M", "Q2_K")
    }
    assert list(bits) == sorted(bits, key=lambda name: -bits[name])
    assert comparable_bits(shape_facts("Qwen3 8B", "4.0bpw", format="exl3")) == bits["Q4_K_M"]


def test_a_plan_rests_on_no_calibration_that_was_disturbed() -> None:
    disturbed_calibration = msgspec.structs.replace(
        calibration("llama.cpp", 0.2), disturbances=["Other programs used 83 %."]
    )
    rates = [
        next(
            plan.estimate
            for plan in advice(RTX_3060, "Gemma 4 12B", calibrations=known_calibrations).plans
            if plan.estimate
        ).decode
        for known_calibrations in ([], [disturbed_calibration])
    ]
    assert rates[0] == rates[1]
