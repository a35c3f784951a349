"""Roundhouse's own updates: what is newer, installing it, the way back. Installations go on when the caller leaves."""

from app.core.updates import InstallUpdate, SkipUpdate, UpdateJob, UpdateState
from app.gateway.admin.calls import Call, Endpoint, NoQuery


async def state(call: Call[None, NoQuery]) -> UpdateState:
    """GET /update."""
    return await call.updates.state()


async def check(call: Call[None, NoQuery]) -> UpdateState:
    """POST /update/check."""
    return await call.updates.check()


async def skip(call: Call[SkipUpdate, NoQuery]) -> UpdateState:
    """POST /update/skip."""
    return await call.updates.skip(call.body.version)


async def install(call: Call[InstallUpdate, NoQuery]) -> UpdateJob:
    """POST /update/install."""
    return await call.updates.install(call.body)


async def roll_back(call: Call[None, NoQuery]) -> UpdateJob:
    """POST /update/rollback."""
    return await call.updates.roll_back()


async def cancel(call: Call[None, NoQuery]) -> None:
    """DELETE /update/job."""
    await call.updates.cancel()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/update",
        handler=state,
        summary="Say how this copy was installed and what is known to be newer; nobody is asked",
        reply=UpdateState,
    ),
    Endpoint(
        method="POST",
        path="/update/check",
        handler=check,
        summary="Ask whether there is a newer Roundhouse, if its description is signed and current",
        reply=UpdateState,
    ),
    Endpoint(
        method="POST",
        path="/update/skip",
        handler=skip,
        summary="Say no more of a version; with an empty one, say everything again",
        body=SkipUpdate,
        reply=UpdateState,
    ),
    Endpoint(
        method="POST",
        path="/update/install",
        handler=install,
        summary="Fetch, check and try out the version that was found, let answers end, and use it",
        body=InstallUpdate,
        reply=UpdateJob,
        status=202,
    ),
    Endpoint(
        method="POST",
        path="/update/rollback",
        handler=roll_back,
        summary="Use the version before again",
        reply=UpdateJob,
        status=202,
    ),
    Endpoint(method="DELETE", path="/update/job", handler=cancel, summary="Call the installation off", status=204),
)
