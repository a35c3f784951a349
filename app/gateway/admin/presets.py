"""Presets of chats over HTTP. Every window is told when the library changes."""

import msgspec

from app.core.events import PresetsChanged
from app.core.presets import ChatPreset, PresetImport, PresetImportResult, SavePreset
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable

routes = RouteTable()


@routes.add("GET", "/presets")
async def list_presets(call: AdminCall[None, NoQuery]) -> list[ChatPreset]:
    """List the presets by name."""
    return await call.services.chats.list_presets()


@routes.add("POST", "/presets")
async def save_preset(call: AdminCall[SavePreset, NoQuery]) -> ChatPreset:
    """Keep a preset, or what a chat has as one."""
    new = call.body
    if new.chat:
        chat = await call.services.chats.read_chat(new.chat)
        new = msgspec.structs.replace(new, preset=new.preset.fill_gaps_from(chat), chat="")
    new.preset.sampling.check_forms()
    preset = await call.services.chats.save_preset(new)
    call.services.events.publish(PresetsChanged())
    return preset


@routes.add("POST", "/presets/import")
async def import_presets(call: AdminCall[PresetImport, NoQuery]) -> PresetImportResult:
    """Add presets of a file; those that are there already change nothing."""
    for preset in call.body.presets:
        preset.sampling.check_forms()
    result = await call.services.chats.import_presets(call.body.presets)
    call.services.events.publish(PresetsChanged())
    return result


@routes.add("DELETE", "/presets/{name}")
async def delete_preset(call: AdminCall[None, NoQuery]) -> None:
    """Forget a preset."""
    await call.services.chats.delete_preset(call.names["name"])
    call.services.events.publish(PresetsChanged())
