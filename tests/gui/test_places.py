"""The settings page says where models go, and opens the folder."""

from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices

from app.config.paths import Paths
from app.gui.screens.settings.view import InstallationFolders
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button


def test_each_folder_is_named_and_opens(theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", urls.append)
    paths = Paths(config=tmp_path, data=tmp_path / "data", state=tmp_path, logs=tmp_path / "logs")
    section = InstallationFolders(theme, paths)
    buttons = section.findChildren(Button)
    assert [button.accessibleName() for button in buttons] == [f"Open {folder}" for folder in section.folders.values()]
    buttons[0].click()
    assert urls == [QUrl.fromLocalFile(str(paths.models))]
