"""The pictures can be taken: a scene that no longer fits its page fails here."""

from pathlib import Path

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.gui.theme.tokens import DARK, LIGHT
from tests.demo.scene import EVERY_LOOK, SceneLook
from tests.demo.scenes import all_scenes
from tests.demo.screenshots import draw_scene, main

SCENES = {scene.name: scene for scene in all_scenes()}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "name", ["chat", "models-long-names", "server-failing", "machine-offline", "settings-wrong", "palette"]
)
def test_a_scene_is_drawn(name: str, tmp_path: Path, qapp: QApplication, qtbot: QtBot) -> None:
    look = SceneLook("dark", 100, (1100, 700))
    draw_scene(qapp, SCENES[name], look, tmp_path / "scene.png")
    image = QImage(str(tmp_path / "scene.png"))
    assert (image.width(), image.height()) == (1100, 700)
    colors = {image.pixelColor(x, y).name() for x in range(0, 1100, 7) for y in range(0, 700, 7)}
    assert len(colors) > 20, "something is drawn"


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("mode", "ground"), [("light", LIGHT["sunken"]), ("dark", DARK["sunken"])])
def test_the_look_is_what_was_asked_for(
    mode: str, ground: str, tmp_path: Path, qapp: QApplication, qtbot: QtBot
) -> None:
    draw_scene(qapp, SCENES["server-idle"], SceneLook("dark" if mode == "dark" else "light"), tmp_path / "scene.png")
    rail = QImage(str(tmp_path / "scene.png")).pixelColor(2, 400)
    assert rail.name() == ground.lower()


def test_every_page_is_drawn_in_every_look() -> None:
    for page in ("chat", "models", "server", "machine", "settings"):
        assert set(EVERY_LOOK) <= set(SCENES[page].looks)
    assert len({look.suffix for look in EVERY_LOOK}) == 8


def test_a_folder_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ([], ["--nonsense"]):
        with pytest.raises(SystemExit) as error:
            main(wrong)
        assert error.value.code == 2
    assert "folder" in capsys.readouterr().err
