"""Downloads as the models page has them: their state, what can be done with each, and the words for it."""

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core import words
from app.core.downloads import Download, DownloadState, MoveDownload, Pull
from app.core.errors import ErrorBody
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

_S = DownloadState
_SOON_S = 10.0
_BUTTONS = {
    _S.QUEUED: ("pause", "first"),
    _S.RUNNING: ("pause",),
    _S.PAUSED: ("resume",),
    _S.FAILED: ("again",),
    _S.DONE: ("chat",),
}
_STATES = {
    _S.QUEUED: LazyText("waiting"),
    _S.RUNNING: LazyText("running"),
    _S.PAUSED: LazyText("paused"),
    _S.FAILED: LazyText("failed"),
    _S.DONE: LazyText("done"),
}


class DownloadsModel(QObject):
    """The queue of downloads, and what a person does to it."""

    changed = Signal()
    failed = Signal(object)
    toast_requested = Signal(str, object)
    download_started = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self.queue = stores.api, stores.downloads
        self.pending_models: set[str] = set()
        """Models whose download is asked for and has not begun."""
        self.refused_pull: Pull | None = None
        """What was asked for last and refused, and can be asked for all the same."""
        self.queue.changed.connect(self.changed)

    def start_download(self, model: str, quantization: str = "", model_format: str = "") -> None:
        """Ask for a model, in a quantisation or format if they are named, or for a single file; its row shows it."""
        self._post_pull(Pull(model=model, quantization=quantization, format=model_format))

    def download_anyway(self) -> None:
        """Ask once more for what was refused, though no engine that is here loads it."""
        if self.refused_pull is not None:
            self._post_pull(msgspec.structs.replace(self.refused_pull, anyway=True))

    def _post_pull(self, pull: Pull) -> None:
        model = pull.model
        if model in self.pending_models:
            return
        self.pending_models.add(model)
        self.refused_pull = None
        self.changed.emit()

        def finish_start(download: Download) -> None:
            self.pending_models.discard(model)
            self.queue.read()
            self.download_started.emit(download)

        def handle_error(error: ErrorBody) -> None:
            self.pending_models.discard(model)
            self.refused_pull = None if pull.anyway else pull
            self.changed.emit()
            self.failed.emit(error)

        self._api.post("/downloads", pull, kind=Download, then=finish_start, on_error=handle_error)

    def pause(self, download: Download) -> None:
        """Stop one and keep what came."""
        self._post_action(download, "pause")

    def resume(self, download: Download) -> None:
        """Go on with one."""
        self._post_action(download, "resume")

    def move(self, download: Download, position: int) -> None:
        """Give one another place in the queue, 0 being the first."""
        path, body = f"/downloads/{download.id}/move", MoveDownload(position=max(0, position))
        self._api.post(path, body, kind=list[Download], then=self.queue.replace, on_error=self.failed.emit)

    def remove(self, download: Download) -> None:
        """Take one off the list. Undo asks for it again; what came of one that was not done comes anew."""

        def finish_removal() -> None:
            self.queue.replace([item for item in self.queue.items if item.id != download.id])
            if download.state is not _S.DONE:
                self.toast_requested.emit(
                    tr("The download of {title} was cancelled.", title=download.title),
                    lambda: self.start_download(download.title),
                )

        self._api.delete(f"/downloads/{download.id}", finish_removal, self.failed.emit)

    def find_for_variant(self, repository: str, quantization: str, revision: str) -> Download | None:
        """Return the download of a variant; None if there is none."""
        downloads = (
            item
            for item in self.queue.items
            if item.repository == repository
            and item.quantization in {"", quantization}
            and revision in {"", item.revision}
        )
        return next(downloads, None)

    def find_for_model(self, name: str) -> Download | None:
        """Return the last download that was asked for by a name of the catalogue; None if there is none."""
        downloads = (item for item in reversed(self.queue.items) if item.model == name)
        return next(downloads, None)

    def find_for_file(self, repository: str, path: str) -> Download | None:
        """Return the download that brings a file along; None if there is none."""
        downloads = (item for item in self.queue.items if item.repository == repository and path in item.files)
        return next(downloads, None)

    def clear_complete(self) -> None:
        """Take all that are done off the list; the models stay."""
        for download in [item for item in self.queue.items if item.state is _S.DONE]:
            self.remove(download)

    def queue_place(self, download: Download) -> int:
        """Return where one stands in the queue."""
        return next((at for at, item in enumerate(self.queue.items) if item.id == download.id), 0)

    def _post_action(self, download: Download, what: str) -> None:
        def refresh_list(_download: Download) -> None:
            self.queue.read()

        self._api.post(
            f"/downloads/{download.id}/{what}", None, kind=Download, then=refresh_list, on_error=self.failed.emit
        )


def buttons_of(download: Download) -> tuple[str, ...]:
    """Return what can be done with a download at once: some of "pause", "resume", "again", "first", "chat"."""
    return () if download.is_companion and download.state is _S.DONE else _BUTTONS[download.state]


def download_fraction(download: Download) -> float | None:
    """Return how much of it is here, 0 to 1; None while nobody knows."""
    return download.present_bytes / download.total_bytes if download.total_bytes else None


def download_facts(download: Download) -> str:
    """Return the quiet line: how far it is, how fast, and how long it still takes; or what is wrong."""
    sizes = tr(
        "{done} of {total}",
        done=words.format_bytes(download.present_bytes),
        total=words.format_bytes(download.total_bytes),
    )
    if download.state is _S.DONE:
        return tr("{size}, complete and checked", size=words.format_bytes(download.total_bytes))
    if download.state is not _S.RUNNING:
        return f"{sizes} · {_STATES[download.state].tr()}"
    parts = [sizes]
    if download.bytes_per_s:
        parts.append(tr("{size}/s", size=words.format_bytes(round(download.bytes_per_s))))
    if download.eta_s is not None:
        parts.append(tr("{duration} left", duration=time_left(download.eta_s)))
    if download.machine:
        parts.append(tr("from {name}", name=download.machine))
    return " · ".join(parts)


def download_note(download: Download) -> str:
    """Return what goes otherwise than usual, as long as it matters to somebody who looks."""
    return download.note if download.state in {_S.QUEUED, _S.RUNNING, _S.PAUSED} else ""


def time_left(eta_s: float) -> str:
    """Return how long something still takes; whole seconds at the end."""
    return words.format_duration(eta_s) if eta_s >= _SOON_S else tr("{seconds} s", seconds=max(1, round(eta_s)))
