"""Conversations: a tree of messages, of which one path is shown.

Editing a message or regenerating an answer adds a sibling; nothing is overwritten. `Chat.head` is the leaf of the
path the reader was last on. Where messages were deleted, two of the same side may follow each other.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.attachments import MOST_ATTACHMENTS, Attachment
from app.core.documents import MOST_CHAT_COLLECTIONS, AnswerDocuments
from app.core.errors import BadRequest
from app.core.grammars import check_grammar
from app.core.guide import AnswerAction
from app.core.json_schemas import check_schema
from app.core.thinking import ThinkingLevel
from app.core.tool_calls import AnswerToolCall, ChatServers, ChatTools

MOST_STOPS = 16
"""Texts at which an answer ends; OpenAI's API takes four, engines any number."""
LONGEST_STOP = 200
MOST_THINKING = 1_000_000
"""Tokens; more than any context here has."""


ChatCollections = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=64)]], msgspec.Meta(max_length=MOST_CHAT_COLLECTIONS)
]


class Role(StrEnum):
    """Who speaks. The system prompt belongs to the chat, not to a message."""

    USER = "user"
    ASSISTANT = "assistant"


class MessageStatus(StrEnum):
    """How far a message has come. Anything but `generating` is final."""

    COMPLETE = "complete"
    GENERATING = "generating"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The gateway died while it was written; what had been stored by then is kept."""


class OverflowRule(StrEnum):
    """What becomes of a conversation that is longer than its model's context."""

    DEFAULT = "default"
    """As the setting says."""
    STOP = "stop"
    """It is not answered, and the person is told."""
    CUT = "cut"
    """The oldest messages are left out."""
    SUMMARISE = "summarise"
    """The model's summary stands for them."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How answers are made; None leaves the model's own default. `max_tokens` caps the answer."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    thinking: ThinkingLevel = ThinkingLevel.DEFAULT
    thinking_budget: Annotated[int, msgspec.Meta(ge=1, le=MOST_THINKING)] | None = None
    """Tokens after which thinking ends."""
    stops: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_STOP)]], msgspec.Meta(max_length=MOST_STOPS)
    ] = []
    """Texts at which an answer ends; they are not part of it."""
    json_schema: str = ""
    """What answers are held to, as it was written; empty for nothing. A grammar is in llama.cpp's form."""
    grammar: str = ""

    def fill_gaps_from(self, other: "Sampling") -> "Sampling":
        """Return this one, with the other's values where it has none; a schema takes the place of a grammar."""
        default, has_form = Sampling(), bool(self.json_schema or self.grammar)
        fallbacks = {
            name: getattr(other, name)
            for name in self.__struct_fields__
            if getattr(self, name) == getattr(default, name) and not (has_form and name in {"json_schema", "grammar"})
        }
        return msgspec.structs.replace(self, **fallbacks)

    def check_forms(self) -> None:
        """Return if answers can be held to what is asked for. Raises BadRequest, with the line that is wrong."""
        if self.json_schema and self.grammar:
            raise BadRequest(
                "Answers are held to a JSON schema or to a grammar, not to both.",
                hint="Take one of them out.",
                code="invalid_value",
            )
        if self.json_schema:
            check_schema(self.json_schema)
        if self.grammar:
            check_grammar(self.grammar)


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer cost, in seconds and tokens. `ttft_s` runs from request to first token, loading included."""

    ttft_s: float | None = None
    load_s: float | None = None
    total_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One node of the tree. `id` and `parent` are opaque strings; times are Unix seconds."""

    id: str
    chat: str
    parent: str | None
    role: Role
    content: str
    reasoning: str = ""
    status: MessageStatus = MessageStatus.COMPLETE
    model: str = ""
    engine: str = ""
    timings: Timings | None = None
    finish_reason: str = ""
    error: str = ""
    created_at: float = 0.0
    attachments: list[Attachment] = []
    """Files of a question, and pictures that were drawn for an answer, in the order in which they were added."""
    is_edited: bool = False
    """Whether a person wrote this version of an answer, from the model's."""
    left_out: int = 0
    """How many messages of its path, from the first on, an answer was made without: the context was full."""
    summary: str = ""
    """What stood for them."""
    calls: list[AnswerToolCall] = []
    """Calls of tools in an answer, in the order in which they were made."""
    documents: AnswerDocuments = AnswerDocuments()
    """Passages of documents that an answer was given."""
    actions: list[AnswerAction] = []
    """What an answer of the Guide offers to do."""


class ChatSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A chat as a list shows it. `snippet` is the text a search matched, matches between U+0002 and U+0003.

    `hit` is the message that a search matched; empty where the title alone did. With the name of a `file`, the text of
    that file of the message has the words.
    """

    id: str
    title: str
    model: str = ""
    created_at: float
    updated_at: float
    message_count: int = 0
    snippet: str = ""
    hit: str = ""
    file: str = ""
    is_pinned: bool = False
    folder: str = ""
    tags: list[str] = []


class ChatShelf(StrEnum):
    """Where chats are."""

    CURRENT = "current"
    ARCHIVED = "archived"
    TRASH = "trash"
    """Deleted, and kept for 30 days."""


LONGEST_NAME = 80
"""Characters of a folder's name."""
LONGEST_TAG = 40
MOST_TAGS = 20
"""Of one chat."""
MOST_FOLDER_FILES = 20


class ChatFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of chats, and what a new chat in it begins with: its model, its system prompt, its files."""

    id: str
    name: str
    model: str = ""
    system_prompt: str = ""
    files: list[Attachment] = []
    chat_count: int = 0
    """Of chats that are neither archived nor in the trash."""
    created_at: float = 0.0


class NewChatFolder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a new folder. `files` are ids of attachments."""

    name: str
    model: str = ""
    system_prompt: str = ""
    files: Annotated[list[str], msgspec.Meta(max_length=MOST_FOLDER_FILES)] = []


class ChatFolderPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change some properties of a folder; what is None stays. `files` are all that it has from now on."""

    name: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    files: Annotated[list[str], msgspec.Meta(max_length=MOST_FOLDER_FILES)] | None = None


class TagCount(msgspec.Struct, frozen=True, kw_only=True):
    """A tag, and how many chats that are not in the trash have it."""

    tag: str
    count: int


class Chat(msgspec.Struct, frozen=True, kw_only=True):
    """A whole conversation: every message of the tree in creation order, and where the reader is."""

    id: str
    title: str
    model: str
    system_prompt: str
    sampling: Sampling
    head: str | None
    created_at: float
    updated_at: float
    messages: list[Message]
    is_pinned: bool = False
    is_archived: bool = False
    folder: str = ""
    """Id of the folder it is in; empty for a chat in none."""
    tags: list[str] = []
    overflow: OverflowRule = OverflowRule.DEFAULT
    tools: ChatTools = ChatTools()
    collections: ChatCollections = []
    """Ids of the collections in which passages are looked up for its questions."""


class NewChat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a new chat; an empty title is filled from the first question.

    In a folder, no `model` is the folder's, and a `system_prompt` of null is the folder's.
    """

    title: str = ""
    model: str = ""
    system_prompt: str | None = None
    sampling: Sampling = Sampling()
    folder: str = ""
    tags: list[str] = []
    overflow: OverflowRule = OverflowRule.DEFAULT
    tools: ChatTools = ChatTools()
    collections: ChatCollections = []


class ChatPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Change some properties of a chat; what is None stays. `head` moves the reader to another branch."""

    title: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    sampling: Sampling | None = None
    head: str | None = None
    is_pinned: bool | None = None
    is_archived: bool | None = None
    folder: str | None = None
    """Where to move it; an empty one takes it out of its folder."""
    tags: list[str] | None = None
    """All of its tags from now on."""
    overflow: OverflowRule | None = None
    tool_servers: ChatServers | None = None
    """The servers whose tools the model may call; what was decided of single tools stays."""
    asks_again: bool = False
    """Whether what was decided of tools in this chat is forgotten."""
    collections: ChatCollections | None = None


class NewTurn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask and be answered.

    With `content`, a user message is added below `parent` (None: at the root) and answered; it may be empty if there
    are attachments. Without, `parent` must be a user message and gets one more answer: a regeneration. With `continues`
    alone, that answer is gone on with: a version beside it begins with its text.
    """

    parent: str | None = None
    content: str | None = None
    model: str = ""
    """Empty: the chat's model."""
    attachments: Annotated[list[str], msgspec.Meta(max_length=MOST_ATTACHMENTS)] = []
    """Ids of files for the new question. Those of another question are used again, as when it is edited."""
    continues: str | None = None
    """An answer that was cut. Its model goes on with it, unless `model` names another."""
    has_folder_files: bool = False
    """Whether the files of the chat's folder are among `attachments` already, as far as they are wanted.

    Otherwise the first question of a chat brings them along too.
    """


class NewVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add another version of a message, with this text and the same files, and ask nobody. The reader moves there."""

    content: str


class ForkChat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Begin a chat that has a copy of everything down to `message`, and the same settings."""

    message: str
    title: str = ""
    """Empty: the title of the chat it comes from."""


class ChatImport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Add chats that were written elsewhere, or here before; their ids tell which are there already.

    Messages stand after those they follow. Their attachments are as an upload answered, and belong to them from then
    on.
    """

    chats: list[Chat]
    folders: list["ChatFolder"] = []
    """Those that chats name, with their files uploaded before; one that is there already stays as it is."""


class ChatImportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of them. `extended` were there with fewer messages, `deleted` are in the trash and stay there."""

    added: int = 0
    extended: int = 0
    unchanged: int = 0
    deleted: int = 0


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an export wrote, and the names of attached files that are not in it."""

    chats: int = 0
    path: str = ""
    folders: int = 0
    left_out: list[str] = []


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an import came to: `ChatImportResult` over all requests, and what could not be taken over."""

    added: int = 0
    extended: int = 0
    unchanged: int = 0
    deleted: int = 0
    folders: int = 0
    """Folders of chats that were added."""
    unreadable: int = 0
    """Conversations that could not be read, or in which nothing is said."""
    left_out: int = 0
    """Pictures and files."""
    programs: list[str] = []


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a `NewTurn` created. The answer is `generating`; follow it on its stream."""

    question: Message | None
    answer: Message


class AnswerDelta(msgspec.Struct, frozen=True, kw_only=True, tag="delta"):
    """Text to append. `offset` is the length in characters of the content before it, so a reader can resume."""

    content: str = ""
    reasoning: str = ""
    offset: int = 0


class AnswerProgress(msgspec.Struct, frozen=True, kw_only=True, tag="progress"):
    """Nothing to read yet: the model is loading, waiting, or reading the prompt. `fraction` is 0..1 or None."""

    stage: str
    fraction: float | None = None


class AnswerCallChanged(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """A tool is called, or a call has come further. One with an id that was told before takes its place."""

    call: AnswerToolCall
    attachments: list[Attachment] = []
    """The files that it made."""


class AnswerDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    """The last event of an answer's stream: the message as stored."""

    message: Message


AnswerEvent = AnswerDelta | AnswerProgress | AnswerCallChanged | AnswerDone
