"""The chat page: the list of conversations beside the open one. Draws a `ChatModel`; tells it what the reader does."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QWidget

from app.core.chats import Role
from app.core.errors import ErrorBody
from app.gui.net.stores import Stores
from app.gui.screens.chat.header import Header
from app.gui.screens.chat.model import ChatModel
from app.gui.screens.chat.pane import WIDTH, Pane
from app.gui.screens.chat.picker import Picker
from app.gui.screens.chat.talk_view import TalkView
from app.gui.screens.chat.transcript.box import Verb
from app.gui.shell.contract import Command, Page, Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import Column, SplitView
from app.gui.widgets.menus import Menu

_NARROW = 600
"""Unscaled pixels; a list and a column beside it need more."""


class ChatScreen(QWidget):
    """The page. `model` holds its state."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__()
        self._theme, self._shell = theme, shell
        self.model = ChatModel(stores, shell)
        self.pane = Pane(theme, self.model.conversations)
        self.header = Header(theme, pick=self._pick, more=self._more, fold=self._fold)
        self.talk = TalkView(theme, self.model)
        right = QWidget()
        column = Column(theme, right, gap=0)
        column.addWidget(self.header)
        column.addWidget(self.talk, 1)
        split = SplitView(theme, self.pane, right)
        split.setSizes([theme.px(WIDTH), 10 * theme.px(WIDTH)])
        Column(theme, self, gap=0).addWidget(split)
        self.picker = Picker(theme, self, lambda: shell.show_page(Page.MODELS))
        self._is_narrow = False
        self.setAcceptDrops(True)
        theme.changed.connect(self._fit)
        self.setFocusProxy(self.talk.composer.field)
        self._connect()
        self._show_all()

    def _connect(self) -> None:
        model, shell = self.model, self._shell
        model.talk.opened.connect(self._show_all)
        model.talk.changed.connect(self._show_head)
        model.talk.created.connect(self._show_list)
        model.models_changed.connect(self._show_head)
        model.conversations.changed.connect(self._show_list)
        model.said.connect(shell.toast)
        model.failed.connect(self._fail)
        self.pane.new_asked.connect(self._new)
        self.pane.listing.asked.connect(self._open)
        self.pane.listing.delete_asked.connect(model.delete)
        self.picker.chosen.connect(self._choose_model)
        self.talk.transcript.acted.connect(self._act)
        self.talk.transcript.copied.connect(shell.copy)
        self.talk.empty.models_asked.connect(lambda: shell.show_page(Page.MODELS))
        shell.chat_asked.connect(self._new)
        shell.add_commands(self._commands)
        shell.feet[Page.CHAT] = lambda: self.height() - self.talk.foot_top(self)
        for keys, action in (("Ctrl+F", self._search), ("F2", self._rename)):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(action)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Lay the ground."""
        QPainter(self).fillRect(event.rect(), self._theme.color("ground"))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Close what was placed for another size."""
        super().resizeEvent(event)
        self.picker.close_()
        self._fit()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Welcome one model file."""
        if dropped_model(event) is not None:
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 -- Qt's name
        """Offer to run it."""
        path = dropped_model(event)
        if path is not None:
            event.acceptProposedAction()
            self.talk.offer(path)

    def _show_all(self) -> None:
        self._show_list()
        self._show_head()

    def _show_list(self) -> None:
        self.pane.show_state(self.model.talk.id)
        self._show_head()

    def _show_head(self) -> None:
        self.header.chip.show_chip(self.model.chip(time.monotonic()))
        self.header.meter.show_meter(self.model.meter())
        self.header.more.setEnabled(not self.model.talk.is_new)
        if self.picker.isVisible():
            self._fill_picker()

    def _fit(self) -> None:
        """Put the list away where it would leave no room to read; the reader can still ask for it."""
        is_narrow = self.width() < self._theme.px(_NARROW)
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self.pane.setVisible(not is_narrow)

    def _search(self) -> None:
        self.pane.show()
        self.pane.focus_search()

    def _fold(self) -> None:
        self.pane.setVisible(self.pane.isHidden())

    def _new(self, model: str = "") -> None:
        self.talk.composer.field.setFocus()  # first: what is typed elsewhere belongs to the chat that is left
        self.model.new_chat(model)

    def _open(self, chat: str) -> None:
        self.talk.composer.field.setFocus()  # first, as above
        self.model.open(chat)

    def _rename(self) -> None:
        listed = self.pane.listing.currentIndex()
        self.pane.show()
        if self.model.talk.id:
            self.pane.listing.rename(self.model.talk.id)
        elif listed.isValid():
            self.pane.listing.edit(listed)

    def _pick(self) -> None:
        if self.picker.isVisible():
            self.picker.close_()
            return
        self._fill_picker()
        chip = self.header.chip
        place = chip.mapTo(self, QPoint(0, chip.height() + self._theme.px(4)))
        self.picker.open_at(place.x(), place.y())

    def _fill_picker(self) -> None:
        self.picker.fill_with(self.model.choices(), self.model.running.of, self.model.model)

    def _choose_model(self, name: str) -> None:
        self.model.talk.choose_model(name)
        self.talk.composer.field.setFocus()

    def _more(self) -> None:
        menu = Menu(self._theme, self, "More about this chat")
        for command in self._chat_commands():
            menu.offer(command.title, command.run, icon=command.icon)
        menu.aboutToHide.connect(menu.deleteLater)
        corner = self.header.more.rect().bottomRight()
        menu.popup(self.header.more.mapToGlobal(corner - QPoint(menu.sizeHint().width(), -self._theme.px(4))))

    def _commands(self) -> list[Command]:
        """Return what the palette offers once this page has been shown; doing it shows the page again."""
        found = [
            *self._answer_commands(),
            *self._chat_commands(),
            Command("Choose a model for this chat", self._pick, "boxes"),
            Command("System prompt", self.talk.toggle_system_prompt, "scroll-text"),
            Command("Sampling", self.talk.toggle_sampling, "sliders-horizontal"),
            Command("Show or hide the list of chats", self._fold, "panel-left"),
        ]
        return [replace(command, run=partial(self._do_here, command.run)) for command in found]

    def _do_here(self, action: Callable[[], object]) -> None:
        self._shell.show_page(Page.CHAT)
        action()

    def _chat_commands(self) -> list[Command]:
        search = Command("Search chats", self._search, "search", "Ctrl+F")
        if self.model.talk.is_new:
            return [search]
        return [
            Command("Rename this chat", self._rename, "pencil", "F2"),
            Command("Copy this chat", self._copy_all, "copy"),
            Command("Delete this chat", partial(self.model.delete, self.model.talk.id), "trash-2"),
            search,
        ]

    def _answer_commands(self) -> list[Command]:
        talk = self.model.talk
        path = talk.path()
        if talk.is_busy:
            return [Command("Stop the answer", talk.stop, "square", "Esc")]
        if not path or path[-1].role is Role.USER:
            return []
        last = path[-1]
        return [
            Command("Regenerate answer", partial(talk.regenerate, last.id), "rotate-ccw"),
            Command("Copy the last answer", partial(self._shell.copy, last.content), "copy"),
        ]

    def _copy_all(self) -> None:
        parts = [f"**{message.role.value.capitalize()}**\n\n{message.content}" for message in self.model.talk.path()]
        self._shell.copy("\n\n".join(parts), "The chat is on the clipboard")

    def _act(self, verb: str, message: str, value: str) -> None:
        talk = self.model.talk
        if verb == Verb.COPY:
            self._shell.copy(talk.text_of(message))
        elif verb == Verb.EDIT:
            self.talk.begin_edit(message)
        elif verb in {Verb.REGENERATE, Verb.TRY_AGAIN, Verb.LOAD_AGAIN}:
            talk.regenerate(message)
        elif verb in {Verb.PREVIOUS_BRANCH, Verb.NEXT_BRANCH}:
            talk.step(message, -1 if verb == Verb.PREVIOUS_BRANCH else 1)
        elif verb == Verb.CHOOSE_MODEL:
            self._pick()
        elif verb == Verb.LOAD_OTHERWISE:
            talk.load_otherwise(message, value)
        elif verb == Verb.MEND:
            talk.mend_from_now_on(message)

    def _fail(self, error: ErrorBody) -> None:
        self._shell.toast(f"{error.sentence} {error.hint}".strip())


def dropped_model(event: QDropEvent) -> Path | None:
    """Return the model file that is dragged; None for anything else."""
    for url in event.mimeData().urls():
        path = Path(url.toLocalFile())
        if url.isLocalFile() and path.suffix.lower() == ".gguf":
            return path
    return None
