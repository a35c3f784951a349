"""What may come from outside, how it is read, and what the window does about it: nothing that costs, unasked."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.core.models import RegisterModel
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.open_handler import (
    MOST_ARGUMENTS,
    OpenChat,
    OpenFile,
    OpenHandler,
    OpenRefusal,
    OpenRepository,
    parse_arguments,
)
from app.gui.shell.window import MainWindow
from tests.demo.api import DemoApi

Make = Callable[[PageId], MainWindow]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a model #1.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_files_are_taken_by_path_by_name_and_by_address(file: Path) -> None:
    arguments = [str(file), file.name, f"file://{quote(str(file))}"]
    assert parse_arguments(arguments, file.parent) == [OpenFile(file)] * 3


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("roundhouse://pull/owner/name", OpenRepository("owner/name")),
        ("roundhouse://pull/bartowski/Qwen_Qwen3-8B-GGUF/", OpenRepository("bartowski/Qwen_Qwen3-8B-GGUF")),
        ("roundhouse://chat?model=guide", OpenChat("guide")),
        ("roundhouse://chat?model=Qwen3%208B", OpenChat("Qwen3 8B")),
        ("roundhouse://chat", OpenChat("")),
    ],
)
def test_links_that_are_known(link: str, target: object) -> None:
    assert parse_arguments([link], Path("/")) == [target]


@pytest.mark.parametrize(
    "argument",
    [
        "roundhouse://pull/owner",
        "roundhouse://pull/owner/name/more",
        "roundhouse://pull/../name",
        "roundhouse://pull/owner/..",
        "roundhouse://pull/owner/%2e%2e%2fetc",
        "roundhouse://pull/owner/na%0ame",
        "roundhouse://pull/-o/name",
        "roundhouse://run/rm",
        "roundhouse://chat?model=" + "x" * 300,
        "roundhouse://chat?model=%1b%5b2J",
        "roundhouse://[",
        "https://example.org/model.gguf",
        "no-such-file.gguf",
        "/etc/passwd",
        "a\nb.gguf",
        "x" * 5000 + ".gguf",
    ],
)
def test_everything_else_is_a_sentence(argument: str, tmp_path: Path) -> None:
    (refusal,) = parse_arguments([argument], tmp_path)
    assert isinstance(refusal, OpenRefusal)
    assert refusal.sentence.endswith(".")


@given(
    st.lists(st.one_of(st.text(), st.text().map("roundhouse://".__add__), st.text().map("roundhouse://pull/".__add__)))
)
def test_nothing_that_comes_breaks_the_window(arguments: list[str]) -> None:
    requests = parse_arguments(arguments, Path("/nowhere"))
    assert len(requests) <= MOST_ARGUMENTS
    for request in requests:
        assert not isinstance(request, OpenRepository) or request.repository.count("/") == 1


@pytest.fixture
def window_and_handler(make_window: Make) -> tuple[MainWindow, OpenHandler]:
    window = make_window(PageId.CHAT)
    return window, OpenHandler(window, window.shell, window.stores.library)


@pytest.mark.slow
def test_a_file_is_listed_on_the_models_page(
    window_and_handler: tuple[MainWindow, OpenHandler], api: DemoApi, file: Path
) -> None:
    window, opener = window_and_handler
    opener.handle_arguments([file.name], file.parent)
    assert window.pages.page is PageId.MODELS
    assert api.bodies_of("POST", "/models") == [RegisterModel(path=str(file))]


@pytest.mark.slow
def test_a_link_to_a_model_shows_it_and_downloads_nothing(
    window_and_handler: tuple[MainWindow, OpenHandler], api: DemoApi
) -> None:
    window, opener = window_and_handler
    opener.handle_arguments(["roundhouse://pull/owner/name"], Path("/"))
    page = window.pages.currentWidget()
    assert isinstance(page, ModelsScreen)
    assert page.discover.isVisible()
    assert page.discover.field.text() == "owner/name"
    assert not api.bodies_of("POST", "/downloads")


@pytest.mark.slow
def test_a_link_to_a_chat_starts_one_with_a_model_that_is_here(
    window_and_handler: tuple[MainWindow, OpenHandler], qtbot: QtBot
) -> None:
    window, opener = window_and_handler
    with qtbot.waitSignal(window.shell.chat_requested) as signal:
        opener.handle_arguments(["roundhouse://chat?model=guide"], Path("/"))
    assert signal.args == ["guide"]


@pytest.mark.slow
def test_a_model_that_is_not_here_is_said(window_and_handler: tuple[MainWindow, OpenHandler], qtbot: QtBot) -> None:
    window, opener = window_and_handler
    with qtbot.assertNotEmitted(window.shell.chat_requested):
        opener.handle_arguments(["roundhouse://chat?model=nowhere"], Path("/"))
    assert window.toast.isVisible()


@pytest.mark.slow
def test_a_minimised_window_comes_back(window_and_handler: tuple[MainWindow, OpenHandler]) -> None:
    window, opener = window_and_handler
    window.showMinimized()
    opener.handle_arguments([], Path("/"))
    assert not window.isMinimized()
