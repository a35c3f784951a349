"""Every screen as a picture, without a gateway: `python -m tests.demo.screenshots FOLDER [WORD] [--pseudo]`.

WORD draws only the scenes with it in their names; `--pseudo` in a made-up language (`tests.demo.pseudo_language`).
Pictures need a UI font that fontconfig finds, e.g. Inter.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import cast

import msgspec
from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtWidgets import QApplication

from app.core.api import SettingInfo, SettingValue
from app.core.translation import use_language
from app.gui.main import prepare_application
from app.gui.shell.appearance import WindowMemory, save_memory
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.pseudo_language import PseudoLanguage
from tests.demo.scene import Scene, SceneLook
from tests.demo.scenes import all_scenes

_SETTLE_MS = 30
_LAYOUT_PASSES = 8
"""A height that changes deep inside goes outwards one widget a pass."""


def main(argv: list[str] | None = None) -> int:
    """Draw every scene into a folder. Returns the exit status."""
    arguments = _make_parser().parse_args(argv)
    folder: Path = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    if arguments.pseudo:
        use_language(PseudoLanguage())
    application = prepare_application(["roundhouse", "-platform", "offscreen"])
    for scene in all_scenes():
        if arguments.word in scene.name:
            for look in scene.looks:
                draw_scene(application, scene, look, folder / f"{scene.name}-{look.suffix}.png")
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.demo.screenshots", description="Draw every screen.")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("word", nargs="?", default="", help="draw only the scenes with this in their names")
    parser.add_argument("--pseudo", action="store_true", help="in accented, longer words, to see what is cut off")
    return parser


def draw_scene(application: QApplication, scene: Scene, look: SceneLook, file: Path) -> None:
    """Draw one scene in one look."""
    is_mirrored = look.is_mirrored
    direction = Qt.LayoutDirection.RightToLeft if is_mirrored else Qt.LayoutDirection.LeftToRight
    application.setLayoutDirection(direction)
    with tempfile.TemporaryDirectory() as folder:
        memory = Path(folder) / "window.json"
        save_memory(
            memory,
            WindowMemory(page=scene.page.value, theme=look.mode, scale=look.percent, reduce_motion=True),
        )
        api = DemoApi({**scene.replies, "GET /settings": _scene_settings(scene, look)} if scene.replies else {})
        window = MainWindow(Theme(), api, memory)
        window.resize(*look.size)
        window.show()
        _play_scene(window, api, scene)
        window.grab().save(str(file))
        window.close()
        window.deleteLater()
        _settle_events()


def _play_scene(window: MainWindow, api: DemoApi, scene: Scene) -> None:
    _settle_events()
    if scene.is_online:
        window.mark_connected(data.STATUS)
        if scene.replies:
            api.flush()
    _settle_events()
    scene.act(window, api)
    if scene.replies:
        api.flush()
    _settle_events()


def _scene_settings(scene: Scene, look: SceneLook) -> list[SettingInfo]:
    forced_settings: dict[str, SettingValue] = {
        "window.theme": look.mode,
        "window.scale": look.percent,
        "window.reduce_motion": True,
    }
    rows = cast("list[SettingInfo]", scene.replies.get("GET /settings", data.default_settings()))
    return [msgspec.structs.replace(row, value=forced_settings.get(row.name, row.value)) for row in rows]


def _settle_events() -> None:
    loop = QEventLoop()
    QTimer.singleShot(_SETTLE_MS, loop.quit)
    loop.exec()
    for _ in range(_LAYOUT_PASSES):  # on a busy machine the time is over before the layouts are
        QApplication.processEvents()


if __name__ == "__main__":
    sys.exit(main())
