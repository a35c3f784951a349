"""Say what an engine would be started with, here or over several computers. Nothing is started."""

import asyncio
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app.core.engines import EnginePlan, EnginePlanRequest, PlannedStep
from app.core.errors import BadRequest, NotFound
from app.core.models import ModelInfo
from app.engine_store.catalogue import unknown_engine
from app.gateway.loading.launch import find_model, launch_options, size_load
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from app.supervisor.run import HOST
from engines.api import (
    EngineAdapter,
    EngineInstallation,
    LaunchOptions,
    ListenOptions,
    ModelFormat,
    ModelSource,
    ProcessSpec,
)
from engines.teams import Team, team_plan

HERE = "this computer"
PORT = 28_000
"""Stands for the free port that a start would pick; commands over several computers are run with it as it is.

It is below those that systems give to connections by themselves: one that had it kept vLLM from listening there.
"""
_KEY = "<key>"
_NO_ADDRESS = "The names of computers are host names or addresses."


async def engine_plan(services: Services, engine: str, ask: EnginePlanRequest) -> EnginePlan:
    """Return every command. Raises NotFound or BadRequest: no such model or engine, or options it cannot honour."""
    if engine not in services.adapters:
        unknown = unknown_engine(engine)
        raise NotFound(str(unknown), hint=unknown.hint, code="engine_unknown")
    model = await find_model(services, ask.model)
    source = ModelSource(name=model.name, path=Path(model.path), format=ModelFormat(model.format))
    installation = await asyncio.to_thread(services.catalogue.expect_installation, engine)
    options = await _options_for(services, model, LoadRequest(engine=engine, source=source), ask)
    net = ListenOptions(host=HOST, port=PORT, key=_KEY)
    try:
        if ask.nodes:
            return _plan_team(
                engine,
                Team(nodes=_check_nodes(ask.nodes), model=source, options=options, net=net, installation=installation),
            )
        return _plan_alone(services.adapters, engine, source, (options, net, installation))
    except ValueError as error:
        raise BadRequest(str(error), hint="Choose other options, or another engine.", code="bad_options") from error


def _plan_alone(
    adapters: Mapping[str, EngineAdapter],
    engine: str,
    source: ModelSource,
    launch: tuple[LaunchOptions, ListenOptions, EngineInstallation],
) -> EnginePlan:
    options, net, installation = launch
    plan = adapters[engine].plan(source, options, net, installation)
    return EnginePlan(
        engine=engine,
        steps=[_describe_step(HERE, process) for process in plan.processes],
        base_url=plan.base_url,
        files=[file.name for file in plan.files],
        notes=[omission.sentence for omission in plan.left_out],
    )


def _plan_team(engine: str, team: Team) -> EnginePlan:
    plan = team_plan(engine, team)
    steps = [_describe_step(step.machine, step.process) for step in plan.steps]
    return EnginePlan(engine=engine, steps=steps, base_url=plan.base_url, notes=list(plan.notes))


def _describe_step(machine: str, process: ProcessSpec) -> PlannedStep:
    masked_secrets = dict.fromkeys(process.secrets, _KEY)
    return PlannedStep(
        machine=machine, role=process.role, command=shlex.join(process.argv), env={**process.env, **masked_secrets}
    )


async def _options_for(
    services: Services, model: ModelInfo, load: LoadRequest, ask: EnginePlanRequest
) -> LaunchOptions:
    """Return what a load would be given. A team's computers are not known: they share out what is asked for."""
    own = services.model_settings.settings_of(model.runs_as)
    options = await asyncio.to_thread(launch_options, services, model, ask.options, own, engine=load.engine)
    if not ask.nodes:
        options = (await size_load(services, msgspec.structs.replace(load, options=options), ask.options)).options
    if ask.tensor_parallel is None:
        return options
    return msgspec.structs.replace(options, tensor_parallel=ask.tensor_parallel)


def _check_nodes(nodes: list[str]) -> tuple[str, ...]:
    if not all(node and all(letter.isalnum() or letter in ".-:" for letter in node) for node in nodes):
        raise ValueError(_NO_ADDRESS)
    return tuple(nodes)
