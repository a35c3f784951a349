"""Jobs with models' files in the window: how far they are, called off, undone; and equal files made to share."""

from collections.abc import Callable

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import LibraryJobChanged
from app.core.library import Duplicate, FindDuplicates, JobKind, LibraryJob, ReclaimDuplicates
from app.gui.screens.models import library_jobs
from app.gui.screens.models.disk_view import DuplicateRow, DuplicatesView, JobView
from app.gui.screens.models.library_jobs import LibraryJobsModel
from app.gui.theme.theme import Theme
from tests.demo import disk as demo
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

RECLAIMING = LibraryJob(id="r", kind=JobKind.RECLAIM, total_bytes=9_222_000_640)
FREED = msgspec.structs.replace(RECLAIMING, is_done=True, reclaimed_bytes=9_222_000_640, can_undo=True)
Heard = list[tuple[str, Callable[[], object] | None]]


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> LibraryJobsModel:
    model = LibraryJobsModel(api, shell)
    api.flush()
    return model


@pytest.fixture
def toasts(model: LibraryJobsModel) -> Heard:
    toasts: Heard = []
    model.toast_requested.connect(lambda sentence, undo: toasts.append((sentence, undo)))
    return toasts


def tell(shell: QuietShell, job: LibraryJob) -> None:
    shell.broadcast_event(LibraryJobChanged(job=job))


