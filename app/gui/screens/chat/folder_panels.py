"""Cards above the composer about order: what new chats of a folder get, and the tags of a chat.

And the line above a conversation that says what it has from its folder.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QDir, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFileDialog, QWidget

from app.core.chats import MOST_FOLDER_FILES, ChatFolder, ChatFolderPatch, ChatSummary
from app.core.translation import tr, tr_list, tr_plural
from app.gui import phrases
from app.gui.screens.chat.chat_list import ChatList
from app.gui.screens.chat.draft_files import DraftFile, DraftFiles
from app.gui.screens.chat.file_cards import FileCards
from app.gui.screens.chat.model import ChatModel
from app.gui.screens.chat.options import OptionsPanel
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import UNBOUNDED
from app.gui.widgets.buttons import Button, ButtonLook, Chip, Pressable
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Scroller, VBox, clear_layout
from app.gui.widgets.menus import DropDown
from app.gui.widgets.prompt_field import PromptField
from app.gui.widgets.text import ElidedLabel, Label

_NO_CHANGE = ChatFolderPatch()
_PROMPT = 72
_FILES = 132
_LEAST = 96


class FolderSettings(QObject):
    """What is set for one folder, changed as soon as it is said. No widget in it."""

    changed = Signal()

    def __init__(self, model: ChatModel) -> None:
        super().__init__(model)
        self.folder = ""
        self._folders = model.chat_list.folders
        self.files = DraftFiles(model.api, self, lambda: self.folder, model.largest_file_mib)
        self.files.changed.connect(self._save_files)
        self._folders.store.changed.connect(self.changed)

    @property
    def value(self) -> ChatFolder | None:
        """The folder as it is now; None once it is gone."""
        return self._folders.find_folder(self.folder)

    def show_folder(self, folder: str) -> None:
        """Turn to another folder."""
        self.folder = folder
        value = self.value
        self.files.put_attachments(value.files if value else [], is_sent=True)
        self.changed.emit()

    def change(self, **fields: str) -> None:
        """Set a property of the folder, if it is another now."""
        value = self.value
        if value is not None and any(getattr(value, name) != text for name, text in fields.items()):
            self._folders.change_folder(self.folder, msgspec.structs.replace(_NO_CHANGE, **fields))

    def _save_files(self) -> None:
        """Have the folder own the files as they are shown, once all of them are read."""
        value, ids = self.value, [attachment.id for attachment in self.files.attachments]
        if value is not None and not any(file.is_reading for file in self.files.items):
            for file in self.files.items:
                file.is_sent = file.attachment is not None  # the folder's from now on
            if ids != [file.id for file in value.files]:
                self._folders.change_folder(self.folder, ChatFolderPatch(files=ids[:MOST_FOLDER_FILES]))
        self.changed.emit()


class FolderPanel(OptionsPanel):
    """The name, model, system prompt and files of a folder."""

    def __init__(self, theme: Theme, model: ChatModel, close: Callable[[], object]) -> None:
        quiet = tr("New chats in it begin with this; chats that are there stay as they are.")
        super().__init__(theme, tr("Folder"), quiet, close)
        self.settings = FolderSettings(model)
        self._model = model
        self.field = Field(theme, tr("Name of the folder"))
        self.field.editingFinished.connect(self._save_name)
        self.models = DropDown(theme, tr("Model of new chats"), [("", tr("The usual model"))], widest=240)
        self.models.chosen.connect(lambda name: self.settings.change(model=name))
        self.prompt = PromptField(theme, tr("System prompt of new chats"), height=_PROMPT)
        self.prompt.setPlaceholderText(tr("System prompt of new chats. For example: Answer in one short paragraph."))
        self.prompt.focus_left.connect(self.submit_prompt)
        self.cards = FileCards(theme, model.thumbnails.find, self._remove_file)
        self._sheet = QWidget()
        column = self._column = VBox(theme, self._sheet, margins=(2, 2, 8, 2), gap=8)
        for widget in (self.field, self.prompt, self.cards):
            column.addWidget(widget)
        foot = HBox(theme, gap=8)
        self.add = Button(theme, tr("Add files"), icon="paperclip", action=self._choose_files)
        foot.addWidget(self.add)
        foot.addStretch(1)
        foot.addWidget(self.models)
        column.addLayout(foot)
        self._scroller = Scroller(self._sheet, tr("What new chats get"))
        self._limit = UNBOUNDED
        self.box.addWidget(self._scroller)
        self.settings.changed.connect(self._show)
        theme.changed.connect(self._restyle)
        self._restyle()

    def show_folder(self, folder: str) -> None:
        """Turn to a folder."""
        self.field.clearFocus()
        self.prompt.clearFocus()
        self.settings.show_folder(folder)

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._limit = height
        self._fit_height()

    def _fit_height(self) -> None:
        height = max(self.theme.px(_LEAST), self._limit)
        self._scroller.setFixedHeight(min(self._column.sizeHint().height(), height))

    def submit_prompt(self) -> None:
        """Keep what is typed as the folder's system prompt."""
        self.settings.change(system_prompt=self.prompt.toPlainText().strip())

    def add_paths(self, paths: Sequence[Path]) -> None:
        """Give the folder files of this computer."""
        self.settings.files.add_paths(paths)

    def _show(self) -> None:
        value = self.settings.value
        if value is None:
            if not self.isHidden():
                self._close()
            return
        if not self.field.hasFocus():
            self.field.setText(value.name)
        self.prompt.set_text(value.system_prompt)
        models = [(item.name, phrases.model_title(item)) for item in self._model.chat_models() if not item.problem]
        self.models.set_options([("", tr("The usual model")), *models])
        self.models.set_value(value.model)
        self.cards.show_files(self.settings.files.items)
        self.add.setEnabled(len(self.settings.files.items) < MOST_FOLDER_FILES)
        self._fit_height()

    def _save_name(self) -> None:
        self.settings.change(name=self.field.text().strip() or (self.settings.value or _NO_FOLDER).name)

    def _choose_files(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self, tr("Add files"), QDir.homePath())
        self.add_paths([Path(name) for name in names])

    def _remove_file(self, file: DraftFile) -> None:
        self.settings.files.remove(file)

    def _restyle(self) -> None:
        self.cards.limit_height(self.theme.px(_FILES))
        self._fit_height()


