"""The library of presets in pictures and tests of the window."""

from collections.abc import Iterator

from app.core.chats import Sampling
from app.core.presets import ChatPreset, PresetImportResult
from app.gui.screens.chat.view import ChatScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.sampling_scenes import SAMPLING, sampling_replies
from tests.demo.scene import USUAL_LOOKS, Replies, Scene, SceneLook

TRIP = ChatPreset(
    name="Trip planner",
    model=data.READY.model,
    system_prompt="You plan trips to {{city}}, on foot and by train.",
    prompt="Plan {{days}} days in {{city}}.",
    sampling=Sampling(temperature=0.3),
)
EDITOR = ChatPreset(name="Strict editor", system_prompt="Shorten what you get. Keep the meaning.")
PRESETS = [EDITOR, TRIP]


def preset_replies(presets: list[ChatPreset]) -> Replies:
    """Return what the gateway answers about a library."""
    return {
        **sampling_replies(SAMPLING),
        "GET /presets": presets,
        "POST /presets": EDITOR,
        "POST /presets/import": PresetImportResult(added=["Strict editor (2)"], unchanged=1),
        "DELETE /presets/Strict%20editor": None,
    }


def preset_scenes() -> Iterator[Scene]:
    """Yield the library, one that is empty, and the fields of a preset's variables."""
    looks = (*USUAL_LOOKS, SceneLook(is_mirrored=True))
    yield Scene("chat-presets", PageId.CHAT, preset_replies(PRESETS), open_presets, looks=looks)
    yield Scene("chat-presets-empty", PageId.CHAT, preset_replies([]), open_presets)
    yield Scene("chat-presets-variables", PageId.CHAT, preset_replies(PRESETS), use_trip, looks=looks[:4])


def open_presets(window: MainWindow, api: DemoApi) -> None:
    """Open the library in the sample's chat."""
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.model.open_chat("c1")
        api.flush()
        page.conversation_view.toggle_presets()


def use_trip(window: MainWindow, api: DemoApi) -> None:
    """Use the one that asks for something."""
    open_presets(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ChatScreen):
        page.conversation_view.use_preset(TRIP)
