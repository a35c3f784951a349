"""One window for each home: handing over, stale locks and sockets, hung windows, strangers at the socket."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from app.config.paths import Paths, default_paths
from app.gui import single_instance as single_module
from app.gui.single_instance import HandOverMessage, SingleInstance

HAND_OVER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.config.paths import default_paths
from app.gui.single_instance import SingleInstance
application = QCoreApplication([])
single = SingleInstance(default_paths())
if single.claim():
    print("first", flush=True)
    sys.stdin.read()
else:
    print(single.hand_over(sys.argv[1:], Path("/somewhere")), flush=True)
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    """Folders whose names are short, as at home: the socket of a home with a long one is elsewhere."""
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("ROUNDHOUSE_HOME", home)
        yield default_paths()


@pytest.fixture
def first(paths: Paths, qtbot: QtBot) -> Iterator[SingleInstance]:
    single = SingleInstance(paths)
    assert single.claim()
    yield single
    single.close()


def another(*arguments: str) -> "subprocess.Popen[str]":
    """Start another process that wants to be the window of the same home."""
    argv = [sys.executable, "-c", HAND_OVER, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": "."})


def said_by(process: "subprocess.Popen[str]", qtbot: QtBot) -> str:
    """Return what it prints, while our event loop turns."""
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(process.communicate("", timeout=60)[0]))
    thread.start()
    qtbot.waitUntil(lambda: not thread.is_alive(), timeout=60_000)
    return messages[0].strip()


def test_a_second_start_hands_over_and_knows_it_was_heard(first: SingleInstance, qtbot: QtBot) -> None:
    with qtbot.waitSignal(first.message_received, timeout=60_000) as message_signal:
        process = another("a.gguf", "roundhouse://chat")
        assert said_by(process, qtbot) == "True"
    assert message_signal.args == [HandOverMessage(arguments=["a.gguf", "roundhouse://chat"], folder="/somewhere")]


def test_another_home_has_a_window_of_its_own(first: SingleInstance, tmp_path: Path) -> None:
    other = tmp_path / "other"
    paths = Paths(config=other, data=other, state=other, logs=other)
    second = SingleInstance(paths)
    assert second.claim()
    second.close()


def test_after_the_first_closed_the_next_is_the_first(first: SingleInstance, paths: Paths) -> None:
    first.close()
    second = SingleInstance(paths)
    assert second.claim()
    second.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no socket files and no kill -9")
def test_a_window_that_was_killed_is_in_nobodys_way(paths: Paths, qtbot: QtBot) -> None:
    killed_window = another()
    assert killed_window.stdout is not None
    assert killed_window.stdout.readline() == "first\n"
    killed_window.kill()
    killed_window.communicate()
    assert (paths.state / "window.sock").exists(), "it left its socket and its lock"
    assert (paths.state / "window.lock").exists()
    single = SingleInstance(paths)
    assert single.claim()
    with qtbot.waitSignal(single.message_received, timeout=60_000):
        assert said_by(another("x.gguf"), qtbot) == "True"
    single.close()


def test_a_window_that_hangs_is_not_waited_for(
    first: SingleInstance, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_module, "_ANSWER_MS", 50)
    second = SingleInstance(paths)
    assert not second.claim()
    assert not second.hand_over([], Path("/"))  # nobody turns the first one's event loop meanwhile


def test_a_lock_without_a_listener_is_given_up_on(
    first: SingleInstance, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_module, "_LISTENS_WITHIN_S", 0.0)
    first._server.close()
    assert not SingleInstance(paths).hand_over([], Path("/"))


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_this_person_reaches_the_socket(first: SingleInstance, paths: Paths) -> None:
    assert stat.S_IMODE((paths.state / "window.sock").stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\n",
        b"{}\n",
        b"\xff\xfe\n",
        json.dumps({"arguments": [1], "folder": ""}).encode() + b"\n",
        b"x" * 200_000,
    ],
    ids=["no JSON", "nothing", "no text", "no words", "endless"],
)
def test_what_is_no_hand_over_is_hung_up_on(first: SingleInstance, qtbot: QtBot, data: bytes) -> None:
    socket = QLocalSocket()
    with qtbot.assertNotEmitted(first.message_received):
        socket.connectToServer(first._name)
        assert socket.waitForConnected(5000)
        socket.write(data)
        qtbot.waitUntil(lambda: socket.state() is QLocalSocket.LocalSocketState.UnconnectedState, timeout=10_000)
    assert first._buffers == {}


def test_a_home_with_a_long_path_is_reached_all_the_same(tmp_path: Path, qtbot: QtBot) -> None:
    deep = tmp_path / ("long" * 30)
    paths = Paths(config=deep, data=deep, state=deep, logs=deep)
    single = SingleInstance(paths)
    assert single.claim()
    assert single._server.isListening()
    single.close()
