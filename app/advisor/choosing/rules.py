"""Which engine a machine deserves: the decision guide, kind of machine x need -> engines, best first.

What is wanted and what this build can run are two things: the best installed engine is chosen, and a better one is
named rather than silently missed. Each engine says where it stands; `rank_engines` takes out what cannot run here and
says why.
"""

from collections.abc import Collection, Sequence

import msgspec

from app.advisor.choosing import hardware, wording
from app.advisor.choosing.engine_table import NOWHERE, EngineTable, EngineTraits
from app.advisor.choosing.intents import Workload, build_workload, find_need
from app.advisor.choosing.targets import explain_lack, find_target
from app.core.advice import Intent
from app.core.engines import EngineChoice, EngineInfo
from app.core.machine import Machine
from engines.api.traits import SERVING_NEEDS, EngineTarget, GuideNeed, MachineKind


class RankedEngine(msgspec.Struct, frozen=True, kw_only=True):
    """One engine in the ranking: where it would run, or why it does not; `warnings` are whole sentences."""

    traits: EngineTraits
    target: EngineTarget = NOWHERE
    refused: str = ""
    warnings: tuple[str, ...] = ()
    is_discouraged: bool = False


def rank_engines(
    engines: EngineTable,
    machine: Machine,
    work: Workload,
    *,
    sees: bool = False,
    formats: Collection[str] = (),
) -> list[RankedEngine]:
    """Return the guide's engines for this machine and work, best first, then every engine that is refused, and why.

    `sees` says that the model reads images. Where nothing but weights in `formats` counts, and none of those
    engines reads one of them, those that do come last. There is always at least one engine that is not refused.
    """
    kind, work_need = hardware.machine_kind(machine), find_need(work)
    row = [engine for engine in engines.row(kind, work_need) if _is_of_use(engine, work_need, sees=sees)]
    candidates = [_judge_engine(machine, engine, kind, work_need) for engine in row]
    unlisted_engines = [engine for engine in engines.values() if engine not in row]
    others = [_judge_unlisted(machine, engine) for engine in unlisted_engines]
    usable = sorted(
        (candidate for candidate in candidates if not candidate.refused),
        key=lambda candidate: _demotion_rank(machine, candidate),
    )
    if formats and not any(_reads(candidate.traits, formats) for candidate in usable):
        usable += [
            _judge_engine(machine, engine, kind, work_need)
            for engine, refusal in zip(unlisted_engines, others, strict=True)
            if refusal is None and _reads(engine, formats)
        ]
    refused_engines = [candidate for candidate in (*candidates, *others) if candidate is not None and candidate.refused]
    last_resort = engines.fallback
    return [
        *(usable or [_last_resort(machine, last_resort)]),
        *(candidate for candidate in refused_engines if usable or candidate.traits is not last_resort),
    ]


def guide_row(engines: EngineTable, machine: Machine, work: Workload) -> list[str]:
    """Return the guide's engines for this machine and work, whether they can run here or not."""
    return [engine.id for engine in engines.row(hardware.machine_kind(machine), find_need(work))]


def _reads(engine: EngineTraits, formats: Collection[str]) -> bool:
    return not set(formats).isdisjoint(engine.formats)


def _is_of_use(engine: EngineTraits, need: GuideNeed, *, sees: bool) -> bool:
    return sees or engine.blind_needs is None or need in engine.blind_needs


def _judge_engine(machine: Machine, engine: EngineTraits, kind: MachineKind, work_need: GuideNeed) -> RankedEngine:
    why_not = explain_lack(machine, engine)
    if why_not:
        return RankedEngine(traits=engine, refused=why_not)
    return RankedEngine(
        traits=engine,
        target=find_target(machine, engine),
        warnings=_engine_warnings(engine, kind, work_need),
        is_discouraged=_is_discouraged(engine, kind),
    )


def _judge_unlisted(machine: Machine, engine: EngineTraits) -> RankedEngine | None:
    """Return an engine the guide does not name here: why it cannot run; None when it could and nobody would want it."""
    why_not = explain_lack(machine, engine) or engine.unlisted
    return RankedEngine(traits=engine, refused=why_not) if why_not else None


def _last_resort(machine: Machine, engine: EngineTraits) -> RankedEngine:
    return RankedEngine(
        traits=engine, target=find_target(machine, engine), warnings=tuple(filter(None, [engine.fleet_warning]))
    )


