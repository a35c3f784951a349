"""The gateway about itself: status, machine, settings, access keys, events.

Roundhouse's own updates: what is newer, installing it, the way back. Installations go on when the caller leaves.
"""

import asyncio
import os
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import msgspec
import psutil

from app import __version__
from app.config.paths import Home
from app.config.store import SettingsStore
from app.core.api import API_VERSION, SettingInfo, SettingValue, Status
from app.core.errors import BadRequest, Forbidden, NotFound, StorageFault
from app.core.events import (
    EngineChanged,
    EngineJobChanged,
    Event,
    LibraryJobChanged,
    ModelsChanged,
    PauseChanged,
    SettingChanged,
)
from app.core.keys import KeyInfo, KeyLimits, KeyRename, KeyWithSecret, NewKey
from app.core.machine import Machine
from app.core.updates import InstallUpdate, SkipUpdate, UpdateJob, UpdateState
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.dialects.responses import stored as responses_kept
from app.gateway.entry.access import KeyNeeded
from app.gateway.entry.guard import asks_for_keys, is_wide
from app.gateway.instance import reachable_at
from app.gateway.loading.autocomplete import check_completion_model
from app.gateway.loading.launch import renew_policy
from app.gateway.loading.requested_model import AUTOCOMPLETE, find_stand_in, is_auto
from app.hub.library.library import Library
from app.network.egress import egress_gate

routes = RouteTable()
update_routes = RouteTable()

SettingChanges = dict[str, SettingValue | None]
_PERSONS_SETTINGS = frozenset({"chats.tool_servers", "responses.mcp_servers"})


class MachineQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`fresh` looks again instead of repeating what was found before."""

    fresh: bool = False


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`logs` includes the lines engines write."""

    logs: bool = False


@routes.add("GET", "/status")
async def status(call: AdminCall[None, NoQuery]) -> Status:
    """Say who and where the gateway is."""
    identity, paths = call.services.identity, call.services.paths
    # Also what was said before any client could listen: conversations that had to be set aside must not go unnoticed.
    notices = [identity.notice, *(f"{notice.sentence} {notice.hint}" for notice in call.services.chats.notices)]
    reachable = reachable_at(identity.host, urlsplit(identity.url).port or 0)
    return Status(
        version=__version__,
        api_version=API_VERSION,
        pid=os.getpid(),
        url=identity.url,
        reachable_at=reachable,
        asks_for_keys=asks_for_keys(identity.host, call.services.settings),
        started_at=identity.started_at,
        notice=" ".join(filter(None, notices)),
        paused_since=call.services.supervisor.pausing.pause_state().since,
        resident_bytes=psutil.Process().memory_info().rss,
        data_dir=str(paths.data),
        models_dir=str(paths.models),
        log_dir=str(paths.logs),
    )


@routes.add("POST", "/shutdown", status=202)
async def shutdown(call: AdminCall[None, NoQuery]) -> None:
    """End the gateway and every engine."""
    call.services.stop()


@routes.add("GET", "/machine")
async def machine(call: AdminCall[None, MachineQuery]) -> Machine:
    """Describe this computer."""
    return await call.services.machine.read(fresh=call.query.fresh)


@routes.add("GET", "/settings")
async def settings(call: AdminCall[None, NoQuery]) -> list[SettingInfo]:
    """List the settings."""
    return call.services.settings.describe_all()


@routes.add("PATCH", "/settings")
async def change_settings(call: AdminCall[SettingChanges, NoQuery]) -> list[SettingInfo]:
    """Change settings; null resets one.

    All of it or nothing; what can take effect at once does.
    """
    services = call.services
    host = call.body.get("gateway.host")
    if isinstance(host, str) and is_wide(host) and not len(services.keys):
        raise KeyNeeded
    if call.key_name and not _PERSONS_SETTINGS.isdisjoint(call.body):
        raise Forbidden(
            "With a key, nobody decides which tools models may call.",
            hint="Use the window, or `roundhouse settings` on this computer.",
            code="mcp_needs_person",
        )
    await asyncio.to_thread(_check_fallback, services.settings, services.library, call.body.get("models.fallback"))
    changes = dict(call.body)
    if isinstance(name := changes.get(AUTOCOMPLETE), str) and name:
        changes[AUTOCOMPLETE] = (await check_completion_model(services, name)).runs_as
    change = services.settings.change_values(changes)
    if "window.at_login" in change:
        await _arrange_login(services.settings, services.home)
    renew_policy(services)
    call.inspector.settings_changed()
    call.traces.apply_settings()
    await responses_kept.settings_changed(services.chats, services.settings, change)
    call.downloads.apply_settings()
    await call.kept_prompts.apply_settings()
    if "network.offline" in change and services.settings.get_flag("network.offline"):
        egress_gate.cut_connections()
    for name in change:
        services.events.publish(SettingChanged(name=name))
    if "models.folders" in change:
        services.events.publish(ModelsChanged())
    return services.settings.describe_all()


