"""State of the chat page: the list, the open chat, the models to choose from, and what is typed and not sent.

No widget in it. The view asks it what to show after `changed`, and tells it what the reader did.

What an empty field of the sampling panel means: what is set for the model, what it recommends, the engine's own.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.attachments import Attachment
from app.core.capabilities import Capability
from app.core.chats import Chat, Role
from app.core.downloads import Download, Pull
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody, write_fault
from app.core.events import ChatChanged, Event, SettingChanged
from app.core.models import AnswerChoices, ModelChoices, ModelInfo, ModelSampling, RegisterModel
from app.core.tokens import TextTokens
from app.core.tool_calls import ChatTools
from app.core.translation import tr
from app.core.words import format_tokens
from app.gui import phrases
from app.gui.net.api import GatewayApi
from app.gui.net.remote_lists import BUSY_STATES, CollectionStore, Stores, ToolServerStore
from app.gui.net.thumbnails import Thumbnails
from app.gui.phrases import progress_words
from app.gui.screens.chat.answer_streams import TimeLeft
from app.gui.screens.chat.chat_list import ChatList
from app.gui.screens.chat.conversation import Conversation
from app.gui.screens.chat.draft_files import DraftFiles
from app.gui.screens.chat.draft_tokens import DraftTokens
from app.gui.screens.chat.message_actions import MessageActions
from app.gui.screens.chat.presets import PresetLibrary
from app.gui.shell.contract import Shell
from app.gui.speech.dictation import Dictation, choose_transcriber
from app.gui.speech.read_aloud import ReadAloud

_LARGEST_FILE_MIB = 32
TOOL_SERVERS = "chats.tool_servers"
"""Until the settings were read: their default."""


class ModelChipState(msgspec.Struct, frozen=True, kw_only=True):
    """What the header says about the model."""

    words: str
    state: str = ""
    """What it is doing, when that is worth saying: "Reading weights 63 %"."""
    color: str = "ink-3"
    fraction: float | None = None
    is_loading: bool = False
    failure: ErrorBody | None = None


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the model's context the conversation takes."""

    words: str
    fraction: float | None = None


class SightProblem(msgspec.Struct, frozen=True, kw_only=True):
    """That the model cannot see or hear what the next question brings along, and a model that can, if there is one."""

    words: str
    remedy: str
    """What the button says that helps: it asks the other model, or looks for one."""
    other: str = ""


