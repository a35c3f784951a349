"""Newer versions in the window: told and installed on request, followed, called off, and the window that follows."""

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot

from app import __version__
from app.config.environment import predecessor_service
from app.config.programs import window_command
from app.core.errors import ErrorBody
from app.core.events import UpdateJobChanged, UpdatesChanged
from app.core.updates import InstallationKind, InstallUpdate, SkipUpdate, UpdateJob, UpdateState
from app.gui.net.app_updates import UpdateStore
from app.gui.phrases import time_ago
from app.gui.screens.settings.updates_card import ReleaseNotes, UpdatesCard, check_words, format_day, stage_words
from app.gui.shell import quit_flow
from app.gui.shell.banner import VersionBanner
from app.gui.shell.contract import PageId, Task
from app.gui.shell.quit_flow import QuitContext, QuitFlow, ServiceOwner, WindowReopener
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from app.gui.widgets.text import Label
from tests.demo import updates as demo
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell

JOB = UpdateJob(id="7", verb="install", version="0.4.0", stage="Downloading", total_bytes=100)
WRONG = ErrorBody(code="update_signature", sentence="It bears no signature that this copy trusts.")


@pytest.fixture
def model(api: DemoApi, shell: QuietShell) -> UpdateStore:
    api.replies |= {
        "GET /update": demo.NEWER,
        "POST /update/check": demo.NEWER,
        "POST /update/install": JOB,
        "POST /update/rollback": replace(JOB, verb="rollback", version="0.0.9"),
        "DELETE /update/job": None,
        "POST /update/skip": replace(demo.NEWER, release=replace(demo.RELEASE, is_skipped=True)),
    }
    model = UpdateStore(api, shell)
    api.flush()
    return model


@pytest.fixture
def card(model: UpdateStore, theme: Theme, shell: QuietShell, qtbot: QtBot) -> UpdatesCard:
    card = UpdatesCard(theme, model, shell)
    qtbot.addWidget(card)
    card.show()
    return card


def tell(shell: QuietShell, job: UpdateJob) -> None:
    shell.broadcast_event(UpdateJobChanged(job=job))


def show_state(model: UpdateStore, state: UpdateState) -> None:
    model.value = state
    model.changed.emit()


def test_what_is_newer_is_shown_with_its_notes_and_installed_on_request(card: UpdatesCard, api: DemoApi) -> None:
    assert card.present.version.text() == f"Roundhouse {__version__}"
    assert card.news.title.text() == "Roundhouse 0.4.0"
    assert card.news.facts.text() == "11 February 2027 · 118 MiB"
    notes = [label.text() for label in card.news.notes.findChildren(Label)]
    assert "Voices: a model that hears is asked by speaking, with Ctrl M." in notes
    assert "Qwen4 in every engine that reads it; see the list." in notes, "links are words"
    assert api.bodies_of("POST", "/update/install") == []
    card.news.install.click()
    api.flush()
    assert api.bodies_of("POST", "/update/install") == [InstallUpdate(version="0.4.0")]
    assert card.news.isHidden()
    assert not card.job.isHidden()
    assert (card.job.title.text(), card.present.look.isEnabled()) == ("Installing 0.4.0", False)


def test_an_installation_is_followed_and_hurried_and_called_off(
    card: UpdatesCard, model: UpdateStore, api: DemoApi, shell: QuietShell
) -> None:
    model.install()
    api.flush()
    tell(shell, replace(JOB, done_bytes=50))
    assert card.job.bar.accessibleName().endswith("50%")
    assert card.job.now.isHidden()
    tell(shell, replace(JOB, stage="Waiting for answers to end", total_bytes=0, waits_for=2))
    assert card.job.stage.text() == "Waiting for 2 answers to end"
    card.job.now.click()
    api.flush()
    assert api.bodies_of("POST", "/update/install")[-1] == InstallUpdate(version="0.4.0", now=True)
    card.job.cancel.click()
    api.flush()
    assert len(api.bodies_of("DELETE", "/update/job")) == 1
    tell(shell, replace(JOB, is_done=True, error=ErrorBody(code="cancelled", sentence="It was cancelled.")))
    assert card.job.isHidden()
    assert card.error.isHidden(), "who calls it off knows"
    assert not card.news.isHidden()


