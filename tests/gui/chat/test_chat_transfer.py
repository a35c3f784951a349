"""Import and export from the window: a process does it, and the window says how it went."""

import json
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.core.chats import ImportReport
from app.gui.screens.chat import chat_transfer
from app.gui.screens.chat.chat_transfer import ChatTransfer, TargetFile, describe_import, target_file


@pytest.fixture
def transfer(qtbot: QtBot) -> ChatTransfer:
    parent = QObject()
    transfer = ChatTransfer(parent)
    transfer.kept_parent = parent  # type: ignore[attr-defined]  # else it is collected
    return transfer


def answer_with(monkeypatch: pytest.MonkeyPatch, code: str) -> list[tuple[str, ...]]:
    """Have a process that runs this code stand for the command line; return what it is called with."""
    calls: list[tuple[str, ...]] = []

    def command(module: str, *arguments: str) -> list[str]:
        calls.append((module, *arguments))
        return [sys.executable, "-c", code]

    monkeypatch.setattr(chat_transfer, "module_command", command)
    return calls


def test_an_import_says_what_came_of_it(transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answer_with(monkeypatch, """print('{"version": 1, "import": {"added": 2, "unchanged": 1}}')""")
    with qtbot.waitSignal(transfer.toast_requested, timeout=60_000) as toast:
        transfer.import_path(Path("export.zip"))
        assert transfer.is_busy
    assert toast.args[0] == "2 chats were added. 1 was here already."
    assert calls == [("app.cli", "chats", "import", "export.zip", "--json")]
    assert not transfer.is_busy


def test_a_refusal_is_shown_in_its_own_words(
    transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """print('{"version": 1, "error": {"code": "no_chats", "sentence": "No chats."}}'); exit(2)"""
    answer_with(monkeypatch, code)
    with qtbot.waitSignal(transfer.failed, timeout=60_000) as failure:
        transfer.import_path(Path("x.json"))
    error = failure.args[0]
    assert (error.code, error.sentence) == ("no_chats", "No chats.")


@pytest.mark.parametrize("code", ["import os; os.abort()", "exit(1)", "print('nonsense'); exit(1)"])
def test_a_process_that_breaks_off_is_a_sentence(
    code: str, transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, code)
    with qtbot.waitSignal(transfer.failed, timeout=60_000) as failure:
        transfer.export_all(TargetFile(Path("x.json"), overwrites=True))
    assert "interrupted" in failure.args[0].sentence
    assert not transfer.is_busy


def test_a_long_import_can_be_cancelled(transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answer_with(monkeypatch, "import time; time.sleep(600)")
    transfer.import_path(Path("x.json"))
    transfer.import_path(Path("y.json"))  # one at a time
    with qtbot.waitSignal(transfer.failed, timeout=60_000):
        transfer.cancel()
    assert len(calls) == 1


def test_the_sentence_names_everything() -> None:
    counts = ImportReport(added=1, folders=2, extended=2, unchanged=3, deleted=1, unreadable=4, left_out=1)
    assert describe_import(counts) == (
        "1 chat was added. 2 folders were added. 2 got newer messages. 3 were here already. 1 is in the trash. "
        "4 have no text to read. 1 file was left out."
    )


@pytest.mark.parametrize(
    ("path", "name_filter", "file", "overwrites"),
    [
        ("/a/Chat", "PDF (*.pdf)", "/a/Chat.pdf", False),
        ("/a/Chat.md", "PDF (*.pdf)", "/a/Chat.md", True),
        ("/a/v1.5 notes", "HTML (*.html)", "/a/v1.5 notes.html", False),
        ("/a/my.chats", "", "/a/my.chats.json", False),
        ("/a/all.json", "", "/a/all.json", True),
    ],
)
def test_only_a_file_the_dialog_asked_about_is_replaced(
    path: str,
    name_filter: str,
    file: str,
    overwrites: bool,  # noqa: FBT001 -- a row
) -> None:
    assert target_file(path, name_filter) == (Path(file), overwrites)


def test_a_file_nobody_asked_about_is_not_replaced(
    transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = answer_with(monkeypatch, "print('{}')")
    for file in (TargetFile(Path("a.pdf"), overwrites=False), TargetFile(Path("b.pdf"), overwrites=True)):
        with qtbot.waitSignal(transfer.toast_requested, timeout=60_000):
            transfer.export_chat("c1", file)
    assert ["--overwrite" in call for call in calls] == [False, True]


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "The chat was written to a.html."),
        (["a.txt", "b.pdf"], "The chat was written to a.html. Not in it: a.txt and b.pdf."),
        (list("abcd"), "The chat was written to a.html. 4 attached files are not in it, among them a, b and c."),
    ],
)
def test_an_export_says_which_files_are_not_in_it(
    names: list[str], sentence: str, transfer: ChatTransfer, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = {"version": 1, "export": {"chats": 1, "path": "a.html", "left_out": names}}
    answer_with(monkeypatch, f"print({json.dumps(json.dumps(reply))})")
    with qtbot.waitSignal(transfer.toast_requested, timeout=60_000) as toast:
        transfer.export_chat("c1", TargetFile(Path("a.html"), overwrites=True))
    assert toast.args[0] == sentence
