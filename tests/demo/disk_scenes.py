"""What is photographed of the disks, of equal files, of the trash and of checks."""

from collections.abc import Iterator

from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.core.events import LibraryJobChanged
from app.core.library import LibraryJob
from app.gui.screens.models.duplicates_view import DuplicatesView
from app.gui.screens.models.folders_view import FoldersView
from app.gui.shell.contract import Page, Task
from app.gui.shell.window import Window
from app.gui.widgets.press import Button
from tests.demo import data, disk
from tests.demo.api import DemoApi
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Act, Look, Scene, scroll_to

_LAID_OUT_MS, _ROUNDS = 30, 4


def disk_scenes() -> Iterator[Scene]:
    """Yield what the models page shows of the disks, of equal files and of checks."""
    usual, page = data.replies(), Page.MODELS
    empty, wrong = {**usual, "GET /library/disk": disk.NOTHING}, {**usual, "GET /library/disk": data.NO_SUCH_MODEL}
    yield Scene("disk", page, usual, on_disk(), looks=(*USUAL_LOOKS, Look(is_mirrored=True)))
    yield Scene("disk-found", page, usual, on_disk(disk.FOUND, DuplicatesView), looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("disk-searching", page, usual, on_disk(disk.SEARCHING, DuplicatesView), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("disk-folders", page, usual, on_disk(None, FoldersView), looks=(*BOTH, EVERY_LOOK[2]))
    yield Scene("disk-trash", page, usual, ask_to_empty, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("disk-emptying", page, usual, on_disk(disk.EMPTYING), looks=BOTH)
    yield Scene("disk-empty", page, empty, on_disk())
    yield Scene("disk-wrong", page, wrong, on_disk())
    yield Scene("models-checking", page, usual, lambda window, _api: tell_job(window, disk.CHECKING))
    yield Scene("models-newer", page, usual, look_for_newer, looks=(*BOTH, *EVERY_LOOK[:3]))


def on_disk(job: LibraryJob | None = None, shown: type[QWidget] | None = None) -> Act:
    """Return what turns to the disks, has the gateway tell of a job, and scrolls to a part."""

    def act(window: Window, api: DemoApi) -> None:
        window.shell.task_asked.emit(Task.DISK)
        api.flush()
        if job is not None:
            tell_job(window, job)
        if shown is not None:
            for _ in range(_ROUNDS):  # a page that was hidden is laid out in several
                QTest.qWait(_LAID_OUT_MS)
            scroll_to(shown)(window, api)

    return act


def ask_to_empty(window: Window, api: DemoApi) -> None:
    """Ask to have removed models deleted from the trash."""
    on_disk()(window, api)
    next(button for button in window.findChildren(Button) if "from the trash" in button.accessibleName()).click()


def tell_job(window: Window, job: LibraryJob) -> None:
    """Have the gateway tell of a job with files."""
    window.shell.receive(LibraryJobChanged(job=job))


def look_for_newer(window: Window, api: DemoApi) -> None:
    """Ask the hub for newer files."""
    window.shell.task_asked.emit(Task.UPDATES)
    api.flush()
