"""One model as a row: title and tags, facts or what is wrong, how its engine is, and what can be done."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QSizePolicy

from app.core import words
from app.core.translation import tr
from app.gui import phrases
from app.gui.screens.models import model_updates
from app.gui.screens.models.model import ModelRow, ModelsModel, buttons_of, problem_of
from app.gui.screens.models.model_files import can_remove, can_verify
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton
from app.gui.widgets.menus import Menu
from app.gui.widgets.rows import ListRow, Tag
from app.gui.widgets.status import Dot, ProgressBar
from app.gui.widgets.text import ElidedLabel, Paragraph

_PROGRESS_WIDTH = 96


class ModelRowView(ListRow):
    """Shows a `ModelRow`; `show_row` replaces it in place."""

    def __init__(self, theme: Theme, model: ModelsModel, shell: Shell, row: ModelRow) -> None:
        super().__init__(theme)
        self._model, self._shell, self._row = model, shell, row
        name, title = row.model.name, phrases.model_title(row.model)
        for word in (row.model.quantization, tr("Attached") if row.model.attached else row.model.format.upper()):
            if word:
                self.add_tag(Tag(theme, word))
        if row.model.is_builtin:
            self.add_tag(Tag(theme, tr("Built-in tiny help model"), color="accent-ink", fill="accent-soft"))
        self._pinned_tag = Tag(theme, tr("Pinned"), color="accent-ink", fill="accent-soft")
        self._newer = Tag(theme, tr("Update available"), color="ok", fill="ok-soft")
        for tag in (self._pinned_tag, self._newer):
            self.add_tag(tag)
        self._wrong = Paragraph(theme, role="meta", color="bad")
        self.words.insertWidget(self.words.count() - 1, self._wrong)
        self._dot, self._state = Dot(theme), ElidedLabel(theme, role="meta", color="ink-2")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._progress = ProgressBar(theme, tr("Loading {title}", title=title))
        self._progress.setFixedWidth(theme.px(_PROGRESS_WIDTH))
        self._buttons = {
            "update": Button(theme, tr("Update"), name=tr("Update {title}", title=title), action=self._request_update),
            "chat": Button(
                theme, tr("Chat"), name=tr("Chat with {title}", title=title), action=partial(shell.new_chat, name)
            ),
            "load": Button(
                theme,
                tr("Load"),
                look=ButtonLook.QUIET,
                widest=tr("Unload"),
                name=tr("Load {title}", title=title),
                action=partial(model.load_model, name),
            ),
            "again": Button(
                theme,
                tr("Try again"),
                name=tr("Load {title} again", title=title),
                action=partial(model.load_model, name),
            ),
            "unload": Button(
                theme,
                tr("Unload"),
                look=ButtonLook.QUIET,
                name=tr("Unload {title}", title=title),
                action=partial(model.unload_model, name),
            ),
        }
        for widget in (self._progress, self._dot, self._state, *self._buttons.values()):
            self.tail.addWidget(widget)
        self._more = IconButton(theme, "ellipsis", tr("More about {title}", title=title), action=self._open_menu)
        self.tail.addWidget(self._more)

    def take_focus(self) -> None:
        """Have the keyboard on the row's menu."""
        self._more.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_row(self, row: ModelRow) -> None:
        """Show what is so now."""
        self._row = row
        wrong = problem_of(row)
        self.show_text(phrases.model_title(row.model), "" if wrong else phrases.model_facts(row.model))
        self._wrong.setText(wrong)
        self._wrong.setVisible(bool(wrong))
        if wrong:
            self.setAccessibleDescription(wrong)
        self._pinned_tag.setVisible(row.is_pinned)
        self._newer.setVisible(row.newer is not None)
        if row.newer is not None:
            button, size = self._buttons["update"], words.format_bytes(row.newer.download_bytes)
            button.set_text(tr("Update, {size}", size=size))
            button.setAccessibleName(tr("Update {title}, {size}", title=phrases.model_title(row.model), size=size))
            for widget in (button, self._newer):
                widget.setToolTip(model_updates.update_offer(row.newer))
        self._show_status(row)
        button_names = buttons_of(row)
        for key, button in self._buttons.items():
            button.setVisible(key in button_names)

    def _show_status(self, row: ModelRow) -> None:
        is_shown = row.status is not None and not row.has_failed
        self._progress.setVisible(row.is_busy)
        self._dot.setVisible(is_shown)
        self._state.setVisible(is_shown)
        if row.status is None:
            return
        color, state_words = phrases.engine_state(row.status)
        if row.status.queued and not row.is_busy:
            state_words = tr("{state}, {count} waiting", state=state_words, count=row.status.queued)
        self._dot.show_state(color, state_words)
        self._state.setText(state_words)
        self._progress.set_fraction(row.status.progress)

    def _request_update(self) -> None:
        if self._row.newer is not None:
            self._model.updates.request_update(self._row.newer)

    def _open_menu(self) -> None:
        row, menu = self._row, Menu(self.theme, self, tr("More"))
        folder = Path(row.model.path).parent
        menu.add_entry(tr("Copy the model's name"), partial(self._shell.copy_text, row.model.name), icon="copy")
        if not row.model.attached:
            menu.add_entry(
                tr("Show the file's folder"),
                lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))),
                icon="folder",
            )
        if not (row.model.problem or row.model.attached):
            menu.add_entry(
                tr("Allow unloading") if row.is_pinned else tr("Keep loaded"),
                partial(self._model.set_pinned, row.model, is_pinned=not row.is_pinned),
                icon="check",
            )
        if not row.model.problem:
            menu.add_entry(
                tr("Settings"), partial(self._model.model_settings.open_model, row.model), icon="sliders-horizontal"
            )
        if row.model.attached and row.model.preset is None:
            menu.add_entry(
                tr("Set capabilities"), partial(self._model.correction_requested.emit, row.model), icon="pencil"
            )
        if can_verify(row.model):
            menu.add_entry(tr("Check the files"), partial(self._model.files.verify, row.model), icon="circle-check")
        if can_remove(row.model):
            menu.addSeparator()
            label = tr("Move to the trash, {size}", size=words.format_bytes(row.model.size_bytes))
            menu.add_entry(label, partial(self._model.files.remove, row.model), icon="trash-2")
        if not row.model.is_builtin:
            menu.addSeparator()
            menu.add_entry(tr("Remove from the list"), partial(self._model.forget_model, row.model), icon="x")
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self._more.mapToGlobal(QPoint(0, self._more.height())))
