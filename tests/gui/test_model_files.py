"""Files of models in the window: to the trash and back, and checked, each said with what comes of it."""

from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import LibraryJobChanged
from app.core.library import FileCheck, JobKind, LibraryJob, Removal, RemoveModel, Verdict, VerifyModel
from app.core.models import ModelInfo, Preset
from app.gui.net.remote_lists import Stores
from app.gui.screens.models.model import ModelRow, ModelsModel
from app.gui.screens.models.model_files import can_remove, can_verify
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.theme.theme import Theme
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

OURS = ModelInfo(name="m", title="M", path="/m.gguf", format="gguf", size_bytes=5_000_000_000)
GONE = Removal(id="7", model="m", files=["/m.gguf"], frees_bytes=5_000_000_000, made_models=["terse"])
JOB = LibraryJob(id="1", kind=JobKind.VERIFY, model="m", total_bytes=10)
Heard = list[tuple[str, Callable[[], object] | None]]


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> ModelsModel:
    return ModelsModel(Stores(api, shell), shell)


@pytest.fixture
def toasts(model: ModelsModel) -> Heard:
    toasts: Heard = []
    model.toast_requested.connect(lambda sentence, undo: toasts.append((sentence, undo)))
    return toasts


@pytest.fixture
def failures(model: ModelsModel) -> list[ErrorBody]:
    failures: list[ErrorBody] = []
    model.failed.connect(failures.append)
    return failures


def test_a_model_goes_to_the_trash_and_undo_brings_it_back(api: DemoApi, model: ModelsModel, toasts: Heard) -> None:
    api.replies |= {"POST /removals": GONE, "POST /removals/7/undo": OURS}
    model.files.remove(OURS)
    api.flush()
    assert ("POST", "/removals", RemoveModel(model="m")) in api.calls
    sentence, undo = toasts[-1]
    assert "4.7 GiB will be freed once the trash is emptied" in sentence
    assert "terse cannot be used" in sentence
    assert undo is not None
    undo()
    api.flush()
    assert toasts[-1] == ("M is back.", None)


def test_what_goes_with_a_model_and_what_stays_is_said(api: DemoApi, model: ModelsModel, toasts: Heard) -> None:
    api.replies["POST /removals"] = msgspec.structs.replace(GONE, projectors=["mmproj.gguf"])
    model.files.remove(OURS)
    api.flush()
    assert toasts[-1][0].startswith("M and its projector are in the trash.")
    api.replies["POST /removals"] = msgspec.structs.replace(GONE, left=["mmproj.gguf stays: n needs it."])
    model.files.remove(OURS)
    api.flush()
    assert toasts[-1][0].endswith("mmproj.gguf stays: n needs it.")


def test_where_nothing_can_be_brought_back_no_undo_is_offered(api: DemoApi, model: ModelsModel, toasts: Heard) -> None:
    api.replies["POST /removals"] = msgspec.structs.replace(GONE, id="")
    model.files.remove(OURS)
    api.flush()
    assert toasts[-1][1] is None


def test_a_refusal_is_said(api: DemoApi, model: ModelsModel, failures: list[ErrorBody]) -> None:
    api.replies["POST /removals"] = ErrorBody(code="conflict", sentence="M is loaded.")
    model.files.remove(OURS)
    api.flush()
    assert failures[-1].sentence == "M is loaded."


@pytest.mark.parametrize(
    "end",
    [(Verdict.RIGHT, "every file matches its hash"), (Verdict.WHOLE, "Not every file has a known hash")],
)
def test_a_check_is_said_at_its_end(
    api: DemoApi, shell: QuietShell, model: ModelsModel, toasts: Heard, end: tuple[Verdict, str]
) -> None:
    verdict, sentence = end
    api.replies["POST /library/verify"] = JOB
    model.files.verify(OURS)
    api.flush()
    assert ("POST", "/library/verify", VerifyModel(model="m")) in api.calls
    assert "is being checked" in toasts[-1][0]
    shell.broadcast_event(LibraryJobChanged(job=JOB))
    checks = [FileCheck(path="/m.gguf", verdict=verdict)]
    for _ in range(2):
        shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(JOB, is_done=True, checks=checks)))
    assert sentence in toasts[-1][0]
    assert len(toasts) == 2


def test_a_damaged_file_stays_said(
    api: DemoApi, shell: QuietShell, model: ModelsModel, failures: list[ErrorBody]
) -> None:
    api.replies["POST /library/verify"] = JOB
    model.files.verify(OURS)
    api.flush()
    checks = [FileCheck(path="/x/m.gguf", verdict=Verdict.WRONG, note="Download it again.")]
    shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(JOB, is_done=True, checks=checks)))
    assert failures[-1].text == "m is damaged: m.gguf. Download it again."


def test_a_check_can_be_called_off(api: DemoApi, shell: QuietShell, model: ModelsModel, toasts: Heard) -> None:
    api.replies["POST /library/verify"] = JOB
    model.files.verify(OURS)
    api.flush()
    undo = toasts[-1][1]
    assert undo is not None
    undo()
    assert api.calls[-1] == ("DELETE", "/library/job", None)
    error = ErrorBody(code="cancelled", sentence="It was cancelled.")
    shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(JOB, is_done=True, error=error)))
    assert toasts[-1] == ("It was cancelled.", None)


def test_a_check_somebody_else_began_is_theirs_to_say(shell: QuietShell, toasts: Heard) -> None:
    shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(JOB, is_done=True)))
    assert toasts == []


@pytest.mark.parametrize("field", ["is_builtin", "attached", "store", "preset"])
def test_only_our_own_files_can_be_removed(field: str) -> None:
    value: object = {"is_builtin": True, "preset": Preset(base="x")}.get(field, "somebody")
    other = msgspec.structs.replace(OURS, **{field: value})
    assert can_remove(OURS)
    assert not can_remove(other)
    assert can_verify(other) is (field != "attached")


def test_the_menu_says_what_the_trash_would_free(
    qtbot: QtBot, theme: Theme, shell: QuietShell, model: ModelsModel
) -> None:
    row = ModelRow(OURS, None)
    view = ModelRowView(theme, model, shell, row)
    qtbot.addWidget(view)
    view._open_menu()
    (menu,) = view.findChildren(QMenu)
    assert "Move to the trash, 4.7 GiB" in [action.text() for action in menu.actions()]
    menu.close()