class ChatModel(QObject):
    """Everything the page shows."""

    changed = Signal()
    models_changed = Signal()
    draft_changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self.api, self._shell = stores.api, shell
        self.library, self.running, self._preferences = stores.library, stores.running, stores.preferences
        self.chat_list = ChatList(stores.api, shell)
        self.conversation = Conversation(stores.api, self, self.running.of)
        self.conversation.title_of = self._title_of
        self.actions = MessageActions(stores.api, self.conversation)
        self.reading = ReadAloud(self)
        self.dictation = Dictation(stores.api, self)
        self.default_sampling = DefaultSampling(stores.api, self)
        self._stores = stores
        self.presets = PresetLibrary(stores.api, shell, self.conversation)
        self.thumbnails = Thumbnails(stores.api, self)
        self.files = DraftFiles(stores.api, self, self._draft_key, self.largest_file_mib)
        self.draft_tokens = DraftTokens(stores.api, self)
        self._drafts: dict[str, str] = {}
        self._estimate = TimeLeft()
        self._new_chat_model = ""
        for signal in (self.library.changed, self.running.changed):
            signal.connect(self.models_changed)
        self._preferences.changed.connect(self.models_changed)
        self._preferences.changed.connect(lambda: self.conversation.use_usual_tools(self.usual_tools()))
        self.running.changed.connect(self._engines_changed)
        self.conversation.chat_created.connect(self._register_chat)
        self.conversation.files_returned.connect(self._put_files_back)
        self.files.changed.connect(self.draft_changed)
        self.draft_tokens.changed.connect(self.draft_changed)
        self.chat_list.changed.connect(self._sync_with_list)
        for source in (self.chat_list, self.conversation):
            source.failed.connect(self.failed)
        self.actions.failed.connect(self.failed)
        for talker in (self.chat_list, self.actions):
            talker.toast_requested.connect(self.toast_requested)
        self.actions.chat_forked.connect(self._show_fork)
        self.library.changed.connect(self.conversation.changed)
        self.reading.changed.connect(self.conversation.changed)
        self.reading.refused.connect(self.toast_requested)
        self.conversation.chat_opened.connect(self.reading.stop)
        self.dictation.refused.connect(self.toast_requested)
        self.conversation.chat_opened.connect(self.dictation.cancel)
        self.presets.failed.connect(self.failed)
        self.presets.toast_requested.connect(self.toast_requested)
        shell.connected.connect(self._read_again)
        shell.event_received.connect(self._handle_event)
        shell.event_received.connect(self.default_sampling.handle_event)

    def usual_tools(self) -> ChatTools:
        """Return the tools that a new chat begins with."""
        servers = self._preferences.get(TOOL_SERVERS, [])
        return ChatTools(servers=servers if isinstance(servers, list) else [])

    def make_tools_usual(self) -> None:
        """Have new chats begin with the servers of this one."""
        servers: list[str] = list(self.conversation.tools.servers)
        self._preferences.change(TOOL_SERVERS, servers, self.conversation.failed.emit)

    @property
    def tool_servers(self) -> ToolServerStore:
        """The servers of tools; read once somebody looks at them."""
        return self._stores.tool_servers

    @property
    def collections(self) -> CollectionStore:
        """The collections of documents; read once somebody looks at them."""
        return self._stores.collections

    @property
    def model(self) -> str:
        """Name of the model the next answer comes from; empty when there is none."""
        return self.conversation.model or self.default_model()

    @property
    def info(self) -> ModelInfo | None:
        """What is known of that model."""
        return self.find_model(self.model)

    def find_model(self, name: str) -> ModelInfo | None:
        """Return a model of the library."""
        return next((item for item in self.library.items if item.name == name), None)

    def transcriber(self) -> ModelInfo | None:
        """Return the model that writes down what is dictated; None if no model here can."""
        return choose_transcriber(self.library.items, self.model)

    def chat_models(self) -> list[ModelInfo]:
        """Return the models that can chat, usable ones first, the Guide last."""
        models = [item for item in self.library.items if item.chats]
        return sorted(
            models, key=lambda item: (bool(item.problem), item.is_builtin, phrases.model_title(item).casefold())
        )

    def default_model(self) -> str:
        """Return the model a new chat starts with: the one set, the one used last, the first there is."""
        usable = [item.name for item in self.chat_models() if not item.problem]
        chosen_name = str(self._preferences.find_choice("models.default") or "").casefold()
        last = [model for model in self.chat_list.models if model in usable]
        return next((name for name in usable if name.casefold() == chosen_name), next(iter([*last, *usable]), ""))

    def make_chip(self, now: float) -> ModelChipState:
        """Return what the header says about the model; `now` is on the monotonic clock."""
        info = self.info
        if info is None:
            unread = tr("Reading the models…") if self._shell.is_connected else tr("Waiting for the service…")
            return ModelChipState(words=tr("Choose a model") if self.library.is_known else unread)
        status = self.running.of(info.name)
        engine = status.engine if status else ""
        chip = self._with_state(ModelChipState(words=phrases.model_label(info)), status, now)
        if chip.state:  # what happens now is worth more than what it is made of
            return chip
        about = (chip.words, "" if info.is_builtin else info.quantization, engine)
        return msgspec.structs.replace(chip, words=" · ".join(part for part in about if part))

    def context_usage(self) -> ContextUsage | None:
        """Return how full the context is: with the last answer, and about with what is typed; None with neither."""
        used_tokens, typed_tokens = self._path_tokens(), self._draft_tokens()
        if used_tokens is None and not typed_tokens:
            return None
        total = (used_tokens or 0) + typed_tokens
        status = self.running.of(self.model)
        context = status.context if status and status.context else None
        if context is None:
            tokens = format_tokens(total)
            return ContextUsage(
                words=tr("≈ {tokens} tokens", tokens=tokens) if typed_tokens else tr("{tokens} tokens", tokens=tokens)
            )
        share, limit = total / context, format_tokens(context)
        words = (
            tr("≈ {share:.0%} of {context}", share=share, context=limit)
            if typed_tokens
            else tr("{share:.0%} of {context}", share=share, context=limit)
        )
        return ContextUsage(words=words, fraction=min(1.0, share))

    def overflow_words(self) -> str:
        """Return what to say where what is typed cannot fit into the model's context; nothing where it may."""
        status, info = self.running.of(self.model), self.info
        context = (status.context if status else None) or (info.trained_context if info else None)
        typed_tokens = self._draft_tokens()
        total = (self._path_tokens() or 0) + typed_tokens
        if not typed_tokens or context is None or total <= context:
            return ""
        return tr(
            "About {tokens} tokens; the model takes {context}",
            tokens=format_tokens(total),
            context=format_tokens(context),
        )

    def draft_words(self) -> str:
        """Return how many tokens the next question is, files included; nothing for nothing."""
        count = self._count_draft()
        if not count.tokens:
            return ""
        tokens = format_tokens(count.tokens)
        return tr("≈ {tokens} tokens", tokens=tokens) if count.is_estimate else tr("{tokens} tokens", tokens=tokens)

    def _count_draft(self) -> TextTokens:
        count, files = self.draft_tokens.count(self.current_draft()), self.files.tokens
        return TextTokens(tokens=count.tokens + files, is_estimate=count.is_estimate or bool(files))

    def _draft_tokens(self) -> int:
        return self._count_draft().tokens

    def _path_tokens(self) -> int | None:
        last = next(
            (
                item.timings
                for item in reversed(self.conversation.message_path())
                if item.timings and item.role is not Role.USER
            ),
            None,
        )
        if last is None or last.prompt_tokens is None:
            return None
        return last.prompt_tokens + (last.completion_tokens or 0)

    def sight_problem(self) -> SightProblem | None:
        """Return why files of the next question are not for this model; of attached models nobody knows."""
        info = self.info
        needs = self.files.needs
        if info is None or info.attached or needs <= set(info.capabilities):
            return None
        title = phrases.model_title(info)
        is_blind = Capability.VISION in needs - set(info.capabilities)
        if is_blind:
            words, search = tr("{title} cannot see pictures.", title=title), tr("Find a model that sees")
        else:
            words, search = tr("{title} cannot hear sounds.", title=title), tr("Find a model that hears")
        others = [item for item in self.chat_models() if needs <= set(item.capabilities) and not item.problem]
        if not others:
            return SightProblem(words=words, remedy=search)
        ask = tr("Ask {title}", title=phrases.model_title(others[0]))
        return SightProblem(words=words, remedy=ask, other=others[0].name)

    def start_editing(self, question: str) -> str:
        """Begin to edit a question: return its text, and have its files go with the new version."""
        text = self.conversation.start_editing(question)
        message = self.conversation.find_message(question)
        self.files.put_attachments(message.attachments if message else [], is_sent=True)
        return text

    def stop_editing(self) -> None:
        """Cancel editing, and let go of the files that were added to the new version."""
        self.files.clear()
        self.conversation.stop_editing()
        self.files.changed.emit()

    def _draft_key(self) -> str:
        return self.conversation.editing or self.conversation.id

    def largest_file_mib(self) -> int:
        """Return how large a file may be."""
        limit = self._preferences.get("gateway.max_body_mib", _LARGEST_FILE_MIB)
        return limit if isinstance(limit, int) else _LARGEST_FILE_MIB

    def _put_files_back(self, attachments: list[Attachment]) -> None:
        self.files.put_attachments(attachments, is_sent=False)

    def current_draft(self) -> str:
        """Return what was typed in this chat and not sent."""
        return self._drafts.get(self.conversation.id, "")

    def keep_draft(self, text: str) -> None:
        """Remember what is typed."""
        self._drafts[self.conversation.id] = text
        status, info = self.running.of(self.model), self.info
        is_loaded = status is not None and status.state is EngineState.READY
        self.draft_tokens.note_draft(text, self.model, is_loaded=is_loaded and info is not None and not info.attached)
        self.draft_changed.emit()

    def new_chat(self, model: str = "", folder: str = "") -> None:
        """Show an empty chat with a model, or the usual one; in a folder with what that gives."""
        value = self.chat_list.folders.find_folder(folder)
        self._new_chat_model = model or (value.model if value else "")
        self.conversation.start_chat(self._new_chat_model, value, self.usual_tools())
        if value is not None or any(file.is_sent for file in self.files.items):
            self.files.put_attachments(value.files if value else [], is_sent=True)

    def open_chat(self, chat: str, message: str = "") -> None:
        """Show a chat, and a message of it."""
        if chat != self.conversation.id:
            self.conversation.open_chat(chat, message)
        elif message:
            self.conversation.show_message(message)

    def delete_chat(self, chat: str) -> None:
        """Delete a chat, with a way back; the open one makes room for an empty one."""
        if chat != self.conversation.id:
            self.chat_list.delete(chat)
            return
        self.new_chat()
        self.chat_list.delete(chat, reopen=lambda: self.open_chat(chat))

    def send_question(self, text: str) -> None:
        """Ask a question; while an answer is edited, keep the words as another version of it."""
        edited_answer = self.conversation.answer_in_edit()
        if edited_answer is not None:
            self.conversation.stop_editing()
            self.actions.save_version(edited_answer, text, self.conversation.question_refused.emit)
            return
        if self.conversation.is_new and not self.conversation.model:
            self.conversation.model = self.default_model()
        attachments = self.files.take_attachments()
        self._drafts.pop(self.conversation.id, None)
        self.draft_changed.emit()
        self.conversation.send(text, attachments)

    def models_for_another_answer(self) -> list[ModelInfo]:
        """Return the models that can answer a question again, those that are loaded first."""
        usable = [item for item in self.chat_models() if not item.problem]
        return sorted(usable, key=lambda item: not self.is_loaded(item))

    def is_loaded(self, model: ModelInfo) -> bool:
        """Whether a model would answer at once."""
        status = self.running.of(model.name)
        return status is not None and status.state is EngineState.READY

    def load_model(self) -> None:
        """Make the model ready before it is asked."""
        if self.model:
            self.running.load(self.model, self.failed.emit)

    def download_model(self, name: str, then: Callable[[], object]) -> None:
        """Begin to download a model, in the form that suits this computer."""
        pull = Pull(model=name)
        self.api.post("/downloads", pull, kind=Download, then=lambda _: then(), on_error=self.failed.emit)

    def save_file(self, attachment: str, path: Path) -> None:
        """Write a copy of an attached file."""

        def write_copy(content: bytes) -> None:
            try:
                path.write_bytes(content)
            except OSError as error:
                self.failed.emit(write_fault(tr("the file"), error, place=str(path.parent)).body)

        self.api.get(f"/attachments/{quote_segment(attachment)}/content", bytes, write_copy, self.failed.emit)

    def run_file(self, path: Path) -> None:
        """List a model file where it lies, and chat with it."""

        def start_chat(model: ModelInfo) -> None:
            self.new_chat(model.name)
            self.toast_requested.emit(tr("{title} is ready.", title=model.title), None)

        self.api.post(
            "/models", RegisterModel(path=str(path)), kind=ModelInfo, then=start_chat, on_error=self.failed.emit
        )

    def _with_state(self, chip: ModelChipState, status: EngineStatus | None, now: float) -> ModelChipState:
        replace = msgspec.structs.replace
        if status is None:
            return chip
        if status.state in BUSY_STATES:
            stage = status.stage or tr("Loading")
            words = progress_words(stage, status.progress, self._estimate.estimate_left_s(stage, status.progress, now))
            return replace(chip, state=words, color="warn", fraction=status.progress, is_loading=True)
        if status.state is EngineState.FAILED and status.failure is not None:
            failure = status.failure
            error = ErrorBody(
                code=failure.code,
                sentence=failure.sentence,
                hint=failure.hint,
                detail="\n".join(failure.log_tail[-12:]),
            )
            return replace(chip, state=tr("Failed"), color="bad", failure=error)
        ready = status.state is EngineState.READY
        return replace(chip, color="ok") if ready else chip

    def _title_of(self, name: str) -> str:
        info = self.find_model(name)
        return name if info is None else phrases.model_title(info)

    def _show_fork(self, chat: Chat) -> None:
        self.chat_list.add_chat(chat)
        self.open_chat(chat.id)
        self.toast_requested.emit(tr("This is a copy. The chat it comes from stays as it is."), None)

    def _register_chat(self, chat: Chat) -> None:
        self._drafts.pop("", None)
        self.chat_list.add_chat(chat)

    def _sync_with_list(self) -> None:
        summary = self.chat_list.find_chat(self.conversation.id) if self.conversation.id else None
        if summary is None:
            return
        self.conversation.title, self.conversation.folder = summary.title, summary.folder
        if summary.message_count != self.conversation.count and summary.message_count and not self._is_in_step():
            self.conversation.fetch_chat()

    def _is_in_step(self) -> bool:
        """Whether what is shown is ahead of the list, or being read anyway."""
        return self.conversation.is_busy or self.conversation.is_loading

    def _engines_changed(self) -> None:
        if any(status.state is EngineState.FAILED for status in self.running.items):
            self.conversation.changed.emit()

    def _read_again(self) -> None:
        if self.conversation.id:
            self.conversation.answer_streams.leave_all()
            self.conversation.fetch_chat()

    def _handle_event(self, event: Event) -> None:
        if isinstance(event, ChatChanged) and event.deleted and event.chat == self.conversation.id:
            self.new_chat()


