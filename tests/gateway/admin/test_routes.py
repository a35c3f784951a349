import asyncio
import json

import pytest

from app.config import service_unit
from app.core.api import PREFIX, SettingInfo
from app.core.chats import ChatSummary
from app.core.events import ChatChanged, EngineChanged, Event, LogLine, ModelsChanged, Notice, SettingChanged
from app.gateway.admin.routes import ENDPOINTS
from app.gateway.entry import event_stream
from app.gateway.entry.access import Attempts
from tests.gateway.admin.conftest import Api, Pen
from tests.patience import PATIENCE_S

EVERY_ROUTE = [
    *((row.method, row.path.replace("{", "").replace("}", "")) for row in ENDPOINTS),
    ("GET", "/openapi.json"),
]


WITHOUT_TOKEN = ("", "Bearer", "Bearer ", "Bearer tokem", "Bearer token2", "Basic token", "token", "Bearer t\xf6ken")


async def test_every_route_needs_the_token(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attempts, "note_wrong_key", lambda *_: 0.0)  # or it would soon refuse to look at keys at all
    assert len(EVERY_ROUTE) > 100
    for method, path in EVERY_ROUTE:
        for token in WITHOUT_TOKEN:
            status, data = await api.raw(method, path, Authorization=token)
            assert (status, json.loads(data)["code"]) == (401, "unauthorized"), (method, path, token)


async def test_the_tokens_scheme_has_no_case(api: Api) -> None:
    assert (await api.raw("GET", "/status", Authorization="bearer token"))[0] == 200


async def test_a_page_from_elsewhere_is_kept_out_even_with_the_token(api: Api) -> None:
    status, data = await api.raw("GET", "/status", Origin="https://evil.example")
    assert (status, json.loads(data)["code"]) == (403, "origin_not_allowed")


async def test_an_unknown_address_and_a_wrong_method_are_said_plainly(api: Api) -> None:
    assert await api.expect_refusal("GET", "/nothing") == (404, "route_not_found")
    assert await api.expect_refusal("PUT", "/chats") == (405, "method_not_allowed")
    assert await api.expect_refusal("GET", "/chats//turns") == (404, "route_not_found")


@pytest.mark.slow(cases=16)
@pytest.mark.parametrize(
    ("method", "path", "body", "where"),
    [
        ("POST", "/chats", {"title": 5}, "$.title"),
        ("POST", "/chats", {"sampling": {"top_k": "many"}}, "$.sampling.top_k"),
        ("POST", "/chats", {"titel": ""}, "titel"),
        ("POST", "/load", {"model": "guide", "options": {"context": 1.5}}, "$.options.context"),
        ("POST", "/load", {"model": "guide", "options": {"context": -1}}, "options.context"),
        ("POST", "/load", {"model": "guide", "options": {"slots": 0}}, "options.slots"),
        ("POST", "/load", {"model": "guide", "options": {"threads": 2**40}}, "options.threads"),
        ("POST", "/load", {"model": "guide", "options": {"threads": 1000}}, "options.threads"),
        ("POST", "/load", {"model": "guide", "options": {"slots": 1025}}, "options.slots"),
        ("POST", "/load", {"model": "guide", "options": {"kv_type": "q1"}}, "options.kv_type"),
        ("POST", "/load", {"model": "guide", "options": {"gpu_memory_fraction": 1.5}}, "gpu_memory_fraction"),
        ("POST", "/load", {}, "model"),
        ("PATCH", "/settings", {"window.scale": {"a": 1}}, "$[...]"),
        ("GET", "/chats?limit=0", None, "$.limit"),
        ("GET", "/chats?limit=many", None, "$.limit"),
        ("GET", "/chats?before=soon", None, "$.before"),
        ("GET", "/machine?fresh=perhaps", None, "$.fresh"),
        ("GET", "/logs?tail=-1", None, "tail"),
    ],
)
async def test_what_does_not_fit_is_refused_and_named(
    api: Api, method: str, path: str, body: object, where: str
) -> None:
    status, data = await api.raw(method, path, body)
    error = json.loads(data)
    assert (status, error["code"]) == (400, "invalid_value")
    assert where in error["sentence"]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"\\ud800"', b'{"title": "\xed\xa0\x80"}'])
