"""The chat page: the list of conversations beside the open one. Draws a `ChatModel`; tells it what the reader does."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QDir, QPoint, Qt
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import QFileDialog, QWidget

from app.core.chats import ChatShelf, ChatSummary, OverflowRule, Role
from app.core.errors import ErrorBody
from app.core.guide import ActionKind
from app.core.tool_calls import ToolDecision
from app.core.translation import LazyText, tr, tr_plural
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.screens.chat.chat_pane import WIDTH, ChatPane
from app.gui.screens.chat.chat_rows import title_of
from app.gui.screens.chat.chat_transfer import ChatTransfer, export_formats, target_file
from app.gui.screens.chat.composer import local_files
from app.gui.screens.chat.conversation_view import ConversationView
from app.gui.screens.chat.header import ChatHeader
from app.gui.screens.chat.message_tree import was_cut
from app.gui.screens.chat.model import ChatModel
from app.gui.screens.chat.model_picker import ModelPicker
from app.gui.screens.chat.transcript.actions_box import select_shown
from app.gui.screens.chat.transcript.box import Verb
from app.gui.shell.contract import Command, PageId, Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import ButtonLook
from app.gui.widgets.layout import SplitView, VBox
from app.gui.widgets.menus import Menu
from app.gui.widgets.question import QuestionDialog, QuestionReply

_NARROW = 600
"""Unscaled pixels; a list and a column beside it need more."""
_PALETTE_CHATS = 8
"""Of one search, that the palette offers."""


class ChatScreen(QWidget):
    """The page. `model` holds its state."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__()
        self._theme, self._shell = theme, shell
        self.model = ChatModel(stores, shell)
        self.transfer = ChatTransfer(self)
        self.pane = ChatPane(theme, self.model.chat_list)
        self.header = ChatHeader(theme, pick=self._toggle_picker, more=self._open_menu, fold=self._toggle_pane)
        self.conversation_view = ConversationView(theme, self.model)
        right = QWidget()
        column = VBox(theme, right, gap=0)
        column.addWidget(self.header)
        column.addWidget(self.conversation_view, 1)
        split = SplitView(theme, self.pane, right)
        split.setSizes([theme.px(WIDTH), 10 * theme.px(WIDTH)])
        VBox(theme, self, gap=0).addWidget(split)
        self.picker = ModelPicker(theme, self, lambda: shell.request_task(PageId.MODELS, Task.INSTALLED))
        self._is_narrow = False
        self.setAcceptDrops(True)
        theme.changed.connect(self._fit_width)
        self.setFocusProxy(self.conversation_view.composer.field)
        self._connect_signals()
        self._show_all()

    def _connect_signals(self) -> None:
        model, shell = self.model, self._shell
        model.conversation.chat_opened.connect(self._show_all)
        model.conversation.changed.connect(self._show_head)
        model.conversation.chat_created.connect(self._show_list)
        model.models_changed.connect(self._show_head)
        model.chat_list.changed.connect(self._show_list)
        model.draft_changed.connect(self._show_meter)
        self.conversation_view.picker_requested.connect(self._toggle_picker)
        self.conversation_view.tools_requested.connect(partial(shell.show_page, PageId.MCP))
        self.conversation_view.documents_requested.connect(partial(shell.show_page, PageId.DOCUMENTS))
        model.toast_requested.connect(shell.show_toast)
        model.failed.connect(self._show_error)
        self.transfer.toast_requested.connect(shell.show_toast)
        self.transfer.failed.connect(self._show_error)
        self.pane.new_chat_requested.connect(self._start_chat)
        self.pane.list_view.chat_requested.connect(self._open_chat)
        self.pane.list_view.delete_requested.connect(model.delete_chat)
        self.pane.list_view.export_requested.connect(self._export_chat)
        self.pane.list_view.tags_requested.connect(self.conversation_view.show_tags)
        self.pane.list_view.folder_chat_requested.connect(self._start_folder_chat)
        self.pane.list_view.folder_settings_requested.connect(self.conversation_view.show_folder)
        self.pane.list_view.folder_delete_requested.connect(self._ask_to_delete_folder)
        self.pane.menu_requested.connect(self._open_pane_menu)
        self.picker.chosen.connect(self._choose_model)
        for view in (self.conversation_view.transcript, self.conversation_view.comparison):
            view.action_requested.connect(self._perform_action)
            view.copy_requested.connect(shell.copy_text)
        self.conversation_view.empty.models_requested.connect(lambda: shell.request_task(PageId.MODELS, Task.DISCOVER))
        shell.chat_requested.connect(self._start_chat)
        shell.add_commands(self._list_commands)
        shell.add_search(self._search_chats)
        shell.feet[PageId.CHAT] = lambda: self.conversation_view.foot_area(self.window())
        for keys, action in (
            ("Ctrl+F", self._find),
            ("F3", partial(self.conversation_view.find_bar.step, 1)),
            ("Shift+F3", partial(self.conversation_view.find_bar.step, -1)),
            ("Ctrl+Shift+F", self._open_search),
            ("F2", self._rename_chat),
            (_READ_KEYS, self._read_last_aloud),
            (_DICTATE_KEYS, self.conversation_view.toggle_dictation),
        ):
            shortcut = QShortcut(QKeySequence(keys), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(action)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Lay the ground."""
        QPainter(self).fillRect(event.rect(), self._theme.color("ground"))

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Close what was placed for another size."""
        super().resizeEvent(event)
        self.picker.close_list()
        self._fit_width()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802 -- Qt's name
        """Welcome files and pictures."""
        if local_files(event.mimeData()) or event.mimeData().hasImage():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802 -- Qt's name
        """Attach them; a model is offered to be run."""
        paths = local_files(event.mimeData())
        event.acceptProposedAction()
        if paths:
            self.conversation_view.take_files(paths)
        elif event.mimeData().hasImage():
            self.conversation_view.take_picture(event.mimeData().imageData())

    def _show_all(self) -> None:
        self._show_list()
        self._show_head()

    def _show_list(self) -> None:
        self.pane.show_state(self.model.conversation.id)
        self._show_head()

    def _show_head(self) -> None:
        self.header.chip.show_chip(self.model.make_chip(time.monotonic()))
        self._show_meter()
        self.header.more.setEnabled(not self.model.conversation.is_new)
        if self.picker.isVisible():
            self._fill_picker()

    def _show_meter(self) -> None:
        self.header.meter.show_meter(self.model.context_usage())

    def _fit_width(self) -> None:
        """Put the list away where it would leave no room to read; the reader can still ask for it."""
        is_narrow = self.width() < self._theme.px(_NARROW)
        if is_narrow != self._is_narrow:
            self._is_narrow = is_narrow
            self.pane.setVisible(not is_narrow)

    def _open_search(self) -> None:
        self.pane.show()
        self.pane.focus_search()

    def _find(self) -> None:
        """Find in the chat that is open; where there is none, among all of them."""
        if self.model.conversation.is_new:
            self._open_search()
        else:
            self.conversation_view.find_bar.open_bar()

    def _toggle_pane(self) -> None:
        self.pane.setVisible(self.pane.isHidden())

    def _start_chat(self, model: str = "") -> None:
        # Focus first: what is typed elsewhere belongs to the chat that is left.
        self.conversation_view.composer.field.setFocus()
        self.model.new_chat(model)

    def _start_folder_chat(self, folder: str) -> None:
        self.conversation_view.composer.field.setFocus()
        self.model.new_chat(folder=folder)

    def _add_folder(self) -> None:
        self.pane.show()
        self.model.chat_list.show_shelf(ChatShelf.CURRENT)
        self.pane.search.clear()
        self.model.chat_list.folders.add_folder()

    def _ask_to_delete_folder(self, folder: str) -> None:
        """Delete an empty folder that gives nothing at once; ask what becomes of the chats of another."""
        folders = self.model.chat_list.folders
        value = folders.find_folder(folder)
        if value is None:
            return
        keep = partial(folders.delete_folder, folder, with_chats=False)
        if not (value.chat_count or value.system_prompt or value.files or value.model):
            keep()
            return
        replies = [QuestionReply(tr("Keep the chats"), keep)]
        if value.chat_count:
            discard = partial(folders.delete_folder, folder, with_chats=True)
            replies.append(QuestionReply(tr("Move its chats to the trash"), discard, ButtonLook.DANGER))
        else:
            replies = [QuestionReply(tr("Delete"), keep, ButtonLook.DANGER)]
        replies.append(QuestionReply(tr("Cancel"), lambda: None))
        sentence = tr_plural(
            "It has {count} chat. What new chats in it got is gone with it.",
            "It has {count} chats. What new chats in it got is gone with it.",
            value.chat_count,
        )
        question = QuestionDialog(self._theme, self.window())
        question.ask(tr("Delete the folder “{name}”?", name=value.name), sentence, replies)

    def _open_chat(self, chat: str) -> None:
        if self.model.chat_list.shelf is ChatShelf.TRASH:
            self._shell.show_toast(tr("Restore the chat to open it: its menu has that."))
            return
        self.conversation_view.composer.field.setFocus()  # first, as above
        summary = self.model.chat_list.find_chat(chat) if self.model.chat_list.query.strip() else None
        self.model.open_chat(chat, summary.hit if summary else "")

    def _rename_chat(self) -> None:
        index = self.pane.list_view.currentIndex()
        self.pane.show()
        if self.model.conversation.id:
            self.pane.list_view.edit_title(self.model.conversation.id)
        elif index.isValid():
            self.pane.list_view.edit(index)

    def _toggle_picker(self) -> None:
        if self.picker.isVisible():
            self.picker.close_list()
            return
        self._fill_picker()
        chip = self.header.chip
        place = chip.mapTo(self, QPoint(0, chip.height() + self._theme.px(4)))
        self.picker.open_at(place.x(), place.y())

    def _fill_picker(self) -> None:
        self.picker.fill_with(self.model.chat_models(), self.model.running.of, self.model.model)

    def _choose_model(self, name: str) -> None:
        self.model.conversation.choose_model(name)
        self.conversation_view.composer.field.setFocus()

    def _open_menu(self) -> None:
        menu = self._make_menu(tr("More about this chat"), self._chat_commands())
        corner = self.header.more.rect().bottomRight()
        menu.popup(self.header.more.mapToGlobal(corner - QPoint(menu.sizeHint().width(), -self._theme.px(4))))

    def _open_pane_menu(self) -> None:
        menu = self._make_menu(
            tr("More about chats"), [*self._folder_commands(), *self._shelf_commands(), *self._transfer_commands()]
        )
        menu.popup(self.pane.more.mapToGlobal(QPoint(0, -menu.sizeHint().height() - self._theme.px(4))))

    def _make_menu(self, name: str, commands: list[Command]) -> Menu:
        menu = Menu(self._theme, self, name)
        for command in commands:
            menu.add_entry(command.title, command.run, icon=command.icon)
        menu.aboutToHide.connect(menu.deleteLater)
        return menu

    def _list_commands(self) -> list[Command]:
        """Return what the palette offers once this page has been shown; doing it shows the page again."""
        commands = [
            *self._answer_commands(),
            *self._chat_commands(),
            *(self._move_commands() if not self.model.conversation.is_new else []),
            *self._folder_commands(),
            *self._shelf_commands(),
            *self._transfer_commands(),
            Command(tr("Choose a model for this chat"), self._toggle_picker, "boxes"),
            Command(tr("Attach files"), self.conversation_view.choose_files, "paperclip"),
            Command(tr("Dictate"), self.conversation_view.toggle_dictation, "mic", _DICTATE_KEYS),
            Command(tr("System prompt"), self.conversation_view.toggle_system_prompt, "scroll-text"),
            Command(tr("Compare models"), self.conversation_view.toggle_models, "columns-2"),
            Command(tr("Sampling"), self.conversation_view.toggle_sampling, "sliders-horizontal"),
            Command(tr("Presets"), self.conversation_view.toggle_presets, "bookmark"),
            *self._preset_commands(),
            Command(tr("Show or hide the list of chats"), self._toggle_pane, "panel-left"),
        ]
        return [replace(command, run=partial(self._run_here, command.run)) for command in commands]

    def _search_chats(self, text: str, then: Callable[[list[Command]], object]) -> None:
        """Offer the chats that have these words to the palette."""

        def offer(chats: list[ChatSummary]) -> None:
            lines = [(chat, partial(self.model.open_chat, chat.id, chat.hit)) for chat in chats]
            then(
                [
                    Command(title_of(chat), partial(self._run_here, run), "message-square", chat.file or tr("Chat"))
                    for chat, run in lines
                ]
            )

        self.model.chat_list.search(text, _PALETTE_CHATS, offer)

    def _run_here(self, action: Callable[[], object]) -> None:
        self._shell.show_page(PageId.CHAT)
        action()

    def _chat_commands(self) -> list[Command]:
        search = Command(tr("Search chats"), self._open_search, "search", "Ctrl+Shift+F")
        if self.model.conversation.is_new:
            return [search]
        return [
            Command(tr("Find in this chat"), self._find, "search", "Ctrl+F"),
            Command(tr("Rename this chat"), self._rename_chat, "pencil", "F2"),
            Command(tr("Copy this chat"), self._copy_all, "copy"),
            Command(tr("When the context is full…"), self._open_overflow_menu, "gauge"),
            Command(tr("Export this chat…"), self._export_this, "arrow-up"),
            Command(tr("Delete this chat"), partial(self.model.delete_chat, self.model.conversation.id), "trash-2"),
            search,
        ]

    def _folder_commands(self) -> list[Command]:
        folders, conversation = self.model.chat_list.folders, self.model.conversation
        commands = [Command(tr("New folder"), self._add_folder, "folder-plus")]
        if not conversation.is_new:
            tags = partial(self.conversation_view.show_tags, conversation.id)
            commands.append(Command(tr("Tags of this chat…"), tags, "tag"))
        for folder in folders.items:
            start = partial(self._start_folder_chat, folder.id)
            commands.append(Command(tr("New chat in {folder}", folder=folder.name), start, "folder"))
        if self.model.chat_list.tag:
            commands.append(Command(tr("Show all chats"), partial(self._show_tag, ""), "tag"))
        for item in folders.tags.items:
            show = partial(self._show_tag, item.tag)
            commands.append(Command(tr("Show chats with #{tag}", tag=item.tag), show, "tag"))
        return commands

    def _show_tag(self, tag: str) -> None:
        self.pane.show()
        self.pane.search.clear()
        self.model.chat_list.show_tag(tag)

    def _move_commands(self) -> list[Command]:
        """Return where the open chat can be moved to."""
        chats, conversation = self.model.chat_list, self.model.conversation
        commands = [
            Command(tr("Move this chat to {folder}", folder=folder.name), move, "folder")
            for folder in chats.folders.items
            if folder.id != conversation.folder
            for move in [partial(chats.move, conversation.id, folder.id)]
        ]
        if conversation.folder:
            out = partial(chats.move, conversation.id, "")
            commands.append(Command(tr("Take this chat out of its folder"), out, "message-square"))
        return commands

    def _preset_commands(self) -> list[Command]:
        view = self.conversation_view
        return [
            Command(tr("Use the preset {name}", name=preset.name), partial(view.use_preset, preset), "bookmark")
            for preset in self.model.presets.store.items
        ]

    def _shelf_commands(self) -> list[Command]:
        commands = [
            (ChatShelf.CURRENT, tr("Show your chats"), "message-square"),
            (ChatShelf.ARCHIVED, tr("Show archived chats"), "archive"),
            (ChatShelf.TRASH, tr("Show the trash"), "trash-2"),
        ]
        previous = self.model.chat_list.shelf
        return [
            Command(title, partial(self._show_shelf, shelf), icon)
            for shelf, title, icon in commands
            if shelf is not previous
        ]

    def _show_shelf(self, shelf: ChatShelf) -> None:
        self.pane.show()
        self.model.chat_list.show_shelf(shelf)

    def _transfer_commands(self) -> list[Command]:
        if self.transfer.is_busy:
            return [Command(tr("Cancel import or export"), self.transfer.cancel, "x")]
        return [
            Command(tr("Import chats…"), self._import_file, "arrow-down"),
            Command(tr("Import a folder of chats…"), self._import_folder, "folder"),
            Command(tr("Export all chats…"), self._export_all, "arrow-up"),
        ]

    def _export_this(self) -> None:
        conversation = self.model.conversation
        summary = self.model.chat_list.find_chat(conversation.id)
        self._export_chat(conversation.id, summary.title if summary else "")

    def _export_chat(self, chat: str, title: str) -> None:
        name = "".join(letter if letter.isalnum() or letter in " -_.," else " " for letter in title).strip(" .")
        start = QDir.home().filePath(name or tr("Chat"))
        path, chosen_filter = QFileDialog.getSaveFileName(self, tr("Export this chat"), start, export_formats())
        if path:
            self.transfer.export_chat(chat, target_file(path, chosen_filter))

    def _export_all(self) -> None:
        start = QDir.home().filePath("roundhouse-chats.json")
        path, _ = QFileDialog.getSaveFileName(self, tr("Export all chats"), start, tr("JSON (*.json)"))
        if path:
            self.transfer.export_all(target_file(path, ""))

    def _import_file(self) -> None:
        kinds = tr("Exported chats (*.json *.jsonl *.zip)")
        path, _ = QFileDialog.getOpenFileName(self, tr("Import chats"), QDir.homePath(), kinds)
        if path:
            self.transfer.import_path(Path(path))

    def _import_folder(self) -> None:
        path = QFileDialog.getExistingDirectory(self, tr("Import a folder of chats"), QDir.homePath())
        if path:
            self.transfer.import_path(Path(path))

    def _answer_commands(self) -> list[Command]:
        conversation = self.model.conversation
        path = conversation.message_path()
        if conversation.is_busy:
            return [Command(tr("Stop the answer"), conversation.stop_answers, "square", "Esc")]
        if not path or path[-1].role is Role.USER:
            return []
        last = path[-1]
        again = Command(tr("Continue the last answer"), partial(conversation.continue_answer, last.id), "step-forward")
        return [
            *([again] if was_cut(last) else []),
            Command(tr("Regenerate answer"), partial(conversation.regenerate, last.id), "rotate-ccw"),
            Command(tr("Regenerate with another model…"), partial(self._open_model_menu, last.id), "boxes"),
            Command(tr("Edit the last answer"), partial(self.conversation_view.begin_edit, last.id), "pencil"),
            Command(tr("Delete the last answer"), partial(self.model.actions.delete, last.id), "trash-2"),
            Command(tr("Fork: new chat from here"), partial(self.model.actions.fork, last.id), "git-fork"),
            Command(self._voice_words(), self._read_last_aloud, "volume-2", _READ_KEYS),
            Command(tr("Copy the last answer"), partial(self._shell.copy_text, last.content), "copy"),
        ]

    def _voice_words(self) -> str:
        return tr("Stop reading aloud") if self.model.reading.message else tr("Read the last answer aloud")

    def _read_last_aloud(self) -> None:
        """Read the last answer that is whole aloud, or stop what is read."""
        read_aloud = self.model.reading
        if read_aloud.message:
            read_aloud.stop()
            return
        path = self.model.conversation.message_path()
        last = next((message for message in reversed(path) if message.role is Role.ASSISTANT and message.content), None)
        if last is not None:
            read_aloud.toggle(last.id, last.content)

    def _copy_all(self) -> None:
        parts = [
            f"**{_ROLES[message.role]}**\n\n{message.content}" for message in self.model.conversation.message_path()
        ]
        self._shell.copy_text("\n\n".join(parts), tr("The chat is on the clipboard"))

    def _do_action(self, message: str, value: str) -> None:
        """Do what an answer of the Guide offers; its buttons are those that can be shown."""
        action = select_shown(self.model.conversation.actions_of(message))[int(value)]
        match action.kind:
            case ActionKind.OPEN_PAGE if action.task == Task.ATTACH_FILES:
                self.conversation_view.choose_files()
            case ActionKind.OPEN_PAGE if action.task:
                self._shell.request_task(PageId(action.target), action.task)
            case ActionKind.OPEN_PAGE:
                self._shell.show_page(PageId(action.target))
            case ActionKind.LOAD:
                self.model.running.load(action.target, self.model.failed.emit)
                self._shell.show_toast(tr("{model} is being loaded", model=action.title))
            case ActionKind.UNLOAD:
                then = partial(self._shell.show_toast, tr("{model} is unloaded", model=action.title))
                self.model.running.unload(action.target, then, self.model.failed.emit)
            case ActionKind.DOWNLOAD:
                self.model.download_model(action.target, partial(self._shell.show_page, PageId.MODELS))

    def _decide_call(self, message: str, value: str) -> None:
        decision, _, call = value.partition(" ")
        self.model.conversation.decide_call(message, call, ToolDecision(decision))

    def _perform_action(self, verb: str, message: str, value: str) -> None:
        model, conversation = self.model, self.model.conversation
        actions: dict[Verb, Callable[[], object]] = {
            Verb.COPY: lambda: self._shell.copy_text(conversation.text_of(message)),
            Verb.SAVE_FILE: partial(self._save_file, message, value),
            Verb.READ_ALOUD: lambda: model.reading.toggle(message, conversation.text_of(message)),
            Verb.EDIT: partial(self.conversation_view.begin_edit, message),
            Verb.CONTINUE: partial(conversation.continue_answer, message),
            Verb.REGENERATE: partial(conversation.regenerate, message),
            Verb.TRY_AGAIN: partial(conversation.regenerate, message),
            Verb.LOAD_AGAIN: partial(conversation.regenerate, message),
            Verb.REGENERATE_WITH: partial(self._open_model_menu, message),
            Verb.COMPARE: partial(conversation.compare_versions, message),
            Verb.FORK: partial(model.actions.fork, message),
            Verb.DELETE: partial(model.actions.delete, message),
            Verb.PREVIOUS_BRANCH: partial(conversation.show_version, message, -1),
            Verb.NEXT_BRANCH: partial(conversation.show_version, message, 1),
            Verb.CHOOSE_MODEL: self._toggle_picker,
            Verb.CUT_OLDEST: partial(conversation.answer_shortened, message, OverflowRule.CUT),
            Verb.SUMMARISE: partial(conversation.answer_shortened, message, OverflowRule.SUMMARISE),
            Verb.LOAD_OTHERWISE: partial(conversation.load_with_remedy, message, value),
            Verb.MEND: partial(conversation.allow_auto_remedies, message),
            Verb.OPEN_SOURCE: partial(self.conversation_view.show_source, message, value),
            Verb.DECIDE_CALL: partial(self._decide_call, message, value),
            Verb.DO_ACTION: partial(self._do_action, message, value),
        }
        actions[Verb(verb)]()

    def _open_overflow_menu(self) -> None:
        """Offer what becomes of this chat when its model's context is full."""
        menu, conversation = Menu(self._theme, self, tr("When the context is full")), self.model.conversation
        for rule, words in _OVERFLOW_WORDS.items():
            icon = "check" if rule is conversation.overflow else ""
            menu.add_entry(words.tr(), partial(conversation.set_overflow, rule), icon=icon)
        self._pop_up(menu)

    def _open_model_menu(self, message: str) -> None:
        """Offer the models that can answer again, those that are loaded first."""
        menu = Menu(self._theme, self, tr("Regenerate with another model"))
        for info in self.model.models_for_another_answer():
            title = phrases.model_title(info)
            words = tr("{title} · loaded", title=title) if self.model.is_loaded(info) else title
            menu.add_entry(words, partial(self.model.conversation.regenerate, message, info.name), icon="box")
        self._pop_up(menu)

    def _pop_up(self, menu: Menu) -> None:
        """Show a menu in the middle of the conversation: what asked for it may be gone."""
        menu.aboutToHide.connect(menu.deleteLater)
        transcript = self.conversation_view.transcript
        menu.popup(transcript.mapToGlobal(transcript.rect().center() - menu.rect().center()))

    def _save_file(self, message: str, attachment: str) -> None:
        """Write a copy of an attached file where the reader wants it."""
        entry = self.model.conversation.find_message(message)
        name = next((file.name for file in entry.attachments if file.id == attachment), "") if entry else ""
        start = str(Path(QDir.homePath()) / name)
        path, _ = QFileDialog.getSaveFileName(self, tr("Save a copy of {name}", name=name), start)
        if path:
            self.model.save_file(attachment, Path(path))

    def _show_error(self, error: ErrorBody) -> None:
        self._shell.show_toast(f"{error.sentence} {phrases.drop_commands(error.hint)}".strip())


_READ_KEYS, _DICTATE_KEYS = "Ctrl+Shift+R", "Ctrl+Shift+D"
_OVERFLOW_WORDS = {
    OverflowRule.DEFAULT: LazyText("As in Settings"),
    OverflowRule.STOP: LazyText("Stop and say so"),
    OverflowRule.CUT: LazyText("Leave out the oldest messages"),
    OverflowRule.SUMMARISE: LazyText("Summarise the oldest messages"),
}
_ROLES = {Role.USER: LazyText("User"), Role.ASSISTANT: LazyText("Assistant")}