class DefaultSampling(QObject):
    """Asked for when the panel is opened, and anew once something is set for a model."""

    changed = Signal()

    def __init__(self, api: GatewayApi, parent: QObject) -> None:
        super().__init__(parent)
        self._api = api
        self._model = ""
        self._choices: ModelChoices | None = None

    def fetch_for(self, model: str) -> None:
        """Have it told for a model, unless it is known."""
        if model and model != self._model:
            self._model, self._choices = model, None
            self.changed.emit()
            self._api.get(
                f"/model-settings/{quote_segment(model)}", ModelChoices, self._set_choices, self._forget_model
            )

    def handle_event(self, event: Event) -> None:
        """Forget what was set before."""
        if isinstance(event, SettingChanged) and event.name.startswith("model."):
            self._model = ""

    def field_words(self) -> Mapping[str, str]:
        """Return what stands in the empty fields, by the choice's name."""
        choices = self._choices
        return {} if choices is None else {name: _words_for(choices, name) for name in ModelSampling.__struct_fields__}

    @property
    def answers(self) -> AnswerChoices:
        """What can be asked of the model's answers."""
        return AnswerChoices() if self._choices is None else self._choices.answers

    def _set_choices(self, choices: ModelChoices) -> None:
        self._choices = choices
        self.changed.emit()

    def _forget_model(self, _error: object) -> None:
        """Leave the fields as they are: they say nothing that is wrong."""
        self._model = ""


def _words_for(choices: ModelChoices, name: str) -> str:
    own = getattr(choices.settings.sampling, name)
    return phrases.sampling_placeholder(choices, name) if own is None else tr("{value:g} as set", value=own)
