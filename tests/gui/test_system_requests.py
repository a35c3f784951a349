"""Files, links and the wish to quit, as macOS hands them to a program that runs."""

import os
import subprocess
import sys
from pathlib import Path

from PySide6.QtCore import QEvent, QUrl
from PySide6.QtGui import QFileOpenEvent
from pytestqt.qtbot import QtBot

from app.gui.main import SystemRequests

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from PySide6.QtCore import QCoreApplication, QTimer, QUrl
from PySide6.QtGui import QFileOpenEvent
from app.gui.main import prepare_application
application = prepare_application(["roundhouse"])
def print_arguments(arguments):
    print("opened", *arguments)
def print_quit():
    print("quit")
    application.exit(7)
application.requests.arguments_received.connect(print_arguments)
application.requests.quit_requested.connect(print_quit)
QCoreApplication.sendEvent(application, QFileOpenEvent(QUrl("roundhouse://chat?model=guide")))
application.requests.start_forwarding()
QTimer.singleShot(0, application.quit)
raise SystemExit(application.exec())
"""


def test_what_came_early_is_kept_until_somebody_listens(qtbot: QtBot, tmp_path: Path) -> None:
    requests, messages = SystemRequests(), list[list[str]]()
    requests.arguments_received.connect(messages.append)
    file = tmp_path / "a model #1 ü.gguf"
    assert requests.handle_event(QFileOpenEvent(QUrl.fromLocalFile(str(file))))
    assert requests.handle_event(QFileOpenEvent(QUrl("roundhouse://pull/owner/name")))
    assert messages == []
    requests.start_forwarding()
    assert messages == [[str(file), "roundhouse://pull/owner/name"]]
    requests.handle_event(QFileOpenEvent(QUrl("roundhouse://chat?model=Qwen3%208B")))
    assert messages[1:] == [["roundhouse://chat?model=Qwen3%208B"]], "as a browser wrote it"


def test_quitting_is_asked_for_once_there_is_somebody_to_ask(qtbot: QtBot) -> None:
    requests, quits = SystemRequests(), list[bool]()
    requests.quit_requested.connect(lambda: quits.append(True))
    assert not requests.handle_event(QEvent(QEvent.Type.Quit)), "before that it ends the program as ever"
    requests.start_forwarding()
    assert requests.handle_event(QEvent(QEvent.Type.Quit))
    assert quits == [True]


def test_other_events_and_empty_ones_are_let_be(qtbot: QtBot) -> None:
    requests, messages = SystemRequests(), list[list[str]]()
    requests.arguments_received.connect(messages.append)
    requests.start_forwarding()
    assert not requests.handle_event(QEvent(QEvent.Type.ApplicationActivate))
    requests.handle_event(QFileOpenEvent(QUrl()))
    assert messages == []


def test_the_application_passes_them_on() -> None:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    assert process.stderr == ""
    assert (process.returncode, process.stdout.split("\n")[:2]) == (7, ["opened roundhouse://chat?model=guide", "quit"])
