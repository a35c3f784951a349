"""What this machine itself has, as paired machines are told: its models, whether they are loaded, how busy and fast."""

import asyncio

from app.core.engines import EngineState, EngineStatus
from app.core.machines import ModelLoad
from app.gateway.services import Services

_LATEST = 8
"""Answers whose speed is looked at."""


async def list_own_models(services: Services) -> list[ModelLoad]:
    """Return the models of this machine, without those that are attached, damaged or built in."""
    models = await asyncio.to_thread(services.library.list_models)
    statuses = {status.model: status for status in services.supervisor.list_statuses()}
    return [
        await _load_of(services, model.name, statuses.get(model.runs_as))
        for model in models
        if not (model.attached or model.problem or model.is_builtin)
    ]


async def _load_of(services: Services, name: str, status: EngineStatus | None) -> ModelLoad:
    if status is None or status.state is not EngineState.READY:
        return ModelLoad(name=name, load_s=status.load_seconds if status is not None else None)
    from statistics import median  # noqa: PLC0415 -- 10 ms that starting can do without

    generations = await services.speed_measurements.generations(
        status.model, engine=status.engine, backend=status.backend
    )
    rates = [entry.completion_tokens / entry.decode_s for entry in generations[-_LATEST:] if entry.decode_s > 0]
    return ModelLoad(
        name=name,
        is_loaded=True,
        in_flight=status.in_flight + status.queued,
        slots=status.slots or 1,
        load_s=status.load_seconds,
        tokens_per_s=median(rates) if rates else None,
    )