def test_a_failure_is_said_in_its_place_and_dismissed(card: UpdatesCard, model: UpdateStore, shell: QuietShell) -> None:
    tell(shell, replace(JOB, is_done=True, error=WRONG))
    assert not card.error.isHidden()
    assert WRONG.sentence in card.error.accessibleName()
    model.dismiss()
    assert card.error.isHidden()


def test_what_is_left_to_do_by_hand_is_said(card: UpdatesCard, shell: QuietShell) -> None:
    tell(shell, replace(JOB, is_done=True, said="Drag it to Applications."))
    assert card.outcome.text() == "Drag it to Applications."
    assert card.news.isHidden()


def test_looking_says_what_came_of_it(card: UpdatesCard, model: UpdateStore, api: DemoApi) -> None:
    api.replies["POST /update/check"] = replace(demo.UP_TO_DATE, checked_at=time.time())
    card.present.look.click()
    assert card.present.check_label.text() == "Checking…"
    card.present.look.click()
    api.flush()
    assert len(api.bodies_of("POST", "/update/check")) == 1, "once is enough"
    assert card.present.check_label.text() == "This is the newest version. Updates checked just now."
    assert card.news.isHidden()
    api.replies["POST /update/check"] = WRONG
    card.present.look.click()
    api.flush()
    assert not card.error.isHidden()
    assert not model.is_newest


def test_a_skipped_version_is_gone_until_undo(
    card: UpdatesCard, model: UpdateStore, api: DemoApi, shell: QuietShell
) -> None:
    card.news.skip.click()
    api.flush()
    assert card.news.isHidden()
    assert shell.messages == ["Version 0.4.0 will be skipped."]
    api.replies["POST /update/skip"] = demo.NEWER
    undo = shell.undos[0]
    assert undo is not None
    undo()
    api.flush()
    assert api.bodies_of("POST", "/update/skip") == [SkipUpdate(version="0.4.0"), SkipUpdate(version="")]
    assert not card.news.isHidden()


def test_the_way_back_is_one_button(card: UpdatesCard, api: DemoApi) -> None:
    assert card.present.back.text() == "Go back to 0.0.9"
    card.present.back.click()
    api.flush()
    assert len(api.bodies_of("POST", "/update/rollback")) == 1
    assert card.job.title.text() == "Going back to 0.0.9"


def test_a_copy_that_a_command_updates_shows_the_command(
    card: UpdatesCard, model: UpdateStore, shell: QuietShell
) -> None:
    show_state(model, demo.BY_COMMAND)
    assert card.news.install.isHidden()
    assert not card.news.command.isHidden()
    show_state(model, replace(demo.NEWER, release=replace(demo.RELEASE, problem="There is no file for it.")))
    assert (card.news.problem.text(), card.news.install.isHidden()) == ("There is no file for it.", True)


def test_a_copy_that_cannot_look_says_why(card: UpdatesCard, model: UpdateStore) -> None:
    show_state(model, demo.BLIND)
    assert card.present.look.isHidden()
    assert "trusts no update key" in card.present.check_label.text()
    show_state(model, replace(demo.UP_TO_DATE, checked_at=None))
    assert check_words(model, replace(demo.UP_TO_DATE, checked_at=None)) == "Updates have not been checked yet."


def test_news_are_read_when_the_gateway_says_so(model: UpdateStore, api: DemoApi, shell: QuietShell) -> None:
    api.replies["GET /update"] = demo.UP_TO_DATE
    shell.broadcast_event(UpdatesChanged())
    api.flush()
    assert model.release is None


def test_what_failed_after_the_service_had_ended_is_said(model: UpdateStore, api: DemoApi, shell: QuietShell) -> None:
    requests: list[bool] = []
    shell.reopen_requested.connect(lambda: requests.append(True))
    model.install()
    api.flush()
    api.replies["GET /update"] = demo.FAILED
    shell.connected.emit()
    api.flush()
    assert model.refusal == demo.FAILED.failure
    assert requests == []


