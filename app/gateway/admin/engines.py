"""The engines' versions: what there is, installing, switching, removing. Jobs go on when the caller leaves."""

import msgspec

from app.core.engine_plans import AskPlan, EnginePlan
from app.core.engine_store import (
    BundleEngine,
    EngineJob,
    EngineStock,
    EngineUpdate,
    InstallEngine,
    TestEngine,
    UseEngine,
)
from app.core.events import LogLine
from app.gateway.admin.calls import Call, Endpoint, NoQuery

_ENGINE = "/engines/{id}"


class UpdateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`channel` is "stable" or "latest"."""

    channel: str = "stable"


async def stock(call: Call[None, NoQuery]) -> list[EngineStock]:
    """GET /engines/stock."""
    return await call.engines.store.stock()


async def job(call: Call[None, NoQuery]) -> EngineJob | None:
    """GET /engines/job."""
    return call.engines.last_job


async def cancel(call: Call[None, NoQuery]) -> None:
    """DELETE /engines/job."""
    await call.engines.close()


async def log(call: Call[None, NoQuery]) -> list[LogLine]:
    """GET /engines/log."""
    return list(call.engines.store.jobs.lines)


async def install(call: Call[InstallEngine, NoQuery]) -> EngineJob:
    """POST /engines/{id}/install."""
    return await call.engines.store.install(call.names["id"], call.body)


async def check(call: Call[None, UpdateQuery]) -> EngineUpdate:
    """GET /engines/{id}/update."""
    return await call.engines.store.update(call.names["id"], call.query.channel)


async def update(call: Call[InstallEngine, NoQuery]) -> EngineJob:
    """POST /engines/{id}/update."""
    return await call.engines.store.install(call.names["id"], call.body, verb="update")


async def use(call: Call[UseEngine, NoQuery]) -> EngineJob | None:
    """POST /engines/{id}/use."""
    return await call.engines.store.use(call.names["id"], call.body)


async def roll_back(call: Call[None, NoQuery]) -> None:
    """POST /engines/{id}/rollback."""
    await call.engines.store.roll_back(call.names["id"])


async def test(call: Call[TestEngine, NoQuery]) -> EngineJob:
    """POST /engines/{id}/test."""
    return await call.engines.store.test(call.names["id"], call.body.version)


async def plan(call: Call[AskPlan, NoQuery]) -> EnginePlan:
    """POST /engines/{id}/plan."""
    from app.gateway.engines.plans import engine_plan  # noqa: PLC0415 -- brings in what several engines share

    return await engine_plan(call.services, call.names["id"], call.body)


async def bundle(call: Call[BundleEngine, NoQuery]) -> EngineJob:
    """POST /engines/{id}/bundle."""
    return await call.engines.store.bundle(call.names["id"], call.body)


async def remove(call: Call[None, NoQuery]) -> None:
    """DELETE /engines/{id}/versions/{version}."""
    await call.engines.store.remove(call.names["id"], call.names["version"])


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/engines/stock",
        handler=stock,
        summary="List the engines: how each suits this computer, what is installed, what could be",
        reply=list[EngineStock],
    ),
    Endpoint(
        method="GET",
        path="/engines/job",
        handler=job,
        summary="Show the install, update or test that runs or ran last",
        reply=EngineJob | None,
    ),
    Endpoint(method="DELETE", path="/engines/job", handler=cancel, summary="Call the job off", status=204),
    Endpoint(
        method="GET",
        path="/engines/log",
        handler=log,
        summary="Show what installs, updates and tests said",
        reply=list[LogLine],
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/plan",
        handler=plan,
        summary="Say what it would be started with for a model, here or over several computers; nothing is started",
        body=AskPlan,
        reply=EnginePlan,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/install",
        handler=install,
        summary="Install a version beside the others, test it, and use it",
        body=InstallEngine,
        reply=EngineJob,
        status=202,
    ),
    Endpoint(
        method="GET",
        path=_ENGINE + "/update",
        handler=check,
        summary="Say what an update would change; nothing is changed",
        reply=EngineUpdate,
        query=UpdateQuery,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/update",
        handler=update,
        summary="Install a newer version, test it with your models too, and use it",
        body=InstallEngine,
        reply=EngineJob,
        status=202,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/use",
        handler=use,
        summary="Use another version, or a program of your own once it is tested",
        body=UseEngine,
        reply=EngineJob | None,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/rollback",
        handler=roll_back,
        summary="Use the version before again",
        status=204,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/test",
        handler=test,
        summary="Test a version with the Guide and your models",
        body=TestEngine,
        reply=EngineJob,
        status=202,
    ),
    Endpoint(
        method="POST",
        path=_ENGINE + "/bundle",
        handler=bundle,
        summary="Write a file from which a computer without network can install",
        body=BundleEngine,
        reply=EngineJob,
        status=202,
    ),
    Endpoint(
        method="DELETE",
        path=_ENGINE + "/versions/{version}",
        handler=remove,
        summary="Remove a version from the disk",
        status=204,
    ),
)
