"""Which models of the catalogue to run here: the best that people can talk to, and one beside it that is fast.

Quality comes first, as published indices rank it (docs/reference/models.md), less what the planned quantisation loses.
Each model is planned as `roundhouse plan NAME` plans it; one counts that can be had, fits, leaves room for a
conversation and writes fast enough. The sentence beside the best says what stands against the next better one.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from app.advisor.choosing.targets import explain_lack
from app.advisor.memory.placement import SYSTEM
from app.advisor.plans.drafting import head_gain
from app.advisor.plans.ordering import LEAST_LEAD
from app.advisor.plans.quantisations import USUAL, nominal_rate, quality_kept
from app.advisor.plans.ranking import PlanInputs, build_advice
from app.core import words
from app.core.advice import TALK_TOKENS_PER_SECOND, EstimateConfidence, Intent, Plan
from app.core.hub import HubCard, HubPick, HubSearchHit, HubUse
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from app.core.models import OWN_HEAD
from app.gateway.hub.card_fits import with_fit
from app.gateway.hub.entry_forms import FormBounds, estimate_download, list_forms
from app.gateway.hub.named_models import FORMATS
from app.gateway.hub.repositories import FitContext
from app.hub.repositories.catalogue_entry import CatalogueEntry

_LEAST_CONTEXT = 4096
WRITING_USES = {
    HubUse.CHAT: Intent.CHAT,
    HubUse.CODING: Intent.CODING,
    HubUse.VISION: Intent.CHAT,
    HubUse.REASONING: Intent.CHAT,
    HubUse.AUTOCOMPLETE: Intent.CODING,
}
"""Uses for which it matters how fast tokens are written, and what a model is planned for then."""
_MUCH_FASTER = 1.5
"""So many times the best model's speed make a fast one worth naming."""
_GOOD_ENOUGH = 0.5
"""The share of the best model's rank below which speed is no consolation."""
_BEARABLE = 0.9
"""What a recommended model keeps of its rank at least: with fewer bits a smaller one would do."""
_EQUAL = 0.95
"""Ranks no further apart count as equal: an index moves by a point or two between two readings of the same model."""
_MOST_OF_SYSTEM = 0.8
"""Of the system's memory a model takes so much at most where it is recommended: people run other programs too."""
_MOST_WIRED = 0.72
"""The same where a graphics chip shares the memory: what is held for it is never swapped out. 105 GB of Qwen3.8 Flash
Next are too much for a Mac of 128 GB, which runs it from a mapped file (ollama/ollama 18078, August 2026)."""
_WHOLE_IS_WORTH = 0.8
"""A model wholly on the cards goes before one with a part in system memory that is ranked higher by less, if it is the
faster. Such a part slows down as the context fills (25 tok/s at 8k, 14 at 120k; ggml-org/llama.cpp 27742), and a
model's own head does not pay with it; on cards of 16 to 96 GB people begin with what fits them (0xSero's registry)."""
_LEFT_BYTES, _LEFT_SHARE = 6e9, 1 / 3
"""What a desktop and a browser take; of a small memory a third, whichever is less."""
_FEWEST_BITS = 2.0
"""What no weights below are published for most models; a model that is larger even so is not planned."""
_PLANNED = 8
"""So many models that run well are planned in every form, by rank: the first of them will be recommended."""

UNKNOWN_SPEED = (
    "How fast this computer's memory is, is not known, so none is recommended: what fits may be too slow to talk to. "
    "`roundhouse calibrate` measures it; a description states it as `ram_bandwidth_gb_s`."
)


class _PickCandidate(NamedTuple):
    """An entry, what it takes here, and how good it is in the quantisation that is planned."""

    entry: CatalogueEntry
    card: HubCard
    rank: float
    crowds: bool = False
    """Whether it leaves too little of the system's memory to other programs."""
    is_parted: bool = False
    """Whether a part of it lies in system memory beside a card."""
    draft_gain: float = 1.0
    """How many times as fast its own head makes it, where that drafts."""

    @property
    def sure_speed(self) -> float:
        """The speed, but where the device's bandwidth is only assumed what it is at least."""
        decode = self.card.decode
        if decode is None:
            return 0.0
        return decode.low if decode.confidence is EstimateConfidence.TABLE else decode.tokens_per_second

    @property
    def speed(self) -> float:
        """Tokens per second; 0 where nobody can tell."""
        return self.card.decode.tokens_per_second if self.card.decode else 0.0

    @property
    def drafted_speed(self) -> float:
        """The speed with its own head."""
        return self.speed * self.draft_gain


