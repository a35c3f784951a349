"""The downloads: a row for each that stays until it is taken off, with speed, time left and what can be done."""

from functools import partial

from PySide6.QtCore import QPoint, Signal
from PySide6.QtWidgets import QSizePolicy

from app.core.downloads import Download, DownloadState
from app.core.translation import tr
from app.gui.screens.models import downloads
from app.gui.screens.models.downloads import DownloadsModel
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.menus import Menu
from app.gui.widgets.panels import Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import ProgressBar
from app.gui.widgets.text import Paragraph


class DownloadsPanel(Section):
    """Shows what a `DownloadsModel` has; hidden while there is nothing."""

    chat_requested = Signal(object)
    """A chat with what this download brought."""

    def __init__(self, theme: Theme, model: DownloadsModel, shell: Shell) -> None:
        super().__init__(theme, tr("Downloads"))
        self._theme, self._model, self._shell = theme, model, shell
        self._is_allowed = True
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.clear_button = Button(
            theme,
            tr("Clear"),
            look=ButtonLook.QUIET,
            name=tr("Remove finished downloads from the list"),
            action=model.clear_complete,
        )
        self.head.addWidget(self.clear_button)
        self.list = RowList(theme, tr("Downloads"))
        self.body.addWidget(self.list)
        model.changed.connect(self._show_downloads)
        self._show_downloads()

    def set_allowed(self, *, is_allowed: bool) -> None:
        """Let it be seen, or not: where people point at other things, its coming would move them."""
        self._is_allowed = is_allowed
        self._show_downloads()

    def _show_downloads(self) -> None:
        items = self._model.queue.items
        self.setVisible(self._is_allowed and bool(items))
        self.clear_button.setVisible(any(item.state is DownloadState.DONE for item in items))
        self.list.sync(
            {item.id: item for item in items},
            self._make_row,
            DownloadRow.show_download,
        )

    def _make_row(self, item: Download) -> "DownloadRow":
        row = DownloadRow(self._theme, self._model, self._shell, item)
        row.chat_requested.connect(self.chat_requested)
        return row


class DownloadRow(ListRow):
    """One download; `show_download` replaces it in place."""

    chat_requested = Signal(object)

    def __init__(self, theme: Theme, model: DownloadsModel, shell: Shell, download: Download) -> None:
        super().__init__(theme)
        self._model, self._shell, self._download = model, shell, download
        title = download.title
        self._progress = ProgressBar(theme, tr("Download of {title}", title=title))
        self._wrong = Paragraph(theme, role="meta", color="bad")
        self._note = Paragraph(theme, role="meta", color="ink-2")
        end = self.words.count() - 1
        self.words.insertWidget(end, self._wrong)
        self.words.insertWidget(end + 1, self._note)
        self.words.insertSpacing(end + 2, theme.px(4))
        self.words.insertWidget(end + 3, self._progress)
        self._buttons = {
            "pause": Button(
                theme,
                tr("Pause"),
                look=ButtonLook.QUIET,
                widest=tr("Resume"),
                name=tr("Pause {title}", title=title),
                action=self._pause_download,
            ),
            "resume": Button(theme, tr("Resume"), name=tr("Resume {title}", title=title), action=self._resume_download),
            "again": Button(
                theme, tr("Try again"), name=tr("Try {title} again", title=title), action=self._resume_download
            ),
            "first": Button(
                theme,
                tr("Next"),
                look=ButtonLook.QUIET,
                name=tr("Download {title} next", title=title),
                action=self._move_first,
            ),
            "chat": Button(theme, tr("Chat"), name=tr("Chat with {title}", title=title), action=self._request_chat),
        }
        for button in self._buttons.values():
            self.tail.addWidget(button)
        self._more = IconButton(
            theme, "ellipsis", tr("More about the download of {title}", title=title), action=self._open_menu
        )
        self.tail.addWidget(self._more)

    def show_download(self, download: Download) -> None:
        """Show what is so now."""
        self._download = download
        error = download.error
        self.show_text(download.title, downloads.download_facts(download))
        self._wrong.setText(error.text if error is not None else "")
        self._wrong.setVisible(error is not None)
        note = downloads.download_note(download)
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self._progress.setVisible(download.state is not DownloadState.DONE)
        self._progress.set_fraction(downloads.download_fraction(download))
        button_names = downloads.buttons_of(download)
        for key, button in self._buttons.items():
            button.setVisible(key in button_names)

    def _request_chat(self) -> None:
        self.chat_requested.emit(self._download)

    def _pause_download(self) -> None:
        self._model.pause(self._download)

    def _resume_download(self) -> None:
        self._model.resume(self._download)

    def _move_first(self) -> None:
        self._model.move(self._download, 0)

    def _open_menu(self) -> None:
        menu, place = Menu(self.theme, self, tr("More")), self._model.queue_place(self._download)
        if self._download.state is not DownloadState.DONE:
            menu.add_entry(tr("Move up"), partial(self._model.move, self._download, place - 1), icon="arrow-up")
            menu.add_entry(tr("Move down"), partial(self._model.move, self._download, place + 1), icon="arrow-down")
        if self._download.folder:
            menu.add_entry(tr("Copy the folder"), partial(self._shell.copy_text, self._download.folder), icon="folder")
        menu.addSeparator()
        is_over = self._download.state is DownloadState.DONE
        menu.add_entry(
            tr("Remove from the list") if is_over else tr("Cancel the download"),
            partial(self._model.remove, self._download),
            icon="x",
        )
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))
