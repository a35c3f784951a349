"""The machine page's values: pools as they are drawn, facts, plans and loads in words. No window."""

import msgspec
import pytest

from app.core.advice import (
    Calibration,
    Counterfactual,
    Estimate,
    EstimateAccuracy,
    EstimateConfidence,
    Intent,
    Plan,
    PlanRequest,
    PoolUse,
    Rate,
)
from app.core.engines import EngineStatus, Reason
from app.core.machine import Confidence, EngineDevice, Fact, Machine
from app.gui.screens.machine.facts import fact_rows, fact_source, fact_text
from app.gui.screens.machine.loads import Lane, load_row
from app.gui.screens.machine.pools import PoolDrawing, notes_on, pool_drawings
from app.gui.screens.machine.what_if import PlanForm, apply_counterfactual, context_options
from app.gui.screens.machine.wording import (
    component_shares,
    fit_words,
    plan_availability,
    plan_costs,
    plan_tags,
    plan_title,
    pool_shares,
    rate_interval,
    reason_figure,
    warnings_of,
)
from tests.demo import advice, data, machines
from tests.demo.machines import GIB, LAPTOP, WORKSTATION, make_fact

ON_GPU = msgspec.structs.replace(data.READY, backend="cuda", memory_bytes=GIB)


def replace_facts(machine: Machine, **more: object) -> Machine:
    return msgspec.structs.replace(machine, **more)


def laptop_pool(*statuses: EngineStatus, machine: Machine = LAPTOP) -> PoolDrawing:
    (pool,) = pool_drawings(machine, statuses)
    return pool


def test_a_shared_pool_is_one_bar_whoever_uses_it() -> None:
    pool = laptop_pool(data.READY, ON_GPU)
    assert pool.ours == data.READY.memory_bytes + GIB if data.READY.memory_bytes else 0
    assert pool.others + (pool.ours or 0) + pool.free == pool.total == 64 * GIB
    assert pool.free == int(38.4 * GIB)
    assert pool.addressable == int(34.3 * GIB)
    assert "one pool" in pool.detail


def test_three_figures_are_named_with_their_source() -> None:
    figures = laptop_pool().figures
    assert [(cell.label, cell.text) for cell in figures] == [
        ("total", "64.0 GiB"),
        ("graphics may use", "34.3 GiB"),
        ("free now", "38.4 GiB"),
    ]
    assert all("measured just now" in cell.tip for cell in figures)


def test_our_share_is_never_more_than_what_is_used() -> None:
    pool = laptop_pool(msgspec.structs.replace(data.READY, memory_bytes=200 * GIB))
    assert pool.others == 0
    assert (pool.ours or 0) + pool.free == pool.total


def test_a_driver_that_says_more_is_free_than_there_is_is_not_believed() -> None:
    wrong = msgspec.structs.replace(LAPTOP.pools[0], free=machines.gib_fact(70, "sysfs"))
    pool = laptop_pool(machine=replace_facts(LAPTOP, pools=[wrong]))
    assert (pool.used, pool.free) == (0, pool.total)


def test_what_is_free_may_be_unknown() -> None:
    unknown = msgspec.structs.replace(LAPTOP.pools[0], free=Fact(unit="B", source="x", note="no permission"))
    pool = laptop_pool(machine=replace_facts(LAPTOP, pools=[unknown]))
    assert pool.figures[2].text == "unknown"
    assert (pool.used, pool.others) == (None, 0)


def test_each_card_is_a_pool_with_its_device() -> None:
    system, first, second = pool_drawings(WORKSTATION, [data.READY])
    assert [device.name for device in system.devices] == ["AMD Ryzen Threadripper PRO 5975WX"]
    assert [device.name for device in first.devices] == ["NVIDIA GeForce RTX 3090"]
    assert [cell.text for cell in first.devices[0].cells] == ["936 GB/s", "71 TFLOPS", "8.6"]
    assert "drives the display" in first.devices[0].detail
    assert "drives the display" not in second.devices[0].detail
    assert system.addressable is None, "a bracket is drawn where graphics can reach less than there is"
    assert system.figures[1].label == "engines may use"


