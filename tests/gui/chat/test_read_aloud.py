"""Reading aloud: what is spoken of an answer, when it stops, and the system's programs as a script plays them."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.transcript.box import Verb
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import Shell
from app.gui.speech.read_aloud import ReadAloud, SystemVoice, Voice
from app.gui.speech.speech_text import speech_lines
from app.gui.theme.theme import Theme
from tests.demo import long_chat
from tests.demo.api import DemoApi
from tests.gui.chat.test_message_actions import act, spots
from tests.gui.conftest import QuietShell

ANSWER = """# Bern

It has a **turntable**, and [a shed](https://example.org).
Its *second* line.

1. First
2. Second with `code`

- A point

```python
turn(1)

turn(2)
```

The area is $\\pi r^2$ of it.

$$\\frac{1}{2}$$

| Engine | Built |
|---|---|
| Ae 3/6 | 1921 |

---

> Quoted.
"""


class PlayedVoice(Voice):
    """Notes what it is to say."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.texts: list[Sequence[str]] = []
        self.stops = 0
        self.has_voice = True

    @property
    def is_there(self) -> bool:
        return self.has_voice

    def speak(self, lines: Sequence[str]) -> None:
        self.texts.append(lines)

    def stop(self) -> None:
        self.stops += 1


def test_marks_are_not_spoken_and_code_is_passed_over() -> None:
    assert speech_lines(ANSWER) == [
        "Bern",
        "It has a turntable, and a shed. Its second line.",
        "1. First",
        "2. Second with code",
        "A point",
        "Code is left out.",
        "The area is $\\pi r^2$ of it.",
        "$$\\frac{1}{2}$$",
        "Engine, Built",
        "Ae 3/6, 1921",
        "Quoted.",
    ]
    assert speech_lines("") == speech_lines("---\n\n\n") == []


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: Shell) -> ChatScreen:
    api.replies |= long_chat.chat_replies()
    screen = ChatScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.resize(1100, 720)
    with qtbot.waitActive(screen):
        screen.show()
        screen.activateWindow()
    api.flush()
    screen.model.open_chat("c1")
    api.flush()
    return screen


@pytest.fixture
def voice(screen: ChatScreen) -> PlayedVoice:
    voice = PlayedVoice(screen)
    read_aloud = screen.model.reading
    read_aloud._voice = voice
    voice.ended.connect(read_aloud._end)
    return voice


def test_the_row_reads_an_answer_and_stops_it(screen: ChatScreen, api: DemoApi, voice: PlayedVoice) -> None:
    act(screen, api, Verb.READ_ALOUD, 1)
    assert len(voice.texts) == 1
    assert screen.model.reading.message == "a1"
    assert spots(screen, 1)[Verb.READ_ALOUD].name == "Stop reading aloud"
    assert spots(screen, 3)[Verb.READ_ALOUD].name == "Read aloud"
    act(screen, api, Verb.READ_ALOUD, 1)
    assert (voice.stops, screen.model.reading.message) == (1, "")
    assert spots(screen, 1)[Verb.READ_ALOUD].name == "Read aloud"


@pytest.mark.slow
def test_another_answer_takes_over_and_the_end_is_seen(screen: ChatScreen, api: DemoApi, voice: PlayedVoice) -> None:
    act(screen, api, Verb.READ_ALOUD, 1)
    act(screen, api, Verb.READ_ALOUD, 3)
    assert (len(voice.texts), voice.stops, screen.model.reading.message) == (2, 1, "a2")
    voice.ended.emit()
    assert screen.model.reading.message == ""


@pytest.mark.slow
def test_keys_read_the_last_answer_and_a_change_of_chat_stops_it(screen: ChatScreen, voice: PlayedVoice) -> None:
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(screen, Qt.Key.Key_R, keys)
    assert screen.model.reading.message == "a2"
    QTest.keyClick(screen, Qt.Key.Key_R, keys)
    assert screen.model.reading.message == ""
    QTest.keyClick(screen, Qt.Key.Key_R, keys)
    screen.model.new_chat()
    assert (screen.model.reading.message, voice.stops) == ("", 2)


@pytest.mark.slow
def test_without_a_voice_it_says_what_to_install(
    screen: ChatScreen, api: DemoApi, voice: PlayedVoice, shell: QuietShell
) -> None:
    voice.has_voice = False
    act(screen, api, Verb.READ_ALOUD, 1)
    assert "speech-dispatcher" in shell.messages[-1]
    assert screen.model.reading.message == ""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which `spd-say` notes how it is called, what it is to say, and waits to be let go."""
    script = tmp_path / "spd-say"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\ntest "$1" = --cancel && exit\n'
        f"cat > {tmp_path}/part && mv {tmp_path}/part {tmp_path}/words\n"
        f"test -e {tmp_path}/hold || exit 0\nexec sleep 600\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="the played program is a shell script")
def test_the_systems_program_gets_the_words_on_its_input(qtbot: QtBot, program: Path) -> None:
    owner = QObject()
    voice = SystemVoice(owner, "linux")
    assert voice.is_there
    with qtbot.waitSignal(voice.ended):
        voice.speak(["Zürich, häh?", "!-!STOP all"])
    assert (program / "words").read_text() == "Zürich, häh?\n! ! STOP all\n", "no line is a command"
    assert (program / "calls").read_text() == "--pipe-mode --wait\n", "and no word is on the command line"


@pytest.mark.skipif(sys.platform == "win32", reason="the played program is a shell script")
def test_a_program_that_speaks_on_is_ended_and_told_to_be_silent(qtbot: QtBot, program: Path) -> None:
    (program / "hold").touch()
    owner = QObject()
    read_aloud = ReadAloud(owner, SystemVoice(owner, "linux"))
    read_aloud.toggle("a1", "Hello")
    qtbot.waitUntil((program / "words").exists)
    read_aloud.stop()
    assert read_aloud.message == ""
    qtbot.waitUntil(lambda: "--cancel" in (program / "calls").read_text())


def test_every_system_has_a_program() -> None:
    owner = QObject()
    programs = {platform: SystemVoice(owner, platform)._command[0] for platform in ("linux", "darwin", "win32")}
    assert programs == {"linux": "spd-say", "darwin": "say", "win32": "powershell"}