def _check_fallback(settings: SettingsStore, library: Library, name: SettingValue | None) -> None:
    """Raise BadRequest if no model here would answer under that name."""
    if not isinstance(name, str) or not name or is_auto(name):
        return
    if find_stand_in(name, settings.get_list("models.aliases")):
        return
    try:
        library.find_model(name)
    except NotFound as error:
        raise BadRequest(error.body.sentence, hint=error.hint, code=error.code) from None


async def _arrange_login(settings: SettingsStore, home: Home) -> None:
    """Do as the setting says, or take it back."""
    from app.config import service_unit  # noqa: PLC0415 -- seldom needed, and not at start-up

    is_wanted = settings.get_flag("window.at_login")
    try:
        await asyncio.to_thread(service_unit.set_autostart, home, is_enabled=is_wanted)
    except StorageFault:
        settings.change_values({"window.at_login": not is_wanted})
        raise


@routes.add("GET", "/events")
async def events(call: AdminCall[None, EventsQuery]) -> AsyncGenerator[Event, None]:
    """Follow what happens."""
    return _stream_events(call)


async def _stream_events(call: AdminCall[None, EventsQuery]) -> AsyncGenerator[Event, None]:
    with call.services.events.subscribe(logs=call.query.logs) as subscription:
        # What is running now comes first: a listener that asked before it listened has missed nothing.
        for status in call.services.supervisor.list_statuses():
            yield EngineChanged(status=status)
        if call.services.supervisor.is_paused:
            yield PauseChanged(pause=call.services.supervisor.pausing.pause_state())
        for job in (call.calibrator, call.benchmarks, call.races, call.trials, call.drafts):
            if job.job.last is not None:
                yield job.job.last
        if call.engines.last_job is not None:
            yield EngineJobChanged(job=call.engines.last_job)
        if call.library.job.last is not None:
            yield LibraryJobChanged(job=call.library.job.last)
        async for event in subscription:
            yield event


@routes.add("GET", "/keys")
async def list_keys(call: AdminCall[None, NoQuery]) -> list[KeyInfo]:
    """List the access keys."""
    return call.services.keys.list_keys()


@routes.add("POST", "/keys")
async def make_key(call: AdminCall[NewKey, NoQuery]) -> KeyWithSecret:
    """Make an access key; this answer alone holds it."""
    return call.services.keys.make_key(call.body)


@routes.add("POST", "/keys/{name}/limits")
async def limit_key(call: AdminCall[KeyLimits, NoQuery]) -> KeyInfo:
    """Give a key these limits and no others; without any it has none."""
    return call.services.keys.limit_key(call.names["name"], call.body)


@routes.add("POST", "/keys/{name}/rename")
async def rename_key(call: AdminCall[KeyRename, NoQuery]) -> KeyInfo:
    """Call a key otherwise, also where collections name it."""
    keys, name, new_name = call.services.keys, call.names["name"], call.body.name
    new_record = keys.rename_key(name, new_name)
    try:
        await call.collections.rename_key(name, new_name)
    except StorageFault:
        keys.rename_key(new_name, name)
        raise
    return new_record


@routes.add("DELETE", "/keys/{name}")
async def revoke_key(call: AdminCall[None, NoQuery]) -> None:
    """Revoke an access key at once."""
    call.services.keys.revoke_key(call.names["name"])
    await call.kept_prompts.sweep_prompts()


@routes.add("POST", "/keys/{name}/restore")
async def restore_key(call: AdminCall[None, NoQuery]) -> KeyInfo:
    """Bring back a key revoked since the gateway started."""
    return call.services.keys.restore_key(call.names["name"])


@update_routes.add("GET", "/update")
async def state(call: AdminCall[None, NoQuery]) -> UpdateState:
    """Say how this copy was installed and what is known to be newer; nobody is asked."""
    return await call.updates.state()


@update_routes.add("POST", "/update/check")
async def check(call: AdminCall[None, NoQuery]) -> UpdateState:
    """Ask whether there is a newer Roundhouse, if its description is signed and current."""
    return await call.updates.check()


@update_routes.add("POST", "/update/skip")
async def skip(call: AdminCall[SkipUpdate, NoQuery]) -> UpdateState:
    """Say no more of a version; with an empty one, say everything again."""
    return await call.updates.skip(call.body.version)


@update_routes.add("POST", "/update/install", status=202)
async def install(call: AdminCall[InstallUpdate, NoQuery]) -> UpdateJob:
    """Fetch, check and try out the version that was found, let answers end, and use it."""
    return await call.updates.install(call.body)


@update_routes.add("POST", "/update/rollback", status=202)
async def roll_back(call: AdminCall[None, NoQuery]) -> UpdateJob:
    """Use the version before again."""
    return await call.updates.roll_back()


@update_routes.add("DELETE", "/update/job")
async def cancel(call: AdminCall[None, NoQuery]) -> None:
    """Call the installation off."""
    await call.updates.cancel()
