"""The open chat: its messages, what is being asked and answered, and what the reader can do with it.

Nothing is assumed to have happened before the gateway says so, except that a question shows at once as asked.
"""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.core.api import SettingInfo
from app.core.attachments import Attachment
from app.core.chats import (
    Chat,
    ChatFolder,
    ChatPatch,
    Message,
    MessageStatus,
    NewChat,
    NewTurn,
    OverflowRule,
    Role,
    Sampling,
    Turn,
)
from app.core.engines import EngineStatus, RemedyOffer
from app.core.errors import ErrorBody
from app.core.guide import AnswerAction
from app.core.models import LoadModel, LoadOptions
from app.core.tool_calls import ChatTools, DecideToolCall, ToolDecision
from app.core.translation import tr
from app.gui.net.api import GatewayApi, GatewayCall
from app.gui.screens.chat.answer_streams import AnswerStreams
from app.gui.screens.chat.answer_troubles import trouble_from, trouble_of
from app.gui.screens.chat.message_tree import MessageTree, estimate_thought_s, was_cut
from app.gui.screens.chat.turns import AnswerTrouble, LiveText, TurnProgress, TurnView

_NO_TOOLS = ChatTools()
_PENDING_QUESTION, _PENDING_ANSWER = "asked", "awaited"
"""Names of the two messages shown until the gateway has stored them."""


