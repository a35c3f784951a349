"""Lists of the catalogue that were judged for this machine before, kept so that a fresh service has them at once.

Judging some four hundred models plans two dozen of them in every form, which takes seconds of a processor. What a list
rests on is its key: the catalogue, the machine, the engines, the calibrations and the setting. Of the memory that is
free only eighths count, because it moves all the time; a plan or a download always asks anew. Blocks.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from app import __version__
from app.core.hub import HubPick, HubUse
from app.core.machine import Confidence, Machine
from app.gateway.hub.repositories import FitContext
from app.hub.repositories.answers import HubMemory
from app.hub.repositories.catalogue import CatalogueContent

_STEPS = 8
"""Free memory counts in so many steps of what there is."""
_MOVING = frozenset({"probed_at", "probes", "free", "available", "memory_free", "bandwidth_gb_s"})
"""Fields of a machine that differ from one look to the next and are counted apart, or not at all."""


class ListingTerms(NamedTuple):
    """What a list rests on: `kind` tells lists apart."""

    kind: str
    use: HubUse
    content: CatalogueContent
    ground: FitContext
    least_speed: int = 0


def keep_picks(hub: HubMemory, terms: ListingTerms, judge: Callable[[], list[HubPick]]) -> list[HubPick]:
    """Return what `judge` came to for the same catalogue, machine and terms; have it judge where nothing is kept."""
    question = _describe_question(terms)
    answer = hub.picks.find_answer(question)
    if answer is not None:
        return answer.value
    return hub.picks.keep_answer(question, judge()).value


def _describe_question(terms: ListingTerms) -> str:
    machine, ground = terms.ground.machine, terms.ground
    parts = (
        __version__,
        (terms.kind, terms.use, terms.least_speed),
        terms.content.models,
        _without_moving(msgspec.to_builtins(machine)),
        (_count_steps(machine), _list_stated_speeds(machine)),
        ground.engines,
        ground.known.calibrations,
    )
    return msgspec.json.encode(parts, order="sorted").decode()


def _without_moving(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _without_moving(inner) for name, inner in value.items() if name not in _MOVING}
    return [_without_moving(item) for item in value] if isinstance(value, list | tuple) else value


def _count_steps(machine: Machine) -> list[int | None]:
    """Return what is free in each pool, in eighths of what there is."""
    figures = [(pool.free.value, pool.physical.value) for pool in machine.pools]
    return [None if free is None or not size else round(free * _STEPS / size) for free, size in figures]


def _list_stated_speeds(machine: Machine) -> list[float | None]:
    """Return the bandwidths that are the same at each look; one that is measured at each start is only known or not."""
    facts = [machine.memory.bandwidth_gb_s, *(gpu.bandwidth_gb_s for gpu in machine.gpus)]
    return [0.0 if fact.value and fact.confidence is Confidence.MEASURED else fact.value for fact in facts]
