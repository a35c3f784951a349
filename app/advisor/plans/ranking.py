"""Ranked plans: machine x model x use -> engine, format, quantisation, context, spread; each with reasons and sums.

The guide gives the order of engines; what fits, how fast it is and which files exist can move one engine behind
another, and then the plan says so. Without a model the plans are the guide's own, with a well-known model's figures
where the caller passes some. Pure and quick: nothing is asked, nothing is read.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.advisor.choosing import hardware, wording
from app.advisor.choosing.engine_table import NOWHERE, EngineTable, EngineTraits
from app.advisor.choosing.formats import FORMAT_NAMES, MADE_FROM_ORIGINALS
from app.advisor.choosing.intents import Workload, workload
from app.advisor.choosing.rules import Ranked, guide_row, ranking
from app.advisor.choosing.targets import gpus_for
from app.advisor.plans import wording as plan_wording
from app.advisor.plans.counterfactuals import counterfactuals
from app.advisor.plans.quantisations import loadable, preferred, why_not
from app.advisor.plans.selection import Ask, Fit, Pick, pick, pick_without_model
from app.advisor.plans.trials import Trials
from app.core.advice import Advice, Calibration, Estimate, Intent, Parallelism, Plan
from app.core.engines import EngineInfo, Reason
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from engines.api.traits import MachineKind

ESTIMATED = 2
"""So many of the best plans carry the whole arithmetic: the choice and its runner-up, quick enough to answer live."""
_TIERS = {fit: place for place, fit in enumerate(Fit)}


class PlanInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that advice rests on. `candidates` are the variants of the wanted model that exist or could be had.

    Without a `model` they are well-known models to take the machine's measure with, and the largest that runs well is
    shown. `is_fixed` says that a certain file or folder was given: nothing else of that model is to be had.
    """

    traits: EngineTable
    machine: Machine
    candidates: list[ModelFacts] = []
    model: str = ""
    intent: Intent = Intent.CHAT
    users: int = 1
    context: int | None = None
    loras: int = 0
    kv_type: str | None = None
    engines: list[EngineInfo] = []
    calibrations: list[Calibration] = []
    is_fixed: bool = False


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One engine with what would be run with it; `missing` says which weights nobody has."""

    ranked: Ranked
    ask: Ask
    chosen: Pick
    options: list[ModelFacts] = []
    missing: str = ""
    note: str = ""

    @property
    def engine(self) -> str:
        return self.ranked.traits.id


def advise(inputs: PlanInputs) -> Advice:
    """Return the plans for this machine, model and use, best first and refused ones last. Never empty."""
    work = _work(inputs)
    ranked = ranking(inputs.traits, inputs.machine, work, sees=_sees(inputs.candidates))
    trials = Trials(inputs.machine, inputs.calibrations)
    asks = [(one, _ask(inputs, one, work, trials)) for one in ranked if not one.refused]
    shown = _shown(inputs, asks[0][1])
    drafts = [_draft(inputs, one, ask, shown) for one, ask in asks]
    usable = _ordered(inputs, drafts)
    refused = [*_without_weights(drafts, usable), *(one for one in ranked if one.refused)]
    plans = [_plan(inputs, draft, place=place) for place, draft in enumerate(usable)]
    passed = _passed_over(guide_row(inputs.traits, inputs.machine, work), usable, refused)
    plans[0] = msgspec.structs.replace(plans[0], reasons=[*plans[0].reasons, *passed])
    return Advice(
        plans=[*plans, *(_refusal(inputs, one) for one in refused)],
        intent=inputs.intent,
        users=inputs.users,
        machine=wording.summary(inputs.machine),
        model=inputs.model or (_title(shown[0]) if shown else ""),
    )


def _work(inputs: PlanInputs) -> Workload:
    asked = workload(inputs.intent, users=inputs.users, context=inputs.context, loras=inputs.loras)
    is_moe = bool(inputs.model) and any(layer.experts for facts in inputs.candidates[:1] for layer in facts.layers)
    return msgspec.structs.replace(asked, is_moe=is_moe)


def _sees(candidates: Sequence[ModelFacts]) -> bool:
    return any("vision" in facts.capabilities for facts in candidates[:1])


def _shown(inputs: PlanInputs, first: Ask) -> list[ModelFacts]:
    """Return the variants of the model named; without one, of the largest well-known model that runs well."""
    if inputs.model or not inputs.candidates:
        return inputs.candidates
    groups: dict[tuple[int, int, int], list[ModelFacts]] = {}
    for facts in inputs.candidates:
        key = (len(facts.layers), facts.hidden, round(facts.parameters / 1e8))
        groups.setdefault(key, []).append(facts)
    largest_first = sorted(groups.values(), key=lambda group: -group[0].parameters)
    return next((group for group in largest_first if _runs_well(first, group)), largest_first[-1])


def _runs_well(ask: Ask, group: list[ModelFacts]) -> bool:
    options = loadable(group, ask.engine, ask.gpus)
    if not options:
        return False
    chosen = pick(ask, options)
    rate = ask.trials.of(chosen.facts).rate(chosen.setting) if chosen.facts else None
    return chosen.fit is Fit.WHOLE and chosen.is_known and (rate is None or rate >= ask.work.needs.floor)


def _ask(inputs: PlanInputs, ranked: Ranked, work: Workload, trials: Trials) -> Ask:
    return Ask(
        engine=ranked.traits,
        target=ranked.target,
        gpus=gpus_for(inputs.machine, ranked.traits),
        machine=inputs.machine,
        work=work,
        kv_type=inputs.kv_type,
        trials=trials,
    )


def _draft(inputs: PlanInputs, ranked: Ranked, ask: Ask, shown: list[ModelFacts]) -> _Draft:
    if shown and not inputs.model:
        ask = msgspec.structs.replace(ask, model=_title(shown[0]), is_model_named=False)
    options = loadable(shown, ranked.traits, ask.gpus)
    if options:
        return _Draft(ranked=ranked, ask=ask, options=options, chosen=pick(ask, options))
    draft = _Draft(ranked=ranked, ask=ask, chosen=pick_without_model(ask, trained=_trained(shown)))
    if not shown or not inputs.model:
        return draft
    made = MADE_FROM_ORIGINALS.intersection(ranked.traits.formats)
    if made and not inputs.is_fixed:
        note = f"No version in {FORMAT_NAMES[min(made)]} was found; it is converted from the original weights."
        return msgspec.structs.replace(draft, note=note)
    return msgspec.structs.replace(draft, missing=_missing(inputs.model, ranked.traits, shown, ask))


def _trained(shown: Sequence[ModelFacts]) -> int | None:
    return min((facts.trained_context for facts in shown if facts.trained_context), default=None)


def _missing(model: str, engine: EngineTraits, shown: Sequence[ModelFacts], ask: Ask) -> str:
    lacks = next(
        (why for facts in shown if facts.format in engine.formats and (why := why_not(facts, engine, ask.gpus))), ""
    )
    if lacks:
        return f"{engine.name} would load {model}, but {lacks}."
    wanted = wording.joined([FORMAT_NAMES[name] for name in engine.formats[:3]])
    return f"There is no version of {model} that {engine.name} loads ({wanted}); formats do not cross engines."


def _ordered(inputs: PlanInputs, drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts best first: the guide's order, but what fits well before what does not."""
    with_weights = [draft for draft in drafts if not draft.missing]
    if not with_weights:
        return [*drafts[:1]]
    if not inputs.model:
        return with_weights
    has_gpu = any(draft.ask.gpus for draft in with_weights)
    fits_none = all(draft.chosen.fit is Fit.NONE for draft in with_weights if draft.chosen.facts)
    return sorted(
        with_weights,
        key=lambda draft: (
            draft.ranked.is_discouraged,
            # Weights that are yet to be made fit no better than those that are there.
            _TIERS[Fit.NONE] if draft.note and fits_none else _tier(draft, has_gpu=has_gpu),
            _joins_for_nothing(draft),
        ),
    )


