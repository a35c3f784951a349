"""The open chat: its messages, what is being asked and answered, and what the reader can do with it.

Nothing is assumed to have happened before the gateway says so, except that a question shows at once as asked.
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.client.http import segment
from app.core.chats import Chat, ChatPatch, Message, MessageStatus, NewChat, NewTurn, Role, Sampling, Turn
from app.core.engines import EngineStatus, RemedyOffer
from app.core.errors import ErrorBody
from app.core.models import LoadModel, LoadOptions
from app.core.settings import SettingInfo
from app.gui.net.api import Call, GatewayApi
from app.gui.screens.chat.answering import Answering
from app.gui.screens.chat.tree import Tree
from app.gui.screens.chat.troubles import trouble_from, trouble_of
from app.gui.screens.chat.turns import Live, Progress, Trouble, TurnView

_ASKED, _AWAITED = "asked", "awaited"
"""Names of the two messages shown until the gateway has stored them."""
_ENDED_BADLY = frozenset({MessageStatus.FAILED, MessageStatus.INTERRUPTED})


class Talk(QObject):
    """One chat at a time. `changed`: other messages or states; `grew`: text of one answer was appended."""

    changed = Signal()
    opened = Signal()
    """Another chat is shown."""
    grew = Signal(str)
    created = Signal(object)
    """The `Chat` that the first question made."""
    refused = Signal(object, str)
    """A question was not taken: `ErrorBody` and the text, to put back."""
    failed = Signal(object)
    """Something else did not work: `ErrorBody`."""

    def __init__(self, api: GatewayApi, parent: QObject, engine_of: Callable[[str], EngineStatus | None]) -> None:
        super().__init__(parent)
        self.id = ""
        self.title = ""
        self.model = ""
        self.system_prompt = ""
        self.sampling = Sampling()
        self.editing: str | None = None
        self.is_loading = False
        self.error: ErrorBody | None = None
        """Why the chat could not be read."""
        self.answering = Answering(api, self)
        self._api, self._engine_of = api, engine_of
        self._tree = Tree([], None)
        self._asking: str | None = None
        self._parent_of_asking: str | None = None
        self._waiting = Live(progress=Progress(words="Waiting for the model…"))
        self._troubles: dict[str, Trouble] = {}
        self._reading: Call | None = None
        self.answering.grew.connect(self.grew)
        self.answering.moved.connect(self.grew)
        self.answering.ended.connect(self._answered)
        self.answering.broke.connect(self._broke)

    @property
    def is_new(self) -> bool:
        """Whether nothing was asked yet."""
        return not self.id

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited or being written."""
        return self._asking is not None or bool(self.answering)

    @property
    def count(self) -> int:
        """How many messages the chat has, all versions counted."""
        return len(self._tree)

    def path(self) -> list[Message]:
        """Return the messages shown."""
        return self._tree.path()

    def turns(self) -> list[TurnView]:
        """Return what the transcript shows."""
        path, is_busy = self._tree.path(), self.is_busy
        if self._asking is not None:
            kept = [message.id for message in path]
            at = kept.index(self._parent_of_asking) + 1 if self._parent_of_asking in kept else 0
            path = path[:at]
        views = [self._view(message, is_busy=is_busy) for message in path]
        return views if self._asking is None else [*views, *self._awaited(self._asking)]

    def start(self, model: str) -> None:
        """Show a new, empty chat."""
        self._leave()
        self._take(
            Chat(
                id="",
                title="",
                model=model,
                system_prompt="",
                sampling=Sampling(),
                head=None,
                created_at=0,
                updated_at=0,
                messages=[],
            )
        )
        self.opened.emit()

    def open(self, chat: str) -> None:
        """Show a chat."""
        self._leave()
        self.id, self.title, self.is_loading = chat, "", True
        self._tree = Tree([], None)
        self.opened.emit()
        self.read()

    def read(self) -> None:
        """Read the open chat anew."""
        if not self.id:
            return
        if self._reading is not None:
            self._reading.cancel()
        self._reading = self._api.get(f"/chats/{segment(self.id)}", Chat, self._take, self._unread)

    def send(self, text: str) -> None:
        """Ask; while a question is edited, as another version of it."""
        parent = self._tree.head
        if self.editing is not None:
            edited = self._tree.get(self.editing)
            parent = edited.parent if edited else parent
        self.editing = None
        self._asking, self._parent_of_asking = text, parent
        self.changed.emit()
        if self.is_new:
            body = NewChat(model=self.model, system_prompt=self.system_prompt, sampling=self.sampling)
            self._api.post("/chats", body, kind=Chat, then=self._made, failed=self._refuse)
        else:
            self._ask(NewTurn(parent=parent, content=text))

    def regenerate(self, answer: str) -> None:
        """Have a question answered once more."""
        message = self._tree.get(answer)
        if message is not None and message.parent is not None and not self.is_busy:
            self._ask(NewTurn(parent=message.parent))

    def load_otherwise(self, answer: str, kind: str) -> None:
        """Load the model as a remedy of its failure says, then have the question answered once more."""
        message = self._tree.get(answer)
        offer = next((one for one in self._offers(message) if one.kind == kind), None)
        if message is not None and offer is not None and not self.is_busy:
            options = msgspec.convert(offer.options, LoadOptions)
            body = LoadModel(model=message.model, options=options, wait=False)
            self._api.post(
                "/load", body, kind=EngineStatus, then=lambda _: self.regenerate(answer), failed=self.failed.emit
            )

    def mend_from_now_on(self, answer: str) -> None:
        """Have what would mend a failure done without asking, this time too."""
        message = self._tree.get(answer)
        settings = {f"engine.mend_{offer.kind}": True for offer in self._offers(message)}
        if settings and not self.is_busy:
            self._api.patch(
                "/settings",
                settings,
                kind=list[SettingInfo],
                then=lambda _: self.regenerate(answer),
                failed=self.failed.emit,
            )

    def _offers(self, message: Message | None) -> tuple[RemedyOffer, ...]:
        trouble = trouble_of(message, self._engine_of(message.model)) if message is not None else None
        return trouble.offers if trouble is not None else ()

    def stop(self) -> None:
        """End what is being written, keeping what is there."""
        for message in self.answering.ids():
            self._api.post(
                f"{self._path()}/answers/{segment(message)}/stop",
                None,
                kind=Message,
                then=lambda _: None,
                failed=self.failed.emit,
            )

    def edit(self, question: str) -> str:
        """Begin to edit a question; return its text."""
        message = self._tree.get(question)
        self.editing = question if message else None
        self.changed.emit()
        return message.content if message else ""

    def stop_editing(self) -> None:
        """Cancel editing."""
        self.editing = None
        self.changed.emit()

    def step(self, message: str, by: int) -> None:
        """Show another version of a message."""
        leaf = self._tree.beside(message, by)
        if leaf is not None and not self.is_busy:
            self._tree.head = leaf
            self.changed.emit()
            self._patch(ChatPatch(head=leaf))

    def choose_model(self, model: str) -> None:
        """Have the next answers written by another model."""
        self.model = model
        self.changed.emit()
        self._patch(ChatPatch(model=model))

    def set_system_prompt(self, text: str) -> None:
        """Say how the model should behave in this chat."""
        if text != self.system_prompt:
            self.system_prompt = text
            self.changed.emit()
            self._patch(ChatPatch(system_prompt=text))

    def set_sampling(self, sampling: Sampling) -> None:
        """Choose how the next words are picked."""
        if sampling != self.sampling:
            self.sampling = sampling
            self.changed.emit()
            self._patch(ChatPatch(sampling=sampling))

    def text_of(self, message: str) -> str:
        """Return a message as it was written."""
        found = self._tree.get(message)
        return found.content if found else ""

    def _view(self, message: Message, *, is_busy: bool) -> TurnView:
        versions = self._tree.versions(message.id)
        trouble = self._troubles.get(message.id)
        if trouble is None and message.status in _ENDED_BADLY:
            trouble = trouble_of(message, self._engine_of(message.model))
        return TurnView(
            message=message,
            branch=versions.index(message.id) + 1,
            branches=len(versions),
            live=self.answering.live(message.id),
            trouble=trouble,
            thought_s=self.answering.thought_s.get(message.id) or guessed_thought(message),
            is_busy=is_busy,
        )

    def _awaited(self, text: str) -> list[TurnView]:
        asked = Message(id=_ASKED, chat=self.id, parent=None, role=Role.USER, content=text)
        answer = Message(
            id=_AWAITED, chat=self.id, parent=_ASKED, role=Role.ASSISTANT, content="", status=MessageStatus.GENERATING
        )
        return [TurnView(message=asked, is_busy=True), TurnView(message=answer, live=self._waiting, is_busy=True)]

    def _leave(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self.answering.leave()
        self._asking, self.editing, self.error, self.is_loading = None, None, None, False
        self._troubles.clear()

    def _take(self, chat: Chat) -> None:
        self._reading, self.is_loading, self.error = None, False, None
        self.id, self.title, self.model = chat.id, chat.title, chat.model
        self.system_prompt, self.sampling = chat.system_prompt, chat.sampling
        self._tree = Tree.of(chat)
        for message in chat.messages:
            if message.status is MessageStatus.GENERATING:
                self.answering.follow(message)
        self.changed.emit()

    def _unread(self, error: ErrorBody) -> None:
        self._reading, self.is_loading, self.error = None, False, error
        self.changed.emit()

    def _made(self, chat: Chat) -> None:
        self.id, self.title = chat.id, chat.title
        self.created.emit(chat)
        if self._asking is not None:
            self._ask(NewTurn(parent=None, content=self._asking))

    def _ask(self, turn: NewTurn) -> None:
        chat = self.id

        def begun(turn: Turn) -> None:
            if chat == self.id:
                self._begun(turn)

        def refused(error: ErrorBody) -> None:
            if chat == self.id:
                self._refuse(error)

        self._api.post(f"{self._path()}/turns", turn, kind=Turn, then=begun, failed=refused)

    def _begun(self, turn: Turn) -> None:
        self._asking = None
        if turn.question is not None:
            self._tree.put(turn.question)
        self._tree.put(turn.answer)
        self._tree.head = turn.answer.id
        self.answering.follow(turn.answer)
        self.changed.emit()

    def _refuse(self, error: ErrorBody) -> None:
        text, self._asking = self._asking, None
        self.changed.emit()
        self.refused.emit(error, text or "")

    def _answered(self, message: Message) -> None:
        self._tree.put(message)
        self.changed.emit()

    def _broke(self, message: str, error: ErrorBody) -> None:
        found = self._tree.get(message)
        if found is not None:
            self._tree.put(replace(found, status=MessageStatus.FAILED))
            self._troubles[message] = trouble_from(error)
        self.changed.emit()

    def _patch(self, patch: ChatPatch) -> None:
        if self.id:
            self._api.patch(self._path(), patch, kind=Chat, then=lambda _: None, failed=self.failed.emit)

    def _path(self) -> str:
        return f"/chats/{segment(self.id)}"


def guessed_thought(message: Message) -> float | None:
    """Return how long an answer thought, from its share of the text, when nobody watched."""
    timings = message.timings
    if not message.reasoning or timings is None or not timings.decode_tokens_per_s or not timings.completion_tokens:
        return None
    share = len(message.reasoning) / (len(message.reasoning) + len(message.content))
    return share * timings.completion_tokens / timings.decode_tokens_per_s