class _Ranking(NamedTuple):
    """All that were judged, by rank; those that run well, the one to take first; the fast one, and the least speed."""

    judged: list[_PickCandidate]
    good: list[_PickCandidate]
    fast: _PickCandidate | None
    least: float


def pick_models(
    entries: Sequence[CatalogueEntry], use: HubUse, ground: FitContext, least_speed: float
) -> list[HubPick]:
    """Return the models whose quality for a use is known: the best first, a fast one beside it, then by quality.

    A derived rank is recommended only where no model with a published one runs well.
    """
    judged_models = _judge_entries(entries, use, ground, least_speed)
    judged_models.sort(key=lambda model: (-model.rank, model.entry.active_parameters or model.entry.parameters))
    ranked_models = _rank_models(judged_models, use, least_speed if use in WRITING_USES else 0.0)
    good, fast = ranked_models.good, ranked_models.fast
    usable = [model for model in judged_models if model.card.fits and model not in good]
    rest = [model for model in judged_models if not model.card.fits]
    usable.sort(key=lambda model: -model.speed)
    order = [*good[:1], *([fast] if fast else []), *(model for model in good[1:] if model is not fast), *usable, *rest]
    return list(_list_picks(order, use, ranked_models, _reasons(ranked_models, usable, use)))


_COMPLETES_AT = 40.0
"""Tokens per second from which a line of code is there before somebody types on."""
_MOST_FOR_COMPLETION = 10e9
"""Parameters: what is published for completion is smaller, and what is larger is better used for chat."""


def recommend_completion(picks: Sequence[HubPick]) -> list[HubPick]:
    """Return models for code completion with the one to take first: the largest that is fast enough while typing.

    Nobody ranks them, and in one series the larger one completes better.
    """
    able = [
        pick
        for pick in picks
        if pick.card.fits and pick.card.decode and pick.card.decode.tokens_per_second >= _COMPLETES_AT
    ]
    small = [pick for pick in able if 0 < (pick.card.parameters or 0) <= _MOST_FOR_COMPLETION]
    if not small:
        return list(picks)
    best = max(small, key=lambda pick: (pick.card.parameters or 0, pick.released))
    reason = f"The largest model that completes code at {_COMPLETES_AT:.0f} tokens per second or more here."
    return [
        replace(best, is_best=True, is_recommended=True, reason=reason),
        *(replace(pick, is_recommended=pick in small) for pick in picks if pick is not best),
    ]


def explain_absence(picks: Sequence[HubPick]) -> str:
    """Return why none of them is recommended; empty where one is."""
    return "" if not picks or any(pick.is_recommended for pick in picks) else picks[0].reason


def _judge_entries(
    entries: Sequence[CatalogueEntry], use: HubUse, ground: FitContext, least_speed: float
) -> list[_PickCandidate]:
    """Plan the models by rank until there are enough that run well; the others' usual quantisation is estimated."""
    ranked_entries = sorted(
        (entry for entry in entries if use.value in entry.ranks), key=lambda entry: -entry.ranks[use.value]
    )
    judged_models: list[_PickCandidate] = []
    count = 0
    for entry in ranked_entries:
        is_planned = use in WRITING_USES and count < _PLANNED and _might_fit(entry, ground)
        model = _judge_entry(entry, use, ground, is_planned=is_planned)
        count += is_planned and use.value not in entry.derived and _runs_well(model, use, least_speed)
        judged_models.append(model)
    return judged_models


