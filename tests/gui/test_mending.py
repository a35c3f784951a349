"""What may mend a failed load, on the Server page: once, from now on, told afterwards, and back again."""

from typing import Any

import msgspec
import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.core.engines import AppliedRemedy, EngineState, EngineStatus, FailureReport, RemedyOffer
from app.core.errors import ErrorBody
from app.core.events import EngineChanged, Notice
from app.core.models import LoadModel, ModelSettings, SetModel
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.auto_remedy_model import DONE_HERE, WAYS, AutoRemedyModel
from app.gui.screens.server.engine_row import EngineRow
from app.gui.screens.server.model import ServerModel
from app.gui.screens.server.view import ServerScreen
from app.gui.shell.contract import PageId, Shell
from app.gui.shell.notice_toaster import NoticeToaster
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button
from app.gui.widgets.text import Paragraph
from app.supervisor.policy import APPLICABLE
from engines.api import RemedyKind
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

LESS = RemedyOffer(kind="less_context", label="Load with a context of 4,096 tokens", options={"context": 4096})
SLOTS = RemedyOffer(kind="fewer_slots", label="Load for one request at a time", options={"slots": 1})
ROOM = RemedyOffer(kind="free_memory", label="Unload other models")
SMALLER = RemedyOffer(kind="smaller_model", label="Choose a smaller model")
OTHER = RemedyOffer(kind="other_model", label="Choose another model")
ENGINE = RemedyOffer(kind="other_runtime", label="Use another engine")
MENDED = AppliedRemedy(kind="less_context", sentence="No room. Roundhouse did this: load with less.")
REFUSED = ErrorBody(code="x", sentence="The disk is full.")


def make_failed(*remedies: RemedyOffer) -> EngineStatus:
    failure = FailureReport(code="out_of_memory", sentence="No room.", remedies=list(remedies))
    return msgspec.structs.replace(data.FAILED, failure=failure)


def report(*remedies: RemedyOffer) -> FailureReport:
    return FailureReport(code="x", sentence="y.", remedies=list(remedies))


def ready(*, loaded_at: float = 1.0, remedies: tuple[AppliedRemedy, ...] = (MENDED,)) -> EngineStatus:
    return msgspec.structs.replace(data.READY, model=data.FAILED.model, mended=list(remedies), loaded_at=loaded_at)


def settings(api: DemoApi, *on: str) -> None:
    rows: Any = api.replies["GET /settings"]
    api.replies["GET /settings"] = [
        data.with_value(row, row.name in on) if "mend_" in row.name else row for row in rows
    ]


def visible_texts(place: QWidget) -> set[str]:
    return {child.text() for child in place.findChildren(Paragraph) if child.isVisibleTo(place)}


@pytest.fixture
def toaster(api: DemoApi, shell: Shell) -> NoticeToaster:
    notice_toaster = NoticeToaster(shell, Stores(api, shell))
    api.flush()
    return notice_toaster


@pytest.fixture
def model(api: DemoApi, shell: Shell) -> AutoRemedyModel:
    server = ServerModel(Stores(api, shell), shell)
    api.flush()
    return server.auto_remedy


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: Shell, qtbot: QtBot) -> ServerScreen:
    screen = ServerScreen(theme, Stores(api, shell), shell, restart=lambda: None)
    qtbot.addWidget(screen)
    screen.resize(1000, 900)
    screen.show()
    api.flush()
    return screen


def row_of(page: ServerScreen) -> EngineRow:
    QApplication.processEvents()
    row = page._list.rows[data.FAILED.model]
    assert isinstance(row, EngineRow)
    return row


def button(row: EngineRow, text: str) -> Button:
    return next(child for child in row.findChildren(Button) if child.text() == text and child.isVisible())


def test_every_way_is_a_remedy_engines_know() -> None:
    assert {*WAYS, *DONE_HERE} <= {kind.value for kind in RemedyKind}


def test_every_remedy_has_a_button() -> None:
    by_load = {*APPLICABLE, RemedyKind.LOAD_AGAIN}
    assert {*WAYS, *DONE_HERE} == {kind.value for kind in set(RemedyKind) - by_load}


def test_of_what_leads_to_the_same_page_the_first_is_offered_and_no_more_than_two(model: AutoRemedyModel) -> None:
    assert model.remedy_ways(report(LESS, SMALLER, OTHER, ENGINE)) == [SMALLER, ENGINE]
    assert model.remedy_ways(report(ROOM, SMALLER, ENGINE)) == [ROOM, SMALLER]
    assert model.remedy_ways(report(LESS)) == []


def test_what_it_runs_without_is_told_below_it_once(page: ServerScreen, shell: Shell) -> None:
    without = "The draft model is not used: its vocabulary differs from this model's."
    shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(ready(), notes=[MENDED.sentence, without])))
    assert visible_texts(row_of(page)) == {MENDED.sentence, without}
    shell.broadcast_event(EngineChanged(status=msgspec.structs.replace(ready(remedies=()), notes=[])))
    assert visible_texts(row_of(page)) == set()


