"""After every load: what was predicted, what the engine says it took, and what the system sees, side by side.

People are shown the difference, and what a process takes beyond its buffers is known from then on.
"""

import logging
import time
from collections.abc import Mapping

import psutil

from app.core.advice import Amount, EstimateRequest, LoadTruth
from app.core.engines import EngineState, EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import EngineChanged
from app.gateway import advice
from app.gateway.services import Services

log = logging.getLogger(__name__)

PURPOSES = {"model": "weights", "kv": "kv", "recurrent": "state", "compute": "compute", "output": "output"}
"""What an adapter calls a buffer -> what an estimate calls it."""
_PREDICTED = ("weights", "kv", "state", "compute", "output", "runtime", "total")


async def watch_loads(services: Services) -> None:
    """Note every load until cancelled. A load that cannot be judged costs a line in the log, nothing else."""
    seen: dict[str, float] = {}
    with services.events.subscribe() as events:
        async for event in events:
            if not isinstance(event, EngineChanged) or not _is_new(event.status, seen):
                continue
            try:
                await services.chats.add_load(await truth_of(services, event.status))
            except RoundhouseError as error:  # such as a model that is known by no name
                log.info("The load of %s was not compared with its prediction: %s", event.status.model, error)
            except Exception:  # one load that cannot be judged must not end the watching
                log.exception("The load of %s could not be compared with its prediction", event.status.model)


async def truth_of(services: Services, status: EngineStatus) -> LoadTruth:
    """Return what a running engine took against what was predicted. Raises NotFound or BadRequest."""
    asked = EstimateRequest(
        model=status.model,
        engine=status.engine,
        context=status.context,
        slots=status.slots,
        kv_type=status.kv_type or None,
    )
    shift = advice.runtime_shift(await services.chats.loads(), status.engine)
    predicted = await advice.estimate(services, asked)
    amounts: dict[str, Amount] = {name: getattr(predicted, name) for name in _PREDICTED}
    return LoadTruth(
        model=status.model,
        engine=status.engine,
        version=status.version,
        predicted={name: amount.bytes for name, amount in amounts.items()},
        logged=logged(status.buffers),
        resident=_resident(status.pid),
        runtime_shift=shift or 0,
        at=time.time(),
    )


def logged(buffers: Mapping[str, int]) -> dict[str, int]:
    """Return the engine's buffers by component, and their total."""
    found = {PURPOSES[purpose]: size for purpose, size in buffers.items() if purpose in PURPOSES}
    return {**found, "total": sum(found.values())} if found else {}


def _is_new(status: EngineStatus, seen: dict[str, float]) -> bool:
    """Whether this is the first word of a load that has ended well."""
    if status.state is not EngineState.READY or status.loaded_at is None or seen.get(status.model) == status.loaded_at:
        return False
    seen[status.model] = status.loaded_at
    return True


def _resident(pid: int | None) -> int | None:
    try:
        return None if pid is None else psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
