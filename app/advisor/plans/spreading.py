"""How a model spreads over several GPUs: one card if it fits there, then by what joins the cards.

Cutting each matrix (tensor parallel) pays where cards have NVLink or the like and the heads divide evenly. Over PCIe
each card gets layers of its own first (pipeline). Partitions of one card never work together.
"""

from collections.abc import Sequence

import msgspec

from app.advisor.choosing import hardware
from app.advisor.choosing.engine_table import EngineTraits
from app.core.machine import Gpu
from app.core.model_facts import ModelFacts
from engines.api.traits import EngineAbility

MOST_CARDS = 64
"""More cards than any one model is spread over inside one computer or rack; further ones hold replicas."""
_USUAL_NODE = 8


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One way to use cards: `cards` for one copy of the model, `replicas` copies beside each other."""

    mode: str = "single"
    cards: int = 1
    replicas: int = 1
    why: str = ""
    warning: str = ""

    @property
    def tensor(self) -> int:
        """Cards each matrix is cut over."""
        return self.cards if self.mode in {"tensor", "expert"} else 1

    @property
    def pipeline(self) -> int:
        """Cards that have layers of their own."""
        return self.cards if self.mode == "pipeline" else 1


def possible_spreads(
    engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None, *, serves: bool
) -> list[Spread]:
    """Return the ways an engine can spread a model, the one with the fewest cards first."""
    count = len(gpus)
    if count < 2:  # noqa: PLR2004 -- one card or none
        return [Spread()]
    if any(gpu.partition_of for gpu in gpus):
        return [_with_replicas(Spread(why="Parts of one GPU cannot work together."), count, serves=serves)]
    several = _tensor_spreads(engine, gpus, facts) or _pipeline_spreads(engine, gpus, facts)
    return [_with_replicas(spread, count, serves=serves) for spread in (Spread(), *several)]


def spread_without_model(engine: EngineTraits, gpus: Sequence[Gpu], *, serves: bool) -> Spread:
    """Return the spread to state where no model is known: over all cards of one computer."""
    usual = [spread for spread in possible_spreads(engine, gpus, None, serves=serves) if spread.cards <= _USUAL_NODE]
    return usual[-1]


def _with_replicas(spread: Spread, count: int, *, serves: bool) -> Spread:
    replicas = count // spread.cards if serves else 1
    mode = "data" if replicas > 1 and spread.mode == "single" else spread.mode
    return msgspec.structs.replace(spread, replicas=replicas, mode=mode)


def _tensor_spreads(engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None) -> list[Spread]:
    """Return the powers of two the heads divide by; none where only slow links join the cards and there is a choice."""
    has_links = hardware.has_fast_links(gpus)
    if EngineAbility.TENSOR not in engine.abilities or not (
        has_links or EngineAbility.PIPELINE not in engine.abilities
    ):
        return []
    if facts is not None and facts.architecture in engine.uncut:
        return []
    mode = "expert" if _is_moe(facts) and EngineAbility.EXPERT in engine.abilities else "tensor"
    link = "NVLink" if gpus[0].vendor == "nvidia" else "Infinity Fabric"
    why = f"{link} joins the cards, so each matrix is cut over them." if has_links else ""
    warning = "" if has_links else "The cards are connected by PCIe only, which slows tensor parallelism down."
    return [
        Spread(mode=mode, cards=cards, why=why, warning=warning)
        for cards in _powers_of_two(len(gpus))
        if _heads_divide(facts, cards)
    ]


def _pipeline_spreads(engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None) -> list[Spread]:
    if EngineAbility.PIPELINE not in engine.abilities:
        return []
    if facts is not None and facts.architecture in engine.uncut:
        why = f"{engine.name} cannot cut this architecture's matrices yet, so each card gets its own layers."
    elif hardware.has_fast_links(gpus):
        why = "Its attention heads do not divide evenly by the number of cards, so each card gets its own layers."
    else:
        why = "The cards are connected by PCIe, so each gets its own layers (pipeline)."
    if EngineAbility.TENSOR not in engine.abilities:
        why = f"{engine.name} gives each card its own layers."
    offers_both = EngineAbility.TENSOR in engine.abilities
    warning = (
        "Measure tensor parallelism too: which is faster depends on the PCIe lanes of the slots." if offers_both else ""
    )
    layers = len(facts.layers) if facts else MOST_CARDS
    most = min(len(gpus), MOST_CARDS, max(layers, 1))
    counts = range(2, most + 1) if most <= _USUAL_NODE else _powers_of_two(most)
    return [Spread(mode="pipeline", cards=cards, why=why, warning=warning) for cards in counts]


def _powers_of_two(most: int) -> list[int]:
    powers, cards = [], 2
    while cards <= min(most, MOST_CARDS):
        powers.append(cards)
        cards *= 2
    return powers


def _heads_divide(facts: ModelFacts | None, cards: int) -> bool:
    """Whether every layer's heads can be dealt out evenly."""
    return facts is None or all(layer.heads % cards == 0 for layer in facts.layers if layer.heads)


def _is_moe(facts: ModelFacts | None) -> bool:
    return facts is not None and any(layer.experts for layer in facts.layers)
