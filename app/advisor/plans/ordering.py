"""Which plan stands first: the guide's order of engines, moved by what can be had, what fits, and clear leads in speed.

A plan behind others goes before them for one person if it is clearly faster at no worse quality. How fast a model
decodes is predicted, so the lead has to be larger than what the predictions of both engines may be off. They run on the
same device, whose own share of the error is the same for both; what is left is that of the engines.
"""

from collections.abc import Callable, Sequence
from math import hypot

import msgspec

from app.advisor.choosing import hardware
from app.advisor.choosing.intents import find_need
from app.advisor.choosing.rules import RankedEngine
from app.advisor.plans import wording as plan_wording
from app.advisor.plans.quantisations import FULL, comparable_bits
from app.advisor.plans.selection import EngineQuery, FitQuality, PlanPick
from app.core.advice import EstimateConfidence, Rate
from app.core.model_facts import ModelFacts
from engines.api.traits import GuideNeed, MachineKind

LEAST_LEAD = 1.15
"""No engine goes before another for less, however well both are known: nobody notices a smaller difference."""
_SPEED_NEEDS = frozenset({GuideNeed.LOCAL, GuideNeed.LONG, GuideNeed.MOE})
"""Where speed is what is left to choose by: other rows of the guide ask for what an engine can or cannot do."""
_TIERS = {fit: place for place, fit in enumerate(FitQuality)}


class PlanDraft(msgspec.Struct, frozen=True, kw_only=True):
    """One engine with what would be run. `no_weights` says why none are known, `to_convert` what they are made from."""

    ranked: RankedEngine
    ask: EngineQuery
    chosen: PlanPick
    options: list[ModelFacts] = []
    no_weights: str = ""
    to_convert: str = ""

    @property
    def engine(self) -> str:
        """The engine's id."""
        return self.ranked.traits.id

    @property
    def rate(self) -> Rate | None:
        """How fast it decodes; None where nothing is known of the device or the files."""
        facts = self.chosen.facts
        return self.ask.trials.trial_of(facts).decode_rate(self.chosen.setting) if facts else None

    @property
    def obstacles(self) -> list[str]:
        """What stands against it, in sentences: no build for this machine, no weights, not enough memory."""
        too_large = plan_wording.memory_lack(self.ask, self.chosen) if self.chosen.fit is FitQuality.NONE else ""
        weights = self.no_weights or self.to_convert
        return [*self.ranked.traits.missing, *filter(None, (weights, too_large))]


def order_drafts(drafts: Sequence[PlanDraft], *, preferred_engines: Sequence[str], is_named: bool) -> list[PlanDraft]:
    """Return the drafts best first: the guide's order, but what can be had and fits well before what does not.

    `preferred` are engines that a person prefers; `is_named` says that there is a certain model to compare them with.
    """
    with_weights = [draft for draft in drafts if not draft.no_weights]
    if not with_weights:
        return [*drafts[:1]]
    places = {engine: place for place, engine in enumerate(preferred_engines)}
    if not is_named:
        return sorted(with_weights, key=lambda draft: places.get(draft.engine, len(places)))
    has_gpu = any(draft.ask.gpus for draft in with_weights)

    def rank_of(draft: PlanDraft) -> tuple[int, ...]:
        return (
            len(draft.obstacles),
            places.get(draft.engine, len(places)),
            draft.ranked.is_discouraged,
            _fit_tier(draft, has_gpu=has_gpu),
            _joins_for_nothing(draft),
        )

    return _fastest_first(_successors_first(sorted(with_weights, key=rank_of), rank_of), rank_of)


def _successors_first(
    ordered_drafts: list[PlanDraft], rank_of: Callable[[PlanDraft], tuple[int, ...]]
) -> list[PlanDraft]:
    """Return the drafts with an engine behind its successor where that fits as well, and it is not the faster."""
    for draft in list(ordered_drafts):
        behind = ordered_drafts[ordered_drafts.index(draft) + 1 :]
        successor = next((other for other in behind if other.engine == draft.ranked.traits.successor), None)
        if successor is not None and rank_of(successor) == rank_of(draft) and not _is_faster(draft, successor):
            ordered_drafts.remove(successor)
            ordered_drafts.insert(ordered_drafts.index(draft), successor)
    return ordered_drafts