def test_only_what_a_setting_is_for_can_be_left(model: AutoRemedyModel) -> None:
    assert model.can_be_automatic(report(LESS, SMALLER))
    assert not model.can_be_automatic(report(SMALLER))
    assert not model.is_automatic(report(SMALLER))


def test_it_is_left_once_every_kind_is(api: DemoApi, shell: Shell) -> None:
    settings(api, "engine.mend_less_context")
    model = ServerModel(Stores(api, shell), shell).auto_remedy
    api.flush()
    assert model.is_automatic(report(LESS, SMALLER))
    assert not model.is_automatic(report(LESS, SLOTS))


@pytest.mark.slow
def test_leaving_it_sets_what_applies_and_loads_again(page: ServerScreen, api: DemoApi, shell: Shell) -> None:
    api.replies["PATCH /settings"] = []
    shell.broadcast_event(EngineChanged(status=make_failed(LESS, SLOTS, SMALLER)))
    row = row_of(page)
    assert not row._switch.toggle.isChecked()
    row._switch.toggle.click()
    assert api.bodies_of("POST", "/load") == [], "not before the settings are kept"
    api.flush()
    assert api.bodies_of("PATCH", "/settings") == [{"engine.mend_less_context": True, "engine.mend_fewer_slots": True}]
    (load_request,) = api.bodies_of("POST", "/load")
    assert load_request.model == data.FAILED.model  # type: ignore[attr-defined]  # LoadModel


def test_no_longer_leaving_it_loads_nothing(model: AutoRemedyModel, api: DemoApi) -> None:
    api.replies["PATCH /settings"] = []
    model.set_automatic("m", report(LESS), is_automatic=False)
    api.flush()
    assert api.bodies_of("PATCH", "/settings") == [{"engine.mend_less_context": False}]
    assert api.bodies_of("POST", "/load") == []


def test_what_cannot_be_kept_is_told_and_nothing_is_loaded(model: AutoRemedyModel, api: DemoApi, qtbot: QtBot) -> None:
    api.replies["PATCH /settings"] = REFUSED
    model.set_automatic("m", report(LESS), is_automatic=True)
    with qtbot.waitSignal(model.failed) as failure:
        api.flush()
    assert failure.args == [REFUSED]
    assert api.bodies_of("POST", "/load") == []


@pytest.mark.slow
def test_where_nothing_can_be_left_there_is_no_switch(page: ServerScreen, shell: Shell) -> None:
    shell.broadcast_event(EngineChanged(status=make_failed(SMALLER)))
    row = row_of(page)
    assert not row._switch.isVisible()
    button(row, "Choose a smaller model").click()
    assert shell.pages == [PageId.MODELS]  # type: ignore[attr-defined]  # the tests' shell keeps it


@pytest.mark.slow
def test_room_is_made_by_unloading_the_others_and_given_back_by_undo(
    page: ServerScreen, api: DemoApi, shell: QuietShell
) -> None:
    pinned_status = msgspec.structs.replace(data.READY, model="kept", is_pinned=True)
    for status in (data.READY, pinned_status, make_failed(ROOM)):
        shell.broadcast_event(EngineChanged(status=status))
    api.replies["POST /unload"] = msgspec.structs.replace(data.READY, state=EngineState.STOPPED)
    button(row_of(page), "Unload other models").click()
    api.flush()
    assert [body.model for body in api.bodies_of("POST", "/unload")] == [data.READY.model]  # type: ignore[attr-defined]  # UnloadModel
    assert [body.model for body in api.bodies_of("POST", "/load")] == [data.FAILED.model]  # type: ignore[attr-defined]  # LoadModel
    assert shell.messages == [f"Unloaded to make room: {data.READY.model}."]
    assert shell.undos[0] is not None
    shell.undos[0]()
    assert [body.model for body in api.bodies_of("POST", "/load")][1:] == [data.READY.model]  # type: ignore[attr-defined]  # LoadModel


CODE = RemedyOffer(kind="allow_code", label="Allow this model's code")
RESET = RemedyOffer(kind="reset_options", label="Reset the model's options")
OWN = ModelSettings(pinned=True, context=4096)


@pytest.fixture
def own(api: DemoApi) -> DemoApi:
    name = data.FAILED.model
    api.replies[f"GET /model-settings/{name}"] = msgspec.structs.replace(data.TUNED, model=name, settings=OWN)
    api.replies["POST /model-settings"] = OWN
    return api


def list_posts(api: DemoApi) -> list[object]:
    api.flush()
    return [body for verb, path, body in api.calls if verb == "POST" and path != "/logs"]


