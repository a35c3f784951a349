"""What a transcript shows: one `TurnView` per message of the path, made by the model and drawn by the view."""

from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from app.core.attachments import Attachment
from app.core.chats import Message
from app.core.engines import RemedyOffer
from app.core.tool_calls import AnswerToolCall


class TroubleRemedy(StrEnum):
    """The buttons a failure can have."""

    TRY_AGAIN = "try_again"
    LOAD_AGAIN = "load_again"
    CHOOSE_MODEL = "choose_model"
    CUT_OLDEST = "cut_oldest"
    SUMMARISE = "summarise"


class AnswerTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer, or not all of it: a sentence, the cause for who wants it, and what can be done."""

    sentence: str
    hint: str = ""
    cause: str = ""
    remedies: tuple[TroubleRemedy, ...] = (TroubleRemedy.TRY_AGAIN,)
    offers: tuple[RemedyOffer, ...] = ()
    """Ways to load the model otherwise, before those: each on a button, and all together done without asking."""


class TurnProgress(msgspec.Struct, frozen=True, kw_only=True):
    """What happens before the first word, in words, and how far it is."""

    words: str
    fraction: float | None = None


@dataclass(slots=True, eq=False)
class LiveText:
    """An answer being written. The model appends, a view reads on from where it was; nothing is copied."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[str, AnswerToolCall] = field(default_factory=dict)
    """Calls of tools, by their ids."""
    attachments: list[Attachment] = field(default_factory=list)
    """Pictures that were drawn."""
    progress: TurnProgress | None = None
    length: int = 0
    """Characters of content so far: where the next delta belongs."""
    started_at: float = 0.0
    thinking_since: float | None = None
    thought_s: float | None = None
    restarts: int = 0
    """How often the thoughts were begun anew, because the stream broke before the first word."""


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the path shown, with what surrounds it."""

    message: Message
    branch: int = 1
    branches: int = 1
    live: LiveText | None = None
    trouble: AnswerTrouble | None = None
    thought_s: float | None = None
    is_busy: bool = False
    """Another answer is being written: nothing can be asked now."""
    model_title: str = ""
    """What the model that answered is called."""
    is_last: bool = False
    is_left_out: bool = False
    """Whether the last answer was made without it: the context was full."""
    is_summarised: bool = False
    """Whether a summary stood for it."""
    is_read_aloud: bool = False
    can_continue: bool = False
    """Whether it is an answer that was cut after some words."""