def test_what_goes_on_already_is_shown(api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /library/job"] = demo.CHECKING
    model = LibraryJobsModel(api, shell)
    api.flush()
    assert model.is_busy
    assert model.job == demo.CHECKING


def test_equal_files_are_looked_for_and_told_to_the_byte(
    api: DemoApi, shell: QuietShell, model: LibraryJobsModel
) -> None:
    model.find_duplicates()
    api.flush()
    assert api.bodies_of("POST", "/library/duplicates") == [FindDuplicates()]
    assert (model.is_busy, model.was_searched) == (True, False)
    tell(shell, msgspec.structs.replace(demo.DUPLICATES_JOB, id=demo.SEARCHING.id))
    assert (model.is_busy, model.was_searched) == (False, True)
    assert model.reclaims_bytes == 8_064_372_736 + 1_157_627_904
    assert "9,222,000,640 bytes" in library_jobs.reclaim_offer(model.duplicates)


def test_reclaiming_is_said_and_can_be_undone(
    api: DemoApi, shell: QuietShell, model: LibraryJobsModel, toasts: Heard
) -> None:
    undo_flags: list[bool] = []
    model.files_changed.connect(lambda: undo_flags.append(True))
    api.replies |= {
        "POST /library/reclaim": RECLAIMING,
        "POST /library/separate": LibraryJob(id="s", kind=JobKind.SEPARATE, total_bytes=9),
    }
    tell(shell, demo.DUPLICATES_JOB)
    model.reclaim_space(["a" * 64])
    api.flush()
    assert api.bodies_of("POST", "/library/reclaim") == [ReclaimDuplicates(sha256=["a" * 64])]
    tell(shell, FREED)
    sentence, undo = toasts[-1]
    assert sentence.startswith("8.6 GiB freed.")
    assert (list(model.duplicates), model.was_searched, len(undo_flags)) == ([], True, 1)
    assert undo is not None
    undo()
    api.flush()
    tell(shell, LibraryJob(id="s", kind=JobKind.SEPARATE, is_done=True, reclaimed_bytes=-9_222_000_640))
    assert toasts[-1] == ("The files have their own copies again: 8.6 GiB.", None)
    assert len(undo_flags) == 2


def test_an_end_that_comes_before_the_answer_is_said_once(
    api: DemoApi, shell: QuietShell, model: LibraryJobsModel, toasts: Heard
) -> None:
    api.replies["POST /library/reclaim"] = RECLAIMING
    model.reclaim_space()
    tell(shell, msgspec.structs.replace(FREED, can_undo=False))
    assert toasts == []
    api.flush()
    assert toasts == [("8.6 GiB freed. Every model keeps its name and location.", None)]
    assert not model.is_busy


def test_what_somebody_else_began_is_shown_and_theirs_to_say(
    shell: QuietShell, model: LibraryJobsModel, toasts: Heard
) -> None:
    tell(shell, FREED)
    assert model.job == FREED
    assert toasts == []


def test_a_job_is_called_off_quietly_and_a_fault_is_said(
    api: DemoApi, shell: QuietShell, model: LibraryJobsModel, toasts: Heard
) -> None:
    failures: list[ErrorBody] = []
    model.failed.connect(failures.append)
    for code, expected_codes in (("cancelled", []), ("storage", ["storage"])):
        begun_job = msgspec.structs.replace(demo.SEARCHING, id=code)
        api.replies["POST /library/duplicates"] = begun_job
        model.find_duplicates()
        api.flush()
        model.cancel()
        assert api.calls[-1] == ("DELETE", "/library/job", None)
        tell(shell, msgspec.structs.replace(begun_job, is_done=True, error=ErrorBody(code=code, sentence="So.")))
        assert [error.code for error in failures] == expected_codes
        assert not model.was_searched
    assert toasts == []
    api.replies["POST /library/reclaim"] = ErrorBody(code="not_found_before", sentence="Look first.")
    model.reclaim_space()
    api.flush()
    assert failures[-1].sentence == "Look first."


def test_words_for_what_was_found() -> None:
    duplicate = demo.DUPLICATES_JOB.duplicates[0]
    assert library_jobs.reclaim_offer([]) == "No duplicate files were found."
    assert "none of them" in library_jobs.reclaim_offer([msgspec.structs.replace(duplicate, reclaimable=[])])
    assert library_jobs.reclaim_offer([duplicate]).startswith("1 file can share")
    assert [line.rpartition(": ")[2] for line in library_jobs.copy_places(duplicate)] == [
        "kept.",
        "shares that space.",
        "it is on another disk.",
    ]
    assert library_jobs.reclaim_sentence(msgspec.structs.replace(FREED, reclaimed_bytes=0)).startswith(
        "Nothing was freed"
    )
    assert library_jobs.job_fraction(LibraryJob(id="", kind=JobKind.VERIFY)) is None


@pytest.fixture
def view(qtbot: QtBot, theme: Theme, model: LibraryJobsModel) -> DuplicatesView:
    view = DuplicatesView(theme, model)
    qtbot.addWidget(view)
    view.show()
    return view


def test_the_view_offers_to_look_then_to_reclaim(
    api: DemoApi, shell: QuietShell, model: LibraryJobsModel, view: DuplicatesView
) -> None:
    assert not view.reclaim_button.isVisible()
    assert not view.list.isVisible()
    view.search_button.click()
    api.flush()
    (job_view,) = view.findChildren(JobView)
    assert job_view.isVisible()
    assert not view.search_button.isEnabled()
    job_view.cancel_button.click()
    assert api.calls[-1][:2] == ("DELETE", "/library/job")
    tell(shell, msgspec.structs.replace(demo.DUPLICATES_JOB, id=demo.SEARCHING.id))
    assert not job_view.isVisible()
    assert view.reclaim_button.text() == "Reclaim 8.6 GiB"
    rows = view.findChildren(DuplicateRow)
    assert [row.button.accessibleName() for row in rows] == [
        "Reclaim 7.5 GiB of gemma-3-12b-it-q4_0 · gemma-3-12b-it-q4_0@Archive",
        "Reclaim 1.1 GiB of bge-m3",
    ]
    rows[1].button.click()
    assert api.bodies_of("POST", "/library/reclaim") == [ReclaimDuplicates(sha256=["b" * 64])]
    view.reclaim_button.click()
    assert api.bodies_of("POST", "/library/reclaim")[-1] == ReclaimDuplicates()


def test_what_cannot_share_offers_no_button(shell: QuietShell, view: DuplicatesView) -> None:
    stuck_duplicate = Duplicate(sha256="c" * 64, size_bytes=5, paths=["/a", "/b"], notes=["/b: it is on another disk."])
    tell(shell, msgspec.structs.replace(demo.DUPLICATES_JOB, duplicates=[stuck_duplicate]))
    assert not view.reclaim_button.isVisible()
    assert not view.findChildren(DuplicateRow)[0].button.isVisible()


def test_a_check_is_shown_while_it_goes_on(
    qtbot: QtBot, theme: Theme, shell: QuietShell, model: LibraryJobsModel
) -> None:
    view = JobView(theme, model, {JobKind.VERIFY})
    qtbot.addWidget(view)
    assert view.isHidden()
    tell(shell, demo.SEARCHING)
    assert view.isHidden()
    tell(shell, demo.CHECKING)
    assert not view.isHidden()
    assert view.cancel_button.accessibleName() == "Cancel: Checking gpt-oss-20b-mxfp4"
    tell(shell, msgspec.structs.replace(demo.CHECKING, is_done=True))
    assert view.isHidden()
