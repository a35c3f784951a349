"""The disk side of the models page: figures, drives, folders that cannot be read, and what is done from there."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QPointF, QSignalBlocker
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.core.downloads import Pull
from app.core.errors import ErrorBody
from app.core.events import LibraryJobChanged, ModelsChanged, SettingChanged
from app.core.library import DiskUse, Drive, EmptyTrash, JobKind, LibraryJob, ModelHolding, TrashContents
from app.core.models import ModelInfo
from app.gui.net.remote_lists import Stores
from app.gui.screens.models import disk
from app.gui.screens.models.disk_view import FolderRow
from app.gui.screens.models.model import ModelsModel
from app.gui.screens.models.model_row_view import ModelRowView
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import Command, PageId, Task
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import PARTS
from app.gui.widgets.buttons import Button
from tests.demo import data
from tests.demo import disk as demo
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell


def make_holding(name: str, size: int, place: str = "here", **more: object) -> ModelHolding:
    return ModelHolding(model=name, title=name.upper(), place=place, drive="/", size_bytes=size, **more)  # type: ignore[arg-type]  # by name


def use(*holdings: ModelHolding, **drive: int) -> DiskUse:
    return DiskUse(drives=[Drive(path="/", **drive)], folders=[], holdings=list(holdings))  # type: ignore[arg-type]  # by name


def make_trash(size: int, files: int = 3) -> TrashContents:
    return TrashContents(files=files, size_bytes=size, paths=["/m/a.gguf"], digest="d")


@pytest.fixture
def screen(qtbot: QtBot, theme: Theme, api: DemoApi, shell: QuietShell) -> ModelsScreen:
    screen = ModelsScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(screen)
    screen.show()
    api.flush()
    return screen


@pytest.fixture
def on_disk(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> ModelsScreen:
    shell.task_requested.emit(Task.DISK)
    api.flush()
    return screen


def test_a_drive_is_cut_into_models_trash_and_all_else() -> None:
    disk_use = use(
        make_holding("a", 300, "one"),
        make_holding("b", 100, "two", shared_bytes=100),
        total_bytes=1000,
        free_bytes=400,
        models_bytes=400,
        trash_bytes=50,
    )
    pieces = disk.drive_pieces(disk_use.drives[0], disk_use)
    assert [(part.name, part.amount) for part, _ in pieces] == [
        ("one", 300),
        ("two", 100),
        ("Trash", 50),
        ("Other files", 150),
    ]
    assert disk.drive_headline(disk_use.drives[0]) == "400 B free of 1000 B"


def test_the_trash_is_cut_into_models_and_all_else() -> None:
    drive = Drive(path="/", trash_bytes=50, trashed=make_trash(30))
    disk_use = DiskUse(drives=[drive], folders=[], holdings=[])
    assert [(part.name, part.amount, sentence) for part, sentence in disk.drive_pieces(drive, disk_use)] == [
        ("Removed models", 30, "Removed models in the trash, 30 B"),
        ("Trash", 20, "Other trash, 20 B"),
    ]
    only = msgspec.structs.replace(drive, trashed=make_trash(50))
    assert [sentence for _, sentence in disk.drive_pieces(only, disk_use)] == ["Removed models in the trash, 50 B"]
    assert (
        sum(
            part.amount
            for part, _ in disk.drive_pieces(msgspec.structs.replace(drive, trashed=make_trash(90)), disk_use)
        )
        == 50
    )


@pytest.mark.parametrize(
    ("path", "files", "sentences"),
    [
        ("/", 1, ("1 file of a removed model (7 B) will be deleted from the trash on this computer.", "Delete 1 file")),
        (
            "/usb",
            2000,
            ("2,000 files of removed models (7 B) will be deleted from the trash on /usb.", "Delete 2,000 files"),
        ),
    ],
)
def test_the_question_says_how_many_files_and_bytes(path: str, files: int, sentences: tuple[str, str]) -> None:
    trash = make_trash(7, files)
    assert disk.trash_warning(Drive(path=path), trash).startswith(sentences[0])
    assert "cannot be undone" in disk.trash_warning(Drive(path=path), trash)
    assert disk.trash_action(trash) == f"{sentences[1]} permanently"


def test_what_is_shared_counts_once_in_a_drive() -> None:
    disk_use = use(
        make_holding("a", 300, "one"), make_holding("b", 300, "two"), total_bytes=1000, free_bytes=700, models_bytes=300
    )
    assert sum(part.amount for part, _ in disk.drive_pieces(disk_use.drives[0], disk_use)) == pytest.approx(300)


def test_a_drive_of_unknown_size_says_so() -> None:
    disk_use = use(make_holding("a", 300), models_bytes=300)
    assert disk.drive_headline(disk_use.drives[0]) == "size unknown"
    assert [part.name for part, _ in disk.drive_pieces(disk_use.drives[0], disk_use)] == ["here"]
    assert disk.disk_summary(disk_use)[-1] == ("unknown", "in the trash")


def test_small_models_are_one_part_of_their_place() -> None:
    disk_use = use(
        make_holding("large", 10**9), *(make_holding(f"small{number}", 1000) for number in range(200)), models_bytes=1
    )
    (group,) = disk.treemap_groups(disk_use)
    assert [(cell.key, cell.name) for cell in group.cells] == [("large", "LARGE"), ("", "200 smaller")]
    many = use(*(make_holding(f"m{number}", 1000 + number) for number in range(200)), models_bytes=1)
    assert len(disk.treemap_groups(many)[0].cells) <= 62


def test_places_have_colours_of_their_own_the_largest_first() -> None:
    disk_use = use(*(make_holding(str(number), 100 - number, f"place{number}") for number in range(8)), models_bytes=1)
    colors = disk.place_colors(disk_use)
    assert [colors[f"place{number}"] for number in range(8)] == [*PARTS, PARTS[-1], PARTS[-1]]


def test_nothing_is_asked_until_somebody_looks(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    shell.broadcast_event(ModelsChanged())
    api.flush()
    assert api.bodies_of("GET", "/library/disk") == []
    shell.task_requested.emit(Task.DISK)
    assert len(api.bodies_of("GET", "/library/disk")) == 1
    for event in (
        ModelsChanged(),
        SettingChanged(name="models.folders"),
        LibraryJobChanged(job=LibraryJob(id="1", kind=JobKind.RECLAIM, is_done=True)),
    ):
        api.flush()
        before = len(api.bodies_of("GET", "/library/disk"))
        shell.broadcast_event(event)
        api.flush()
        assert len(api.bodies_of("GET", "/library/disk")) == before + 1
    screen.show_discover()
    api.flush()
    before = len(api.bodies_of("GET", "/library/disk"))
    shell.broadcast_event(ModelsChanged())
    api.flush()
    assert len(api.bodies_of("GET", "/library/disk")) == before


@pytest.mark.slow
def test_the_disk_is_shown_with_its_folders_and_their_problems(on_disk: ModelsScreen) -> None:
    assert on_disk.disk.isVisible()
    rows = on_disk.disk.findChildren(FolderRow)
    assert [row.accessibleName() for row in rows] == [folder.title for folder in demo.USE.folders]
    assert "It is missing" in rows[4].accessibleDescription()
    assert "no permission to read it" in rows[5].accessibleDescription()
    assert [row.remove_button.isVisible() for row in rows] == [False, False, True, True, True, True, False, False]
    names = [cell.name for cell in on_disk.disk.treemap.cells]
    assert names[0] == "Llama 3.3 70B Instruct"


@pytest.mark.slow
def test_a_failure_is_said_with_a_way_to_try_again(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    api.replies["GET /library/disk"] = data.NO_SUCH_MODEL
    shell.task_requested.emit(Task.DISK)
    api.flush()
    assert not screen.disk.treemap.isVisible()
    assert screen.disk._error.isVisible()
    api.replies["GET /library/disk"] = demo.USE
    screen.disk._error._button.click()
    api.flush()
    assert screen.disk.treemap.isVisible()
    assert not screen.disk._error.isVisible()


def test_a_disk_without_models_has_no_map(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    api.replies["GET /library/disk"] = demo.NOTHING
    shell.task_requested.emit(Task.DISK)
    api.flush()
    assert not screen.disk.treemap.isVisible()
    assert screen.disk.folders.isVisible()


def empty_buttons(screen: ModelsScreen) -> list[Button]:
    return [button for button in screen.disk.findChildren(Button) if "from the trash" in button.accessibleName()]


@pytest.mark.slow
def test_removed_models_are_deleted_from_the_trash_after_a_question(
    api: DemoApi, shell: QuietShell, on_disk: ModelsScreen
) -> None:
    (button,) = empty_buttons(on_disk)
    assert button.isVisible(), "the other drive's trash holds none"
    assert button.text() == "Delete removed models permanently, 11.3 GiB"
    button.click()
    assert api.bodies_of("POST", "/library/empty-trash") == []
    ((title, sentence, confirmed_action),) = shell.confirmations
    assert title == "Delete removed models permanently?"
    assert "3 files of removed models (11.3 GiB) will be deleted from the trash on this computer." in sentence
    confirmed_action.run()
    assert api.bodies_of("POST", "/library/empty-trash") == [EmptyTrash(digests=["1"])]
    api.flush()
    assert not button.isEnabled()
    before = len(api.bodies_of("GET", "/library/disk"))
    job = msgspec.structs.replace(demo.EMPTYING, is_done=True, deleted_files=3, reclaimed_bytes=11 << 30)
    shell.broadcast_event(LibraryJobChanged(job=job))
    assert shell.messages[-1] == "3 files of removed models (11.0 GiB) were deleted permanently."
    api.flush()
    assert len(api.bodies_of("GET", "/library/disk")) == before + 1
    assert button.isEnabled()


@pytest.mark.slow
def test_what_could_not_be_deleted_stays_said_and_the_figures_are_read_anew(
    api: DemoApi, shell: QuietShell, on_disk: ModelsScreen
) -> None:
    api.replies["POST /library/empty-trash"] = data.NO_SUCH_MODEL  # as when something else is in the trash by now
    on_disk.model.empty_trash(demo.USE.drives[0])
    shell.confirmations[-1][2].run()
    before = len(api.bodies_of("GET", "/library/disk"))
    api.flush()
    assert on_disk._trouble.isVisible()
    assert len(api.bodies_of("GET", "/library/disk")) == before + 1
    on_disk._trouble.hide()
    api.replies["POST /library/empty-trash"] = demo.EMPTYING
    on_disk.model.jobs.empty_trash("1")
    api.flush()
    error = ErrorBody(code="trash_kept", sentence="a.gguf could not be deleted.")
    shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(demo.EMPTYING, is_done=True, error=error)))
    assert on_disk._trouble.isVisible()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "sentence"),
    [(0, "It was cancelled."), (1, "1 file of a removed model (1.0 GiB) was deleted permanently.")],
)
def test_emptying_that_was_called_off_says_how_far_it_came(
    api: DemoApi, shell: QuietShell, on_disk: ModelsScreen, files: int, sentence: str
) -> None:
    on_disk.model.jobs.empty_trash("1")
    api.flush()
    error = ErrorBody(code="cancelled", sentence="It was cancelled.")
    job = msgspec.structs.replace(demo.EMPTYING, is_done=True, error=error, deleted_files=files)
    shell.broadcast_event(LibraryJobChanged(job=msgspec.structs.replace(job, reclaimed_bytes=files << 30)))
    assert shell.messages[-1] == sentence
    assert not on_disk._trouble.isVisible()


@pytest.mark.slow
def test_where_the_trash_cannot_be_told_nothing_is_offered(
    api: DemoApi, shell: QuietShell, screen: ModelsScreen
) -> None:
    drives = [msgspec.structs.replace(drive, trash_bytes=None, trashed=None) for drive in demo.USE.drives]
    api.replies["GET /library/disk"] = msgspec.structs.replace(demo.USE, drives=drives)
    shell.task_requested.emit(Task.DISK)
    api.flush()
    assert empty_buttons(screen) == []
    screen.model.empty_trash(drives[0])
    assert shell.confirmations == []


def test_the_window_asks_with_the_keyboard_on_the_way_out(make_window: Callable[[PageId], MainWindow]) -> None:
    window = make_window(PageId.CONNECT)
    confirmed_steps: list[int] = []
    window.shell.confirm("Delete?", "It cannot be undone.", Command("Delete it", lambda: confirmed_steps.append(1)))
    question = window.question
    assert [button.text() for button in question.buttons] == ["Cancel", "Delete it"]
    assert question.buttons[0].hasFocus()
    question.buttons[0].click()
    assert (question.isVisible(), confirmed_steps) == (False, [])
    window.shell.confirm("Delete?", "It cannot be undone.", Command("Delete it", lambda: confirmed_steps.append(1)))
    question.buttons[1].click()
    assert confirmed_steps == [1]


def with_folders(folders: list[str]) -> list[object]:
    return [data.with_value(row, folders) if row.name == "models.folders" else row for row in data.default_settings()]


@pytest.mark.slow
def test_a_folder_is_taken_out_and_undo_takes_it_in_again(
    api: DemoApi, shell: QuietShell, on_disk: ModelsScreen
) -> None:
    before = ["/home/ada/models", "/media/ada/Archive"]
    api.replies["GET /settings"] = with_folders(before)
    on_disk.model.preferences.read()
    api.flush()
    row = on_disk.disk.findChildren(FolderRow)[2]
    row.remove_button.click()
    assert api.bodies_of("PATCH", "/settings")[-1] == {"models.folders": ["/media/ada/Archive"]}
    assert "stay where they are" in shell.messages[-1]
    undo = shell.undos[-1]
    assert undo is not None
    undo()
    assert api.bodies_of("PATCH", "/settings")[-1] == {"models.folders": before}


@pytest.mark.slow
@pytest.mark.parametrize("at", [3, 5])
def test_a_folder_that_is_added_says_if_it_cannot_be_read(
    api: DemoApi, shell: QuietShell, screen: ModelsScreen, at: int
) -> None:
    folder = demo.USE.folders[at]
    screen.model.add_folder(Path(folder.path))
    api.flush()
    assert screen._trouble.isVisible() is bool(folder.problem)
    if folder.problem:
        assert folder.problem in screen._trouble.accessibleName()
        return
    assert shell.messages[-1] == "Archive is now searched for models."
    before, undo = len(api.bodies_of("PATCH", "/settings")), shell.undos[-1]
    assert undo is not None
    undo()
    assert len(api.bodies_of("PATCH", "/settings")) == before + 1


@pytest.mark.slow
def test_a_folder_is_said_to_be_added_where_nothing_is_known_of_it(
    api: DemoApi, shell: QuietShell, screen: ModelsScreen
) -> None:
    api.replies["GET /library/disk"] = data.NO_SUCH_MODEL
    screen.model.add_folder(Path("/anywhere"))
    api.flush()
    assert shell.messages[-1] == "anywhere is now searched for models."


def test_a_folder_written_with_a_tilde_is_found(
    api: DemoApi, shell: QuietShell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    api.replies["GET /settings"] = with_folders(["~/models"])
    model = ModelsModel(Stores(api, shell), shell)
    api.flush()
    model.remove_folder(tmp_path / "models")
    assert api.bodies_of("PATCH", "/settings") == [{"models.folders": []}]


def the_menu(screen: ModelsScreen, name: str) -> dict[str, Callable[[], object]]:
    screen.disk.treemap.chosen.emit(name, QPointF(5, 5))
    menus = screen.disk.findChildren(QMenu)
    if not menus:
        return {}
    with QSignalBlocker(menus[-1]):  # closing deletes it, and its actions are still to be tried
        menus[-1].close()
    return {action.text(): action.trigger for action in menus[-1].actions()}


@pytest.mark.slow
def test_a_model_is_checked_removed_and_found_from_the_map(
    api: DemoApi, shell: QuietShell, on_disk: ModelsScreen
) -> None:
    menu = the_menu(on_disk, "gpt-oss-20b-mxfp4")
    assert list(menu) == ["Show in the list", "Check the files", "", "Move to the trash, 11.3 GiB"]
    menu["Check the files"]()
    assert [body.model for body in api.bodies_of("POST", "/library/verify")] == ["gpt-oss-20b-mxfp4"]  # type: ignore[attr-defined]  # a VerifyModel
    menu["Show in the list"]()
    assert not on_disk.disk.isVisible()
    focus_widget = on_disk.focusWidget()
    assert on_disk._list.rows["gpt-oss-20b-mxfp4"].isAncestorOf(focus_widget)


@pytest.mark.slow
def test_a_model_that_is_gone_by_now_has_no_menu(on_disk: ModelsScreen) -> None:
    assert the_menu(on_disk, "llama-3.3-70b-instruct-q4_k_m") == {}


@pytest.mark.slow
def test_a_newer_model_is_marked_and_fetched(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    shell.task_requested.emit(Task.UPDATES)
    assert screen.model.updates.is_checking
    assert not screen._refresh.isEnabled()
    screen.model.updates.check_hub()
    api.flush()
    assert len(api.bodies_of("GET", "/library/updates")) == 1
    assert shell.messages[-1] == "1 model has newer files on the hub."
    row = screen._list.rows["gemma-3-12b-it-q4_0"]
    assert isinstance(row, ModelRowView)
    button = row._buttons["update"]
    assert (button.isVisible(), button.text()) == (True, "Update, 7.5 GiB")
    assert row._newer.isVisible()
    assert "Your files stay" in button.toolTip()
    button.click()
    assert [body.model for body in api.bodies_of("POST", "/downloads")] == ["google/gemma-3-12b-it-qat-q4_0-gguf"]  # type: ignore[attr-defined]  # a Pull
    assert not button.isVisible()
    screen.downloads_model.failed.emit(data.NO_SUCH_MODEL)
    assert button.isVisible()


def test_a_model_that_came_anew_is_newer_no_more(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    updates = screen.model.updates
    updates.check_hub()
    api.flush()
    newer = updates.newer_version("gemma-3-12b-it-q4_0")
    assert newer is not None
    updates.request_update(msgspec.structs.replace(newer, revision="dev", quantization="Q4_0"))
    assert api.bodies_of("POST", "/downloads") == [Pull(model=f"{newer.repository}@dev", quantization="Q4_0")]
    shell.broadcast_event(ModelsChanged())
    updates.restore_offers()
    assert updates.newer_version("gemma-3-12b-it-q4_0") is None


@pytest.mark.slow
def test_a_hub_that_cannot_be_asked_is_said(api: DemoApi, shell: QuietShell, screen: ModelsScreen) -> None:
    api.replies["GET /library/updates"] = data.NO_SUCH_MODEL
    screen.model.updates.check_hub()
    api.flush()
    assert screen._trouble.isVisible()
    assert not screen.model.updates.is_checking


@pytest.mark.slow
def test_a_model_of_another_program_is_not_removed_from_the_map(api: DemoApi, on_disk: ModelsScreen) -> None:
    theirs = ModelInfo(name="theirs", title="Theirs", path="/x", format="gguf", size_bytes=1, store="Ollama")
    on_disk.model.library.replace([theirs])
    assert list(the_menu(on_disk, "theirs")) == ["Show in the list", "Check the files"]