_NO_FOLDER = ChatFolder(id="", name="")


class TagField(Field):
    """Tags with commas between them; Return takes them."""

    submitted = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 -- Qt's name
        """Take them with Return."""
        if event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
            self.submitted.emit()
        else:
            super().keyPressEvent(event)


class TagsPanel(OptionsPanel):
    """The tags of a chat, and those that other chats have."""

    def __init__(self, theme: Theme, chat_list: ChatList, close: Callable[[], object]) -> None:
        super().__init__(theme, tr("Tags"), "", close)
        self._chat_list = chat_list
        self._chat: ChatSummary | None = None
        self.field = TagField(theme, tr("Tags, with commas between them"), placeholder=tr("work, boilers"))
        self.field.submitted.connect(self._finish)
        self.field.editingFinished.connect(self._save)
        row = HBox(theme, margins=(0, 0, 8, 0), gap=8)
        row.addWidget(self.field, 1)
        row.addWidget(Button(theme, tr("Done"), look=ButtonLook.PRIMARY, action=self._finish))
        self.box.addLayout(row)
        self._tag_buttons = FlowLayout(theme, gap=8)
        place = QWidget()
        VBox(theme, place, margins=(0, 0, 8, 0), gap=0).addLayout(self._tag_buttons)
        self.box.addWidget(place)

    def show_chat(self, chat: str) -> None:
        """Turn to a chat."""
        self._chat = self._chat_list.find_chat(chat)
        if self._chat is None:
            return
        self.quiet.setText(self._chat.title or tr("New chat"))
        self.field.setText(", ".join(self._chat.tags))
        clear_layout(self._tag_buttons)
        own = {tag.casefold() for tag in self._chat.tags}
        for item in self._chat_list.folders.tags.items:
            chip = Chip(self.theme, item.tag)
            chip.setChecked(item.tag.casefold() in own)
            chip.toggled.connect(partial(self._toggle, item.tag))
            self._tag_buttons.addWidget(chip)

    def _read_tags(self) -> list[str]:
        return [" ".join(part.split()).lstrip("#") for part in self.field.text().split(",") if part.strip(" #")]

    def _toggle(self, tag: str, is_on: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        others = [typed_tag for typed_tag in self._read_tags() if typed_tag.casefold() != tag.casefold()]
        self.field.setText(", ".join([*others, tag] if is_on else others))
        self._save()

    def _save(self) -> None:
        tags = self._read_tags()
        if self._chat is not None and tags != self._chat.tags:
            self._chat_list.set_tags(self._chat.id, tags)
            self._chat = self._chat_list.find_chat(self._chat.id)

    def _finish(self) -> None:
        self._save()
        self._close()


class FolderLine(Pressable):
    """Above a conversation: the folder that it is in, and what it has from it. Pressed, it shows the folder."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme, tr("Folder"))
        line = HBox(theme, self, margins=(16, 4, 16, 4), gap=8)
        self._words = ElidedLabel(theme, role="meta", color="ink-2")
        self._icon = Label(theme, "", role="meta")
        line.addWidget(self._icon)
        line.addWidget(self._words, 1)
        theme.changed.connect(self._draw_icon)
        self._draw_icon()
        self.hide()

    def show_words(self, words: str) -> None:
        """Say it, or with no words nothing."""
        self.setVisible(bool(words))
        self._words.setText(words)
        self.setAccessibleName(words)

    def _draw_icon(self) -> None:
        self._icon.setPixmap(self.theme.pixmap("folder", "ink-2", size=14, ratio=self.devicePixelRatioF()))


def folder_words(model: ChatModel) -> str:
    """Return in which folder the open chat is, and what of the folder's it has; nothing for one in none."""
    conversation = model.conversation
    folder = model.chat_list.folders.find_folder(conversation.folder)
    if folder is None:
        return ""
    path = conversation.message_path()
    attachments = model.files.attachments if conversation.is_new else path[0].attachments if path else []
    hashes = {attachment.hash for attachment in attachments}
    files = sum(file.hash in hashes for file in folder.files)
    parts = [
        tr("its model") if folder.model and conversation.model == folder.model else "",
        tr("its system prompt") if folder.system_prompt and conversation.system_prompt == folder.system_prompt else "",
        tr_plural("{count} of its files", "{count} of its files", files) if files else "",
    ]
    given_text = tr_list([part for part in parts if part])
    if not given_text:
        return tr("In “{folder}”", folder=folder.name)
    return tr("In “{folder}”, with {given}", folder=folder.name, given=given_text)
