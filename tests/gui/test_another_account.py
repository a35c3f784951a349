"""The window of one account, started in the folders of another."""

import os
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app.gui import main as program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="who owns a folder as POSIX has it")


def test_it_says_whose_folders_they_are_and_leaves_without_touching_them(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "theirs"
    (home / "config").mkdir(parents=True)
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(home))
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    texts: list[str] = []

    def close_box() -> None:
        box = QApplication.activeModalWidget()
        assert isinstance(box, QMessageBox)
        texts.extend([box.text(), box.informativeText()])
        box.accept()

    QTimer.singleShot(0, close_box)
    assert program.main(["roundhouse-window"]) == 1
    assert f"{home / 'config'} belongs to another account" in texts[0]
    assert "chown" in texts[1]
    assert f"{texts[0]} {texts[1]}" in capsys.readouterr().err
    assert [path.name for path in home.rglob("*")] == ["config"]
