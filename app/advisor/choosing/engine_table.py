"""The engines the advisor chooses among, as the engines themselves describe them: it is given them and names none."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from engines.api.about import Descriptor
from engines.api.support import EngineSupport
from engines.api.traits import EngineAbility, EngineTarget, GuideNeed, MachineKind, Traits

NOWHERE = EngineTarget(backend="cpu", systems=("nowhere",))
"""Where an engine computes that cannot run here."""
_PLAIN_FORMAT = "safetensors"
"""Whoever is asked about these is asked about formats that nobody claims."""


class EngineTraits(Traits, frozen=True, kw_only=True, eq=False):
    """The traits of an engine with what its descriptor says besides; `formats` in the order it prefers them."""

    id: str
    name: str
    formats: tuple[str, ...]
    obtained: str = ""
    """How a person gets it where Roundhouse does not install it."""
    missing: tuple[str, ...] = ()
    """Why it cannot be installed on the machine in question, in sentences."""
    steps: tuple[str, ...] = ()
    """How to run it there all the same."""
    support: EngineSupport | None = None
    """What the version that is here loads; None where none is here, or nobody can tell."""

    @property
    def runs_everywhere(self) -> bool:
        """Whether it is what is left where no other engine can run."""
        return EngineAbility.EVERYWHERE in self.abilities


class EngineTable(Mapping[str, EngineTraits]):
    """Engines by id, in the order of `Traits.order`. At least one of them runs everywhere."""

    def __init__(self, engines: Iterable[EngineTraits]) -> None:
        self._engines = {engine.id: engine for engine in sorted(engines, key=lambda engine: engine.order)}
        self._readers = {kind: engine for engine in reversed(self._engines.values()) for kind in engine.formats}
        self._readers |= {kind: engine for engine in self._engines.values() for kind in engine.default_formats}

    @classmethod
    def of(cls, descriptors: Iterable[Descriptor]) -> "EngineTable":
        """Return those of the engines that can be advised. Traits are told apart by identity, so keep the table."""
        return cls(
            EngineTraits(
                id=about.id,
                name=about.name,
                formats=tuple(kind.value for kind in about.formats),
                obtained=about.obtained,
                **msgspec.structs.asdict(about.traits),
            )
            for about in descriptors
            if about.traits is not None
        )

    def __getitem__(self, engine: str) -> EngineTraits:
        return self._engines[engine]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    @property
    def fallback(self) -> EngineTraits:
        """The engine that runs everywhere."""
        return next(engine for engine in self._engines.values() if engine.runs_everywhere)

    def reader(self, model_format: str) -> EngineTraits:
        """Return the engine that is meant where none is named: who claims the format, else who reads it."""
        return self._readers.get(model_format, self._readers[_PLAIN_FORMAT])

    def row(self, kind: MachineKind, need: GuideNeed) -> list[EngineTraits]:
        """Return the engines the guide names for one need on one kind of machine, the best first."""
        placed_engines = [(engine.place(kind, need), engine) for engine in self._engines.values()]
        return [engine for place, engine in sorted(placed_engines, key=lambda pair: pair[0]) if place]
