"""Ranked plans: machine x model x use -> engine, format, quantisation, context, spread; each with reasons and sums.

The guide gives the order of engines; what fits, how fast it is and which files exist can move one engine behind
another, and then the plan says so. Without a model the plans are the guide's own, with a well-known model's figures
where the caller passes some. Pure and quick: nothing is asked, nothing is read.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.advisor.choosing import wording
from app.advisor.choosing.engine_table import NOWHERE, EngineTable, EngineTraits
from app.advisor.choosing.formats import FORMAT_NAMES, MADE_FROM_ORIGINALS
from app.advisor.choosing.intents import Workload, build_workload
from app.advisor.choosing.rules import RankedEngine, guide_row, rank_engines
from app.advisor.choosing.targets import gpus_for
from app.advisor.memory.setting import RunSetting
from app.advisor.plans import wording as plan_wording
from app.advisor.plans.counterfactuals import find_counterfactuals
from app.advisor.plans.drafting import judge_head, pick_with_head
from app.advisor.plans.ordering import PlanDraft, find_lead, order_drafts
from app.advisor.plans.quantisations import choose_format, loadable_files, why_not
from app.advisor.plans.selection import EngineQuery, FitQuality, PlanPick, pick_best, pick_without_model
from app.advisor.plans.service import plan_service
from app.advisor.plans.trials import SettingTrials
from app.core.advice import Advice, Calibration, Estimate, Intent, Parallelism, Plan
from app.core.engines import EngineInfo, Reason
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.core.models import OWN_HEAD
from engines.api.traits import EngineAbility

ESTIMATED = 3
"""So many of the best plans carry the whole arithmetic: the choice and the next two, quick enough to answer live."""


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
    is_context_set: bool = False
    """Whether `context` is what the settings say; else it was asked for."""
    slots: int = 1
    """Requests that one copy of the model is to answer at once."""
    preferred: Sequence[str] = ()
    """Engines that a person prefers for this model, or for all."""
    drafts: Mapping[str, str] = {}
    """What was set or tried to draft for the model on which engine, as `Plan.draft`; on others its head may."""
    with_changes: bool = True
    """Whether the first plan also says what a change would bring, which takes as long as the plan."""
    templates: Mapping[str, RunSetting] = {}
    """What is loaded beside the model on which engine; the rest of the setting is planned."""


def build_advice(inputs: PlanInputs) -> Advice:
    """Return the plans for this machine, model and use, best first and refused ones last. Never empty."""
    work = _build_workload(inputs)
    ranked_engines = rank_engines(
        inputs.traits,
        inputs.machine,
        work,
        sees=_needs_vision(inputs.candidates),
        formats={facts.format for facts in inputs.candidates} if inputs.is_fixed else (),
    )
    trials = SettingTrials(inputs.machine, inputs.calibrations)
    queries = [
        (candidate, _build_query(inputs, candidate, work, trials))
        for candidate in ranked_engines
        if not candidate.refused
    ]
    candidates = _candidates_to_show(inputs, queries[0][1])
    drafts = [_draft_plan(inputs, candidate, ask, candidates) for candidate, ask in queries]
    usable = order_drafts(drafts, preferred_engines=inputs.preferred, is_named=bool(inputs.model))
    refused_engines = [
        *_without_weights(drafts, usable),
        *(candidate for candidate in ranked_engines if candidate.refused),
    ]
    plans = [_build_plan(inputs, draft, place=place) for place, draft in enumerate(usable)]
    row = guide_row(inputs.traits, inputs.machine, work)
    reasons_by_engine = _reasons_not_first(row, usable, refused_engines)
    plans[0] = msgspec.structs.replace(
        plans[0], reasons=[*_preference(inputs, plans[0]), *plans[0].reasons, *reasons_by_engine]
    )
    preferred_engines = row[: row.index(usable[0].engine)] if usable[0].engine in row else row
    plans += [_build_refusal(inputs, candidate) for candidate in refused_engines]
    return Advice(
        plans=[plans[0], *(_mark_preferred(plan, preferred_engines) for plan in plans[1:])],
        intent=inputs.intent,
        users=inputs.users,
        machine=wording.machine_summary(inputs.machine),
        model=inputs.model or (_model_title(candidates[0]) if candidates else ""),
        service=plan_service(work, plans[0], balances=EngineAbility.BALANCES in usable[0].ask.engine.abilities),
    )


def _build_workload(inputs: PlanInputs) -> Workload:
    work = build_workload(
        inputs.intent, users=inputs.users, context=inputs.context, loras=inputs.loras, slots=inputs.slots
    )
    is_moe = bool(inputs.model) and any(layer.experts for facts in inputs.candidates[:1] for layer in facts.layers)
    return msgspec.structs.replace(work, is_moe=is_moe, is_context_set=inputs.is_context_set)


def _needs_vision(candidates: Sequence[ModelFacts]) -> bool:
    return any("vision" in facts.capabilities for facts in candidates[:1])


def _candidates_to_show(inputs: PlanInputs, first: EngineQuery) -> list[ModelFacts]:
    """Return the variants of the model named; without one, of the largest well-known model that runs well."""
    if inputs.model or not inputs.candidates:
        return inputs.candidates
    groups: dict[tuple[int, int, int], list[ModelFacts]] = {}
    for facts in inputs.candidates:
        key = (len(facts.layers), facts.hidden, round(facts.parameters / 1e8))
        groups.setdefault(key, []).append(facts)
    largest_first = sorted(groups.values(), key=lambda group: -group[0].parameters)
    return next((group for group in largest_first if _runs_well(first, group)), largest_first[-1])


def _runs_well(ask: EngineQuery, group: list[ModelFacts]) -> bool:
    options = loadable_files(group, ask.engine, ask.gpus)
    if not options:
        return False
    best_pick = pick_best(ask, options)
    rate = ask.trials.trial_of(best_pick.facts).tokens_per_second(best_pick.setting) if best_pick.facts else None
    return best_pick.fit is FitQuality.WHOLE and best_pick.is_known and (rate is None or rate >= ask.work.needs.floor)


def _build_query(inputs: PlanInputs, ranked_engine: RankedEngine, work: Workload, trials: SettingTrials) -> EngineQuery:
    return EngineQuery(
        engine=ranked_engine.traits,
        target=ranked_engine.target,
        gpus=gpus_for(inputs.machine, ranked_engine.traits),
        machine=inputs.machine,
        work=work,
        kv_type=inputs.kv_type,
        trials=trials,
        template=inputs.templates.get(ranked_engine.traits.id),
    )


def _draft_plan(
    inputs: PlanInputs, ranked_engine: RankedEngine, ask: EngineQuery, candidates: list[ModelFacts]
) -> PlanDraft:
    if candidates and not inputs.model:
        ask = msgspec.structs.replace(ask, model=_model_title(candidates[0]), is_model_named=False)
    options = loadable_files(candidates, ranked_engine.traits, ask.gpus)
    if options:
        best_pick = pick_with_head(ask, options, is_decided=ask.engine.id in inputs.drafts)
        return PlanDraft(ranked=ranked_engine, ask=ask, options=options, chosen=best_pick)
    draft = PlanDraft(
        ranked=ranked_engine, ask=ask, chosen=pick_without_model(ask, trained_context=_training_limit(candidates))
    )
    if not candidates or not inputs.model:
        return draft
    made_formats = MADE_FROM_ORIGINALS.intersection(ranked_engine.traits.formats)
    if made_formats and not inputs.is_fixed:
        note = f"No version in {FORMAT_NAMES[min(made_formats)]} was found; it is converted from the original weights."
        return msgspec.structs.replace(draft, to_convert=note)
    return msgspec.structs.replace(
        draft, no_weights=_weights_problem(inputs.model, ranked_engine.traits, candidates, ask)
    )


def _training_limit(candidates: Sequence[ModelFacts]) -> int | None:
    return min((facts.trained_context for facts in candidates if facts.trained_context), default=None)


def _weights_problem(model: str, engine: EngineTraits, candidates: Sequence[ModelFacts], ask: EngineQuery) -> str:
    lacks = next(
        (why for facts in candidates if facts.format in engine.formats and (why := why_not(facts, engine, ask.gpus))),
        "",
    )
    if lacks:
        return f"{engine.name} would load {model}, but {lacks}."
    formats = wording.join_words([FORMAT_NAMES[name] for name in engine.formats[:3]])
    return f"No version of {model} is known that {engine.name} loads ({formats}); formats do not cross engines."


def _without_weights(drafts: Sequence[PlanDraft], usable: Sequence[PlanDraft]) -> list[RankedEngine]:
    without_weights = [draft for draft in drafts if draft.no_weights and draft not in usable]
    return [msgspec.structs.replace(draft.ranked, refused=draft.no_weights) for draft in without_weights]


def _build_plan(inputs: PlanInputs, draft: PlanDraft, *, place: int) -> Plan:
    ask, pick, facts = draft.ask, draft.chosen, draft.chosen.facts
    pick_estimate = _estimate_pick(ask, pick) if place < ESTIMATED else None
    preferred_format, preferred_bits = choose_format(ask.engine, ask.machine, ask.gpus)
    format_name, obstacles = facts.format if facts else preferred_format, draft.obstacles
    return Plan(
        obtainable=not obstacles,
        missing=obstacles,
        steps=list(draft.ranked.traits.steps),
        engine=ask.engine.id,
        name=ask.engine.name,
        backend=ask.target.backend,
        format=format_name,
        quantization=facts.quantization if facts else preferred_bits,
        context=pick.setting.context,
        kv_type=pick.setting.kv_type,
        parallelism=_parallelism_of(pick),
        reasons=[
            *plan_wording.plan_reasons(ask, pick, pick_estimate, has_choice=len(draft.options) > 1),
            *_head_reasons(inputs, pick),
        ],
        sentence=plan_wording.plan_sentence(ask, pick, format_name=format_name),
        model=facts.name if facts else inputs.model,
        offload=pick_estimate.offload if pick_estimate and ask.gpus else None,
        estimate=pick_estimate,
        counterfactuals=find_counterfactuals(ask, pick, pick_estimate, draft.options)
        if pick_estimate and not place and inputs.with_changes
        else [],
        warnings=[
            *draft.ranked.warnings,
            *plan_wording.plan_warnings(ask, pick, pick_estimate),
        ],
        draft=inputs.drafts.get(ask.engine.id, OWN_HEAD if pick.setting.has_own_draft else ""),
        is_installed=_is_installed(inputs.engines, ask),
    )


def _head_reasons(inputs: PlanInputs, pick: PlanPick) -> list[Reason]:
    """Say whether the model's own head drafts, and why; what is set or was tried says it elsewhere."""
    engine = pick.setting.engine.id
    verdict = judge_head(pick.facts, pick.setting) if pick.facts and engine not in inputs.drafts else None
    return [Reason(text=verdict.reason, value=OWN_HEAD, source="published speeds")] if verdict else []


