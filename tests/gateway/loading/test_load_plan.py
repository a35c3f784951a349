"""The plan is carried out: what the advisor says is what an engine is started with, field by field."""

import json
from functools import cache
from pathlib import Path

import msgspec
import pytest

from app.advisor.memory import placement
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.advisor.plans.selection import PlanPick, Spread
from app.core.advice import Intent, Plan
from app.core.machine import Machine
from app.gateway.loading.load_plan import options_from_plan, plan_setting
from engines import worker_base
from engines.api import EngineInstallation, LaunchOptions, LaunchPlan, ListenOptions, ModelFormat, ModelSource
from engines.registry import ADAPTERS
from tests.depth import sample, trials
from tests.unit.advisor.engines import engines_on
from tests.unit.advisor.made_models import EIGHT, FOURTEEN, GIANT, MIXTURE, SEVENTY, SLIDING, SMALL, THIRTY_TWO, Made
from tests.unit.advisor.test_recipes import linux, mac, make_machine, several, windows

MACHINES = {
    "laptop": linux(cpu="AMD Ryzen 7 7730U", ram_gb=16),
    "Xeon": linux(cpu="Intel Xeon Platinum 8480+", ram_gb=256),
    "RTX 3060": linux("RTX 3060", ram_gb=32),
    "RTX 4090": linux("RTX 4090"),
    "RTX 4090 on Windows": windows("RTX 4090"),
    "2 x RTX 3090": linux(several("RTX 3090", 2), ram_gb=128),
    "RTX 4090 and 3060": linux("RTX 4090", "RTX 3060"),
    "4 x A100": linux(several("A100", 4), ram_gb=512),
    "8 x H100": linux(several("H100", 8), ram_gb=1024),
    "RX 7900 XTX": linux("RX 7900 XTX"),
    "Arc B580": linux("Arc B580"),
    "Strix Halo": linux(cpu="AMD Ryzen AI Max+ 395", ram_gb=128),
    "Mac": mac("Apple M3 Max", 64),
    "small Mac": mac("Apple M2", 8),
}
MODELS = sample((SMALL, EIGHT, FOURTEEN, THIRTY_TWO, SEVENTY, MIXTURE, SLIDING, GIANT), 4)
USES = ((Intent.CHAT, 1), (Intent.CODING, 1), (Intent.TEAM, 8))


def plans_of(machine: Machine, model: Made, intent: Intent, users: int) -> list[Plan]:
    inputs = PlanInputs(
        traits=engines_on(machine),
        machine=machine,
        candidates=model.every(),
        model=model.name,
        intent=intent,
        users=users,
    )
    return [plan for plan in build_advice(inputs).plans if plan.obtainable]


def follow_plan(machine: Machine, model: Made, plan: Plan) -> PlanPick:
    """Return what loading the plan's file with the plan's sizes and KV type is planned as."""
    facts = next(entry for entry in model.every(plan.format) if entry.quantization == plan.quantization)
    table, slots = engines_on(machine), plan.parallelism.slots // plan.parallelism.replicas
    setting = RunSetting(engine=table[plan.engine], backend=plan.backend, context=plan.context, slots=slots)
    pick = plan_setting(facts, machine, setting, kv_type=plan.kv_type, is_fixed=True)
    assert pick is not None
    return pick


def plan_launch(plan: Plan, pick: PlanPick, machine: Machine, *, package: str = "") -> LaunchPlan:
    """Return what the engine would be started with; as a program where it has one, unless a package serves it."""
    kv_type = None if plan.kv_type == "f16" else plan.kv_type
    slots = plan.parallelism.slots // plan.parallelism.replicas
    options = options_from_plan(LaunchOptions(context=plan.context, slots=slots, kv_type=kv_type), pick, machine)
    source = ModelSource(name="m", path=Path("/models/m"), format=ModelFormat(plan.format))
    has_program = plan.backend in {"cuda", "vulkan", "rocm", "sycl"} and not package
    program = Path("/engines/program") if has_program else None
    installation = EngineInstallation(
        engine=plan.engine,
        version="",
        backend=plan.backend,
        python=Path("/engines/python"),
        executable=program,
        package=package,
    )
    net = ListenOptions(host="127.0.0.1", port=1, key="k")
    return ADAPTERS[plan.engine].plan(source, options, net, installation)


def flag_value(argv: str, *flags: str) -> str:
    """Return what a command line says for the first of these flags; empty where it has none of them."""
    words = argv.split("\0")
    return next((words[place + 1] for place, word in enumerate(words) if word in flags), "")


@cache
def cases_on(name: str) -> list[tuple[Made, Intent, Plan]]:
    """Return every plan that can be followed on a machine."""
    machine = make_machine(MACHINES[name])
    return [
        (model, intent, plan)
        for model in MODELS
        for intent, users in USES
        for plan in plans_of(machine, model, intent, users)
    ]


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("name", MACHINES)
def test_loading_a_plan_plans_the_same(name: str) -> None:
    machine = make_machine(MACHINES[name])
    for model, intent, plan in cases_on(name):
        pick, how = follow_plan(machine, model, plan), plan.parallelism
        case = f"{name}, {model.name}, {intent}: {plan.engine} {plan.quantization}"
        assert pick.setting.context == plan.context, case
        assert pick.setting.slots == how.slots // how.replicas, case
        assert pick.setting.kv_type == plan.kv_type, case
        if how.replicas == 1:
            assert (pick.spread.tensor, pick.spread.pipeline) == (how.tensor, how.pipeline), case
        if plan.offload is not None:
            on_gpu = pick.setting.gpu_layers
            assert pick.setting.cpu_moe_layers == plan.offload.cpu_moe_layers, case
            assert on_gpu is None or on_gpu == plan.offload.gpu_layers, case
        check_argv(plan, pick, machine, case)


