"""The library of presets over HTTP: kept, replaced, imported, removed, and told of to every window."""

from app.core.chats import Sampling
from app.core.events import Event, PresetsChanged
from app.core.presets import ChatPreset, PresetImport, PresetImportResult, SavePreset
from tests.gateway.admin.conftest import Api

TRIP = ChatPreset(name="Trip", prompt="{{city}}", sampling=Sampling(temperature=0.5))


async def list_presets(api: Api) -> list[ChatPreset]:
    return await api.call("GET", "/presets", list[ChatPreset])


async def test_a_preset_is_kept_replaced_and_removed(api: Api) -> None:
    assert await list_presets(api) == []
    assert await api.call("POST", "/presets", ChatPreset, SavePreset(preset=TRIP)) == TRIP
    other = ChatPreset(name="TRIP", model="guide")
    assert await api.expect_refusal("POST", "/presets", SavePreset(preset=other)) == (409, "preset_exists")
    await api.call("POST", "/presets", ChatPreset, SavePreset(preset=other, replaces=True))
    assert await list_presets(api) == [other]
    assert (await api.raw("DELETE", "/presets/trip"))[0] == 204
    assert await api.expect_refusal("DELETE", "/presets/trip") == (404, "preset_not_found")


async def test_importing_again_changes_nothing_and_a_name_that_is_taken_gets_a_number(api: Api) -> None:
    body = PresetImport(presets=[TRIP, ChatPreset(name="A/b c")])
    first = await api.call("POST", "/presets/import", PresetImportResult, body)
    assert first == PresetImportResult(added=["Trip", "A/b c"])
    other = PresetImport(presets=[ChatPreset(name="trip", model="guide"), TRIP])
    for added_names in (["trip (2)"], []):
        result = await api.call("POST", "/presets/import", PresetImportResult, other)
        assert (result.added, result.unchanged) == (added_names, 2 - len(added_names))
    assert [preset.name for preset in await list_presets(api)] == ["A/b c", "Trip", "trip (2)"]
    assert (await api.raw("DELETE", "/presets/A%2Fb%20c"))[0] == 204


async def test_what_makes_no_sense_is_kept_by_nobody(api: Api) -> None:
    for preset in (
        {"name": ""},
        {"name": " x"},
        {"name": "x" * 81},
        {"name": "x", "other": 1},
        {"name": "x", "sampling": {"json_schema": "{"}},
        {"name": "x", "sampling": {"thinking": "much"}},
    ):
        assert (await api.raw("POST", "/presets", {"preset": preset}))[0] == 400
        assert (await api.raw("POST", "/presets/import", {"presets": [{"name": "ok"}, preset]}))[0] == 400
    assert (await api.raw("POST", "/presets/import", {"presets": [{"name": "x"}] * 1001}))[0] == 400
    assert await list_presets(api) == []


async def test_what_a_chat_has_is_kept_and_what_is_said_counts_before_it(api: Api) -> None:
    sampling = Sampling(temperature=0.5, top_k=5, grammar='root ::= "a"')
    chat = await api.chat(model="guide", system_prompt="Be brief.", sampling=sampling)
    new = SavePreset(preset=ChatPreset(name="As there", prompt="Hi"), chat=chat.id)
    preset = await api.call("POST", "/presets", ChatPreset, new)
    assert preset == ChatPreset(
        name="As there", model="guide", system_prompt="Be brief.", prompt="Hi", sampling=sampling
    )
    own = ChatPreset(name="Own", system_prompt="Be long.", sampling=Sampling(top_k=9, json_schema="{}"))
    preset = await api.call("POST", "/presets", ChatPreset, SavePreset(preset=own, chat=chat.id))
    assert (preset.model, preset.system_prompt) == ("guide", "Be long.")
    assert preset.sampling == Sampling(temperature=0.5, top_k=9, json_schema="{}")
    assert {stored_preset.name for stored_preset in await list_presets(api)} == {"As there", "Own"}
    assert await api.expect_refusal("POST", "/presets", SavePreset(preset=own, chat="none")) == (404, "chat_not_found")


async def test_windows_are_told(api: Api) -> None:
    async with api.events("/events", Event) as events:
        await api.call("POST", "/presets", ChatPreset, SavePreset(preset=TRIP))
        async for event in events:
            if isinstance(event, PresetsChanged):
                break