async def test_what_is_no_json_is_refused(api: Api, body: bytes) -> None:
    assert await api.expect_refusal("POST", "/chats", body) == (400, "invalid_json")


async def test_any_text_survives_the_way_through(api: Api) -> None:
    title = "Grüße \u0000 🎉 \u202e\ud7ff '); DROP TABLE chats;--"
    chat = await api.chat(title=title, system_prompt=title)
    assert (await api.read(chat.id)).title == title
    assert [chat_info.title for chat_info in await api.call("GET", "/chats?query=drop", list[ChatSummary])] == [title]


async def test_status_says_who_and_where(api: Api) -> None:
    status = await api.call("GET", "/status", dict[str, object])
    assert status["api_version"] == 1
    assert status["data_dir"] == str(api.gateway.services.paths.data)
    assert isinstance(status["resident_bytes"], int)


async def test_status_still_says_what_happened_before_anybody_listened(api: Api) -> None:
    notice = Notice(level="bad", code="x", sentence="The file was damaged.", hint="It is kept.")
    api.gateway.services.chats.notices = (notice,)
    status = await api.call("GET", "/status", dict[str, object])
    assert status["notice"] == "The file was damaged. It is kept."


async def test_chats_are_listed_page_by_page(api: Api) -> None:
    chat_ids = [(await api.chat(title=f"chat {number}")).id for number in range(5)]
    first = await api.call("GET", "/chats?limit=3", list[ChatSummary])
    second = await api.call("GET", f"/chats?limit=3&before={first[-1].updated_at!r}", list[ChatSummary])
    assert [summary.id for summary in (*first, *second)] == chat_ids[::-1]


async def test_every_change_of_a_chat_is_told(api: Api, pen: Pen) -> None:
    async with api.events("/events", Event) as events:
        chat = await api.chat()
        path = f"/chats/{chat.id}"
        assert await anext(events) == ChatChanged(chat=chat.id)
        for method, where, body in (("PATCH", path, {"title": "x"}), ("POST", f"{path}/restore", None)):
            await api.raw(method, where, body)
            assert await anext(events) == ChatChanged(chat=chat.id)
        await api.raw("DELETE", path)
        assert await anext(events) == ChatChanged(chat=chat.id, deleted=True)


async def test_a_late_listener_first_hears_what_runs(api: Api) -> None:
    api.gateway.supervisor.is_loaded = True
    async with api.events("/events", Event) as events:
        assert await anext(events) == EngineChanged(status=api.gateway.supervisor.status())


async def test_log_lines_come_only_to_who_asked_for_them(api: Api) -> None:
    line = LogLine(model="guide", stream="err", text="loading", at=1.0)
    notice = Notice(level="info", code="x", sentence="Something happened.")
    async with api.events("/events", Event) as plain, api.events("/events?logs=1", Event) as talkative:
        for event in (line, notice):
            api.gateway.services.events.publish(event)
        assert await anext(plain) == notice
        assert [await anext(talkative), await anext(talkative)] == [line, notice]


async def test_an_event_is_named_by_its_type(api: Api) -> None:
    async with api.lines("/events") as lines:
        assert await anext(lines) == b": listening\n"
        api.gateway.services.events.publish(ModelsChanged())
        assert [await anext(lines) for _ in range(3)] == [b"\n", b"event: models\n", b'data: {"type":"models"}\n']


