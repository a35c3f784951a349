"""Which installed engine runs a model, where several read its format: a person's choice, else the advisor's order."""

from collections.abc import Sequence

from app.core.engines import EngineInfo
from app.core.machine import Machine


def best_reader(readers: Sequence[EngineInfo], preferred: Sequence[str], machine: Machine | None) -> EngineInfo:
    """Return one of the installed engines that read a format. One that is known to fail comes last.

    Without a machine, which is not known in the first second, the registry's order counts.
    """
    if len(readers) == 1:
        return readers[0]
    order = [*preferred, *_advised(machine)]
    places = {engine: place for place, engine in reversed(list(enumerate(order)))}
    return min(readers, key=lambda engine: (bool(engine.problem), places.get(engine.id, len(order))))


def _advised(machine: Machine | None) -> list[str]:
    if machine is None:
        return []
    from app.advisor.choosing.intents import workload  # noqa: PLC0415 -- the advisor is brought in once it is needed
    from app.advisor.choosing.rules import ranking  # noqa: PLC0415 -- as above
    from app.core.advice import Intent  # noqa: PLC0415 -- as above

    return [one.traits.id for one in ranking(machine, workload(Intent.CHAT)) if not one.refused]