def _judge_entry(entry: CatalogueEntry, use: HubUse, ground: FitContext, *, is_planned: bool) -> _PickCandidate:
    card, rank = catalogue_card(entry), float(entry.ranks[use.value])
    forms = list_forms(entry, _bounds_of(ground)) if is_planned else ()
    plan = _plan_roomy(entry, forms, WRITING_USES[use], ground) if forms else None
    if plan is None:
        return _PickCandidate(entry, with_fit(card, ground, entry), rank)
    facts = next(facts for facts in forms if _is_planned(facts, plan))
    card = replace(card, download_bytes=estimate_download(entry, facts))
    return _PickCandidate(
        entry,
        _card_of_plan(card, plan),
        rank * quality_kept(plan.format, plan.quantization),
        crowds=_crowds(plan, ground.machine),
        is_parted=_is_parted(plan),
        draft_gain=head_gain(facts) if plan.draft == OWN_HEAD else 1.0,
    )


def _plan_roomy(entry: CatalogueEntry, forms: Sequence[ModelFacts], intent: Intent, ground: FitContext) -> Plan | None:
    """Return the plan, or that of smaller forms with four bits at least where it leaves other programs too little."""
    first = plan = _plan_forms(entry, forms, intent, ground)
    while plan is not None and _crowds(plan, ground.machine):
        largest = next(facts for facts in forms if _is_planned(facts, plan)).file_bytes
        forms = [
            facts for facts in forms if facts.file_bytes < largest and nominal_rate(facts.quantization, 0) >= USUAL
        ]
        plan = _plan_forms(entry, forms, intent, ground) if forms else None
    return plan if plan is not None and plan.obtainable else first


def _is_parted(plan: Plan) -> bool:
    offload = plan.offload
    return offload is not None and (offload.cpu_moe_layers > 0 or offload.gpu_layers < offload.layers)


def _bounds_of(ground: FitContext) -> FormBounds:
    """Return which forms can be run on the machine at all."""
    engines = (engine for engine in ground.traits.values() if not explain_lack(ground.machine, engine))
    formats = frozenset(kind for engine in engines for kind in engine.formats)
    known_sizes = [size for size in _pool_sizes(ground.machine) if size is not None]
    if len(known_sizes) < len(ground.machine.pools) or not known_sizes:
        return FormBounds(formats, math.inf, 0)
    return FormBounds(formats, sum(known_sizes), min(known_sizes))


def _pool_sizes(machine: Machine) -> list[int | None]:
    return [pool.physical.value for pool in machine.pools]


def _crowds(plan: Plan, machine: Machine) -> bool:
    pool = next((pool for pool in machine.pools if pool.id == SYSTEM), None)
    system = pool.physical.value if pool is not None else None
    taken_bytes = sum(pool.needed_bytes for pool in plan.estimate.pools if pool.id == SYSTEM) if plan.estimate else 0
    if pool is None or system is None:
        return False
    most = _MOST_WIRED if pool.is_unified and plan.offload is not None else _MOST_OF_SYSTEM
    return taken_bytes > min(most * system, system - min(_LEFT_BYTES, _LEFT_SHARE * system))


def _might_fit(entry: CatalogueEntry, ground: FitContext) -> bool:
    """Rule out quickly what is larger than all the memory there is, in the fewest bits."""
    sizes = _pool_sizes(ground.machine)
    bytes_least = (entry.parameters - entry.table_parameters - entry.draft_parameters) * _FEWEST_BITS / 8
    return None in sizes or bytes_least <= sum(size or 0 for size in sizes)


def _is_planned(facts: ModelFacts, plan: Plan) -> bool:
    return (facts.format, facts.quantization) == (plan.format, plan.quantization)


def _plan_forms(entry: CatalogueEntry, forms: Sequence[ModelFacts], intent: Intent, ground: FitContext) -> Plan | None:
    """Return how a model of the catalogue is run here; None where no engine here takes any of its forms."""
    advice = build_advice(
        PlanInputs(
            traits=ground.traits,
            machine=ground.machine,
            candidates=list(forms),
            model=entry.title,
            intent=intent,
            engines=ground.engines,
            calibrations=ground.known.calibrations,
            with_changes=False,
        )
    )
    known_forms = [
        plan for plan in advice.plans if plan.estimate is not None and any(_is_planned(facts, plan) for facts in forms)
    ]
    return next((plan for plan in known_forms if plan.obtainable), known_forms[0] if known_forms else None)