async def test_silence_is_broken_by_a_heartbeat(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_S", 0.01)
    async with api.lines("/events") as lines:
        seen_lines = [await anext(lines) for _ in range(6)]
    assert seen_lines.count(b": still here\n") == 2


async def test_a_listener_that_leaves_is_forgotten(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = api.gateway.services.events
    assert not hub.has_listeners, "the gateway's own work is nobody who is told"
    async with api.lines("/events") as lines:
        await anext(lines)
        assert hub.has_listeners
        forget_event = asyncio.Event()
        monkeypatch.setattr(hub, "forget", lambda _subscription: forget_event.set())
    await asyncio.wait_for(forget_event.wait(), PATIENCE_S)


async def test_a_setting_changes_at_once_and_is_told(api: Api) -> None:
    async with api.events("/events", Event) as events:
        body = {"window.theme": "dark", "models.idle_minutes": 5, "models.folders": ["/elsewhere"]}
        infos = await api.call("PATCH", "/settings", list[SettingInfo], body)
        all_events = [await anext(events) for _ in range(4)]
    values = {info.name: info.value for info in infos}
    assert {name: values[name] for name in body} == body
    assert all_events == [*(SettingChanged(name=name) for name in body), ModelsChanged()]
    assert api.gateway.supervisor.policy.idle_s == 300.0  # type: ignore[attr-defined]  # the stand-in keeps any policy


async def test_a_model_that_is_not_here_cannot_answer_for_all_others(api: Api) -> None:
    body = {"models.fallback": "nobody", "window.scale": 120}
    assert await api.expect_refusal("PATCH", "/settings", body) == (400, "model_not_found")
    for name in ("guide", "auto", "claude-any", "", None):
        infos = await api.call("PATCH", "/settings", list[SettingInfo], {"models.fallback": name})
        assert {info.value for info in infos if info.name == "models.fallback"} == {name or ""}


async def test_settings_change_all_or_none_and_null_resets(api: Api) -> None:
    assert await api.expect_refusal("PATCH", "/settings", {"window.scale": 120, "window.theme": "pink"}) == (
        400,
        "bad_request",
    )
    assert await api.expect_refusal("PATCH", "/settings", {"window.scael": 120}) == (404, "not_found")
    assert await api.expect_refusal("PATCH", "/settings", {"gateway.max_body_mib": 5}) == (409, "conflict")
    for value, expected_value in ((120, 120), (None, 100)):
        infos = await api.call("PATCH", "/settings", list[SettingInfo], {"window.scale": value})
        assert {info.value for info in infos if info.name == "window.scale"} == {expected_value}


async def test_opening_at_log_in_is_arranged_with_the_setting_or_not_set(api: Api) -> None:
    services = api.gateway.services
    file = service_unit.autostart_file(services.home)
    assert file is not None
    await api.call("PATCH", "/settings", list[SettingInfo], {"window.at_login": True})
    assert file.exists()
    await api.call("PATCH", "/settings", list[SettingInfo], {"window.at_login": None})
    assert not file.exists()
    file.parent.rmdir()
    file.parent.write_text("in the way")
    assert await api.expect_refusal("PATCH", "/settings", {"window.at_login": True}) == (507, "storage")
    assert not services.settings.get_flag("window.at_login")


async def test_shutting_down_is_accepted(api: Api) -> None:
    assert await api.raw("POST", "/shutdown") == (202, b"")


async def test_a_models_name_may_hold_slashes_quoted_or_not(api: Api) -> None:
    seen_names: list[str] = []
    api.gateway.services.library.forget_model = seen_names.append  # type: ignore[assignment,method-assign]  # the stand-in has none
    for path in ("/models/org%2Fembed%3Aq8", "/models/org/embed:q8"):
        assert await api.raw("DELETE", path) == (204, b"")
    assert seen_names == ["org/embed:q8"] * 2


async def test_a_page_on_this_computer_may_ask_what_it_may_send(api: Api) -> None:
    headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "PATCH", "Authorization": ""}
    async with api.gateway.http.options(f"{api.gateway.url}{PREFIX}/settings", headers=headers) as reply:
        assert reply.status == 204
