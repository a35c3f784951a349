"""Which engine a machine deserves: the decision guide, kind of machine x need -> engines, best first.

What is wanted and what this build can run are two things: the best installed engine is chosen, and a better one is
named rather than silently missed. Each engine says where it stands; `ranking` takes out what cannot run here and says
why.
"""

from collections.abc import Sequence

import msgspec

from app.advisor.choosing import hardware, wording
from app.advisor.choosing.engine_table import NOWHERE, EngineTable, EngineTraits
from app.advisor.choosing.intents import Workload, need, workload
from app.advisor.choosing.targets import lack, target
from app.core.advice import Intent
from app.core.engines import EngineChoice, EngineInfo
from app.core.machine import Machine
from engines.api.traits import SERVING_NEEDS, EngineTarget, GuideNeed, MachineKind


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One engine in the ranking: where it would run, or why it does not; `warnings` are whole sentences."""

    traits: EngineTraits
    target: EngineTarget = NOWHERE
    refused: str = ""
    warnings: tuple[str, ...] = ()
    is_discouraged: bool = False


def ranking(engines: EngineTable, machine: Machine, work: Workload, *, sees: bool = False) -> list[Ranked]:
    """Return the guide's engines for this machine and work, best first, then every engine that is refused, and why.

    `sees` says that the model reads images. There is always at least one engine that is not refused.
    """
    kind, asked = hardware.machine_kind(machine), need(work)
    row = [engine for engine in engines.row(kind, asked) if _is_of_use(engine, asked, sees=sees)]
    judged = [_judged(machine, engine, kind, asked) for engine in row]
    others = [_unlisted(machine, engine) for engine in engines.values() if engine not in row]
    usable = sorted((one for one in judged if not one.refused), key=lambda one: _demotion(machine, one))
    refused = [one for one in (*judged, *others) if one is not None and one.refused]
    last_resort = engines.fallback
    return [
        *(usable or [_last_resort(machine, last_resort)]),
        *(one for one in refused if usable or one.traits is not last_resort),
    ]


def guide_row(engines: EngineTable, machine: Machine, work: Workload) -> list[str]:
    """Return the guide's engines for this machine and work, whether they can run here or not."""
    return [engine.id for engine in engines.row(hardware.machine_kind(machine), need(work))]


def _is_of_use(engine: EngineTraits, asked: GuideNeed, *, sees: bool) -> bool:
    return sees or engine.blind_needs is None or asked in engine.blind_needs


def _judged(machine: Machine, engine: EngineTraits, kind: MachineKind, asked: GuideNeed) -> Ranked:
    why_not = lack(machine, engine)
    if why_not:
        return Ranked(traits=engine, refused=why_not)
    return Ranked(
        traits=engine,
        target=target(machine, engine),
        warnings=_warnings(engine, kind, asked),
        is_discouraged=_is_discouraged(engine, kind),
    )


def _unlisted(machine: Machine, engine: EngineTraits) -> Ranked | None:
    """Return an engine the guide does not name here: why it cannot run; None when it could and nobody would want it."""
    why_not = lack(machine, engine) or engine.unlisted
    return Ranked(traits=engine, refused=why_not) if why_not else None


def _last_resort(machine: Machine, engine: EngineTraits) -> Ranked:
    return Ranked(traits=engine, target=target(machine, engine), warnings=tuple(filter(None, [engine.fleet_warning])))


def _warnings(engine: EngineTraits, kind: MachineKind, asked: GuideNeed) -> tuple[str, ...]:
    found = []
    if asked in SERVING_NEEDS:
        found.append(engine.serving_warning)
    if asked is GuideNeed.FLEET:
        found.append(engine.fleet_warning)
    if _is_discouraged(engine, kind):
        found.append(f"Not recommended here: {engine.limits[0].lower()}{engine.limits[1:]}")
    return tuple(filter(None, found))


def _is_discouraged(engine: EngineTraits, kind: MachineKind) -> bool:
    return engine.advised_on is not None and kind not in engine.advised_on


def _demotion(machine: Machine, one: Ranked) -> int:
    """Order what the guide's order does not know: first those that use the GPU, last those not advised."""
    idles_gpu = bool(hardware.main_gpus(machine)) and not one.target.vendors
    return 2 * one.is_discouraged + idles_gpu


def choose(known: EngineTable, machine: Machine, engines: Sequence[EngineInfo]) -> EngineChoice:
    """Return the best installed engine for one person on this machine, why, and the better one it lacks, if any."""
    usable = [one for one in ranking(known, machine, workload(Intent.CHAT)) if not one.refused]
    chosen = _best_installed(usable, known.fallback, engines)
    if chosen is None:
        return _nothing_installed(machine, known.fallback, engines)
    wanted = None if _is_as_good(chosen.id, usable) else usable[0].traits
    return EngineChoice(
        engine=chosen.id,
        name=chosen.name,
        backend=chosen.backend,
        sentence=wording.choice_sentence(machine, chosen, because=_because(machine, chosen, usable, known)),
        reasons=wording.reasons(machine),
        wanted=wanted.name if wanted else "",
        wanted_why=_wanted_why(machine, wanted, engines) if wanted else "",
    )


def _best_installed(
    usable: Sequence[Ranked], fallback: EngineTraits, engines: Sequence[EngineInfo]
) -> EngineInfo | None:
    """Return the ranking's best installed engine, else the one that runs everywhere, else whatever there is."""
    installed = {engine.id: engine for engine in engines if engine.installed}
    in_order = (*(one.traits.id for one in usable), fallback.id, *installed)
    return next((installed[engine] for engine in in_order if engine in installed), None)


def _is_as_good(chosen: str, usable: Sequence[Ranked]) -> bool:
    """Whether nothing better is missed: it is first, or stands before the engine that runs everywhere."""
    order = [one.traits.id for one in usable]
    if chosen not in order:
        return False
    fallbacks = [place for place, one in enumerate(usable) if one.traits.runs_everywhere]
    return chosen == order[0] or chosen in order[: min(fallbacks, default=len(order))]


def _because(machine: Machine, chosen: EngineInfo, usable: Sequence[Ranked], known: EngineTable) -> str:
    traits = known.get(chosen.id)
    if traits is not None and not traits.runs_everywhere and _is_as_good(chosen.id, usable):
        return f"it is the best for {wording.subject(machine)}: it {traits.strength}"
    if chosen.backend != wording.CPU:
        return f"it is the installed engine that can use {wording.gpus(machine) or 'the GPU'}"
    if machine.gpus:
        return f"no engine of this version can use {wording.gpus(machine)}"
    if hardware.failed_probes(machine):
        return "no GPU was found, though not everything could be examined"
    return "this machine has no GPU it can use"


def _wanted_why(machine: Machine, wanted: EngineTraits, engines: Sequence[EngineInfo]) -> str:
    is_known = any(engine.id == wanted.id for engine in engines)
    lacks = "It is not installed." if is_known else "This version of Roundhouse cannot run it yet."
    return f"For {wording.subject(machine)}, {wanted.name} would be the best: it {wanted.strength}. {lacks}"


def _nothing_installed(machine: Machine, fallback: EngineTraits, engines: Sequence[EngineInfo]) -> EngineChoice:
    problem = next((engine.problem for engine in engines if engine.id == fallback.id), "")
    return EngineChoice(
        engine=fallback.id,
        name=fallback.name,
        backend="",
        sentence=f"No engine is installed, so no model can run. {problem}".strip(),
        reasons=wording.reasons(machine),
    )
