"""What is photographed of the disks, of equal files, of the trash and of checks."""

from collections.abc import Iterator

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.core.events import LibraryJobChanged
from app.core.library import LibraryJob
from app.gui.screens.models.disk_view import DuplicatesView, FoldersView
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId, Task
from app.gui.shell.window import MainWindow
from tests.demo import data, disk
from tests.demo.api import DemoApi
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Scene, SceneLook, scroll_to

_LAID_OUT_MS, _ROUNDS = 30, 4


def disk_scenes() -> Iterator[Scene]:
    """Yield what the models page shows of the disks, of equal files and of checks."""
    usual, page = data.gateway_replies(), PageId.MODELS
    empty, wrong = {**usual, "GET /library/disk": disk.NOTHING}, {**usual, "GET /library/disk": data.NO_SUCH_MODEL}
    yield Scene("disk", page, usual, on_disk(), looks=(*USUAL_LOOKS, SceneLook(is_mirrored=True)))
    yield Scene("disk-found", page, usual, on_disk(disk.DUPLICATES_JOB, DuplicatesView), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("disk-searching", page, usual, on_disk(disk.SEARCHING, DuplicatesView), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("disk-folders", page, usual, on_disk(None, FoldersView), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("disk-trash", page, usual, ask_to_empty, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("disk-emptying", page, usual, on_disk(disk.EMPTYING), looks=BOTH)
    yield Scene("disk-empty", page, empty, on_disk())
    yield Scene("disk-wrong", page, wrong, on_disk())
    yield Scene("models-checking", page, usual, lambda window, _api: tell_job(window, disk.CHECKING))
    yield Scene("models-newer", page, usual, look_for_newer, looks=(*BOTH, *EVERY_LOOK[:3]))


def on_disk(job: LibraryJob | None = None, widget_type: type[QWidget] | None = None) -> Act:
    """Return what turns to the disks, has the gateway tell of a job, and scrolls to a part."""

    def show_disk(window: MainWindow, api: DemoApi) -> None:
        window.shell.task_requested.emit(Task.DISK)
        api.flush()
        if job is not None:
            tell_job(window, job)
        if widget_type is not None:
            for _ in range(_ROUNDS):  # a page that was hidden is laid out in several
                QTest.qWait(_LAID_OUT_MS)
            scroll_to(widget_type)(window, api)

    return show_disk


def ask_to_empty(window: MainWindow, api: DemoApi) -> None:
    """Ask to have removed models deleted from the trash."""
    on_disk()(window, api)
    page = window.pages.currentWidget()
    if isinstance(page, ModelsScreen):
        page.model.empty_trash(disk.USE.drives[0])


def tell_job(window: MainWindow, job: LibraryJob) -> None:
    """Have the gateway tell of a job with files."""
    window.shell.broadcast_event(LibraryJobChanged(job=job))


def look_for_newer(window: MainWindow, api: DemoApi) -> None:
    """Ask the hub for newer files."""
    window.shell.task_requested.emit(Task.UPDATES)
    api.flush()