def test_a_window_that_asked_follows_and_one_that_did_not_offers_to(
    model: UpdateStore, api: DemoApi, theme: Theme, shell: QuietShell, qtbot: QtBot
) -> None:
    requests: list[bool] = []
    shell.reopen_requested.connect(lambda: requests.append(True))
    bar = VersionBanner(theme, model, shell)
    qtbot.addWidget(bar)
    assert bar.isHidden()
    api.replies["GET /update"] = demo.AHEAD
    shell.connected.emit()
    api.flush()
    assert not bar.isHidden()
    assert bar.sentence.text() == f"Roundhouse was updated to 0.4.0, but this window is still {__version__}."
    assert requests == []
    bar.button.click()
    assert requests == [True]
    model.install()
    api.flush()
    shell.connected.emit()
    api.flush()
    assert requests == [True, True]


@pytest.mark.slow
def test_the_rail_has_a_sign_and_the_menu_leads_to_the_card(
    make_window: Callable[[PageId], MainWindow], api: DemoApi
) -> None:
    api.replies |= {"GET /update": demo.NEWER, "POST /update/check": demo.NEWER}
    window = make_window(PageId.CHAT)
    assert "0.4.0" in window.rail.buttons[PageId.SETTINGS].accessibleDescription()
    window.shell.request_task(PageId.SETTINGS, Task.NEW_VERSION)
    assert window.focusWidget() is window.pages.findChildren(UpdatesCard)[0].present.look
    api.flush()
    assert len(api.bodies_of("POST", "/update/check")) == 1


def test_a_window_is_opened_again_as_a_program_of_its_own_and_the_service_goes_on(
    make_window: Callable[[PageId], MainWindow], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_programs: list[tuple[list[str], int | None]] = []
    monkeypatch.setattr(
        quit_flow,
        "BackgroundProcess",
        lambda argv, env, **_how: begun_programs.append((argv, predecessor_service(env))),
    )
    window = make_window(PageId.CHAT)
    quit_context = QuitContext(
        stores=window.stores,
        service=lambda: ServiceOwner.OURS,
        tray=window.tray,
        question=window.question,
    )
    departure = QuitFlow(window, quit_context)
    ends: list[bool] = []
    departure.program_ended.connect(lambda: ends.append(True))
    reopener = WindowReopener(departure)
    window.shell.reopen_requested.connect(reopener.request_reopen)
    window.shell.reopen_requested.emit()
    assert (reopener.is_requested, ends, departure.ends_service) == (True, [True], False)
    reopener.start_window()
    reopener.service = 4711
    reopener.start_window()
    assert begun_programs == [(window_command(), None), (window_command(), 4711)]


def test_notes_are_words_below_each_other(theme: Theme, qtbot: QtBot) -> None:
    notes = ReleaseNotes(theme)
    qtbot.addWidget(notes)
    notes.show_markdown("Text.\n\n- one\n  - two\n\n---\n\n![a picture](https://example.org/x.png)\n<b>html</b>\n")
    texts = [label.text() for label in notes.findChildren(Label)]
    assert texts[:1] == ["Text."]
    assert {"one", "two"} <= set(texts)
    assert not any("https" in text for text in texts)
    notes.show_markdown("")
    assert notes.isHidden()


def test_words() -> None:
    assert stage_words(JOB) == "Downloading, 0 B of 100 B"
    assert stage_words(replace(JOB, waits_for=1)) == "Waiting for 1 answer to end"
    assert stage_words(replace(JOB, total_bytes=0, stage="Unpacking")) == "Unpacking"
    assert (format_day("2027-02-01"), format_day("soon")) == ("1 February 2027", "soon")
    assert [time_ago(seconds) for seconds in (5, 90, 90_000, 300_000)] == [
        "just now",
        "1 min 30 s ago",
        "yesterday",
        "3 days ago",
    ]


def test_every_kind_of_copy_has_its_words(card: UpdatesCard, model: UpdateStore) -> None:
    for kind in InstallationKind:
        show_state(model, replace(demo.NEWER, kind=kind, command="x" if kind is InstallationKind.WHEEL else ""))
        assert " · " in card.present.about.text()
