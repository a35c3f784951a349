"""Every screen as a picture, without a gateway: `python -m tests.demo.screenshots FOLDER [WORD]`.

WORD draws only the scenes with it in their names. Pictures need a UI font that fontconfig finds, e.g. Inter.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import cast

import msgspec
from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.core.settings import SettingInfo, SettingValue
from app.gui.main import prepared
from app.gui.shell.memory import WindowMemory, remember
from app.gui.shell.window import Window
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.scene import Look, Scene
from tests.demo.scenes import scenes

_SETTLE_MS = 30


def main(argv: list[str] | None = None) -> int:
    """Draw every scene into a folder. Returns the exit status."""
    asked = _arguments().parse_args(argv)
    folder: Path = asked.folder
    folder.mkdir(parents=True, exist_ok=True)
    application = prepared(["roundhouse", "-platform", "offscreen"])
    for scene in scenes():
        if asked.word in scene.name:
            for look in scene.looks:
                draw(application, scene, look, folder / f"{scene.name}-{look.suffix}.png")
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.demo.screenshots", description="Draw every screen.")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("word", nargs="?", default="", help="draw only the scenes with this in their names")
    return parser


def draw(application: QApplication, scene: Scene, look: Look, file: Path) -> None:
    """Draw one scene in one look."""
    is_mirrored = look.is_mirrored
    direction = Qt.LayoutDirection.RightToLeft if is_mirrored else Qt.LayoutDirection.LeftToRight
    application.setLayoutDirection(direction)
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "window.json"
        remember(
            memory,
            WindowMemory(page=scene.page.value, theme=look.mode, scale=look.percent, reduce_motion=True),
        )
        api = DemoApi({**scene.replies, "GET /settings": _settings(scene, look)} if scene.replies else {})
        window = Window(Theme(), api, memory)
        window.resize(*look.size)
        window.show()
        _stage(window, api, scene)
        window.grab().save(str(file))
        window.close()
        window.deleteLater()
        _settle()


def _stage(window: Window, api: DemoApi, scene: Scene) -> None:
    _settle()
    if scene.is_online:
        window.connected(data.STATUS)
        if scene.replies:
            api.flush()
    _settle()
    scene.act(window, api)
    if scene.replies:
        api.flush()
    _settle()


def _settings(scene: Scene, look: Look) -> list[SettingInfo]:
    forced: dict[str, SettingValue] = {
        "window.theme": look.mode,
        "window.scale": look.percent,
        "window.reduce_motion": True,
    }
    rows = cast("list[SettingInfo]", scene.replies.get("GET /settings", data.settings()))
    return [msgspec.structs.replace(row, value=forced.get(row.name, row.value)) for row in rows]


def _settle() -> None:
    loop = QEventLoop()
    QTimer.singleShot(_SETTLE_MS, loop.quit)
    loop.exec()


if __name__ == "__main__":
    sys.exit(main())
