"""State of the chat page: the list, the open chat, the models to choose from, and what is typed and not sent.

No widget in it. The view asks it what to show after `changed`, and tells it what the reader did.
"""

from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from app.core.api import GUIDE
from app.core.chats import Chat, Role
from app.core.engines import EngineState, EngineStatus
from app.core.errors import ErrorBody
from app.core.events import ChatChanged, Event
from app.core.models import ModelInfo, RegisterModel
from app.core.words import tokens
from app.gui import phrases
from app.gui.net.stores import BUSY_STATES, Stores
from app.gui.screens.chat.conversations import Conversations
from app.gui.screens.chat.estimate import Estimate
from app.gui.screens.chat.talk import Talk
from app.gui.screens.chat.usual import UsualSampling
from app.gui.screens.chat.words import progress_words
from app.gui.shell.contract import Shell


class Chip(msgspec.Struct, frozen=True, kw_only=True):
    """What the header says about the model."""

    words: str
    state: str = ""
    """What it is doing, when that is worth saying: "Reading weights 63 %"."""
    color: str = "ink-3"
    fraction: float | None = None
    is_loading: bool = False
    failure: ErrorBody | None = None


class Meter(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the model's context the conversation takes."""

    words: str
    fraction: float | None = None


class ChatModel(QObject):
    """Everything the page shows."""

    changed = Signal()
    models_changed = Signal()
    said = Signal(str, object)
    failed = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._shell = stores.api, shell
        self.library, self.running, self._preferences = stores.library, stores.running, stores.preferences
        self.conversations = Conversations(stores.api, shell)
        self.talk = Talk(stores.api, self, self.running.of)
        self.usual = UsualSampling(stores.api, self)
        self._drafts: dict[str, str] = {}
        self._estimate = Estimate()
        self._wanted = ""
        for signal in (self.library.changed, self.running.changed):
            signal.connect(self.models_changed)
        self._preferences.changed.connect(self.models_changed)
        self.running.changed.connect(self._engines_changed)
        self.talk.created.connect(self._made)
        self.conversations.changed.connect(self._listed)
        for source in (self.conversations, self.talk):
            source.failed.connect(self.failed)
        self.conversations.said.connect(self.said)
        shell.connected.connect(self._connected)
        shell.happened.connect(self._happened)
        shell.happened.connect(self.usual.take)

    @property
    def model(self) -> str:
        """Name of the model the next answer comes from; empty when there is none."""
        return self.talk.model or self.usual_model()

    @property
    def info(self) -> ModelInfo | None:
        """What is known of that model."""
        return self.find_model(self.model)

    def find_model(self, name: str) -> ModelInfo | None:
        """Return a model of the library."""
        return next((item for item in self.library.items if item.name == name), None)

    def choices(self) -> list[ModelInfo]:
        """Return the models that can chat, usable ones first, the Guide last."""
        found = [item for item in self.library.items if item.chats]
        return sorted(found, key=lambda item: (bool(item.problem), item.is_builtin, phrases.title(item).casefold()))

    def usual_model(self) -> str:
        """Return the model a new chat starts with: the one set, the one used last, the first there is."""
        usable = [item.name for item in self.choices() if not item.problem]
        chosen = str(self._preferences.get("models.default", GUIDE))
        last = next((model for model in self.conversations.models if model in usable), "")
        if chosen in usable and chosen != GUIDE:
            return chosen
        return last or (usable[0] if usable else "")

    def chip(self, now: float) -> Chip:
        """Return what the header says about the model; `now` is on the monotonic clock."""
        info = self.info
        if info is None:
            unread = "Reading the models…" if self._shell.is_connected else "Waiting for the service…"
            return Chip(words="Choose a model" if self.library.is_known else unread)
        status = self.running.of(info.name)
        engine = status.engine if status else ""
        chip = self._with_state(Chip(words=phrases.label(info)), status, now)
        if chip.state:  # what happens now is worth more than what it is made of
            return chip
        about = (chip.words, "" if info.is_builtin else info.quantization, engine)
        return msgspec.structs.replace(chip, words=" · ".join(part for part in about if part))

    def meter(self) -> Meter | None:
        """Return how full the context was with the last answer; None before there is one."""
        last = next(
            (item.timings for item in reversed(self.talk.path()) if item.timings and item.role is not Role.USER), None
        )
        if last is None or last.prompt_tokens is None:
            return None
        used = last.prompt_tokens + (last.completion_tokens or 0)
        status = self.running.of(self.model)
        context = status.context if status and status.context else None
        if context is None:
            return Meter(words=f"{tokens(used)} tokens")
        return Meter(words=f"{used / context:.0%} of {tokens(context)}", fraction=min(1.0, used / context))

    def draft(self) -> str:
        """Return what was typed in this chat and not sent."""
        return self._drafts.get(self.talk.id, "")

    def keep_draft(self, text: str) -> None:
        """Remember what is typed."""
        self._drafts[self.talk.id] = text

    def new_chat(self, model: str = "") -> None:
        """Show an empty chat with a model, or the usual one."""
        self._wanted = model
        self.talk.start(model)

    def open(self, chat: str) -> None:
        """Show a chat."""
        if chat != self.talk.id:
            self.talk.open(chat)

    def delete(self, chat: str) -> None:
        """Delete a chat, with a way back; the open one makes room for an empty one."""
        if chat == self.talk.id:
            self.new_chat()
        self.conversations.delete(chat)

    def send(self, text: str) -> None:
        """Ask a question."""
        if self.talk.is_new and not self.talk.model:
            self.talk.model = self.usual_model()
        self._drafts.pop(self.talk.id, None)
        self.talk.send(text)

    def load(self) -> None:
        """Make the model ready before it is asked."""
        if self.model:
            self.running.load(self.model, self.failed.emit)

    def run_file(self, path: Path) -> None:
        """List a model file where it lies, and chat with it."""

        def added(model: ModelInfo) -> None:
            self.new_chat(model.name)
            self.said.emit(f"{model.title} is ready.", None)

        self._api.post("/models", RegisterModel(path=str(path)), kind=ModelInfo, then=added, failed=self.failed.emit)

    def _with_state(self, chip: Chip, status: EngineStatus | None, now: float) -> Chip:
        replace = msgspec.structs.replace
        if status is None:
            return chip
        if status.state in BUSY_STATES:
            stage = status.stage or "Loading"
            words = progress_words(stage, status.progress, self._estimate.left(stage, status.progress, now))
            return replace(chip, state=words, color="warn", fraction=status.progress, is_loading=True)
        if status.state is EngineState.FAILED and status.failure is not None:
            found = status.failure
            error = ErrorBody(
                code=found.code, sentence=found.sentence, hint=found.hint, detail="\n".join(found.log_tail[-12:])
            )
            return replace(chip, state="Failed", color="bad", failure=error)
        ready = status.state in {EngineState.READY, EngineState.SLEEPING}
        return replace(chip, color="ok") if ready else chip

    def _made(self, chat: Chat) -> None:
        self._drafts.pop("", None)
        self.conversations.put(chat)

    def _listed(self) -> None:
        known = self.conversations.find(self.talk.id) if self.talk.id else None
        if known is None:
            return
        self.talk.title = known.title
        if known.message_count != self.talk.count and known.message_count and not self._is_in_step():
            self.talk.read()

    def _is_in_step(self) -> bool:
        """Whether what is shown is ahead of the list, or being read anyway."""
        return self.talk.is_busy or self.talk.is_loading

    def _engines_changed(self) -> None:
        if any(status.state is EngineState.FAILED for status in self.running.items):
            self.talk.changed.emit()

    def _connected(self) -> None:
        if self.talk.id:
            self.talk.answering.leave()
            self.talk.read()

    def _happened(self, event: Event) -> None:
        if isinstance(event, ChatChanged) and event.deleted and event.chat == self.talk.id:
            self.new_chat()