def _tier(draft: _Draft, *, has_gpu: bool) -> int:
    """Return how well it fits. System memory is slow beside a GPU; without one it is all there is, for every engine."""
    fit = draft.chosen.fit
    if draft.ask.gpus or fit is Fit.NONE:
        return _TIERS[fit]
    return _TIERS[Fit.SLOW] if has_gpu else _TIERS[Fit.WHOLE]


def _joins_for_nothing(draft: _Draft) -> bool:
    """Whether an engine is there to join cards of several makers, and one card is enough."""
    is_mixed = hardware.machine_kind(draft.ask.machine) is MachineKind.MIXED and draft.ask.engine.runs_everywhere
    return is_mixed and draft.chosen.facts is not None and draft.chosen.spread.cards == 1


def _without_weights(drafts: Sequence[_Draft], usable: Sequence[_Draft]) -> list[Ranked]:
    lacking = [draft for draft in drafts if draft.missing and draft not in usable]
    return [msgspec.structs.replace(draft.ranked, refused=draft.missing) for draft in lacking]


def _plan(inputs: PlanInputs, draft: _Draft, *, place: int) -> Plan:
    ask, chosen, facts = draft.ask, draft.chosen, draft.chosen.facts
    found = _estimate(ask, chosen) if place < ESTIMATED else None
    preferred_format, preferred_bits = preferred(ask.engine, ask.machine, ask.gpus)
    format_name = facts.format if facts else preferred_format
    return Plan(
        engine=ask.engine.id,
        name=ask.engine.name,
        backend=ask.target.backend,
        format=format_name,
        quantization=facts.quantization if facts else preferred_bits,
        context=chosen.setting.context,
        kv_type=chosen.setting.kv_type,
        parallelism=_parallelism(chosen),
        reasons=plan_wording.reasons(ask, chosen, found, has_choice=len(draft.options) > 1),
        sentence=plan_wording.sentence(ask, chosen, format_name=format_name),
        model=facts.name if facts else inputs.model,
        offload=found.offload if found and ask.gpus else None,
        estimate=found,
        counterfactuals=counterfactuals(ask, chosen, found, draft.options) if found and not place else [],
        warnings=[*draft.ranked.warnings, *_notes(draft), *plan_wording.warnings(ask, chosen, found)],
        is_installed=_is_installed(inputs.engines, ask),
    )


