"""The window's looks, its layouts, the service that dies below it, and its first minutes."""

import psutil

from app.client.discovery import find_running_gateway
from app.config.paths import default_paths
from app.core.chats import MessageStatus
from tests.demo.real_window.window import RealWindow

_QUESTION = "what is a quantised model"
_DARK, _LIGHT = "Dark appearance", "Light appearance"
_HALF = 128
"""Of the brightness of a pixel."""
_STEPS_TO_200 = 10


def switch_theme(window: RealWindow) -> None:
    """Dark and light again from the palette, while the window shows an answer, and a toast."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.choose_command(_DARK)
    window.wait_for(lambda: window.brightness("Conversation") < _HALF, "a dark conversation")
    window.choose_command("Copy this chat")
    window.take_picture("dark")
    window.choose_command(_LIGHT)
    window.wait_for(lambda: window.brightness("Conversation") > _HALF, "a light conversation")
    window.take_picture("light")


def enlarge(window: RealWindow) -> None:
    """Ctrl+Plus to 200 %, and a question there; Ctrl+0 goes back."""
    window.new_chat("Guide")
    height = window.tree.area(window.find("Attach files")).height
    window.press(*["ctrl+plus"] * _STEPS_TO_200)
    window.wait_for(lambda: window.tree.area(window.find("Attach files")).height >= 2 * height - 2, "twice the size")
    window.ask(_QUESTION)
    window.take_picture("at-200")
    window.press("ctrl+0")
    window.wait_for(lambda: window.tree.area(window.find("Attach files")).height == height, "the usual size")


def mirror(window: RealWindow) -> None:
    """The program started for a script from right to left: pages, list and composer are mirrored, and answers come."""
    window.close()
    window.open("-reverse")
    window.new_chat("Guide")
    window.ask(_QUESTION)
    window.take_picture("mirrored")
    pages, send = (window.tree.area(window.find(name)).x for name in ("Pages", "Send"))
    window.close()
    window.open()
    assert pages > send


def kill_service(window: RealWindow) -> None:
    """`kill -9` of the service right after a question: the window starts another, and every message is still there."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    before = contents(window)
    window.focus_composer()
    window.write("and what is a projector")
    window.press("Return")
    window.wait_for(lambda: len(contents(window)) > len(before), "the question in the store")
    service = find_running_gateway(default_paths())
    assert service is not None
    psutil.Process(service.pid).kill()
    window.wait_for(lambda: (other := find_running_gateway(default_paths())) and other.pid != service.pid, "a service")
    window.client = window.find_service()
    after = contents(window)
    assert before.items() <= after.items()
    assert "and what is a projector" in after.values()
    window.new_chat("Guide")
    assert window.ask(_QUESTION).status is MessageStatus.COMPLETE
    window.take_picture("after-kill")


def contents(window: RealWindow) -> dict[str, str]:
    """Return the words of all messages."""
    return {message.id: message.content for chat in window.chats() for message in chat.messages}
