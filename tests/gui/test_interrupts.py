"""A signal ends the window in good order, from inside Qt's event loop."""

import signal

import pytest
from pytestqt.qtbot import QtBot

from app.gui.main import Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_by_the_event_loop(qtbot: QtBot, number: signal.Signals) -> None:
    interruptions: list[bool] = []
    before = signal.getsignal(number)
    interrupts = Interrupts(lambda: interruptions.append(True))
    signal.raise_signal(number)
    qtbot.waitUntil(lambda: interruptions == [True])
    interrupts.close()
    assert signal.getsignal(number) is before
