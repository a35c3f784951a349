"""The window with a gateway it starts itself, the real engine and the Guide: asked by keys, answered, stored, gone."""

from collections.abc import Iterator

import psutil
import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.client.discovery import BackgroundProcess, find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.chats import Chat, MessageStatus, Role
from app.gui.main import WindowProgram, open_window
from app.gui.net.link import LinkState
from app.gui.screens.chat.view import ChatScreen
from tests.patience import PATIENCE_S, wait_until

pytestmark = [pytest.mark.real_engine, pytest.mark.own_gateway]
WITHIN_MS = 30_000


@pytest.fixture(scope="session")
def qapp_args() -> list[str]:
    return ["roundhouse", "-platform", "offscreen"]


@pytest.fixture
def program(home: Paths, qtbot: QtBot) -> Iterator[WindowProgram]:
    """The whole window as a person opens it; nothing was running before, and nothing is left even if a test fails."""
    assert find_running_gateway(home) is None
    program = open_window(["roundhouse"])
    yield program
    if program.window.isVisible():
        leave(program)
    program.window.deleteLater()


def leave(program: WindowProgram) -> int:
    """Quit, as with Ctrl Q, and let the program end."""
    QTimer.singleShot(0, program.window.leave)
    return program.run()


def page_of(program: WindowProgram) -> ChatScreen:
    page = program.window.pages.currentWidget()
    assert isinstance(page, ChatScreen)
    return page


def test_a_question_typed_is_answered_and_stored_and_nothing_is_left(
    program: WindowProgram, home: Paths, qtbot: QtBot
) -> None:
    page = page_of(program)
    qtbot.waitUntil(lambda: program.window.shell.is_connected, timeout=WITHIN_MS)
    qtbot.waitUntil(lambda: page.model.model == "guide", timeout=WITHIN_MS)
    field = page.conversation_view.composer.field
    QTest.keyClicks(field, "What is Roundhouse?")
    QTest.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not page.model.conversation.is_busy, timeout=WITHIN_MS)
    question, answer = page.model.conversation.message_path()
    assert (question.role, question.content) == (Role.USER, "What is Roundhouse?")
    assert (answer.role, answer.status) == (Role.ASSISTANT, MessageStatus.COMPLETE)
    assert answer.content
    assert answer.engine == "", "the Guide looks answers up"

    notes = home.data / "notes.txt"
    notes.write_text("The roundhouse of Bern keeps forty locomotives dry. " * 20, encoding="utf-8")
    page.conversation_view.take_files([notes])
    qtbot.waitUntil(lambda: bool(page.model.files.items) and page.model.files.is_ready, timeout=WITHIN_MS)
    QTest.keyClicks(field, "And this?")
    QTest.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not page.model.conversation.is_busy, timeout=WITHIN_MS)
    *_, question, answer = page.model.conversation.message_path()
    assert [file.name for file in question.attachments] == ["notes.txt"]
    assert answer.status is MessageStatus.COMPLETE, answer.error
    assert answer.timings is not None
    assert (answer.timings.prompt_tokens or 0) > 250
    gateway_info = find_running_gateway(home)
    assert gateway_info is not None
    stored_chat = GatewayClient(gateway_info).get(f"/chats/{page.model.conversation.id}", Chat)
    assert stored_chat.messages[-1].content == answer.content

    family = [psutil.Process(gateway_info.pid), *psutil.Process(gateway_info.pid).children(recursive=True)]
    assert len(family) > 1, "the engine is a process of its own"
    qtbot.waitUntil(
        lambda: not any(model.in_flight for model in program.window.stores.running.active()), timeout=WITHIN_MS
    )
    assert leave(program) == 0
    wait_until(lambda: find_running_gateway(home) is None)
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert alive == []


@pytest.mark.slow
def test_a_window_closed_before_it_was_linked_leaves_nothing(program: WindowProgram, home: Paths, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: program.link.state is LinkState.STARTING, timeout=WITHIN_MS)
    child = program.link._child
    assert isinstance(child, BackgroundProcess)
    assert leave(program) == 0
    child.wait(timeout=PATIENCE_S)
    assert find_running_gateway(home) is None
