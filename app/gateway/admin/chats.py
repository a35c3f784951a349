"""Chats over HTTP. Whatever changes a chat is told to every window; an answer goes on when its follower leaves."""

from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec

from app.core.chats import AnswerEvent, Chat, ChatPatch, ChatSummary, Message, NewChat, NewTurn, Turn
from app.core.events import ChatChanged
from app.gateway.admin.calls import Call, NoQuery
from app.store.listing import MAX_PAGE


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`query` searches; `before` is the `updated_at` of the last chat already seen."""

    query: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 50
    before: float | None = None


class FollowQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`offset` is how many characters of the answer the reader has."""

    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


async def list_chats(call: Call[None, ListQuery]) -> list[ChatSummary]:
    """GET /chats."""
    wanted = call.query
    return await call.services.chats.summaries(wanted.query, limit=wanted.limit, before=wanted.before)


async def create(call: Call[NewChat, NoQuery]) -> Chat:
    """POST /chats."""
    return _told(call, await call.services.chats.create(call.body))


async def read(call: Call[None, NoQuery]) -> Chat:
    """GET /chats/{id}."""
    return call.answers.overlaid(await call.services.chats.chat(call.names["id"]))


async def change(call: Call[ChatPatch, NoQuery]) -> Chat:
    """PATCH /chats/{id}."""
    return call.answers.overlaid(_told(call, await call.services.chats.change(call.names["id"], call.body)))


async def delete(call: Call[None, NoQuery]) -> None:
    """DELETE /chats/{id}: its answers stop, and it can be restored."""
    chat = call.names["id"]
    await call.answers.stop_all(chat)
    await call.services.chats.delete(chat)
    call.services.events.publish(ChatChanged(chat=chat, deleted=True))


async def restore(call: Call[None, NoQuery]) -> Chat:
    """POST /chats/{id}/restore."""
    return _told(call, await call.services.chats.restore(call.names["id"]))


async def ask(call: Call[NewTurn, NoQuery]) -> Turn:
    """POST /chats/{id}/turns."""
    return await call.answers.start(call.names["id"], call.body)


async def follow(call: Call[None, FollowQuery]) -> AsyncGenerator[AnswerEvent, None]:
    """GET /chats/{id}/answers/{message}."""
    return await call.answers.follow(call.names["id"], call.names["message"], call.query.offset)


async def stop(call: Call[None, NoQuery]) -> Message:
    """POST /chats/{id}/answers/{message}/stop."""
    return await call.answers.stop(call.names["id"], call.names["message"])


def _told(call: Call[object, NoQuery], chat: Chat) -> Chat:
    call.services.events.publish(ChatChanged(chat=chat.id))
    return chat
