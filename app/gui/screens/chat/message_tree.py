"""A chat's messages as the tree they are: the path to where the reader is, and the other versions beside it. Pure."""

from collections.abc import Sequence

from app.core.chats import Chat, Message, MessageStatus, Role

_CUT = frozenset({MessageStatus.STOPPED, MessageStatus.FAILED, MessageStatus.INTERRUPTED})


def was_cut(message: Message) -> bool:
    """Tell whether an answer ended before it was done, after some words."""
    is_cut = message.status in _CUT or message.finish_reason == "length"
    return message.role is Role.ASSISTANT and is_cut and bool(message.content.strip())


def estimate_thought_s(message: Message) -> float | None:
    """Return how long an answer thought, from its share of the text, when nobody watched."""
    timings = message.timings
    if not message.reasoning or timings is None or not timings.decode_tokens_per_s or not timings.completion_tokens:
        return None
    share = len(message.reasoning) / (len(message.reasoning) + len(message.content))
    return share * timings.completion_tokens / timings.decode_tokens_per_s


class MessageTree:
    """The messages of one chat. Versions of a message are its siblings, in the order they were made."""

    def __init__(self, messages: Sequence[Message], head: str | None) -> None:
        self.head = head
        self._by_id: dict[str, Message] = {}
        self._children: dict[str | None, list[str]] = {}
        for message in messages:
            self.put(message)

    @classmethod
    def from_chat(cls, chat: Chat) -> "MessageTree":
        """Return the tree of a chat as it was read; without a head the newest message is it."""
        last = chat.messages[-1].id if chat.messages else None
        return cls(chat.messages, chat.head or last)

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, message: str) -> Message | None:
        """Return a message, if the chat has it."""
        return self._by_id.get(message)

    def put(self, message: Message) -> None:
        """Add a message, or take a newer state of it."""
        if message.id not in self._by_id:
            self._children.setdefault(message.parent, []).append(message.id)
        self._by_id[message.id] = message

    def path_to_head(self) -> list[Message]:
        """Return the messages from the first to the head."""
        messages: list[Message] = []
        at = self.head
        while at is not None and at in self._by_id:
            messages.append(self._by_id[at])
            at = self._by_id[at].parent
        return messages[::-1]

    def versions_of(self, message: str) -> list[str]:
        """Return a message and its siblings, oldest first."""
        return self._children[self._by_id[message].parent]

    def children_of(self, message: str) -> list[Message]:
        """Return what follows a message, oldest first."""
        return [self._by_id[child] for child in self._children.get(message, [])]

    def newest_leaf(self, message: str) -> str:
        """Return the end of the newest path through a message."""
        while below := self._children.get(message):
            message = below[-1]
        return message

    def version_beside(self, message: str, step: int) -> str | None:
        """Return the leaf to move to for another version of a message; None at either end."""
        versions = self.versions_of(message)
        at = versions.index(message) + step
        return self.newest_leaf(versions[at]) if 0 <= at < len(versions) else None