def _estimate_pick(ask: EngineQuery, pick: PlanPick) -> Estimate | None:
    if pick.facts is None or not ask.machine.pools:
        return None
    return pick.estimate or ask.trials.trial_of(pick.facts).full_estimate(pick.setting)


def _parallelism_of(pick: PlanPick) -> Parallelism:
    spread = pick.spread
    return Parallelism(
        mode=spread.mode,
        tensor=spread.tensor,
        pipeline=spread.pipeline,
        replicas=spread.replicas,
        slots=pick.setting.slots * spread.replicas,
    )


def _is_installed(engines: Sequence[EngineInfo], ask: EngineQuery) -> bool:
    """Whether the engine is here and computes where the plan says."""
    return any(
        engine.installed and engine.id == ask.engine.id and engine.backend in {"", ask.target.backend}
        for engine in engines
    )


def _preference(inputs: PlanInputs, first: Plan) -> list[Reason]:
    if first.engine not in inputs.preferred:
        return []
    return [Reason(text=f"{first.name} was chosen in the settings.", value=first.engine, source="settings")]


def _mark_preferred(plan: Plan, preferred_engines: Sequence[str]) -> Plan:
    """Mark a plan that the guide puts first and that something is missing for. Nothing helps what has no steps."""
    is_preferred = plan.engine in preferred_engines and not plan.obtainable and bool(plan.steps or not plan.refused)
    return msgspec.structs.replace(plan, is_preferred=True) if is_preferred else plan


