"""Find the chat, and the message in it, that a person names on the command line."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from app.chat_files.writing import visible_path
from app.client.http import GatewayClient, quote_segment
from app.core.chats import Chat, ChatShelf, ChatSummary, Message
from app.core.errors import BadRequest, NotFound

_PAGE = 200
_LEAST_ID = 4
"""Characters that name a chat or a message by the beginning of its id."""
SHOWN_ID = 8
IN_SIGHT = (ChatShelf.CURRENT, ChatShelf.ARCHIVED)


class ChatRequest(NamedTuple):
    """Which chats to list: those that have all words, where they are, and the tag that they have."""

    query: str = ""
    shelf: ChatShelf = ChatShelf.CURRENT
    folder: str | None = None
    tag: str = ""

    @property
    def path(self) -> str:
        """The address of a page of them."""
        folder = "" if self.folder is None else f"&folder={quote(self.folder, safe='')}"
        words, tag = quote(self.query, safe=""), quote(self.tag, safe="")
        return f"/chats?limit={_PAGE}&shelf={self.shelf}&query={words}&tag={tag}{folder}"


def list_summaries(client: GatewayClient, request: ChatRequest) -> Iterator[ChatSummary]:
    """Yield all chats, newest first, a page at a time."""
    before = ""
    while page := client.get(request.path + before, list[ChatSummary]):
        yield from page
        before = f"&before={page[-1].updated_at!r}"


def find_chat(client: GatewayClient, name: str, shelves: Sequence[ChatShelf] = IN_SIGHT) -> ChatSummary:
    """Return the chat with that title, or whose id begins so. Raises NotFound, or BadRequest where several do."""
    folded_name = name.strip().lower()
    matches = [
        summary
        for shelf in shelves
        for summary in list_summaries(client, ChatRequest(shelf=shelf))
        if summary.title.lower() == folded_name or _begins_id(summary.id, folded_name)
    ]
    if len(matches) > 1:
        raise BadRequest(f"{len(matches)} chats are called “{name}”.", hint="Use an id: `roundhouse chats` lists them.")
    if not matches:
        raise NotFound(f"There is no chat “{name}”.", hint="`roundhouse chats` lists them.", code="chat_not_found")
    return matches[0]


def read_chat(client: GatewayClient, name: str) -> Chat:
    """Return a whole chat by its title or the beginning of its id. Raises as `find_chat`."""
    return client.get(f"/chats/{quote_segment(find_chat(client, name).id)}", Chat)


def find_message(chat: Chat, name: str) -> Message:
    """Return the message with that number in the branch that is shown, or whose id begins so; the last one for "last".

    Raises NotFound.
    """
    path, folded_name = visible_path(chat), name.strip().lower()
    if folded_name == "last" and path:
        return path[-1]
    if folded_name.isdecimal() and 0 < int(folded_name) <= len(path):
        return path[int(folded_name) - 1]
    matches = [message for message in chat.messages if _begins_id(message.id, folded_name)]
    if len(matches) != 1:
        raise NotFound(
            f"There is no message “{name}” in this chat.",
            hint=f"`roundhouse chats messages {chat.id[:SHOWN_ID]}` lists them.",
            code="message_not_found",
        )
    return matches[0]


def _begins_id(id_: str, name: str) -> bool:
    return len(name) >= _LEAST_ID and id_.startswith(name)