def test_what_one_of_several_cards_holds_of_ours_is_not_guessed() -> None:
    _, first, second = pool_drawings(WORKSTATION, [ON_GPU])
    assert first.ours is None
    assert second.ours is None
    assert first.others == int(24 * GIB) - int(21.9 * GIB)


def test_cores_that_may_not_be_used_are_told() -> None:
    processor = pool_drawings(WORKSTATION, [])[0].devices[0]
    assert (processor.cores, processor.usable_cores) == (32, 24.0)
    assert ("cores", "24 of 32") in [(cell.label, cell.text) for cell in processor.cells]


def test_unknown_figures_of_a_device_leave_no_cell() -> None:
    bare = msgspec.structs.replace(LAPTOP.gpus[0], fp16_tflops=Fact(unit="TFLOPS"), compute=make_fact("", "x"))
    device = laptop_pool(machine=replace_facts(LAPTOP, gpus=[bare])).devices[1]
    assert [cell.label for cell in device.cells] == ["memory speed"]


def test_how_an_engine_sees_a_device_is_told_where_it_differs() -> None:
    device = laptop_pool().devices[1]
    assert device.engine_views == [f"llama.cpp: {LAPTOP.engine_devices[1].difference}"]
    assert laptop_pool().devices[0].engine_views == []


def test_limits_and_devices_only_an_engine_sees_are_sentences() -> None:
    lone = EngineDevice(engine="llama.cpp", name="Vulkan1", difference="sees a second device that no probe found.")
    machine = replace_facts(WORKSTATION, engine_devices=[lone])
    assert notes_on(machine) == [
        "A control group limits this process to 96.0 GiB of memory.",
        "A quota limits this process to 24 of 32 cores.",
        "llama.cpp: sees a second device that no probe found.",
    ]
    assert notes_on(LAPTOP) == []


def test_an_unknown_fact_says_why() -> None:
    unknown: Fact[int] = Fact(unit="B", source="cgroup", note="No limit.")
    assert fact_text(unknown) == "No limit."
    assert fact_source(unknown) == "cgroup: unknown."
    assert fact_text(Fact()) == "Unknown"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (make_fact(8 * GIB, "x", unit="B"), "8.0 GiB"),
        (make_fact(["avx2", "fma"], "x"), "avx2 fma"),
        (make_fact(7.5, "x"), "7.5"),
        (make_fact("container", "x"), "a container"),
        (make_fact(value=True, source="x"), "yes"),
    ],
)
def test_facts_in_words(value: Fact[object], text: str) -> None:
    assert fact_text(value) == text


def test_a_fact_says_where_it_comes_from_and_how_sure_it_is() -> None:
    rounded_fact = Fact(value=1, source="table", confidence=Confidence.TABLE, note="Rounded.")
    assert fact_source(rounded_fact) == "table: looked up by product name. Rounded."
    assert all(row.tip for row in fact_rows(LAPTOP))


@pytest.fixture
def plan() -> Plan:
    return advice.answer_plan(PlanRequest(model="m")).plans[0]


def test_a_plan_is_told_in_tags(plan: Plan) -> None:
    assert plan_title(plan) == "llama.cpp · processor"
    assert plan_tags(plan) == ["GGUF Q4_K_M", "8k context", "KV f16", "4 at once"]
    split = advice.workstation_advice(PlanRequest()).plans[0]
    assert plan_tags(split)[3:] == ["in 2 stages", "80 of 80 layers on graphics"]


def test_what_the_runner_up_would_cost(plan: Plan) -> None:
    second = advice.answer_plan(PlanRequest(model="m")).plans[1]
    assert plan_costs(plan, second) == [
        "answers at 12 tok/s instead of 11 tok/s",
        "reading at 142 tok/s instead of 64 tok/s",
        "not installed yet",
    ]
    assert plan_costs(plan, plan) == []
    bare = msgspec.structs.replace(plan, estimate=None, context=4096, can_install=False, is_installed=False)
    assert plan_costs(plan, bare) == ["4k instead of 8k context", "not available for this system"]


