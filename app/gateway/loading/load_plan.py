"""What a model is loaded with: the advisor's plan for this engine and file, as far as a person has not said otherwise.

The plan gives way in the advisor's order: an 8-bit KV cache, less context, a part in system memory. What was asked for,
or set for the model, stays as it is and the rest is planned around it. The same plan is what `roundhouse plan`, the
Machine page and the engine's command line say.
"""

import msgspec

from app.advisor.choosing.engine_table import NOWHERE
from app.advisor.choosing.intents import build_workload
from app.advisor.choosing.targets import find_target, gpus_for
from app.advisor.memory import placement
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.selection import EngineQuery, FitQuality, PlanPick, pick_best
from app.advisor.plans.trials import SettingTrials
from app.core.advice import Intent
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from engines.api import LaunchOptions
from engines.api.traits import EngineAbility


def plan_setting(
    facts: ModelFacts, machine: Machine, setting: RunSetting, *, kv_type: str | None, is_fixed: bool = False
) -> PlanPick | None:
    """Return how to run a model like `setting` with what is free; None if it cannot be had like that.

    `kv_type` is None where the advisor may choose. `setting` has the engine as it can be had on the machine, what a
    person set, and the context and slots to reach; less of either is planned only where they are not fixed.
    """
    engine = setting.engine
    target = find_target(machine, engine)
    if target is NOWHERE:
        return None
    work = build_workload(Intent.CHAT, context=setting.context, slots=setting.slots)
    query = EngineQuery(
        engine=engine,
        target=target,
        gpus=gpus_for(machine, engine),
        machine=machine,
        work=msgspec.structs.replace(work, is_fixed=is_fixed),
        kv_type=kv_type,
        trials=SettingTrials(machine),
        template=setting,
    )
    pick = pick_best(query, [facts])
    if pick.fit is FitQuality.NONE or not pick.is_known or (is_fixed and _is_smaller(pick.setting, setting)):
        return None
    return pick


def _is_smaller(planned_setting: RunSetting, target: RunSetting) -> bool:
    return planned_setting.context < target.context or planned_setting.slots < target.slots


def options_from_plan(options: LaunchOptions, pick: PlanPick, machine: Machine) -> LaunchOptions:
    """Return the options with what is planned, in the terms in which this engine is told; what was set stays."""
    setting = pick.setting
    planned_options = {"context": setting.context, "slots": setting.slots, **_spread_options(pick, machine)}
    if options.kv_type is None and setting.kv_type != "f16":
        planned_options["kv_type"] = setting.kv_type
    if options.gpu_layers is None and options.cpu_moe_layers is None:
        planned_options |= {"gpu_layers": setting.gpu_layers, "cpu_moe_layers": setting.cpu_moe_layers or None}
    return msgspec.structs.replace(options, **planned_options)


def _spread_options(pick: PlanPick, machine: Machine) -> dict[str, object]:
    """Return how the model lies on several cards. Most engines in one process deal out layers by themselves."""
    engine = pick.setting.engine
    if engine.is_ggml:
        return {"split_ratio": pick.setting.split}
    parallel: dict[str, object] = {"tensor_parallel": pick.spread.tensor, "pipeline_parallel": pick.spread.pipeline}
    if EngineAbility.BUDGETS in engine.abilities:
        return _card_budgets(pick, machine) | parallel
    return parallel if EngineAbility.RESERVES in engine.abilities else {}


def _card_budgets(pick: PlanPick, machine: Machine) -> dict[str, object]:
    """Return the cards of the plan, by UUID and in its order, and what it found free on each without the margin.

    Nothing where there is only one card, or where it is not known which is which or what is free there.
    """
    gpus = placement.gpus_for(machine, pick.setting.backend)
    used_gpus = gpus[: pick.spread.cards]
    free = [placement.free_on(machine, gpu) for gpu in used_gpus]
    if len(gpus) < 2 or not all(gpu.uuid for gpu in used_gpus) or None in free:  # noqa: PLR2004 -- one is no choice
        return {}
    room = tuple(max(0, size - placement.MARGIN) for size in free if size is not None)
    return {"device_ids": tuple(gpu.uuid for gpu in used_gpus), "device_bytes": room}
