"""A pause as the window shows it: asked for, told by the gateway, and ended with one press."""

from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QApplication

from app.core.engines import Pause
from app.core.errors import ErrorBody
from app.core.events import PauseChanged
from app.gui.net.remote_lists import PauseStore
from app.gui.screens.server.view import ServerScreen
from app.gui.shell.banner import PauseBanner, busy_sentence
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import data
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

Make = Callable[[PageId], MainWindow]
IDLE = msgspec.structs.replace(data.READY, model="idle", in_flight=0)


@pytest.fixture
def store(api: DemoApi, shell: QuietShell) -> PauseStore:
    store = PauseStore(api, shell)
    api.flush()
    return store


def test_it_is_asked_for_and_taken_back(store: PauseStore, api: DemoApi) -> None:
    store.toggle()
    api.flush()
    assert store.state.is_paused
    store.toggle()
    api.flush()
    assert not store.state.is_paused
    assert [call[:2] for call in api.calls] == [("GET", "/pause"), ("POST", "/pause"), ("DELETE", "/pause")]


def test_what_others_do_is_followed(store: PauseStore, shell: QuietShell) -> None:
    shell.broadcast_event(PauseChanged(pause=data.PAUSED))
    assert store.state == data.PAUSED
    shell.disconnected.emit(data.OFFLINE)
    assert store.state == Pause(), "a gateway that is gone is not paused"


def test_a_refusal_is_said(store: PauseStore, api: DemoApi, shell: QuietShell) -> None:
    api.replies["POST /pause"] = ErrorBody(code="internal", sentence="It cannot be paused.")
    store.pause()
    api.flush()
    assert (shell.messages, store.state.is_paused) == (["It cannot be paused."], False)


@pytest.mark.parametrize(
    ("busy", "sentence"),
    [([], ""), (["a"], "a finishes an answer first."), (["a", "b"], "a and b finish their answers first.")],
)
def test_who_still_writes_is_named(busy: list[str], sentence: str) -> None:
    busy_statuses = [msgspec.structs.replace(data.READY, model=model) for model in busy]
    assert busy_sentence([IDLE, *busy_statuses]) == sentence


def test_the_bar_is_there_while_it_lasts_and_its_button_ends_it(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    bar = window.findChild(PauseBanner)
    assert bar is not None
    assert bar.isHidden()
    next(command for command in window.palette_view._commands() if command.title.startswith("Pause")).run()
    api.flush()
    assert bar.isVisible()
    assert "qwen3-8b-q4_k_m finishes" in bar.sentence.text()
    bar.button.click()
    api.flush()
    QApplication.processEvents()
    assert bar.isHidden()


@pytest.mark.slow
def test_the_server_page_pauses_and_resumes(make_window: Make, api: DemoApi) -> None:
    window = make_window(PageId.SERVER)
    page = window.pages.currentWidget()
    assert isinstance(page, ServerScreen)
    page.pause.click()
    api.flush()
    assert (page.pause.text(), api.bodies_of("POST", "/pause")) == ("Resume", [None])
    window.shell.broadcast_event(PauseChanged(pause=Pause()))
    assert page.pause.text() == "Pause"
    window.show_disconnected(data.OFFLINE)
    assert not page.pause.isEnabled()
