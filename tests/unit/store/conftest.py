"""A store in a folder of its own, and the few steps every test of it begins with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.chats import Message, MessageStatus, NewChat, NewTurn, Role, Turn
from app.store import rows
from app.store.database import ChatStore

Ask = Callable[..., Awaitable[Turn]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "roundhouse.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[ChatStore]:
    store = await ChatStore.open(path)
    yield store
    await store.close()


@pytest.fixture
async def chat(store: ChatStore) -> str:
    return (await store.create_chat(NewChat())).id


def unwritten(chat: str) -> Message:
    return Message(id=rows.new_id(), chat=chat, parent=None, role=Role.ASSISTANT, content="", model="m", engine="e")


@pytest.fixture
def ask(store: ChatStore) -> Ask:
    """Ask a question and, unless `answer` is None, finish its answer with that text."""

    async def ask(chat: str, question: str | None, *, parent: str | None = None, answer: str | None = "Yes.") -> Turn:
        turn = await store.begin_turn(chat, NewTurn(parent=parent, content=question), unwritten(chat))
        if answer is None:
            return turn
        message = replace(turn.answer, content=answer, status=MessageStatus.COMPLETE, finish_reason="stop")
        return Turn(question=turn.question, answer=await store.finish_answer(message))

    return ask
