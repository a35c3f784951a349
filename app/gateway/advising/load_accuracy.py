"""After every load: what was predicted, what the engine says it took, and what the system sees, side by side.

People are shown the difference, and what a process takes beyond its buffers is known from then on.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

import psutil

from app.core.advice import Amount, EstimateRequest, LoadTruth
from app.core.engines import EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import EngineChanged
from app.gateway.advising import advice
from app.gateway.services import Services

log = logging.getLogger(__name__)

PURPOSES = {"model": "weights", "kv": "kv", "recurrent": "state", "compute": "compute", "output": "output"}
"""What an adapter calls a buffer -> what an estimate calls it."""
_PREDICTED = ("weights", "kv", "state", "compute", "output", "runtime", "total")
SETTLES_S = 0.5
"""An engine may answer before the lines in which it says what it took have been written and read."""


async def watch_loads(services: Services) -> None:
    """Note every load until cancelled. A load that cannot be judged costs a line in the log, nothing else."""
    latest: dict[str, EngineStatus] = {}
    with services.events.subscribe() as events:
        async with asyncio.TaskGroup() as settling:
            async for event in events:
                if not isinstance(event, EngineChanged):
                    continue
                status, before = event.status, latest.get(event.status.model)
                latest[status.model] = status
                if status.loaded_at is not None and (before is None or before.loaded_at != status.loaded_at):
                    settling.create_task(_note(services, latest, status))


async def _note(services: Services, latest: Mapping[str, EngineStatus], loaded: EngineStatus) -> None:
    await asyncio.sleep(SETTLES_S)
    status = latest[loaded.model]
    if status.loaded_at != loaded.loaded_at:
        return  # it has gone again, and what it took was not all heard
    try:
        await services.chats.add_load(await truth_of(services, status))
    except RoundhouseError as error:  # such as a model that is known by no name
        log.info("The load of %s was not compared with its prediction: %s", status.model, error)
    except Exception:  # one load that cannot be judged must not end the watching
        log.exception("The load of %s could not be compared with its prediction", status.model)


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


def _resident(pid: int | None) -> int | None:
    try:
        return None if pid is None else psutil.Process(pid).memory_info().rss
    except psutil.Error:
        return None