def _card_of_plan(card: HubCard, plan: Plan) -> HubCard:
    """Return a card with what the plan says of the model."""
    planned_card = replace(card, format=plan.format, quantization=plan.quantization, engine_name=plan.name)
    estimate = plan.estimate
    if estimate is None:
        return planned_card
    return replace(
        planned_card,
        fits=estimate.fits and plan.obtainable,
        memory_bytes=estimate.needed_bytes,
        largest_context=estimate.largest_context if estimate.fits else None,
        decode=estimate.decode,
        basis=f"As `roundhouse plan` plans it: {plan.quantization} with {plan.name}.",
    )


def catalogue_card(entry: CatalogueEntry) -> HubCard:
    """Return a card with the preferred repository of each format."""
    repositories = [
        HubSearchHit(repository=names[0].partition("@")[0], formats=[kind], licence=entry.licence)
        for kind, names in entry.repositories.items()
        if kind in FORMATS
    ]
    own = HubSearchHit(repository=entry.base, formats=["safetensors"], licence=entry.licence)
    return HubCard(
        base=entry.base,
        title=entry.title,
        repositories=repositories or [own],
        parameters=entry.parameters or None,
        active_parameters=entry.active_parameters or None,
        unchecked=entry.unchecked,
    )


def _rank_models(judged_models: list[_PickCandidate], use: HubUse, least: float) -> _Ranking:
    """Find those that run well; where none with a published rank writes fast enough, those one can talk to."""
    for floor in dict.fromkeys((least, min(least, TALK_TOKENS_PER_SECOND))):
        good = [model for model in judged_models if _runs_well(model, use, floor)]
        good.sort(key=lambda model: use.value in model.entry.derived)  # stable: a published rank comes first
        if good and use.value not in good[0].entry.derived:
            break
    else:
        floor, good = least, [model for model in judged_models if _runs_well(model, use, least)]
    if floor:
        good = _whole_before_parted(_fastest_of_equals(good, use), use)
    return _Ranking(judged_models, good, _find_fast(good, use) if floor else None, floor)


def _runs_well(model: _PickCandidate, use: HubUse, least: float) -> bool:
    card = model.card
    is_roomy = card.largest_context is None or card.largest_context >= _LEAST_CONTEXT
    is_itself = model.rank >= _BEARABLE * model.entry.ranks[use.value]
    return bool(card.fits) and is_roomy and is_itself and not model.crowds and model.sure_speed >= least


def _fastest_of_equals(good: list[_PickCandidate], use: HubUse) -> list[_PickCandidate]:
    """Return them with the fastest of those in front that are as good as the first, if it is much faster."""
    if not good:
        return good
    first = good[0]
    equals = [
        model
        for model in good
        if model.rank >= _EQUAL * first.rank
        and _is_much_faster(model, first)
        and (use.value in model.entry.derived) == (use.value in first.entry.derived)
    ]
    chosen_model = max(equals, key=lambda model: model.speed, default=first)
    return [chosen_model, *(model for model in good if model is not chosen_model)]


def _is_much_faster(model: _PickCandidate, other: _PickCandidate) -> bool:
    """Whether it is; with a part in system memory it has to be faster than the other with its own head, too."""
    is_clear = not model.is_parted or model.speed >= LEAST_LEAD * other.drafted_speed
    return is_clear and model.speed >= _MUCH_FASTER * other.speed


def _whole_before_parted(good: list[_PickCandidate], use: HubUse) -> list[_PickCandidate]:
    """Return them with the best that lies wholly on the cards first, if it is hardly worse and the faster."""
    if not good or not good[0].is_parted:
        return good
    first = good[0]
    whole = (
        model
        for model in good
        if not model.is_parted
        and model.rank >= _WHOLE_IS_WORTH * first.rank
        and model.drafted_speed > first.drafted_speed
        and (use.value in model.entry.derived) == (use.value in first.entry.derived)
    )
    chosen_model = next(whole, first)
    return [chosen_model, *(model for model in good if model is not chosen_model)]


