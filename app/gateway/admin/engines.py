"""The engines: which there are, which to use, and their versions. Jobs go on when the caller leaves."""

import asyncio

import msgspec

from app.core.confinement import ConfinementReport
from app.core.engine_store import (
    BundleEngine,
    EngineJob,
    EngineListing,
    EngineUpdate,
    InstallEngine,
    TestEngine,
    UseEngine,
)
from app.core.engines import EngineChoice, EngineInfo, EnginePlan, EnginePlanRequest
from app.core.events import LogLine
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.engines.confinement import confinement_report

routes = RouteTable()


class UpdateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`channel` is "stable" or "latest"."""

    channel: str = "stable"


@routes.add("GET", "/engines/stock")
async def stock(call: AdminCall[None, NoQuery]) -> list[EngineListing]:
    """List the engines: how each suits this computer, what is installed, what could be."""
    return await call.engines.store.list_stock()


@routes.add("GET", "/engines/confinement")
async def confinement(call: AdminCall[None, NoQuery]) -> ConfinementReport:
    """Say whether engines are confined on this computer, and from what."""
    return await asyncio.to_thread(confinement_report, call.services.settings)


@routes.add("GET", "/engines/job")
async def job(call: AdminCall[None, NoQuery]) -> EngineJob | None:
    """Show the install, update or test that runs or ran last."""
    return call.engines.last_job


@routes.add("DELETE", "/engines/job")
async def cancel(call: AdminCall[None, NoQuery]) -> None:
    """Call the job off."""
    await call.engines.close()


@routes.add("GET", "/engines/log")
async def log(call: AdminCall[None, NoQuery]) -> list[LogLine]:
    """Show what installs, updates and tests said."""
    return list(call.engines.store.jobs.lines)


@routes.add("POST", "/engines/{id}/install", status=202)
async def install(call: AdminCall[InstallEngine, NoQuery]) -> EngineJob:
    """Install a version beside the others, test it, and use it."""
    return await call.engines.store.install(call.names["id"], call.body)


@routes.add("GET", "/engines/{id}/update")
async def check(call: AdminCall[None, UpdateQuery]) -> EngineUpdate:
    """Say what an update would change; nothing is changed."""
    return await call.engines.store.check_update(call.names["id"], call.query.channel)


@routes.add("POST", "/engines/{id}/update", status=202)
async def update(call: AdminCall[InstallEngine, NoQuery]) -> EngineJob:
    """Install a newer version, test it with your models too, and use it."""
    return await call.engines.store.install(call.names["id"], call.body, verb="update")


@routes.add("POST", "/engines/{id}/use")
async def use(call: AdminCall[UseEngine, NoQuery]) -> EngineJob | None:
    """Use another version, or a program of your own once it is tested."""
    return await call.engines.store.use(call.names["id"], call.body)


@routes.add("POST", "/engines/{id}/rollback")
async def roll_back(call: AdminCall[None, NoQuery]) -> None:
    """Use the version before again."""
    await call.engines.store.roll_back(call.names["id"])


@routes.add("POST", "/engines/{id}/test", status=202)
async def test(call: AdminCall[TestEngine, NoQuery]) -> EngineJob:
    """Test a version with the Guide and your models."""
    return await call.engines.store.test(call.names["id"], call.body.version)


@routes.add("POST", "/engines/{id}/plan")
async def plan(call: AdminCall[EnginePlanRequest, NoQuery]) -> EnginePlan:
    """Say what it would be started with for a model, here or over several computers; nothing is started."""
    from app.gateway.engines.plans import engine_plan  # noqa: PLC0415 -- brings in what several engines share

    return await engine_plan(call.services, call.names["id"], call.body)


@routes.add("POST", "/engines/{id}/bundle", status=202)
async def bundle(call: AdminCall[BundleEngine, NoQuery]) -> EngineJob:
    """Write a file from which a computer without network can install."""
    return await call.engines.store.bundle(call.names["id"], call.body)


@routes.add("DELETE", "/engines/{id}/versions/{version}")
async def remove(call: AdminCall[None, NoQuery]) -> None:
    """Remove a version from the disk."""
    await call.engines.store.remove(call.names["id"], call.names["version"])


@routes.add("GET", "/engines")
async def engines(call: AdminCall[None, NoQuery]) -> list[EngineInfo]:
    """List the engines this build knows."""
    return await asyncio.to_thread(call.services.catalogue.list_engines)


@routes.add("GET", "/choice")
async def choice(call: AdminCall[None, NoQuery]) -> EngineChoice:
    """Name the engine this computer should use, and why."""
    from app.advisor.choosing.rules import choose_engine  # noqa: PLC0415 -- the gateway starts without the advisor
    from app.engine_store.host import host_of  # noqa: PLC0415 -- as above
    from app.gateway.advising.engine_table import engines_for  # noqa: PLC0415 -- as above

    machine, catalogue = await call.services.machine.read(), call.services.catalogue
    engines_here = await asyncio.to_thread(catalogue.list_engines)
    table = engines_for(machine, catalogue.recipes, engines_here, host_of(machine))
    return choose_engine(table, machine, engines_here)
