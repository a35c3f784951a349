"""Whether a model's own head for multi-token prediction is worth loading, where no trial on this machine has told.

The head guesses a few tokens ahead and the model checks them in one pass. That pays where reading the weights sets the
pace and computing is idle: one conversation, wholly in a card's memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.selection import EngineQuery, PlanPick, pick_best
from app.core.model_facts import ModelFacts
from engines.api.traits import EngineAbility

DENSE_GAIN = 1.57
"""The median over 19 cards with dense models of 9 and 27 billion parameters (0xSero's MTP campaign, autumn 2026)."""
EXPERT_GAIN = 1.33
"""With all experts in fast memory: 58.7 -> 74.6 on Strix Halo, 31 -> 46 and 24 -> 32 on a DGX Spark (2026)."""


class HeadVerdict(NamedTuple):
    """Whether a head pays, and why, in a sentence."""

    pays: bool
    reason: str


def judge_head(facts: ModelFacts, setting: RunSetting) -> HeadVerdict | None:
    """Return whether a model's head is to draft in a setting; None where it has none, or the engine runs none."""
    if not facts.has_draft_head or EngineAbility.OWN_HEAD not in setting.engine.abilities:
        return None
    if not setting.uses_gpu:
        reason = "Its own head does not draft: on a processor only a trial tells whether that pays."
        return HeadVerdict(pays=False, reason=reason)
    if setting.cpu_moe_layers or setting.gpu_layers is not None:
        reason = "Its own head does not draft: with a part of the model in system memory that mostly costs speed."
        return HeadVerdict(pays=False, reason=reason)
    if setting.slots > 1:
        reason = "Its own head does not draft: several conversations at once leave it no time."
        return HeadVerdict(pays=False, reason=reason)
    gain = head_gain(facts)
    text = f"Its own head drafts: people measured {gain:.2f} times the speed in the median; a trial here decides."
    return HeadVerdict(pays=True, reason=text)


def head_gain(facts: ModelFacts) -> float:
    """Return how many times as fast a model's own head makes it where it pays."""
    return EXPERT_GAIN if any(layer.experts for layer in facts.layers) else DENSE_GAIN


def pick_with_head(ask: EngineQuery, options: Sequence[ModelFacts], *, is_decided: bool) -> PlanPick:
    """Return the best of the candidates, with the head loaded where it pays.

    Where it `is_decided` what drafts, by a person or by a trial, the query's template says so already.
    """
    if is_decided or not _could_draft(ask.engine, options):
        return pick_best(ask, options)
    template = ask.template or RunSetting(engine=ask.engine)
    with_head = msgspec.structs.replace(template, has_own_draft=True)
    best_pick = pick_best(msgspec.structs.replace(ask, template=with_head), options)
    verdict = judge_head(best_pick.facts, best_pick.setting) if best_pick.facts is not None else None
    return best_pick if verdict is not None and verdict.pays else pick_best(ask, options)


def _could_draft(engine: EngineTraits, options: Sequence[ModelFacts]) -> bool:
    return EngineAbility.OWN_HEAD in engine.abilities and any(facts.has_draft_head for facts in options)
