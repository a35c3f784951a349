"""RequestStore on the server page: what is listed, how it follows what happens, and what its buttons ask for."""

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import RequestChanged, RequestsForgotten, SettingChanged
from app.core.requests import RequestDetail, RequestState
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.inspector import InspectorSection, LatencyStrip, RequestRow
from app.gui.screens.server.request_list import (
    KEPT,
    SHOWN,
    STRIP_S,
    LatencyPoint,
    RequestStore,
    request_details,
    request_facts,
    time_legend,
    time_parts,
    warm_text,
)
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.rows import ListRow
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.requests import REQUESTS, USAGE

WRITING, DONE = REQUESTS[0], REQUESTS[2]
FAILED = next(one for one in REQUESTS if one.state is RequestState.FAILED)


@pytest.fixture
def model(api: DemoApi, shell: Shell) -> RequestStore:
    request_store = RequestStore(Stores(api, shell), shell)
    api.flush()
    return request_store


@pytest.fixture
def section(theme: Theme, model: RequestStore, qtbot: QtBot) -> InspectorSection:
    inspector = InspectorSection(theme, model)
    qtbot.addWidget(inspector)
    inspector.show()
    return inspector


def buttons(widget: object, text: str) -> list[Button]:
    matching_buttons: list[Button] = [button for button in widget.findChildren(Button) if button.text() == text]  # type: ignore[attr-defined]
    return [button for button in matching_buttons if not button.isHidden()]


def test_what_goes_on_comes_first_and_then_the_newest(model: RequestStore) -> None:
    assert [request.is_over for request in model.visible_requests()[:3]] == [False, False, True]
    over = [request.at for request in model.visible_requests() if request.is_over]
    assert over == sorted(over, reverse=True)


def test_an_event_replaces_the_one_request_it_is_about(model: RequestStore, shell: Shell) -> None:
    shell.broadcast_event(RequestChanged(request=msgspec.structs.replace(WRITING, state=RequestState.DONE)))
    assert len(model.items) == len(REQUESTS)
    assert next(item for item in model.items if item.id == WRITING.id).state is RequestState.DONE


def test_a_new_request_is_added_and_no_more_are_kept_than_needed(model: RequestStore, shell: Shell) -> None:
    for number in range(KEPT + 5):
        shell.broadcast_event(
            RequestChanged(request=msgspec.structs.replace(DONE, id=str(number), at=DONE.at + 1000 + number))
        )
    assert (len(model.items), len(model.visible_requests())) == (KEPT, SHOWN)
    assert model.items[0].id == str(KEPT + 4)


def test_forgetting_leaves_what_goes_on(model: RequestStore, shell: Shell) -> None:
    shell.broadcast_event(RequestsForgotten())
    assert [item.is_over for item in model.items] == [False, False]


def test_the_strip_holds_the_last_minutes(api: DemoApi, shell: Shell) -> None:
    ended_at = DONE.at + DONE.total_s
    model = RequestStore(Stores(api, shell), shell, clock=lambda: ended_at + STRIP_S - 1)
    api.replies["GET /requests"] = [DONE, msgspec.structs.replace(DONE, id="old", at=DONE.at - 2), FAILED, WRITING]
    api.flush()
    assert model.points() == [(ended_at, DONE.ttft_s, DONE.tokens_per_s)]


def test_the_strip_says_what_it_shows(theme: Theme, qtbot: QtBot) -> None:
    strip = LatencyStrip(theme)
    qtbot.addWidget(strip)
    strip.resize(300, 150)
    strip.set_points([], 0.0)
    assert strip.lane_words() == ("No first token yet", "No speed yet")
    blank = strip.grab().toImage()
    strip.set_points([LatencyPoint(0.0, 0.2, 10.0), LatencyPoint(1.0, 0.4, 30.0), LatencyPoint(2.0, None, 20.0)], 10.0)
    assert strip.lane_words() == ("First token after 0.40 s", "Writes 20 tok/s")
    assert "3 answers" in strip.accessibleDescription()
    assert strip.grab().toImage() != blank