def _is_faster(draft: PlanDraft, other: PlanDraft) -> bool:
    """Whether a draft decodes faster than another without giving up quality for it."""
    if draft.chosen.facts is None or other.chosen.facts is None:
        return True
    rate, other_rate = draft.rate, other.rate
    is_slower = rate is not None and other_rate is not None and rate.tokens_per_second <= other_rate.tokens_per_second
    return _keeps_bits(draft.chosen.facts, other.chosen.facts) and not is_slower


def _keeps_bits(facts: ModelFacts, other: ModelFacts) -> bool:
    """Whether no more is lost than with other files, as far as published losses tell."""
    return comparable_bits(facts) >= min(comparable_bits(other), FULL)


def _fastest_first(ordered_drafts: list[PlanDraft], rank_of: Callable[[PlanDraft], tuple[int, ...]]) -> list[PlanDraft]:
    """Return the drafts with the one first that is clearly faster than the first, if there is one that fits as well."""
    first = ordered_drafts[0]
    equals = [draft for draft in ordered_drafts[1:] if rank_of(draft) == rank_of(first)]
    faster = max(equals, key=lambda draft: find_lead(draft, first), default=first)
    if not find_lead(faster, first):
        return ordered_drafts
    return [faster, *(draft for draft in ordered_drafts if draft is not faster)]


def find_lead(draft: PlanDraft, other: PlanDraft) -> float:
    """Return how many times as fast as another a draft decodes where that is clear, for one person; else zero."""
    if find_need(draft.ask.work) not in _SPEED_NEEDS or not _is_comparable(draft, other):
        return 0.0
    rate, other_rate = draft.rate, other.rate
    if rate is None or other_rate is None:
        return 0.0
    lead = rate.tokens_per_second / other_rate.tokens_per_second
    return lead if lead >= max(LEAST_LEAD, 1 + _joint_spread((draft, rate), (other, other_rate))) else 0.0


def _is_comparable(draft: PlanDraft, other: PlanDraft) -> bool:
    """Whether nothing but the speed differs: wholly in fast memory, as much context, as many cards, no quality lost.

    Engines whose speed nobody published are predicted like others, which tells nothing of the difference.
    """
    mine, theirs = draft.chosen, other.chosen
    if mine.facts is None or theirs.facts is None or {mine.fit, theirs.fit} != {FitQuality.WHOLE}:
        return False
    return (
        draft.ask.engine.has_speed_points
        and other.ask.engine.has_speed_points
        and _cards(draft) == _cards(other)
        and mine.spread.mode == theirs.spread.mode
        and mine.setting.context >= theirs.setting.context
        and mine.setting.kv_type in {"f16", theirs.setting.kv_type}
        and _keeps_bits(mine.facts, theirs.facts)
    )


def _cards(draft: PlanDraft) -> list[str]:
    return [gpu.id for gpu in draft.ask.gpus[: draft.chosen.spread.cards]]


def _joint_spread(*rated_draft: tuple[PlanDraft, Rate]) -> float:
    """Return how far the ratio of two predictions may be off; what is known of one alone leaves the device's share."""
    are_calibrated = {rate.confidence is EstimateConfidence.CALIBRATED for _, rate in rated_draft}
    if len(are_calibrated) > 1:
        return hypot(*(rate.high / rate.tokens_per_second - 1 for _, rate in rated_draft))
    return hypot(*(draft.ask.trials.engine_spread(draft.chosen.setting) for draft, _ in rated_draft))


def _fit_tier(draft: PlanDraft, *, has_gpu: bool) -> int:
    """Return how well it fits. System memory is slow beside a GPU; without one it is all there is, for every engine."""
    fit = FitQuality.NONE if draft.to_convert else draft.chosen.fit
    if draft.ask.gpus or fit is FitQuality.NONE:
        return _TIERS[fit]
    return _TIERS[FitQuality.SLOW] if has_gpu else _TIERS[FitQuality.WHOLE]


def _joins_for_nothing(draft: PlanDraft) -> bool:
    """Whether an engine is there to join cards of several makers, and one card is enough."""
    is_mixed = hardware.machine_kind(draft.ask.machine) is MachineKind.MIXED and draft.ask.engine.runs_everywhere
    return is_mixed and draft.chosen.facts is not None and draft.chosen.spread.cards == 1
