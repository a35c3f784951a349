"""A conversation as another program has it, and what becomes of it here.

Other programs keep a node for every step: a question, the answer, the call of a tool, its result, the rest of the
answer. Here a question is followed by an answer and an answer by a question, so what one side says in a row is one
message; what is said by neither (tools, hidden notes) is left out. Ids follow from the other program's, so that a file
that is read again makes the same chats.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID, uuid5

from app.core.chats import Chat, Message, Role, Sampling

_NAMESPACE = UUID("6a3d5b0e-8f6b-4d0f-9a52-6f1c1c1f7d21")
"""Of the ids that are made here; it must never change."""
SYSTEM = "system"
_SIDES = frozenset(Role)


class FileContent(NamedTuple):
    """A file that came with a message."""

    name: str
    content: bytes


class FileReference(NamedTuple):
    """A file that an export names: `id` is how its name in the export begins, `name` what people called it."""

    id: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """One node. `role` is "user", "assistant", "system", or anything else, which is left out. Times in Unix seconds."""

    id: str
    parent: str | None
    role: str
    content: str = ""
    reasoning: str = ""
    model: str = ""
    created_at: float | None = None
    files: tuple[FileContent, ...] = ()
    references: tuple[FileReference, ...] = ()


@dataclass(slots=True, kw_only=True)
class SourceChat:
    """One conversation of the program `program`. Without an `id`, how it began stands for one."""

    program: str
    id: str
    title: str = ""
    model: str = ""
    system_prompt: str = ""
    messages: list[SourceMessage] = field(default_factory=list)
    current: str | None = None
    """The node that was last looked at; None: the last one."""
    created_at: float | None = None
    updated_at: float | None = None
    is_pinned: bool = False
    is_archived: bool = False
    left_out: int = 0
    """Pictures and files that cannot be taken over; references that come to nothing are added to it."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What one side says in a row, down to `node`; `parent` is the message before it."""

    role: Role
    parent: str | None
    nodes: tuple[SourceMessage, ...]

    def and_then(self, node: SourceMessage) -> "_Run":
        return _Run(self.role, self.parent, (*self.nodes, node))


FilesByMessage = Mapping[str, Sequence[FileContent]]
"""By the id of the message they came with."""


def build_chat(source: SourceChat) -> tuple[Chat | None, FilesByMessage]:
    """Return the chat, its messages after those they follow, and their files.

    None stands for a chat in which nobody says anything.
    """
    source.id = source.id or _digest_of(source)
    chat = uuid5(_NAMESPACE, f"{source.program}:{source.id}").hex
    messages, message_of, files = _build_messages(source, chat)
    if not messages:
        return None, {}
    times = [message.created_at for message in messages if message.created_at]
    created_at = source.created_at or min(times, default=0.0)
    new_chat = Chat(
        id=chat,
        title=" ".join(source.title.split()),
        model=source.model or next((message.model for message in reversed(messages) if message.model), ""),
        system_prompt=source.system_prompt or _system_prompt(source),
        sampling=Sampling(),
        head=message_of.get(source.current or "", messages[-1].id),
        created_at=created_at,
        updated_at=source.updated_at or max(times, default=created_at),
        messages=messages,
        is_pinned=source.is_pinned,
        is_archived=source.is_archived,
    )
    return new_chat, files


def _digest_of(source: SourceChat) -> str:
    """Return what tells a chat without an id from others: how it began. What follows may still grow."""
    first = next((node for node in source.messages if node.content.strip()), None)
    began = f"{source.title}\0{source.created_at}\0{first.content if first else ''}"
    return hashlib.sha256(began.encode("utf-8", "surrogatepass")).hexdigest()


def _system_prompt(source: SourceChat) -> str:
    return next((node.content for node in source.messages if node.role == SYSTEM and node.content.strip()), "")


def _build_messages(
    source: SourceChat, chat: str
) -> tuple[list[Message], dict[str, str], dict[str, list[FileContent]]]:
    """Return the messages, by the id of a node the message that has it, and by message its files."""
    children = _children_of(source.messages)
    message_by_id: dict[str, Message] = {}
    message_of: dict[str, str] = {}
    files: dict[str, list[FileContent]] = {}

    def end_run(run: _Run | None) -> str | None:
        """Return the id of the message that a run makes."""
        if run is None:
            return None
        message = uuid5(_NAMESPACE, f"{source.program}:{source.id}:{run.nodes[-1].id}").hex
        if message not in message_by_id:
            message_by_id[message] = _join_nodes(run, message, chat)
            for node in run.nodes:
                message_of.setdefault(node.id, message)
            if run.role is Role.USER and (own := [file for node in run.nodes for file in node.files]):
                files[message] = own
        return message

    pending_messages: list[tuple[SourceMessage, _Run | None]] = [
        (root, None) for root in reversed(children.get(None, []))
    ]
    while pending_messages:
        node, run = pending_messages.pop()
        if node.role in _SIDES and (node.content.strip() or node.reasoning.strip() or node.files):
            role = Role(node.role)
            run = run.and_then(node) if run and run.role is role else _Run(role, end_run(run), (node,))
        below = children.get(node.id, [])
        pending_messages += [(child, run) for child in reversed(below)]
        if not below:
            end_run(run)
    return list(message_by_id.values()), message_of, files


def _children_of(nodes: list[SourceMessage]) -> dict[str | None, list[SourceMessage]]:
    """Return the nodes by what they follow, the first of each id; None has those that follow nothing known."""
    by_id: dict[str, SourceMessage] = {}
    for node in nodes:
        by_id.setdefault(node.id, node)
    children: dict[str | None, list[SourceMessage]] = {}
    for node in by_id.values():
        parent = node.parent if node.parent in by_id and node.parent != node.id else None
        children.setdefault(parent, []).append(node)
    return children


def _join_nodes(run: _Run, message: str, chat: str) -> Message:
    nodes = run.nodes
    return Message(
        id=message,
        chat=chat,
        parent=run.parent,
        role=run.role,
        content="\n\n".join(node.content for node in nodes if node.content.strip()),
        reasoning="\n\n".join(node.reasoning for node in nodes if node.reasoning.strip()),
        model=next((node.model for node in reversed(nodes) if node.model), ""),
        created_at=next((node.created_at for node in nodes if node.created_at), 0.0),
    )