def check_argv(plan: Plan, pick: PlanPick, machine: Machine, case: str) -> None:
    (process, *_) = plan_launch(plan, pick, machine).processes
    argv = "\0".join(process.argv)
    if plan.engine in {"vllm", "sglang", "lmdeploy"}:
        assert flag_value(argv, "--tensor-parallel-size", "--tp-size", "--tp") in {"", str(pick.spread.tensor)}, case
        assert flag_value(argv, "--max-model-len", "--context-length", "--session-len") == str(plan.context), case
        at_once = "" if pick.setting.slots == 1 else str(pick.setting.slots)
        assert flag_value(argv, "--max-num-seqs", "--max-running-requests", "--max-batch-size") == at_once, case
    if pick.spread.tensor > 1 and plan.engine in {"vllm", "sglang", "lmdeploy"}:
        assert flag_value(argv, "--tensor-parallel-size", "--tp-size", "--tp") == str(pick.spread.tensor), case
    if plan.engine == "llama.cpp" and "/engines/program" in argv:
        slots = pick.setting.slots
        assert flag_value(argv, "--ctx-size") == str(plan.context * slots), case
        assert flag_value(argv, "--gpu-layers") == (
            "" if pick.setting.gpu_layers is None else str(pick.setting.gpu_layers)
        )
        assert flag_value(argv, "--n-cpu-moe") == (
            str(pick.setting.cpu_moe_layers) if pick.setting.cpu_moe_layers else ""
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["RTX 3060", "RTX 4090", "2 x RTX 3090", "RTX 4090 and 3060", "RX 7900 XTX"])
def test_a_native_build_is_told_the_same_as_the_program(name: str) -> None:
    """llama-cpp-python, compiled where the C library is too old for the archives, served by our own worker."""
    machine = make_machine(MACHINES[name])
    plans = [(model, plan) for model, _, plan in cases_on(name) if plan.engine == "llama.cpp"]
    assert plans
    for model, plan in plans:
        pick = follow_plan(machine, model, plan)
        (process,) = plan_launch(plan, pick, machine, package="llama-cpp-python").processes
        config = json.loads(process.env[worker_base.CONFIG_VARIABLE])
        setting = pick.setting
        assert (config["context"], config["slots"]) == (plan.context, setting.slots)
        assert (config["kv_type"] or "f16") == plan.kv_type
        assert config["gpu_layers"] == setting.gpu_layers
        assert (config["cpu_moe_layers"] or 0) == setting.cpu_moe_layers
        assert tuple(config["split_ratio"]) == setting.split


@pytest.mark.slow
def test_hundreds_of_plans_are_compared() -> None:
    assert sum(len(cases_on(name)) for name in MACHINES) >= trials(150, deep=300)


def test_what_is_loaded_beside_a_model_is_planned_with_it() -> None:
    machine, facts = make_machine(linux("RTX 4090")), EIGHT.facts("Q4_K_M")
    alone = RunSetting(engine=engines_on(machine)["llama.cpp"], backend="cuda", context=8192)
    beside = msgspec.structs.replace(alone, draft=SMALL.facts("Q4_K_M"), projector=SMALL.facts("F16"))
    pick = plan_setting(facts, machine, beside, kv_type=None)
    assert pick is not None
    assert (pick.setting.draft, pick.setting.projector) == (beside.draft, beside.projector)
    crowded_machine = make_machine(linux("RTX 3060", ram_gb=32))
    most = [
        plan_setting(facts, crowded_machine, msgspec.structs.replace(setting, context=131_072), kv_type="f16")
        for setting in (alone, beside)
    ]
    assert all(most)
    assert most[0].setting.context > most[1].setting.context or most[0].setting.gpu_layers != most[1].setting.gpu_layers  # type: ignore[union-attr]  # as asserted


def planned_options(machine: Machine, *, is_cut: bool) -> LaunchOptions:
    """Return what ExLlamaV3 is told of a model that takes both cards."""
    setting = RunSetting(engine=engines_on(machine)["exllamav3"], backend="cuda", context=8192, gpus=2)
    spread = Spread(mode="tensor" if is_cut else "pipeline", cards=2)
    return options_from_plan(LaunchOptions(), PlanPick(setting=setting, spread=spread), machine)


def test_exllama_is_told_how_far_each_card_may_be_filled() -> None:
    machine = make_machine(linux("RTX 4090", "RTX 3060"))
    small, large = sorted(((gpu.memory_total.value or 0, gpu) for gpu in machine.gpus), key=lambda pair: pair[0])
    named_gpus = [msgspec.structs.replace(gpu, uuid=f"GPU-{place}") for place, gpu in enumerate(machine.gpus)]
    options = planned_options(msgspec.structs.replace(machine, gpus=named_gpus), is_cut=False)
    uuids = {gpu.name.value: gpu.uuid for gpu in named_gpus}
    assert options.device_ids == (uuids[large[1].name.value], uuids[small[1].name.value]), "the largest first"
    free = [placement.free_on(machine, gpu) for _, gpu in (large, small)]
    assert options.device_bytes == tuple((size or 0) - placement.MARGIN for size in free)
    assert (options.tensor_parallel, options.pipeline_parallel) == (1, 2)
    assert planned_options(msgspec.structs.replace(machine, gpus=named_gpus), is_cut=True).tensor_parallel == 2


def test_exllama_is_left_to_look_where_cards_have_no_names_or_there_is_one() -> None:
    assert planned_options(make_machine(linux("RTX 4090", "RTX 3060")), is_cut=False).device_bytes == ()
    assert planned_options(make_machine(linux("RTX 4090")), is_cut=False).device_ids == ()