def _reasons_not_first(
    row: Sequence[str], usable: Sequence[PlanDraft], refused_engines: Sequence[RankedEngine]
) -> list[Reason]:
    """Say why engines the guide puts before the first plan's are not first."""
    why: Mapping[str, str] = {
        **{draft.engine: _why_behind(draft, usable[0]) for draft in usable},
        **{engine_refused.traits.id: engine_refused.refused for engine_refused in refused_engines},
    }
    names = {draft.engine: draft.ask.engine.name for draft in usable} | {
        engine_refused.traits.id: engine_refused.traits.name for engine_refused in refused_engines
    }
    before = row[: row.index(usable[0].engine)] if usable[0].engine in row else row
    return [
        Reason(
            text=f"The guide prefers {names[engine]}, but {_continue_sentence(why[engine])}.",
            value=engine,
            source=plan_wording.GUIDE,
        )
        for engine in before
        if why.get(engine)
    ]


def _why_behind(draft: PlanDraft, first: PlanDraft) -> str:
    """Say why a plan stands behind the first; empty where nothing is wrong with it."""
    lead = find_lead(first, draft)
    slower = f"{first.ask.engine.name} is predicted to write {lead:.1f} times as fast here, at no worse quality"
    return next(iter(draft.obstacles), "") or plan_wording.why_behind(draft.chosen) or (slower if lead else "")


def _continue_sentence(sentence: str) -> str:
    """Return a sentence to go on with: names keep their capitals."""
    is_plain = sentence.startswith(("There", "Its", "It ", "No version"))
    lower_sentence = sentence[0].lower() + sentence[1:] if is_plain else sentence
    return lower_sentence.rstrip(".")


def _build_refusal(inputs: PlanInputs, candidate: RankedEngine) -> Plan:
    gpus = gpus_for(inputs.machine, candidate.traits)
    format_name, quantization = choose_format(candidate.traits, inputs.machine, gpus)
    return Plan(
        obtainable=False,
        missing=[candidate.refused],
        steps=list(candidate.traits.steps),
        engine=candidate.traits.id,
        name=candidate.traits.name,
        backend=next((target.backend for target in candidate.traits.targets), ""),
        format=format_name,
        quantization=quantization,
        context=0,
        kv_type="f16",
        parallelism=Parallelism(),
        reasons=[Reason(text=candidate.refused, value=candidate.traits.id, source=plan_wording.GUIDE)],
        sentence=candidate.refused,
        model=inputs.model,
        is_installed=any(engine.installed and engine.id == candidate.traits.id for engine in inputs.engines),
        can_install=candidate.target is not NOWHERE,
        refused=candidate.refused,
    )


def _model_title(facts: ModelFacts) -> str:
    return facts.name.removesuffix(facts.quantization).rstrip(" -_")