def test_the_times_are_a_stacked_bar_with_words() -> None:
    assert [part.name for part in time_parts(DONE)] == ["Queue", "Prefill", "Decode"]
    assert time_legend(DONE)[0][1] == "Queue 0.04 s"
    assert warm_text(DONE) == "1,800 of 2,140 tokens were warm: saved 2.40 s"
    unmeasured_request = msgspec.structs.replace(DONE, saved_s=None)
    assert warm_text(unmeasured_request) == "1,800 of 2,140 tokens were warm"
    assert not warm_text(msgspec.structs.replace(DONE, cached_tokens=0))
    assert FAILED.error in request_facts(FAILED)
    assert "tok/s" in request_facts(DONE)


def test_a_running_request_can_be_cancelled_and_a_finished_one_cannot(section: InspectorSection, api: DemoApi) -> None:
    running_row, over = section.rows.rows[WRITING.id], section.rows.rows[DONE.id]
    assert not buttons(over, "Cancel")
    buttons(running_row, "Cancel")[0].click()
    assert api.bodies_of("POST", f"/requests/{WRITING.id}/cancel") == [None]


def test_a_refusal_to_cancel_is_said(
    section: InspectorSection, model: RequestStore, api: DemoApi, qtbot: QtBot
) -> None:
    error = ErrorBody(code="request_not_found", sentence="There is no such request.")
    api.replies[f"POST /requests/{WRITING.id}/cancel"] = error
    with qtbot.waitSignal(model.failed) as failure_signal:
        buttons(section.rows.rows[WRITING.id], "Cancel")[0].click()
        api.flush()
    assert failure_signal.args == [error]


def test_a_row_stays_and_unfolds(section: InspectorSection, shell: Shell) -> None:
    row = section.rows.rows[WRITING.id]
    assert isinstance(row, RequestRow)
    assert not row._bar.isVisible()
    row.unfold.click()
    shell.broadcast_event(RequestChanged(request=msgspec.structs.replace(WRITING, decode_s=7.0)))
    assert section.rows.rows[WRITING.id] is row
    assert row._bar.isVisible()


def test_what_was_warm_stands_in_a_line_of_its_own(section: InspectorSection) -> None:
    cold, warm = section.rows.rows[FAILED.id], section.rows.rows[DONE.id]
    assert isinstance(cold, RequestRow)
    assert isinstance(warm, RequestRow)
    for row in (cold, warm):
        row.unfold.click()
    assert warm._warm.isVisible()
    assert warm._warm.text() == warm_text(DONE)
    assert "2,140 prompt tokens" in request_details(DONE)
    assert not cold._warm.isVisible()


def test_nothing_yet_is_said(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> None:
    api.replies |= {"GET /requests": [], "GET /usage": msgspec.structs.replace(USAGE, today=[], week=[])}
    section = InspectorSection(theme, RequestStore(Stores(api, shell), shell))
    qtbot.addWidget(section)
    assert section._empty.isHidden()
    api.flush()
    assert not section._empty.isHidden()
    assert section.rows.isHidden()
    assert section._usage.isHidden()


def test_usage_is_a_row_for_each_client_and_model(section: InspectorSection) -> None:
    rows = [row for row in section._usage.rows.values() if isinstance(row, ListRow)]
    assert [row.accessibleName() for row in rows] == [
        f"{row_usage.client} → {row_usage.model}" for row_usage in USAGE.week
    ]
    assert "nothing today" in rows[0].accessibleDescription()
    assert "today 6 requests" in rows[1].accessibleDescription()


def test_that_words_are_kept_is_said_and_they_can_be_read(
    section: InspectorSection, model: RequestStore, api: DemoApi, shell: Shell
) -> None:
    row = section.rows.rows[DONE.id]
    assert section._kept_note.isHidden()
    assert not buttons(row, "Show contents")
    api.replies["GET /settings"] = [
        data.with_value(info, value=True) if info.name == "inspector.bodies" else info
        for info in data.default_settings()
    ]
    detail = RequestDetail(request=DONE, has_bodies=True, asked="Why?", answered="Because.")
    api.replies[f"GET /requests/{DONE.id}"] = detail
    shell.broadcast_event(SettingChanged(name="inspector.bodies"))
    api.flush()
    assert not section._kept_note.isHidden()
    buttons(row, "Show contents")[0].click()
    api.flush()
    assert isinstance(row, RequestRow)
    assert row._words.text() == "Why?\n\nBecause."


def test_clearing_asks_the_gateway(section: InspectorSection, api: DemoApi) -> None:
    api.replies["DELETE /requests"] = None
    buttons(section, "Clear")[0].click()
    api.flush()
    assert api.bodies_of("DELETE", "/requests") == [None]