def test_whether_a_plan_can_be_followed_now(plan: Plan) -> None:
    assert plan_availability(plan) == ""
    assert plan_availability(msgspec.structs.replace(plan, is_installed=False)) == "not installed"
    assert plan_availability(msgspec.structs.replace(plan, is_installed=False, can_install=False)).startswith(
        "not available"
    )


@pytest.mark.parametrize(
    ("text", "value", "expected_figure"),
    [
        ("The processor is AMD EPYC.", "AMD EPYC", ""),
        ("Its widest vector instructions are AVX-512.", "avx-512", ""),
        ("No GPU was found.", "0", ""),
        ("Its memory is one pool.", "410 GB/s", "410 GB/s"),
    ],
)
def test_a_value_that_its_sentence_says_is_not_said_twice(text: str, value: str, expected_figure: str) -> None:
    assert reason_figure(Reason(text=text, value=value, source="")) == expected_figure


def test_an_interval_says_how_sure_it_is() -> None:
    rate = Rate(tokens_per_second=9.0, low=8.1, high=11.2, confidence=EstimateConfidence.MEASURED)
    assert rate_interval(rate) == "8.1 to 11, measured"


def test_the_components_of_an_estimate_add_up() -> None:
    sums = advice.make_estimate()
    assert sum(share.bytes for share in component_shares(sums)) == sums.total.bytes
    assert [share.key for share in component_shares(sums)] == ["weights", "kv", "compute", "output", "runtime"]
    assert pool_shares(sums, sums.pools[0]) == component_shares(sums)


def test_each_of_several_pools_is_drawn_with_its_own_parts() -> None:
    split: Estimate = advice.workstation_advice(PlanRequest()).plans[0].estimate or advice.make_estimate()
    first = split.pools[0]
    assert sum(share.bytes for share in pool_shares(split, first)) == first.bytes
    without_parts = msgspec.structs.replace(first, parts={})
    assert [(share.key, share.bytes) for share in pool_shares(split, without_parts)] == [("total", first.bytes)]


@pytest.mark.parametrize(
    ("free", "margin", "text"),
    [
        (8 * GIB, 0, "6.0 GiB of 8.0 GiB free"),
        (6 * GIB, GIB, "6.0 GiB, but only 5.0 GiB may be used"),
        (None, GIB, "6.0 GiB; free memory unknown"),
    ],
)
def test_how_a_pool_is_filled(free: int | None, margin: int, text: str) -> None:
    assert fit_words(PoolUse(name="Memory", bytes=6 * GIB, free=free, margin=margin)) == text


def test_warnings_are_said_once(plan: Plan) -> None:
    warned_plan = msgspec.structs.replace(plan, warnings=["a", "b"])
    noted_estimate = msgspec.structs.replace(advice.make_estimate(), notes=["b", "c"])
    assert warnings_of(warned_plan, noted_estimate, is_best=False) == ["a", "b", "c"]
    assert warnings_of(warned_plan, noted_estimate, is_best=True) == ["c"], "the best plan's own stand with its reasons"
    assert warnings_of(None, noted_estimate, is_best=False) == ["b", "c"]


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"kv_type": "q8_0"}, "kv_type", "q8_0"),
        ({"context": 98304}, "context", 98304),
        ({"users": 8, "intent": "team"}, "intent", Intent.TEAM),
    ],
)
def test_a_counterfactual_changes_the_wishes(change: dict[str, str | int], field: str, value: object) -> None:
    changed_form = apply_counterfactual(PlanForm(model="m"), change)
    assert changed_form is not None
    assert getattr(changed_form, field) == value
    assert changed_form.model == "m"