def _engine_warnings(engine: EngineTraits, kind: MachineKind, work_need: GuideNeed) -> tuple[str, ...]:
    texts = []
    if work_need in SERVING_NEEDS:
        texts.append(engine.serving_warning)
    if work_need is GuideNeed.FLEET:
        texts.append(engine.fleet_warning)
    if _is_discouraged(engine, kind):
        texts.append(f"Not recommended here: {engine.limits[0].lower()}{engine.limits[1:]}")
    return tuple(filter(None, texts))


def _is_discouraged(engine: EngineTraits, kind: MachineKind) -> bool:
    return engine.advised_on is not None and kind not in engine.advised_on


def _demotion_rank(machine: Machine, candidate: RankedEngine) -> int:
    """Order what the guide's order does not know: first those obtainable and on the GPU, last those not advised."""
    idles_gpu = bool(hardware.main_gpus(machine)) and not candidate.target.vendors
    return 4 * bool(candidate.traits.missing) + 2 * candidate.is_discouraged + idles_gpu


def choose_engine(table: EngineTable, machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    """Return the best installed engine for one person on this machine, why, and the better one it lacks, if any."""
    usable = [
        candidate for candidate in rank_engines(table, machine, build_workload(Intent.CHAT)) if not candidate.refused
    ]
    best = _best_installed(usable, table, engines)
    if best is None:
        return _nothing_installed(machine, table.fallback, engines)
    better = None if _is_as_good(best.id, usable) else usable[0].traits
    return EngineChoice(
        engine=best.id,
        name=best.name,
        backend=best.backend,
        sentence=wording.choice_sentence(machine, best, because=_choice_cause(machine, best, usable, table)),
        reasons=wording.choice_reasons(machine),
        wanted=better.name if better else "",
        wanted_why=_better_engine_reason(machine, better, engines) if better else "",
    )


def _best_installed(
    usable: Sequence[RankedEngine], table: EngineTable, engines: Sequence[EngineInfo]
) -> EngineInfo | None:
    """Return the ranking's best installed engine, else the one that runs everywhere, else any that loads models."""
    installed_by_id = {engine.id: engine for engine in engines if engine.installed and table.get(engine.id) is not None}
    in_order = (*(candidate.traits.id for candidate in usable), table.fallback.id, *installed_by_id)
    return next((installed_by_id[engine] for engine in in_order if engine in installed_by_id), None)


def _is_as_good(engine_id: str, usable: Sequence[RankedEngine]) -> bool:
    """Whether nothing better is missed: it is first, or stands before the engine that runs everywhere."""
    order = [candidate.traits.id for candidate in usable]
    if engine_id not in order:
        return False
    fallbacks = [place for place, candidate in enumerate(usable) if candidate.traits.runs_everywhere]
    return engine_id == order[0] or engine_id in order[: min(fallbacks, default=len(order))]


def _choice_cause(machine: Machine, engine: EngineInfo, usable: Sequence[RankedEngine], table: EngineTable) -> str:
    traits = table.get(engine.id)
    if traits is not None and not traits.runs_everywhere and _is_as_good(engine.id, usable):
        return f"it is the best for {wording.machine_subject(machine)}: it {traits.strength}"
    if engine.backend != wording.CPU:
        return f"it is the installed engine that can use {wording.gpu_names(machine) or 'the GPU'}"
    if machine.gpus:
        return f"no engine of this version can use {wording.gpu_names(machine)}"
    if hardware.probes_without_answer(machine):
        return "no GPU was found, though not everything could be examined"
    return "this machine has no GPU it can use"


def _better_engine_reason(machine: Machine, better: EngineTraits, engines: Sequence[EngineInfo]) -> str:
    is_known = any(engine.id == better.id for engine in engines)
    lacks = "It is not installed." if is_known else "This version of Roundhouse cannot run it yet."
    return f"For {wording.machine_subject(machine)}, {better.name} would be the best: it {better.strength}. {lacks}"


def _nothing_installed(machine: Machine, fallback: EngineTraits, engines: Sequence[EngineInfo]) -> EngineChoice:
    problem = next((engine.problem for engine in engines if engine.id == fallback.id), "")
    return EngineChoice(
        engine=fallback.id,
        name=fallback.name,
        backend="",
        sentence=f"No engine is installed, so no model can run. {problem}".strip(),
        reasons=wording.choice_reasons(machine),
    )
