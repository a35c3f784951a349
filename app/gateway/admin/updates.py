"""Roundhouse's own updates: what is newer, installing it, the way back. Installations go on when the caller leaves."""

from app.core.updates import InstallUpdate, SkipUpdate, UpdateJob, UpdateState
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/update")
async def state(call: AdminCall[None, NoQuery]) -> UpdateState:
    """Say how this copy was installed and what is known to be newer; nobody is asked."""
    return await call.updates.state()


@routes.add("POST", "/update/check")
async def check(call: AdminCall[None, NoQuery]) -> UpdateState:
    """Ask whether there is a newer Roundhouse, if its description is signed and current."""
    return await call.updates.check()


@routes.add("POST", "/update/skip")
async def skip(call: AdminCall[SkipUpdate, NoQuery]) -> UpdateState:
    """Say no more of a version; with an empty one, say everything again."""
    return await call.updates.skip(call.body.version)


@routes.add("POST", "/update/install", status=202)
async def install(call: AdminCall[InstallUpdate, NoQuery]) -> UpdateJob:
    """Fetch, check and try out the version that was found, let answers end, and use it."""
    return await call.updates.install(call.body)


@routes.add("POST", "/update/rollback", status=202)
async def roll_back(call: AdminCall[None, NoQuery]) -> UpdateJob:
    """Use the version before again."""
    return await call.updates.roll_back()


@routes.add("DELETE", "/update/job")
async def cancel(call: AdminCall[None, NoQuery]) -> None:
    """Call the installation off."""
    await call.updates.cancel()