def _find_fast(good: Sequence[_PickCandidate], use: HubUse) -> _PickCandidate | None:
    """Return the best of those that write much faster than the best of all; None where none is good enough."""
    if not good:
        return None
    best = good[0]
    return next(
        (
            model
            for model in good[1:]
            if _is_much_faster(model, best)
            and model.rank >= _GOOD_ENOUGH * best.rank
            and use.value not in model.entry.derived
        ),
        None,
    )


def _list_picks(
    order: Sequence[_PickCandidate], use: HubUse, ranked_models: _Ranking, reasons: tuple[str, str]
) -> Iterator[HubPick]:
    for place, model in enumerate(order):
        is_first = place == 0 and bool(reasons[0])
        is_recommended = model in ranked_models.good and (use not in WRITING_USES or model.speed > 0)
        yield HubPick(
            name=model.entry.title,
            pull=model.entry.name,
            repository=_source(model.card),
            use=use,
            card=model.card if use in WRITING_USES else replace(model.card, decode=None),
            quality=round(model.rank),
            is_quality_derived=use.value in model.entry.derived,
            is_best=is_first and is_recommended,
            is_recommended=is_recommended,
            is_fast=model is ranked_models.fast,
            reason=reasons[0] if is_first else reasons[1] if model is ranked_models.fast else "",
        )


def _source(card: HubCard) -> str:
    """Return the repository that has the planned format."""
    matching_repositories = (
        repository.repository for repository in card.repositories if card.format in repository.formats
    )
    return next(matching_repositories, card.repositories[0].repository)


def _reasons(ranked_models: _Ranking, usable: Sequence[_PickCandidate], use: HubUse) -> tuple[str, str]:
    """Return the sentences beside the best and beside the fast one."""
    good, least = ranked_models.good, ranked_models.least
    if not good:
        if usable and usable[0].speed:
            return f"The fastest for {use.value} that fits this machine.", ""
        return (UNKNOWN_SPEED if usable else ""), ""
    best = good[0]
    how = f", in {best.card.quantization} at about {words.format_rate(best.speed)}" if least else ""
    sentence = f"The best for {use.value} in the catalogue that runs well on this machine{how}."
    if use.value in best.entry.derived:
        sentence += " Its quality is derived from another size of it."
    fast = f"Writes faster, and is the best for {use.value} of those that write {_MUCH_FASTER} times as fast."
    better = [
        model
        for model in ranked_models.judged
        if model.rank > best.rank and model not in good and use.value not in model.entry.derived
    ]
    equal = next((model for model in good if model.rank > best.rank and use.value not in model.entry.derived), None)
    return " ".join(filter(None, (sentence, _explain_equal(equal), _explain_next(better[-1:], least)))), fast


def _explain_equal(model: _PickCandidate | None) -> str:
    if model is None:
        return ""
    speed = words.format_rate(model.speed)
    if model.is_parted:
        return (
            f"{model.entry.title} is ranked higher, but a part of it would lie in the system's memory: it would write "
            f"{speed}, less in long conversations."
        )
    return f"{model.entry.title} is ranked hardly higher, and would write {speed}."


def _explain_next(better: Sequence[_PickCandidate], least: float) -> str:
    """Return why the next better model is not the one to take, and what would change that."""
    for model in better:
        card, title = model.card, model.entry.title
        if card.fits is False and card.memory_bytes:
            needs = words.format_bytes(card.memory_bytes)
            return f"The next better, {title}, needs {needs}, more than there is; with that much it would come first."
        if card.fits and model.speed and model.speed < least:
            floor = max(1, int(model.speed))
            return (
                f"The next better, {title}, would write {words.format_rate(model.speed)}; with the setting "
                f"catalogue.least_speed at {floor} it would come first."
            )
        return _explain_unused(model) if card.fits else ""
    return ""


def _explain_unused(model: _PickCandidate) -> str:
    """Return why a better model that fits, and is not too slow, is not the one to take."""
    card, title = model.card, model.entry.title
    if not model.speed:
        return f"How fast the next better, {title}, would be is not known."
    if quality_kept(card.format, card.quantization) < _BEARABLE:
        return f"The next better, {title}, fits only in {card.quantization}, in which its answers are much worse."
    if model.crowds:
        return f"The next better, {title}, would leave other programs hardly any of the system's memory."
    return f"The next better, {title}, leaves no room for a conversation."
