"""Calls of tools in a chat's answers: what the model wished for, what a person decided, and what came of it."""

from enum import StrEnum
from typing import Annotated

import msgspec

from app.core.mcp import McpPermission, Name


class ToolCallState(StrEnum):
    """How far a call has come. Anything but `waiting` and `running` is final."""

    WAITING = "waiting"
    """A person is asked whether it may be made."""
    RUNNING = "running"
    ANSWERED = "answered"
    FAILED = "failed"
    """The tool said so, or did not answer: `result` says why."""
    REFUSED = "refused"
    CANCELLED = "cancelled"
    """The answer ended before it did."""


OPEN_STATES = frozenset({ToolCallState.WAITING, ToolCallState.RUNNING})


class ToolDecision(StrEnum):
    """What a person may say to a call."""

    ONCE = "once"
    ALWAYS = "always"
    """Here and whenever the tool is called in this chat, as long as it is described as it is now."""
    REFUSE = "refuse"
    NEVER = "never"
    """The tool is not offered in this chat any more."""


class AnswerToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call in an answer. Without a `tool` it is a server that could not be started, and `result` says why."""

    id: str
    round: int
    """Calls of one round were wished for together; the next round has their results."""
    at: int
    """Characters of the answer that were written before it."""
    reasoning_at: int = 0
    """The same of its reasoning."""
    server: str
    tool: str = ""
    title: str = ""
    arguments: str = ""
    """JSON text as the model wrote it."""
    state: ToolCallState = ToolCallState.WAITING
    result: str = ""
    seconds: float = 0.0
    has_changed: bool = False
    """Whether the server describes the tool otherwise than when it was allowed."""
    is_read_only: bool = False
    """What the server says; nobody checks it."""
    files: list[str] = []
    """The hashes of those of the answer's attachments that it made."""


class ChatToolPermission(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided of a tool for one chat: `allow` for the description with this fingerprint, or `block`."""

    server: str
    tool: str
    permission: McpPermission
    fingerprint: str = ""


MOST_ROUNDS = 16
"""Answers in a row that only call tools."""
REFUSED_CALL = "The person did not allow this call. Do without it."
"""What a model is told."""
ChatServers = Annotated[list[Name], msgspec.Meta(max_length=16)]


class ChatTools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The tools of a chat: the MCP servers whose tools its model may call, and what was decided of single ones."""

    servers: ChatServers = []
    permissions: list[ChatToolPermission] = []

    def permission_of(self, server: str, tool: str) -> ChatToolPermission | None:
        """Return what was decided of a tool in this chat."""
        return next((each for each in self.permissions if (each.server, each.tool) == (server, tool)), None)

    def with_permission(self, permission: ChatToolPermission) -> "ChatTools":
        """Return these with another decision on one tool."""
        place = (permission.server, permission.tool)
        others = [each for each in self.permissions if (each.server, each.tool) != place]
        return msgspec.structs.replace(self, permissions=[*others, permission])


class DecideToolCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say whether a call that waits may be made."""

    decision: ToolDecision


def end_open_calls(calls: list[AnswerToolCall]) -> list[AnswerToolCall]:
    """Return the calls of an answer that has ended: what still waited or ran was cancelled."""
    if not any(call.state in OPEN_STATES for call in calls):
        return calls
    return [
        msgspec.structs.replace(call, state=ToolCallState.CANCELLED) if call.state in OPEN_STATES else call
        for call in calls
    ]