@pytest.mark.slow
def test_code_is_allowed_after_a_question_and_the_model_loaded(
    page: ServerScreen, own: DemoApi, shell: QuietShell
) -> None:
    shell.broadcast_event(EngineChanged(status=make_failed(CODE, OTHER)))
    button(row_of(page), "Allow this model's code").click()
    assert list_posts(own) == []
    title, sentence, confirmed_action = shell.confirmations[-1]
    assert title == f"Allow the code of {data.FAILED.model}?"
    assert "with your permissions" in sentence
    confirmed_action.run()
    own.flush()
    allowed_request = SetModel(model=data.FAILED.model, settings=msgspec.structs.replace(OWN, allows_code=True))
    assert list_posts(own) == [allowed_request, LoadModel(model=data.FAILED.model, wait=False)]
    assert shell.undos[-1] is not None
    shell.undos[-1]()
    own.flush()
    assert list_posts(own)[-1] == SetModel(model=data.FAILED.model, settings=OWN)


@pytest.mark.slow
def test_options_are_reset_at_once_but_for_the_pin_and_set_again_by_undo(
    page: ServerScreen, own: DemoApi, shell: QuietShell
) -> None:
    shell.broadcast_event(EngineChanged(status=make_failed(RESET)))
    button(row_of(page), "Reset the model's options").click()
    own.flush()
    reset = SetModel(model=data.FAILED.model, settings=ModelSettings(pinned=True))
    assert list_posts(own) == [reset, LoadModel(model=data.FAILED.model, wait=False)]
    assert shell.undos[-1] is not None
    shell.undos[-1]()
    own.flush()
    assert list_posts(own)[-1] == SetModel(model=data.FAILED.model, settings=OWN)


def test_what_cannot_be_reset_is_told_and_nothing_is_loaded(model: AutoRemedyModel, own: DemoApi, qtbot: QtBot) -> None:
    own.replies["POST /model-settings"] = REFUSED
    model.follow_remedy(data.FAILED.model, RESET)
    with qtbot.waitSignal(model.failed) as failure:
        own.flush()
        own.flush()
    assert failure.args == [REFUSED]
    assert own.bodies_of("POST", "/load") == []


@pytest.mark.slow
def test_what_was_done_stands_beside_the_model(page: ServerScreen, shell: QuietShell) -> None:
    shell.broadcast_event(EngineChanged(status=ready()))
    row = row_of(page)
    assert row._remedy_panel.isVisible()
    assert row._remedy_panel._words.text() == MENDED.sentence
    shell.broadcast_event(EngineChanged(status=ready(remedies=())))
    assert not row_of(page)._remedy_panel.isVisible()


@pytest.mark.usefixtures("toaster")
def test_what_was_done_is_told_once_of_each_load_whatever_page_is_shown(shell: QuietShell) -> None:
    shell.broadcast_event(EngineChanged(status=ready()))
    assert shell.messages == [f"{data.FAILED.model}: {MENDED.sentence}"]
    shell.broadcast_event(EngineChanged(status=ready()))
    assert len(shell.messages) == 1
    shell.broadcast_event(EngineChanged(status=ready(loaded_at=2.0)))
    assert len(shell.messages) == 2
    shell.broadcast_event(EngineChanged(status=ready(loaded_at=3.0, remedies=())))
    assert len(shell.messages) == 2


def test_what_was_so_before_the_window_came_is_no_news(api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /running"] = [ready()]
    NoticeToaster(shell, Stores(api, shell))
    api.flush()
    assert shell.messages == []


@pytest.mark.slow
def test_undo_switches_it_off_and_loads_it_as_it_was_asked_for(page: ServerScreen, api: DemoApi, shell: Shell) -> None:
    api.replies["PATCH /settings"] = []
    api.replies["POST /unload"] = msgspec.structs.replace(ready(), state=EngineState.STOPPED)
    shell.broadcast_event(EngineChanged(status=ready()))
    row_of(page)._remedy_panel.button.click()
    api.flush()
    assert_taken_back(api)


def test_undo_of_what_was_told_does_the_same(toaster: NoticeToaster, api: DemoApi, shell: QuietShell) -> None:
    api.replies["PATCH /settings"] = []
    api.replies["POST /unload"] = msgspec.structs.replace(ready(), state=EngineState.STOPPED)
    shell.broadcast_event(EngineChanged(status=ready()))
    assert shell.undos[0] is not None
    shell.undos[0]()
    api.flush()
    assert_taken_back(api)


@pytest.mark.usefixtures("toaster")
def test_an_undo_that_fails_is_told(api: DemoApi, shell: QuietShell) -> None:
    api.replies["PATCH /settings"] = REFUSED
    shell.broadcast_event(EngineChanged(status=ready()))
    assert shell.undos[0] is not None
    shell.undos[0]()
    api.flush()
    assert shell.messages[-1] == REFUSED.sentence


def assert_taken_back(api: DemoApi) -> None:
    assert api.bodies_of("PATCH", "/settings") == [{"engine.mend_less_context": False}]
    verbs = [(verb, path) for verb, path, _body in api.calls if verb != "GET"]
    assert verbs == [("PATCH", "/settings"), ("POST", "/unload"), ("POST", "/load")]


@pytest.mark.usefixtures("toaster")
def test_notices_of_the_gateway_are_said(shell: QuietShell) -> None:
    shell.broadcast_event(Notice(level="warn", code="x", sentence="It gave way.", hint="Look."))
    assert shell.messages == ["It gave way. Look."]