class Conversation(QObject):
    """One chat at a time. `changed`: other messages or states; `text_appended`: text of one answer was appended."""

    changed = Signal()
    chat_opened = Signal()
    """Another chat is shown."""
    message_requested = Signal(str)
    """The message for which the chat was opened, now that it is read."""
    text_appended = Signal(str)
    chat_created = Signal(object)
    """The `Chat` that the first question made."""
    question_refused = Signal(object, str)
    """A question was not taken: `ErrorBody` and the text, to put back."""
    files_returned = Signal(list)
    """The `Attachment`s of a question that was not taken."""
    failed = Signal(object)
    """Something else did not work: `ErrorBody`."""

    def __init__(self, api: GatewayApi, parent: QObject, engine_of: Callable[[str], EngineStatus | None]) -> None:
        super().__init__(parent)
        self.id = ""
        self.title = ""
        self.model = ""
        self.system_prompt = ""
        self.folder = ""
        """Id of the folder that the chat is in, or a new one will be."""
        self.sampling = Sampling()
        self.overflow = OverflowRule.DEFAULT
        self.tools = ChatTools()
        self._has_usual_tools = False
        """Whether the tools are those of every new chat: nobody chose others for this one."""
        self.collections: list[str] = []
        """Ids of the collections in which passages are looked up."""
        self.comparing: str | None = None
        """The question whose answers are shown side by side."""
        self._other_models: list[str] = []
        self.editing: str | None = None
        self.is_loading = False
        self.error: ErrorBody | None = None
        """Why the chat could not be read."""
        self.answer_streams = AnswerStreams(api, self)
        self.title_of: Callable[[str], str] = str
        """What a model is called, by its name."""
        self._api, self._engine_of = api, engine_of
        self._tree = MessageTree([], None)
        self._pending_text: str | None = None
        self._pending_parent: str | None = None
        self._pending_files: list[Attachment] = []
        self._pending_live = LiveText(progress=TurnProgress(words=tr("Waiting for the model…")))
        self._troubles: dict[str, AnswerTrouble] = {}
        self._fetch_call: GatewayCall | None = None
        self._goal = ""
        self.answer_streams.text_appended.connect(self.text_appended)
        self.answer_streams.progress_changed.connect(self.text_appended)
        self.answer_streams.answer_ended.connect(self._store_answer)
        self.answer_streams.stream_broke.connect(self._mark_broken)

    @property
    def is_new(self) -> bool:
        """Whether nothing was asked yet."""
        return not self.id

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited or being written."""
        return self._pending_text is not None or bool(self.answer_streams)

    @property
    def count(self) -> int:
        """How many messages the chat has, all versions counted."""
        return len(self._tree)

    def message_path(self) -> list[Message]:
        """Return the messages shown."""
        return self._tree.path_to_head()

    def list_turns(self) -> list[TurnView]:
        """Return what the transcript shows."""
        path, is_busy = self._tree.path_to_head(), self.is_busy
        omitting_message = next((message for message in reversed(path) if message.role is Role.ASSISTANT), None)
        left_out = {message.id for message in path[: omitting_message.left_out]} if omitting_message else set[str]()
        if self._pending_text is not None:
            message_ids = [message.id for message in path]
            at = message_ids.index(self._pending_parent) + 1 if self._pending_parent in message_ids else 0
            path = path[:at]
        views = [self._make_view(message, is_busy=is_busy) for message in path]
        if omitting_message is not None and left_out:
            is_summarised = bool(omitting_message.summary)
            views = [
                replace(view, is_left_out=view.message.id in left_out, is_summarised=is_summarised) for view in views
            ]
        return views if self._pending_text is None else [*views, *self._make_pending_turns(self._pending_text)]

    def start_chat(self, model: str, folder: ChatFolder | None = None, tools: ChatTools = _NO_TOOLS) -> None:
        """Show a new, empty chat, with the system prompt of the folder that it will be in."""
        self._leave_chat()
        self._set_chat(
            Chat(
                id="",
                title="",
                model=model,
                system_prompt=folder.system_prompt if folder else "",
                folder=folder.id if folder else "",
                sampling=Sampling(),
                head=None,
                created_at=0,
                updated_at=0,
                messages=[],
                tools=tools,
            )
        )
        self._has_usual_tools = True
        self.chat_opened.emit()

    def open_chat(self, chat: str, message: str = "") -> None:
        """Show a chat, and a message of it on whichever branch that is."""
        self._leave_chat()
        self._goal = message
        self.id, self.title, self.is_loading = chat, "", True
        self._tree = MessageTree([], None)
        self.chat_opened.emit()
        self.fetch_chat()

    def show_message(self, message: str) -> None:
        """Show the branch that a message is on, and that message."""
        if self._tree.get(message) is None:
            return
        if message not in {item.id for item in self._tree.path_to_head()}:
            self._tree.head = self._tree.newest_leaf(message)
            self.changed.emit()
        self.message_requested.emit(message)

    def fetch_chat(self) -> None:
        """Read the open chat anew."""
        if not self.id:
            return
        if self._fetch_call is not None:
            self._fetch_call.cancel()
        self._fetch_call = self._api.get(f"/chats/{quote_segment(self.id)}", Chat, self._set_chat, self._store_error)

    def send(self, text: str, attachments: Sequence[Attachment] = ()) -> None:
        """Ask, with files that are there already; while a question is edited, as another version of it."""
        parent = self._tree.head
        if self.editing is not None:
            edited_message = self._tree.get(self.editing)
            parent = edited_message.parent if edited_message else parent
        self.editing = None
        self._pending_text, self._pending_parent, self._pending_files = text, parent, list(attachments)
        self.changed.emit()
        if self.is_new:
            prompt = self.system_prompt if self.system_prompt or self.folder else None
            body = NewChat(
                model=self.model,
                system_prompt=prompt,
                sampling=self.sampling,
                folder=self.folder,
                tools=self.tools,
                collections=self.collections,
            )
            self._api.post("/chats", body, kind=Chat, then=self._adopt_chat, on_error=self._refuse_question)
        else:
            self._post_turn(self._pending_turn(parent, text))

    def ask_models(self, models: Sequence[str]) -> None:
        """Have the question that is sent next answered by each of these models, side by side."""
        self._other_models = list(models)

    def compare_versions(self, answer: str) -> None:
        """Show the answers to a question side by side."""
        message = self._tree.get(answer)
        self.comparing = message.parent if message is not None else None
        self.changed.emit()

    def stop_comparing(self) -> None:
        """Show the conversation again."""
        self.comparing = None
        self.changed.emit()

    def keep_answer(self, answer: str) -> None:
        """Go on with one of the answers side by side, and with its model."""
        message = self._tree.get(answer)
        if message is not None and not self.is_busy:
            self.comparing = None
            self._tree.head = self._tree.newest_leaf(answer)
            self.model = message.model
            self.changed.emit()
            self._patch_chat(ChatPatch(head=self._tree.head, model=message.model))

    def list_compared(self) -> list[TurnView]:
        """Return the answers that stand side by side."""
        versions = self._tree.children_of(self.comparing) if self.comparing is not None else []
        return [self._make_view(version, is_busy=self.is_busy) for version in versions]

    def regenerate(self, message: str, model: str = "") -> None:
        """Have a question answered once more, or the question of an answer; by the chat's model, or another."""
        entry = self._tree.get(message)
        question = entry and (entry.id if entry.role is Role.USER else entry.parent)
        if question and not self.is_busy:
            self._post_turn(NewTurn(parent=question, model=model))

    def continue_answer(self, answer: str) -> None:
        """Have an answer that was cut gone on with."""
        if not self.is_busy:
            self._post_turn(NewTurn(continues=answer))

    def load_with_remedy(self, answer: str, kind: str) -> None:
        """Load the model as a remedy of its failure says, then have the question answered once more."""
        message = self._tree.get(answer)
        offer = next((candidate for candidate in self._remedy_offers(message) if candidate.kind == kind), None)
        if message is not None and offer is not None and not self.is_busy:
            options = msgspec.convert(offer.options, LoadOptions)
            body = LoadModel(model=message.model, options=options, wait=False)
            self._api.post(
                "/load", body, kind=EngineStatus, then=lambda _: self.regenerate(answer), on_error=self.failed.emit
            )

    def allow_auto_remedies(self, answer: str) -> None:
        """Have what would mend a failure done without asking, this time too."""
        message = self._tree.get(answer)
        settings = {f"engine.mend_{offer.kind}": True for offer in self._remedy_offers(message)}
        if settings and not self.is_busy:
            self._api.patch(
                "/settings",
                settings,
                kind=list[SettingInfo],
                then=lambda _: self.regenerate(answer),
                on_error=self.failed.emit,
            )

    def _remedy_offers(self, message: Message | None) -> tuple[RemedyOffer, ...]:
        trouble = trouble_of(message, self._engine_of(message.model)) if message is not None else None
        return trouble.offers if trouble is not None else ()

    def stop_answers(self) -> None:
        """End what is being written, keeping what is there."""
        for message in self.answer_streams.message_ids():
            self._api.post(
                f"{self._chat_path()}/answers/{quote_segment(message)}/stop",
                None,
                kind=Message,
                then=lambda _: None,
                on_error=self.failed.emit,
            )

    def start_editing(self, question: str) -> str:
        """Begin to edit a question; return its text."""
        message = self._tree.get(question)
        self.editing = question if message else None
        self.changed.emit()
        return message.content if message else ""

    def stop_editing(self) -> None:
        """Cancel editing."""
        self.editing = None
        self.changed.emit()

    def show_version(self, message: str, by: int) -> None:
        """Show another version of a message."""
        leaf = self._tree.version_beside(message, by)
        if leaf is not None and not self.is_busy:
            self._tree.head = leaf
            self.changed.emit()
            self._patch_chat(ChatPatch(head=leaf))

    def choose_model(self, model: str) -> None:
        """Have the next answers written by another model."""
        self.model = model
        self.changed.emit()
        self._patch_chat(ChatPatch(model=model))

    def set_system_prompt(self, text: str) -> None:
        """Say how the model should behave in this chat."""
        if text != self.system_prompt:
            self.system_prompt = text
            self.changed.emit()
            self._patch_chat(ChatPatch(system_prompt=text))

    def set_tool_servers(self, servers: list[str]) -> None:
        """Choose whose tools the model of this chat may call."""
        if servers != self.tools.servers:
            self._has_usual_tools = False
            self.tools = replace(self.tools, servers=servers)
            self.changed.emit()
            self._patch_chat(ChatPatch(tool_servers=servers))

    def forget_permissions(self) -> None:
        """Have every tool ask again in this chat."""
        self.tools = replace(self.tools, permissions=[])
        self.changed.emit()
        self._patch_chat(ChatPatch(asks_again=True))

    def set_collections(self, collections: list[str]) -> None:
        """Choose in which collections passages are looked up for this chat's questions."""
        if collections != self.collections:
            self.collections = collections
            self.changed.emit()
            self._patch_chat(ChatPatch(collections=collections))

    def use_usual_tools(self, tools: ChatTools) -> None:
        """Give a chat that is still empty the tools of every new chat, unless others were chosen for it."""
        if self.is_new and self._has_usual_tools and tools != self.tools:
            self.tools = tools
            self.changed.emit()

    def decide_call(self, answer: str, call: str, decision: ToolDecision) -> None:
        """Say whether a tool may be called that an answer waits for."""
        self._api.post(
            f"{self._chat_path()}/answers/{quote_segment(answer)}/calls/{quote_segment(call)}",
            DecideToolCall(decision=decision),
            kind=Message,
            then=lambda _: None,
            on_error=self.failed.emit,
        )

    def set_overflow(self, rule: OverflowRule) -> None:
        """Choose what becomes of this chat when its model's context is full."""
        if rule is not self.overflow:
            self.overflow = rule
            self.changed.emit()
            self._patch_chat(ChatPatch(overflow=rule))

    def answer_shortened(self, answer: str, rule: OverflowRule) -> None:
        """Have a question answered whose conversation was too long, in this way from now on."""

        def answer_again(_: Chat) -> None:
            self.overflow = rule
            self.regenerate(answer)

        if not self.is_busy:
            patch = ChatPatch(overflow=rule)
            self._api.patch(self._chat_path(), patch, kind=Chat, then=answer_again, on_error=self.failed.emit)

    def set_sampling(self, sampling: Sampling) -> None:
        """Choose how the next words are picked."""
        if sampling != self.sampling:
            self.sampling = sampling
            self.changed.emit()
            self._patch_chat(ChatPatch(sampling=sampling))

    def answer_in_edit(self) -> Message | None:
        """Return the answer that is being edited, if it is one of the model's."""
        message = self._tree.get(self.editing or "")
        return message if message is not None and message.role is Role.ASSISTANT else None

    def find_message(self, message: str) -> Message | None:
        """Return a message of this chat."""
        return self._tree.get(message)

    def actions_of(self, message: str) -> list[AnswerAction]:
        """Return what an answer of the Guide offers to do."""
        entry = self._tree.get(message)
        return entry.actions if entry else []

    def text_of(self, message: str) -> str:
        """Return a message as it was written."""
        entry = self._tree.get(message)
        return entry.content if entry else ""

    def _make_view(self, message: Message, *, is_busy: bool) -> TurnView:
        versions = self._tree.versions_of(message.id)
        trouble = self._troubles.get(message.id)
        if trouble is None:
            trouble = trouble_of(message, self._engine_of(message.model))
        return TurnView(
            message=message,
            branch=versions.index(message.id) + 1,
            branches=len(versions),
            live=self.answer_streams.find_live(message.id),
            trouble=trouble,
            thought_s=self.answer_streams.thought_s.get(message.id) or estimate_thought_s(message),
            is_busy=is_busy,
            model_title=self.title_of(message.model) if message.model else "",
            is_last=message.id == self._tree.head,
            can_continue=was_cut(message),
        )

    def _make_pending_turns(self, text: str) -> list[TurnView]:
        question = Message(
            id=_PENDING_QUESTION,
            chat=self.id,
            parent=None,
            role=Role.USER,
            content=text,
            attachments=self._pending_files,
        )
        answer = Message(
            id=_PENDING_ANSWER,
            chat=self.id,
            parent=_PENDING_QUESTION,
            role=Role.ASSISTANT,
            content="",
            status=MessageStatus.GENERATING,
        )
        return [
            TurnView(message=question, is_busy=True),
            TurnView(message=answer, live=self._pending_live, is_busy=True),
        ]

    def _leave_chat(self) -> None:
        if self._fetch_call is not None:
            self._fetch_call.cancel()
        self.answer_streams.leave_all()
        self._pending_text, self.editing, self.error, self.is_loading = None, None, None, False
        self.comparing, self._other_models = None, []
        self._pending_files = []
        self._troubles.clear()

    def _set_chat(self, chat: Chat) -> None:
        self._fetch_call, self.is_loading, self.error = None, False, None
        self.id, self.title, self.model = chat.id, chat.title, chat.model
        self.system_prompt, self.sampling = chat.system_prompt, chat.sampling
        self.folder, self.overflow, self.tools = chat.folder, chat.overflow, chat.tools
        self.collections = list(chat.collections)
        self._tree = MessageTree.from_chat(chat)
        for message in chat.messages:
            if message.status is MessageStatus.GENERATING:
                self.answer_streams.follow(message)
        self.changed.emit()
        if self._goal:
            goal, self._goal = self._goal, ""
            self.show_message(goal)

    def _store_error(self, error: ErrorBody) -> None:
        self._fetch_call, self.is_loading, self.error = None, False, error
        self.changed.emit()

    def _adopt_chat(self, chat: Chat) -> None:
        self.id, self.title = chat.id, chat.title
        self.chat_created.emit(chat)
        if self._pending_text is not None:
            self._post_turn(self._pending_turn(None, self._pending_text))

    def _pending_turn(self, parent: str | None, text: str) -> NewTurn:
        files = [file.id for file in self._pending_files]
        model = self._other_models.pop(0) if self._other_models else ""
        return NewTurn(parent=parent, content=text, model=model, attachments=files, has_folder_files=bool(self.folder))

    def _post_turn(self, turn: NewTurn) -> None:
        chat = self.id

        def accept_turn(turn: Turn) -> None:
            if chat == self.id:
                self._begin_turn(turn)

        def reject_turn(error: ErrorBody) -> None:
            if chat == self.id:
                self._refuse_question(error)

        self._api.post(f"{self._chat_path()}/turns", turn, kind=Turn, then=accept_turn, on_error=reject_turn)

    def _begin_turn(self, turn: Turn) -> None:
        self._pending_text, self._pending_files = None, []
        if turn.question is not None:
            self._tree.put(turn.question)
        self._tree.put(turn.answer)
        self._tree.head = turn.answer.id
        self.answer_streams.follow(turn.answer)
        self.changed.emit()
        self._ask_other_models(turn.answer)

    def _ask_other_models(self, answer: Message) -> None:
        """Have the models that are left answer the same question, at once where memory allows that."""
        models, self._other_models = self._other_models, []
        if models and answer.parent is not None:
            self.comparing = answer.parent
            for model in models:
                self._post_turn(NewTurn(parent=answer.parent, model=model))

    def _refuse_question(self, error: ErrorBody) -> None:
        self._other_models = []
        text, self._pending_text = self._pending_text, None
        files, self._pending_files = self._pending_files, []
        if text is not None and files:
            self.files_returned.emit(files)
        self.changed.emit()
        self.question_refused.emit(error, text or "")

    def _store_answer(self, message: Message) -> None:
        self._tree.put(message)
        self.changed.emit()
        if message.calls:
            self.fetch_chat()  # what was decided of its tools belongs to the chat

    def _mark_broken(self, message: str, error: ErrorBody) -> None:
        answer = self._tree.get(message)
        if answer is not None:
            self._tree.put(replace(answer, status=MessageStatus.FAILED))
            self._troubles[message] = trouble_from(error)
        self.changed.emit()

    def _patch_chat(self, patch: ChatPatch) -> None:
        if self.id:
            self._api.patch(self._chat_path(), patch, kind=Chat, then=lambda _: None, on_error=self.failed.emit)

    def _chat_path(self) -> str:
        return f"/chats/{quote_segment(self.id)}"
