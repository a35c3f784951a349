"""The Guide's answers about Roundhouse and this computer: what was looked up, what is said, what can be done."""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.documents import AnswerDocuments
from app.core.tool_calls import AnswerToolCall

GUIDE_TOOLS = "roundhouse"
"""The server that the Guide's tools belong to, where calls are shown."""
MANUAL = "roundhouse:manual"
"""The collection that the manual is, where passages name one."""
LONGEST_QUESTION = 4000
"""Characters."""


class GuideTool(StrEnum):
    """What the Guide may look up. None of it changes anything."""

    PLAN = "plan"
    ESTIMATE = "estimate"
    LIST_MODELS = "list_models"
    STATUS = "status"
    SEARCH = "search"
    MANUAL = "search_manual"


class ActionKind(StrEnum):
    """What a button of an answer does. Nothing is done before it is pressed."""

    OPEN_PAGE = "open_page"
    """Show the page `target` of the window, and have it do `task`."""
    DOWNLOAD = "download"
    """Begin to download the model `target`."""
    LOAD = "load"
    UNLOAD = "unload"


class AnswerAction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that an answer offers to do, and the command that does it in a terminal."""

    kind: ActionKind
    target: str
    title: str = ""
    """What the model or the page is called."""
    task: str = ""
    command: str = ""


class GuideSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A chapter of the manual that an answer rests on."""

    file: str
    """Below docs: "guide/chats.md"."""
    heading: str = ""


class GuideOutcome(StrEnum):
    """What became of a question."""

    ANSWERED = "answered"
    DENIED = "denied"
    """There is no such thing here, and the answer says so."""
    UNKNOWN = "unknown"
    """The Guide does not know, and says so."""


class AskGuide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask the Guide."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_QUESTION)]


class GuideAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the Guide says. `topic` names what the question was recognised as."""

    outcome: GuideOutcome
    text: str
    topic: str = ""
    calls: list[AnswerToolCall] = []
    actions: list[AnswerAction] = []
    sources: list[GuideSource] = []
    documents: AnswerDocuments = AnswerDocuments()
    """The passage of the manual that says more, or that is the answer."""
    model: str = ""
    """Which model wrote it from what it looked up; empty where none did."""

    @property
    def commands(self) -> list[str]:
        """What does in a terminal what the answer offers, each once."""
        return list(dict.fromkeys(action.command for action in self.actions if action.command))

    @property
    def markdown(self) -> str:
        """The answer where there are no buttons: its text, the commands, and the chapters."""
        commands = "\n".join(f"    {command}" for command in self.commands)
        chapters = "\n".join(f"docs/{source.file}: {source.heading}" for source in self.sources)
        return "\n\n".join(filter(None, (self.text, commands, chapters)))
