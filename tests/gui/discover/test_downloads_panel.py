"""The downloads that come of it: the panel, its rows and events, and what the rail and the system say."""

from collections.abc import Callable

import msgspec
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.core.downloads import Download, DownloadState, MoveDownload
from app.core.events import DownloadChanged, DownloadRemoved
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.models import downloads
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.screens.models.downloads_panel import DownloadRow, DownloadsPanel
from app.gui.screens.models.view import ModelsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.theme.theme import Theme
from tests.demo import data, hub
from tests.demo.api import DemoApi
from tests.gui.conftest import QuietShell


@pytest.fixture
def queue(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> tuple[DownloadsModel, DownloadsPanel]:
    api.replies["GET /downloads"] = hub.DOWNLOADS
    model = DownloadsModel(Stores(api, shell), shell)
    panel = DownloadsPanel(theme, model, shell)
    qtbot.addWidget(panel)
    panel.show()
    api.flush()
    QApplication.sendPostedEvents()
    return model, panel


def rows_of(panel: DownloadsPanel) -> list[DownloadRow]:
    return [row for row in panel.list.rows.values() if isinstance(row, DownloadRow)]


def list_offers(row: DownloadRow) -> list[str]:
    return [key for key, button in row._buttons.items() if button.isVisible()]


def test_every_download_says_how_far_it_is_and_offers_what_can_be_done(
    queue: tuple[DownloadsModel, DownloadsPanel],
) -> None:
    _, panel = queue
    running_row, waiting_row, failed_row, done_row = rows_of(panel)
    assert running_row.accessibleDescription() == "3.4 GiB of 5.4 GiB · 46.0 MiB/s · 45 s left · from desk"
    assert [list_offers(row) for row in (running_row, waiting_row, failed_row, done_row)] == [
        ["pause"],
        ["pause", "first"],
        ["again"],
        ["chat"],
    ]
    assert "2.1 GB are free" in failed_row._wrong.text()
    assert "plain HTTP" in running_row._note.text()
    assert [row._note.isVisible() for row in (running_row, waiting_row, failed_row, done_row)] == [
        True,
        False,
        False,
        False,
    ]
    assert not done_row._progress.isVisible()


@pytest.mark.parametrize("state", list(DownloadState))
def test_a_note_is_shown_while_it_matters(state: DownloadState) -> None:
    noted_download = msgspec.structs.replace(hub.DOWNLOADS[0], state=state)
    is_over = state in {DownloadState.DONE, DownloadState.FAILED}
    assert downloads.download_note(noted_download) == ("" if is_over else noted_download.note)


def test_a_chat_begins_with_what_was_brought(screen: ModelsScreen, api: DemoApi, shell: QuietShell) -> None:
    finished_download = hub.DOWNLOADS[3]
    here = msgspec.structs.replace(
        data.MODELS[1], name="qwen-here", path=f"{finished_download.folder}/{finished_download.files[0]}"
    )
    api.replies |= {"GET /downloads": hub.DOWNLOADS, "GET /models": [here]}
    screen.model.library.read()
    screen.downloads_model.queue.read()
    api.flush()
    prompts: list[str] = []
    shell.chat_requested.connect(prompts.append)
    (panel,) = screen.findChildren(DownloadsPanel)
    rows_of(panel)[3]._buttons["chat"].click()
    assert prompts == ["qwen-here"]
    assert phrases.library_name([], finished_download) == finished_download.title


def test_the_queue_is_paused_moved_and_cancelled(
    queue: tuple[DownloadsModel, DownloadsPanel], api: DemoApi, shell: QuietShell
) -> None:
    model, panel = queue
    running_row, waiting_row, *_ = rows_of(panel)
    api.replies |= {
        f"POST /downloads/{hub.DOWNLOADS[0].id}/pause": hub.DOWNLOADS[0],
        f"POST /downloads/{hub.DOWNLOADS[1].id}/move": [hub.DOWNLOADS[1], *hub.DOWNLOADS[:1]],
        f"DELETE /downloads/{hub.DOWNLOADS[1].id}": None,
    }
    toasts: list[str] = []
    model.toast_requested.connect(lambda sentence, _undo: toasts.append(sentence))
    running_row._buttons["pause"].click()
    waiting_row._buttons["first"].click()
    assert api.bodies_of("POST", f"/downloads/{hub.DOWNLOADS[1].id}/move") == [MoveDownload(position=0)]
    api.flush()
    assert len(api.bodies_of("POST", f"/downloads/{hub.DOWNLOADS[0].id}/pause")) == 1
    model.remove(hub.DOWNLOADS[1])
    api.flush()
    assert hub.DOWNLOADS[1] not in model.queue.items
    assert toasts == [f"The download of {hub.DOWNLOADS[1].title} was cancelled."]


def test_a_row_follows_the_events_and_stays_the_same_row(
    queue: tuple[DownloadsModel, DownloadsPanel], shell: QuietShell
) -> None:
    model, panel = queue
    before = rows_of(panel)[0]
    ended_downloads: list[Download] = []
    model.queue.ended.connect(ended_downloads.append)
    further = msgspec.structs.replace(hub.DOWNLOADS[0], present_bytes=hub.DOWNLOADS[0].total_bytes)
    shell.broadcast_event(DownloadChanged(download=further))
    assert rows_of(panel)[0] is before
    assert ended_downloads == []
    finished_download = msgspec.structs.replace(further, state=DownloadState.DONE)
    shell.broadcast_event(DownloadChanged(download=finished_download))
    shell.broadcast_event(DownloadChanged(download=finished_download))
    assert ended_downloads == [finished_download]
    shell.broadcast_event(DownloadRemoved(id=finished_download.id))
    assert before not in rows_of(panel)


def test_the_panel_takes_no_room_without_downloads(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> None:
    panel = DownloadsPanel(theme, DownloadsModel(Stores(api, shell), shell), shell)
    qtbot.addWidget(panel)
    api.flush()
    assert panel.isHidden()


def test_all_that_comes_is_summed_up() -> None:
    assert phrases.downloads_summary([]) == ""
    assert phrases.downloads_summary(hub.DOWNLOADS[2:]) == ""
    assert phrases.downloads_summary(hub.DOWNLOADS[:1]) == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    assert phrases.downloads_summary(hub.DOWNLOADS) == "2 downloads, 32%"
    assert downloads.time_left(3.2) == "3 s"
    assert downloads.time_left(75) == "1 min 15 s"
    assert phrases.download_ended(hub.DOWNLOADS[2])[0].endswith("was not downloaded")
    assert phrases.download_ended(hub.DOWNLOADS[3])[0].endswith("was downloaded")
    assert data.gateway_replies()["GET /downloads"] == []


def test_the_rail_and_the_system_tell_of_downloads(
    make_window: Callable[[PageId], MainWindow], api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = make_window(PageId.MODELS)
    window.mark_connected(data.STATUS)
    api.flush()
    button = window.rail.buttons[PageId.MODELS]
    assert button.accessibleDescription() == ""
    window.shell.broadcast_event(DownloadChanged(download=hub.DOWNLOADS[0]))
    assert button.accessibleDescription() == "unsloth/Qwen3-14B-GGUF:Q5_K_M, 63%"
    offers: list[str] = []
    monkeypatch.setattr(window.toast, "show_offer", lambda sentence, *_offer: offers.append(sentence))
    window.shell.broadcast_event(
        DownloadChanged(download=msgspec.structs.replace(hub.DOWNLOADS[0], state=DownloadState.DONE))
    )
    assert offers == ["unsloth/Qwen3-14B-GGUF:Q5_K_M was downloaded."]
    assert button.accessibleDescription() == ""
