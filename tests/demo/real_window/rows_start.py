"""The first minutes: a computer without models, and the model that suits it.

The hub is one of the tests' own; the catalogue and its judgement of this machine are real.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.demo.real_window.window import RealWindow
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.published import publish_all
from tests.fake_hub.server import serve_hub

_QUESTION = "what is a quantised model"


def add_first_model(window: RealWindow) -> None:
    """Without models, "Add a model" leads to the best for this machine, the keyboard on Download; the Guide answers."""
    with without_models(window, "first"):
        window.press_button("Add a model")
        window.find("Recommended for this computer", "label")
        window.wait_for(lambda: window.find("Download: .*", "push button").has_focus, "the keyboard on Download")
        window.find("Downloads in about .*chat with the Guide meanwhile.*", "label")
        window.take_picture("add-a-model")
        window.press("ctrl+1")
        assert window.ask(_QUESTION).model == "guide"


@contextmanager
def without_models(window: RealWindow, name: str) -> Iterator[None]:
    """Have the window be that of a computer where Roundhouse is new, with a hub of our own, until the block ends."""
    home, hub = os.environ["ROUNDHOUSE_HOME"], FakeHub()
    publish_all(hub)
    with serve_hub(hub):
        window.close()
        os.environ.update({"ROUNDHOUSE_HOME": str(window.folder / name), "HF_ENDPOINT": hub.url})
        window.open()
        try:
            yield
        finally:
            window.close()
            os.environ["ROUNDHOUSE_HOME"] = home
            del os.environ["HF_ENDPOINT"]
            window.open()