@pytest.mark.parametrize("change", [{"quantization": "Q5_K_M"}, {"context": "much"}, {"users": 1}])
def test_a_change_that_no_control_can_make_is_left_alone(change: dict[str, str | int]) -> None:
    assert apply_counterfactual(PlanForm(), change) is None


@pytest.mark.parametrize("model", ["Qwen3 8B", "Qwen3 8B-Q4_K_M", "Qwen3 8B q4_k_m"])
def test_another_quantisation_of_a_named_model_can_be_asked_for(model: str) -> None:
    changed_form = apply_counterfactual(PlanForm(model=model), {"quantization": "Q5_K_M"}, quantization="Q4_K_M")
    assert changed_form == PlanForm(model="Qwen3 8B-Q5_K_M")


def test_wishes_become_a_question() -> None:
    wishes = PlanForm(model="m", intent=Intent.CODING, users=3, context=65536, kv_type="q8_0")
    assert wishes.make_request() == PlanRequest(model="m", intent=Intent.CODING, users=3, context=65536, kv_type="q8_0")


def test_the_present_and_the_largest_context_can_be_chosen() -> None:
    options = dict(context_options(6000, 40960))
    assert options[""] == "Automatic"
    assert options["6000"] == "6k"
    assert options["40960"] == "40k (most that fits)"
    assert list(options)[1:] == sorted(list(options)[1:], key=int)


def test_a_load_is_compared_lane_by_lane() -> None:
    row = load_row(advice.LOADS[0])
    assert [lane.name for lane in row.lanes] == [
        "Weights",
        "KV cache",
        "Compute",
        "Output",
        "Together",
        "Whole process",
    ]
    assert row.lanes[1].error_words == "exact"
    assert row.lanes[2].error_words == "-2.3 %"
    assert row.scale == row.lanes[-1].measured == advice.LOADS[0].resident


def test_what_an_engine_does_not_log_is_not_held_against_what_it_logs() -> None:
    truth = EstimateAccuracy(
        model="m",
        engine="e",
        version="",
        predicted={"weights": 100, "runtime": 50, "total": 150},
        logged={"weights": 100, "total": 100},
        resident=150,
    )
    row = load_row(truth)
    assert row.together is not None
    assert row.together.error_words == "exact"
    assert row.lanes[-1].error_words == "exact"


def test_a_load_nothing_is_known_of_has_no_lanes() -> None:
    row = load_row(EstimateAccuracy(model="m", engine="e", version="", predicted={"total": 9}, logged={}, resident=9))
    assert (row.lanes, row.together, row.scale) == ([], None, 0)


def test_an_error_too_small_to_say_is_called_so() -> None:
    assert Lane("x", 1_000_000, 1_000_100).error_words == "under 0.1 %"


@pytest.mark.parametrize(
    ("predicted_bytes", "measured_bytes", "color"),
    [(100, 100, "ok"), (101, 100, "ok"), (96, 100, "warn"), (120, 100, "bad")],
)
def test_how_close_a_prediction_came(predicted_bytes: int, measured_bytes: int, color: str) -> None:
    assert Lane("x", predicted_bytes, measured_bytes).color == color


def test_something_predicted_and_not_there_is_said() -> None:
    assert Lane("x", 10, 0).error_words == "nothing measured"
    assert Lane("x", 10, 0).color == "bad"


def test_the_demo_says_nothing_that_this_build_cannot_do() -> None:
    best = advice.answer_plan(PlanRequest()).plans[0]
    assert (best.backend, best.is_installed) == ("cpu", True)
    assert {engine.backend for engine in data.ENGINES} == {data.READY.backend} == {"cpu"}


def test_counterfactuals_and_calibrations_of_the_demo_are_sound() -> None:
    changes: list[Counterfactual] = advice.answer_plan(PlanRequest()).plans[0].counterfactuals
    assert any(apply_counterfactual(PlanForm(), change.change) for change in changes)
    calibration: Calibration = advice.CALIBRATIONS[0]
    assert 0 < calibration.efficiency < 1
