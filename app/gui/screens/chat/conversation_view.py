"""The open conversation: the transcript or the empty page, what went wrong, the options, and the composer below."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QBuffer, QDir, QIODevice, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QImage, QPixmap, QResizeEvent
from PySide6.QtWidgets import QFileDialog, QStackedWidget, QWidget

from app.core.api import GUIDE
from app.core.chats import Message, MessageStatus
from app.core.errors import ErrorBody
from app.core.presets import ChatPreset
from app.core.translation import tr
from app.gui import phrases
from app.gui.markdown.highlight import COMMON_LANGUAGES, highlight_code
from app.gui.screens.chat.banners import FileOffer, SightBanner
from app.gui.screens.chat.collections_panel import CollectionsPanel
from app.gui.screens.chat.comparison import LEAST_MODELS, ComparisonView, ModelsPanel
from app.gui.screens.chat.composer import Composer
from app.gui.screens.chat.draft_files import DraftFile
from app.gui.screens.chat.empty_chat import EmptyChat
from app.gui.screens.chat.file_cards import FileCards
from app.gui.screens.chat.find_bar import FindBar
from app.gui.screens.chat.folder_panels import FolderLine, FolderPanel, TagsPanel, folder_words
from app.gui.screens.chat.model import ChatModel
from app.gui.screens.chat.options import SamplingPanel, SystemPromptPanel
from app.gui.screens.chat.passage_panel import PassagePanel
from app.gui.screens.chat.presets_panel import PresetsPanel
from app.gui.screens.chat.tools_panel import ToolsPanel
from app.gui.screens.chat.transcript.transcript import COLUMN, Transcript
from app.gui.speech.dictation import DictationState
from app.gui.speech.dictation_bar import DictationBar
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import HBox, Scroller, VBox, WidthLimiter
from app.gui.widgets.panels import ErrorPanel
from app.markdown.formulas import draw_formula

if TYPE_CHECKING:
    from app.gui.net.remote_lists import CollectionStore, ToolServerStore

_SHARE = 0.4
"""The composer grows to this share of the height."""
_FOOT = 48
MODEL_ENDING = ".gguf"
"""Of files that are run instead of attached."""
_WARM_AFTER_MS, _WARM_EVERY_MS = 1500, 120


_OTHER_MODEL_HELPS = frozenset(
    {"model_not_found", "model_cannot", "model_cannot_see", "no_model_able", "model_unusable"}
)


Panel = (
    SystemPromptPanel
    | SamplingPanel
    | FolderPanel
    | TagsPanel
    | PresetsPanel
    | ModelsPanel
    | ToolsPanel
    | CollectionsPanel
    | PassagePanel
)


class ConversationView(QWidget):
    """Shows the `Conversation` of a `ChatModel`. `picker_requested`: another model has to be chosen."""

    picker_requested = Signal()
    tools_requested = Signal()
    """The page of tools."""
    documents_requested = Signal()
    """The page of documents."""

    def __init__(self, theme: Theme, model: ChatModel) -> None:
        super().__init__()
        self._theme, self._model = theme, model
        self._is_at_start = True
        self._tool_servers: ToolServerStore | None = None
        self._collections: CollectionStore | None = None
        self.transcript = Transcript(theme, model.thumbnails.find)
        self.find_bar = FindBar(theme, self.transcript)
        self.empty = EmptyChat(theme)
        self.composer = Composer(theme)
        self.file_cards = FileCards(theme, model.thumbnails.find, self._remove_file)
        self.sight_banner = SightBanner(theme)
        self.dictation_bar = DictationBar(theme, model.dictation)
        self._system = SystemPromptPanel(theme, lambda: self._show_panel(self._system, is_open=False))
        self._sampling = SamplingPanel(theme, lambda: self._show_panel(self._sampling, is_open=False))
        self.folder_panel = FolderPanel(theme, model, lambda: self._show_panel(self.folder_panel, is_open=False))
        self.tags_panel = TagsPanel(theme, model.chat_list, lambda: self._show_panel(self.tags_panel, is_open=False))
        self.folder_line = FolderLine(theme)
        self._error = ErrorPanel(theme)
        self._engine_error = ErrorPanel(theme)
        self._offer = FileOffer(theme)
        self.presets = PresetsPanel(theme, lambda: self._show_panel(self.presets, is_open=False))
        self.tools_panel = ToolsPanel(theme, lambda: self._show_panel(self.tools_panel, is_open=False))
        self.collections_panel = CollectionsPanel(
            theme, lambda: self._show_panel(self.collections_panel, is_open=False)
        )
        self.passage_panel = PassagePanel(theme, model.api, lambda: self._show_panel(self.passage_panel, is_open=False))
        self.models_panel = ModelsPanel(theme, lambda: self._show_panel(self.models_panel, is_open=False))
        self.comparison = ComparisonView(theme, model.thumbnails.find)
        order_panels = (self.folder_panel, self.tags_panel)
        document_panels = (self.collections_panel, self.passage_panel)
        self._panels = (
            *(self.models_panel, self.presets, self.tools_panel, *document_panels),
            *(self._system, self._sampling, *order_panels),
        )
        self._stack = QStackedWidget()
        self._cold = list(COMMON_LANGUAGES)
        self._warm = QTimer(self, singleShot=True, interval=_WARM_AFTER_MS)
        self._warm.timeout.connect(self._warm_next)
        self._warm.start()
        self._lay_out()
        self._connect_signals()
        self._take_chat()

    def offer_file(self, path: Path) -> None:
        """Ask whether a dropped model file should run."""
        self._offer.show_file(path, lambda: self._model.run_file(path))

    def choose_files(self) -> None:
        """Ask for files that go with the next question."""
        names, _ = QFileDialog.getOpenFileNames(self, tr("Attach files"), QDir.homePath())
        self.take_files([Path(name) for name in names])

    def take_files(self, paths: list[Path]) -> None:
        """Attach files; a model is offered to be run instead."""
        models = [path for path in paths if path.suffix.lower() == MODEL_ENDING]
        if models:
            self.offer_file(models[0])
        self._model.files.add_paths([path for path in paths if path not in models])
        self.composer.field.setFocus()

    def take_picture(self, picture: object) -> None:
        """Attach a picture from the clipboard or another program."""
        image = picture.toImage() if isinstance(picture, QPixmap) else picture
        if isinstance(image, QImage) and not image.isNull():
            self._model.files.add_content(tr("Pasted picture.png"), encode_png(image))
        self.composer.field.setFocus()

    def toggle_dictation(self) -> None:
        """Begin to dictate, or end it and have it inserted."""
        dictation, transcriber = self._model.dictation, self._model.transcriber()
        if dictation.state is not DictationState.IDLE:
            dictation.stop()
        elif transcriber is None:
            self._model.toast_requested.emit(_dictation_need(), None)
        else:
            dictation.start(transcriber)
        self._show_dictation()
        self.composer.field.setFocus()

    def _show_dictation(self) -> None:
        is_on, can = self._model.dictation.state is not DictationState.IDLE, self._model.transcriber() is not None
        self.composer.show_dictation(is_on=is_on)
        self.dictation_tool.setChecked(is_on)
        self.dictation_tool.setEnabled(can or is_on)
        self.dictation_tool.setToolTip(tr("Dictate") if can else _dictation_need())
        self.dictation_tool.setAccessibleDescription("" if can else _dictation_need())

    def toggle_system_prompt(self) -> None:
        """Show or hide the system prompt."""
        self._toggle_panel(self._system)

    def toggle_sampling(self) -> None:
        """Show or hide the sampling choices."""
        self._toggle_panel(self._sampling)

    def show_folder(self, folder: str) -> None:
        """Show what new chats of a folder get."""
        self.folder_panel.show_folder(folder)
        self._show_panel(self.folder_panel, is_open=True)

    def show_tags(self, chat: str) -> None:
        """Show the tags of a chat."""
        self.tags_panel.show_chat(chat)
        self._show_panel(self.tags_panel, is_open=True)

    def toggle_presets(self) -> None:
        """Show or hide the library of presets."""
        self._toggle_panel(self.presets)

    def toggle_tools(self) -> None:
        """Show or hide whose tools the model may call."""
        if self._tool_servers is None:
            self._tool_servers = self._model.tool_servers
            self._tool_servers.changed.connect(self._show_tools)
        self._show_tools()
        self._toggle_panel(self.tools_panel)

    def toggle_collections(self) -> None:
        """Show or hide in which collections passages are looked up."""
        if self._collections is None:
            self._collections = self._model.collections
            self._collections.changed.connect(self._show_collections)
        self._show_collections()
        self._toggle_panel(self.collections_panel)

    def show_source(self, message: str, number: str) -> None:
        """Open a passage that an answer was given, by the number under which it is cited."""
        answer = self._model.conversation.find_message(message)
        sources = answer.documents.sources if answer is not None else []
        source = next((each for each in sources if str(each.number) == number), None)
        if source is not None:
            self.passage_panel.show_source(source)
            self._show_panel(self.passage_panel, is_open=True)

    def use_preset(self, preset: ChatPreset) -> None:
        """Use a preset, after its variables were asked for."""
        if preset.variables:
            self._show_panel(self.presets, is_open=True)
        self.presets.use_preset(preset)

    def foot_area(self, around: QWidget) -> QRect:
        """Return where the composer and what is open above it are, within a widget around this one."""
        return QRect(self._foot.mapTo(around, QPoint(0, 0)), self._foot.size())

    def begin_edit(self, message: str) -> None:
        """Put a question into the composer, to ask it another way."""
        self.composer.set_text(self._model.start_editing(message))
        self.composer.field.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 -- Qt's name
        """Let the composer grow with the page."""
        super().resizeEvent(event)
        share = round(self.height() * _SHARE) - self._theme.px(_FOOT)
        self.composer.limit_height(max(self._theme.px(48), share))
        self.file_cards.limit_height(share // 2)
        self._sampling.limit_height(share)
        self.folder_panel.limit_height(share)
        self.presets.limit_height(share)
        self.models_panel.limit_height(share)
        for panel in (self.tools_panel, self.collections_panel, self.passage_panel):
            panel.limit_height(share)

    def _lay_out(self) -> None:
        theme = self._theme
        box = VBox(theme, self, gap=0)
        self._stack.addWidget(self.transcript)
        self._empty_page = Scroller(self.empty, tr("New chat"))
        self._stack.addWidget(self._empty_page)
        self._stack.addWidget(self.comparison)
        self._stack.setMinimumHeight(1)  # it gives way before the window has to grow
        box.addWidget(self.folder_line)
        box.addWidget(self.find_bar)
        box.addWidget(self._stack, 1)
        self._foot = QWidget()
        column = VBox(theme, self._foot, margins=(0, 4, 0, 16), gap=8)
        for widget in (self._error, self._engine_error, self._offer, *self._panels, self.composer):
            column.addWidget(widget)
        for panel in self._panels:
            panel.hide()
        foot = HBox(theme, margins=(16, 0, 16, 0), gap=0)
        foot.addWidget(WidthLimiter(theme, self._foot, COLUMN + 24))
        box.addLayout(foot)
        self.composer.place_above(self.file_cards)
        self.composer.place_above(self.sight_banner)
        self.composer.place_above(self.dictation_bar)
        self.composer.add_tool("paperclip", tr("Attach files"), self.choose_files, is_switch=False)
        self.dictation_tool = self.composer.add_tool("mic", tr("Dictate"), self.toggle_dictation)
        self._system_tool = self.composer.add_tool("scroll-text", tr("System prompt"), self.toggle_system_prompt)
        self._sampling_tool = self.composer.add_tool("sliders-horizontal", tr("Sampling"), self.toggle_sampling)
        self._tools_tool = self.composer.add_tool("wrench", tr("Tools"), self.toggle_tools)
        self._documents_tool = self.composer.add_tool("book-open", tr("Documents"), self.toggle_collections)
        self._models_tool = self.composer.add_tool("columns-2", tr("Compare models"), self.toggle_models)
        self._presets_tool = self.composer.add_tool("bookmark", tr("Presets"), self.toggle_presets)

    def _connect_panels(self) -> None:
        conversation = self._model.conversation
        self.tools_panel.servers_chosen.connect(conversation.set_tool_servers)
        self.tools_panel.forget_requested.connect(conversation.forget_permissions)
        self.tools_panel.manage_requested.connect(self.tools_requested)
        self.tools_panel.usual_requested.connect(self._model.make_tools_usual)
        self._model.models_changed.connect(self._show_tools)
        self.collections_panel.chosen.connect(conversation.set_collections)
        self.collections_panel.manage_requested.connect(self.documents_requested)

    def _connect_signals(self) -> None:
        conversation = self._model.conversation
        conversation.chat_opened.connect(self._take_chat)
        conversation.changed.connect(self._show_conversation)
        for view in (self.transcript, self.comparison):
            conversation.text_appended.connect(view.pull_answer)
        self.comparison.kept.connect(self._keep_answer)
        self.comparison.closed.connect(conversation.stop_comparing)
        self.models_panel.chosen.connect(self._mark_models)
        conversation.question_refused.connect(self._restore_question)
        conversation.answer_streams.answer_ended.connect(self._announce_answer)
        for signal in (self._model.models_changed, self._model.chat_list.changed):
            signal.connect(self._show_engine)
        presets = self._model.presets
        presets.store.changed.connect(self._show_presets)
        self._model.models_changed.connect(self._show_presets)
        presets.prompt_filled.connect(self._fill_composer)
        self.presets.preset_used.connect(self._use_filled_preset)
        self.presets.removal_requested.connect(presets.remove_preset)
        self.presets.save_requested.connect(self._save_preset)
        self.presets.import_requested.connect(self._import_presets)
        self.presets.export_requested.connect(self._export_presets)
        self._system.chosen.connect(conversation.set_system_prompt)
        self._sampling.chosen.connect(conversation.set_sampling)
        self._connect_panels()
        self.composer.question_submitted.connect(self._send_text)
        self.composer.stop_requested.connect(conversation.stop_answers)
        self.composer.edit_cancelled.connect(self._leave_edit)
        dictation = self._model.dictation
        self.composer.dictation_cancelled.connect(dictation.cancel)
        dictation.text_ready.connect(self.composer.insert_words)
        dictation.changed.connect(self._show_dictation)
        self._model.models_changed.connect(self._show_dictation)
        self._show_dictation()
        self.composer.text_changed.connect(self._keep_draft)
        self._model.default_sampling.changed.connect(self._show_defaults)
        self._model.draft_changed.connect(self._warn_of_overflow)
        self._model.models_changed.connect(self._warn_of_overflow)
        self.composer.field.conversation_requested.connect(self._enter_conversation)
        self.composer.field.files_given.connect(self.take_files)
        self.composer.field.picture_given.connect(self.take_picture)
        for signal in (self._model.draft_changed, self._model.models_changed, conversation.changed):
            signal.connect(self._show_files)
        for signal in (self._model.draft_changed, self._model.chat_list.changed, conversation.changed):
            signal.connect(self._show_folder_line)
        conversation.message_requested.connect(self._show_hit)
        self.find_bar.closed.connect(self.composer.field.setFocus)
        self.folder_line.set_action(lambda: self.show_folder(conversation.folder))
        self._model.thumbnails.arrived.connect(self._show_pictures)
        self.sight_banner.model_chosen.connect(conversation.choose_model)
        self.sight_banner.models_requested.connect(self.empty.models_requested)
        self.transcript.text_typed.connect(self._take_typed)
        self.empty.question_chosen.connect(self._ask_guide)

    def _take_chat(self) -> None:
        """Show another chat, from its end, with what was typed in it before."""
        self._error.hide()
        self._is_at_start = True
        if not self.find_bar.isHidden():
            self.find_bar.hide()
            self.transcript.finder.find(())
        self.models_panel.clear_choice()
        self.composer.set_text(self._model.current_draft())
        self._show_files()
        self._show_conversation()

    def _show_conversation(self) -> None:
        conversation = self._model.conversation
        read_message = self._model.reading.message
        turns = [
            replace(turn, is_read_aloud=True) if read_message and turn.message.id == read_message else turn
            for turn in conversation.list_turns()
        ]
        self._stack.setCurrentWidget(self.transcript if turns or not conversation.is_new else self._empty_page)
        self._show_comparison()
        self.transcript.show_turns(turns, at_end=self._is_at_start)
        self._is_at_start = self._is_at_start and not turns
        self.composer.show_state(is_busy=conversation.is_busy, is_editing=conversation.editing is not None)
        self._system.show_prompt(conversation.system_prompt)
        self._sampling.show_sampling(conversation.sampling)
        self._show_tools()
        self._show_collections()
        self._fetch_defaults()
        self._mark_tools()
        self._show_engine()
        if conversation.error is not None:
            self._error.show_error(conversation.error, tr("Try again"), conversation.fetch_chat)

    def _show_comparison(self) -> None:
        """Show the answers side by side, where that is wanted."""
        conversation = self._model.conversation
        compared_answers = conversation.list_compared()
        if conversation.comparing is not None and compared_answers:
            self.comparison.show_answers(conversation.text_of(conversation.comparing), compared_answers)
            self._stack.setCurrentWidget(self.comparison)

    def toggle_models(self) -> None:
        """Show or hide the models to compare."""
        self.models_panel.show_models(self._model.models_for_another_answer(), self._model.model)
        self._toggle_panel(self.models_panel)

    def _mark_models(self, models: list[str]) -> None:
        self._models_tool.setChecked(len(models) >= LEAST_MODELS or not self.models_panel.isHidden())

    def _keep_answer(self, answer: str) -> None:
        self._model.conversation.keep_answer(answer)
        self.composer.field.setFocus()

    def _show_engine(self) -> None:
        """Say why the model is not running, unless an answer in the transcript says so already."""
        failure = self._model.make_chip(time.monotonic()).failure
        turns = self.transcript.document.turns
        is_said = bool(turns) and turns[-1].view.trouble is not None
        if failure is not None and not is_said and not self._model.conversation.is_busy:
            self._engine_error.show_error(failure, tr("Load again"), self._model.load_model)
        else:
            self._engine_error.hide()
        self._show_empty()

    def _show_empty(self) -> None:
        model, info = self._model, self._model.info
        own = [item for item in model.chat_models() if not item.is_builtin and not item.problem]
        if not model.library.is_known:
            self.empty.show_nothing_known(model.library.error)
            return
        self.empty.show_state(
            info,
            has_models=bool(own),
            has_guide=model.find_model(GUIDE) is not None,
        )

    def _show_tools(self) -> None:
        servers = self._tool_servers.items if self._tool_servers is not None else []
        self.tools_panel.show_tools(self._model.conversation.tools, servers, self._model.usual_tools())

    def _show_collections(self) -> None:
        collections = self._collections.items if self._collections is not None else []
        self.collections_panel.show_collections(self._model.conversation.collections, collections)

    def _mark_tools(self) -> None:
        self._mark_models(self.models_panel.models)
        self._presets_tool.setChecked(not self.presets.isHidden())
        conversation = self._model.conversation
        has_documents = bool(conversation.collections) or not self.collections_panel.isHidden()
        self._documents_tool.setChecked(has_documents)
        self._tools_tool.setChecked(bool(conversation.tools.servers) or not self.tools_panel.isHidden())
        self._system_tool.setChecked(bool(conversation.system_prompt) or not self._system.isHidden())
        self._sampling_tool.setChecked(
            bool(conversation.sampling != type(conversation.sampling)()) or not self._sampling.isHidden()
        )

    def _fetch_defaults(self) -> None:
        """Have it told what empty fields mean for this model, once somebody looks at them."""
        if not self._sampling.isHidden():
            self._model.default_sampling.fetch_for(self._model.model)

    def _show_defaults(self) -> None:
        self._sampling.show_defaults(self._model.default_sampling.field_words())
        self._sampling.show_choices(self._model.default_sampling.answers)

    def _toggle_panel(self, panel: Panel) -> None:
        self._show_panel(panel, is_open=panel.isHidden())

    def _show_panel(self, panel: Panel, *, is_open: bool) -> None:
        for candidate in self._panels:
            candidate.setVisible(is_open and candidate is panel)
        self._mark_tools()
        self._fetch_defaults()
        field = self.composer.field if not is_open else panel.field
        field.setFocus()

    def _show_presets(self) -> None:
        titles = {model.name: phrases.model_title(model) for model in self._model.library.items}
        self.presets.show_presets(self._model.presets.store.items, titles)

    def _use_filled_preset(self, preset: ChatPreset) -> None:
        self._show_panel(self.presets, is_open=False)
        self._model.presets.use_preset(preset)

    def _fill_composer(self, prompt: str) -> None:
        self.composer.set_text(prompt)
        self.composer.field.setFocus()

    def _save_preset(self, name: str) -> None:
        self._model.presets.save_preset(self._model.presets.make_preset(name, self.composer.text.strip()))

    def _import_presets(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, tr("Import presets"), QDir.homePath(), tr("Presets (*.json)"))
        if path:
            self._model.presets.import_presets(Path(path))

    def _export_presets(self) -> None:
        start = QDir.home().filePath("roundhouse-presets.json")
        path, _ = QFileDialog.getSaveFileName(self, tr("Export presets"), start, tr("Presets (*.json)"))
        if path:
            self._model.presets.export_presets(Path(path))

    def _announce_answer(self, message: Message) -> None:
        """Tell a screen reader that the answer is there."""
        words = tr("The answer failed") if message.status is MessageStatus.FAILED else tr("The answer is complete")
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.transcript, words))

    def _warm_next(self) -> None:
        """Read one language's rules while nobody waits: some take longer than a frame the first time."""
        if len(self._cold) == 1:
            draw_formula("x", is_display=False)
        highlight_code(self._cold.pop(), "x")
        if self._cold:
            self._warm.start(_WARM_EVERY_MS)

    def _send_text(self, text: str) -> None:
        if self._sampling.form.problem:  # an answer in another form than the one that is typed is not wanted
            self.composer.set_text(text)
            self._show_panel(self._sampling, is_open=True)
            self._sampling.form.show_problem()
            return
        self._error.hide()
        self._is_at_start = True
        models = self.models_panel.models
        if len(models) >= LEAST_MODELS and self._model.conversation.answer_in_edit() is None:
            self._model.conversation.ask_models(models)
            self._show_panel(self.models_panel, is_open=False)  # the columns need the room
        self._model.send_question(text)

    def _enter_conversation(self) -> None:
        """Bring the keyboard to the last message that shows, where there is one."""
        if self._stack.currentWidget() is self.transcript:
            self.transcript.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _take_typed(self, text: str) -> None:
        """Go on in the composer with what is typed while the transcript has the keyboard."""
        self.composer.field.setFocus()
        self.composer.field.insertPlainText(text)

    def _show_files(self) -> None:
        files, problem = self._model.files, self._model.sight_problem()
        had_keyboard = self.file_cards.has_keyboard
        self.file_cards.show_files(files.items)
        if had_keyboard and not files.items:
            self.composer.field.setFocus()  # the button that removed the last one is gone
        self.sight_banner.show_problem(problem)
        self.composer.show_files_state(has_files=bool(files.items), can_send=files.is_ready and problem is None)

    def _show_hit(self, message: str) -> None:
        self._is_at_start = False
        self.find_bar.show_hit(self._model.chat_list.query, message)

    def _show_folder_line(self) -> None:
        self.folder_line.show_words(folder_words(self._model))

    def _show_pictures(self) -> None:
        self.file_cards.repaint_pictures()
        self.transcript.viewport().update()

    def _remove_file(self, file: DraftFile) -> None:
        self._model.files.remove(file)

    def _warn_of_overflow(self) -> None:
        self.composer.show_warning(self._model.overflow_words())
        self.composer.show_count(self._model.draft_words())

    def _keep_draft(self, text: str) -> None:
        if self._model.conversation.editing is None:
            self._model.keep_draft(text)

    def _leave_edit(self) -> None:
        self._model.stop_editing()
        self.composer.set_text(self._model.current_draft())

    def _restore_question(self, error: ErrorBody, text: str) -> None:
        """Put the question back and say why it was not taken."""
        if text and not self.composer.text:
            self.composer.set_text(text)
        if error.code in _OTHER_MODEL_HELPS:
            self._error.show_error(error, tr("Choose a model"), self.picker_requested.emit)
        else:
            self._error.show_error(error, tr("Try again"), lambda: self._try_again(text))

    def _try_again(self, text: str) -> None:
        self._error.hide()
        if text or self._model.files.attachments:
            self.composer.set_text("")
            self._send_text(text)

    def _ask_guide(self, text: str) -> None:
        self._model.new_chat(GUIDE)
        self._send_text(text)
        QTimer.singleShot(0, self.composer.field.setFocus)


def _dictation_need() -> str:
    return tr("Dictating takes a model that transcribes: one marked Audio, or an attached endpoint with Whisper.")


def encode_png(image: QImage) -> bytes:
    """Return a picture as a PNG file."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # Qt's stubs want bytes, Qt wants text
    return bytes(buffer.data().data())