def _notes(draft: _Draft) -> list[str]:
    return [text for text in (draft.missing, draft.note) if text]


def _estimate(ask: Ask, chosen: Pick) -> Estimate | None:
    if chosen.facts is None or not ask.machine.pools:
        return None
    return chosen.found or ask.trials.of(chosen.facts).estimate(chosen.setting)


def _parallelism(chosen: Pick) -> Parallelism:
    spread = chosen.spread
    return Parallelism(
        mode=spread.mode,
        tensor=spread.tensor,
        pipeline=spread.pipeline,
        replicas=spread.replicas,
        slots=chosen.setting.slots * spread.replicas,
    )


def _is_installed(engines: Sequence[EngineInfo], ask: Ask) -> bool:
    """Whether the engine is here and computes where the plan says."""
    return any(
        engine.installed and engine.id == ask.engine.id and engine.backend in {"", ask.target.backend}
        for engine in engines
    )


def _passed_over(row: Sequence[str], usable: Sequence[_Draft], refused: Sequence[Ranked]) -> list[Reason]:
    """Say why engines the guide puts before the first plan's are not first."""
    why: Mapping[str, str] = {
        **{draft.engine: plan_wording.why_behind(draft.chosen) for draft in usable},
        **{one.traits.id: one.refused for one in refused},
    }
    names = {draft.engine: draft.ask.engine.name for draft in usable} | {
        one.traits.id: one.traits.name for one in refused
    }
    before = row[: row.index(usable[0].engine)] if usable[0].engine in row else row
    return [
        Reason(
            text=f"The guide prefers {names[engine]}, but {_inside(why[engine])}.",
            value=engine,
            source=plan_wording.GUIDE,
        )
        for engine in before
        if why.get(engine)
    ]


def _inside(sentence: str) -> str:
    """Return a sentence to go on with: names keep their capitals."""
    lowered = sentence[0].lower() + sentence[1:] if sentence.startswith(("There", "Its", "It ")) else sentence
    return lowered.rstrip(".")


def _refusal(inputs: PlanInputs, one: Ranked) -> Plan:
    gpus = gpus_for(inputs.machine, one.traits)
    format_name, quantization = preferred(one.traits, inputs.machine, gpus)
    return Plan(
        engine=one.traits.id,
        name=one.traits.name,
        backend=next((target.backend for target in one.traits.targets), ""),
        format=format_name,
        quantization=quantization,
        context=0,
        kv_type="f16",
        parallelism=Parallelism(),
        reasons=[Reason(text=one.refused, value=one.traits.id, source=plan_wording.GUIDE)],
        sentence=one.refused,
        model=inputs.model,
        is_installed=any(engine.installed and engine.id == one.traits.id for engine in inputs.engines),
        can_install=one.target is not NOWHERE,
        refused=one.refused,
    )


def _title(facts: ModelFacts) -> str:
    return facts.name.removesuffix(facts.quantization).rstrip(" -_")
