"""A conversation that is longer than its model's context, and titles by the model, with a played engine."""

import asyncio
import json
from collections.abc import Callable

import pytest
from aiohttp import web

from app.core.chats import Chat, ChatPatch, Message, MessageStatus, OverflowRule, Role
from app.gateway.chats.model_requests import clean_title
from app.gateway.chats.overflow import messages_in_turns
from tests.gateway.admin.conftest import LAST, Api, chunk
from tests.gateway.played import Upstream
from tests.patience import PATIENCE_S

CONTEXT = 100
SUMMARY = "They spoke of turntables."


class SmallEngine:
    """Takes so many messages of a conversation and refuses more; sums up, and writes titles."""

    def __init__(self, most: int = 3) -> None:
        self.most = most
        self.bodies: list[list[dict[str, str]]] = []
        self.summaries: list[str] = []
        self.titles: list[str] = []
        self.can_summarise = True
        self.title = "Turntables"
        self.title_gate = asyncio.Event()
        self.title_gate.set()

    async def play(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        messages, last = body["messages"], body["messages"][-1]["content"]
        if "Summarise this part" in last:
            self.summaries.append(last)
            return await self._write(request, SUMMARY) if self.can_summarise else web.Response(status=500)
        if "Write a title" in last:
            self.titles.append(last)
            await self.title_gate.wait()
            return await self._write(request, self.title)
        self.bodies.append(messages)
        turns = [message for message in messages if message["role"] != "system"]
        if len(turns) > self.most:
            error = {
                "code": 400,
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": CONTEXT * len(turns) // max(1, self.most) + 1,
                "n_ctx": CONTEXT,
            }
            return web.json_response({"error": error}, status=400)
        return await self._write(request, f"Answer {len(self.bodies)}")

    async def _write(self, request: web.Request, text: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(chunk(text) + LAST)
        return response


@pytest.fixture
def engine(upstream: Upstream) -> SmallEngine:
    engine = SmallEngine()
    upstream.play = engine.play
    return engine


async def talk(api: Api, chat: Chat, count: int, parent: str | None = None) -> list[Message]:
    answers: list[Message] = []
    for number in range(count):
        before = answers[-1].id if answers else parent
        answers.append(await api.read_to_end((await api.ask(chat.id, f"Question {number}", parent=before)).answer))
    return answers


async def set_rule(api: Api, chat: Chat, rule: str) -> Chat:
    return await api.call("PATCH", f"/chats/{chat.id}", Chat, ChatPatch(overflow=OverflowRule(rule)))


async def test_without_a_choice_a_full_context_is_said(api: Api, engine: SmallEngine) -> None:
    last = (await talk(api, await api.chat(), 3))[-1]
    assert (last.status, last.finish_reason, last.left_out) == (MessageStatus.FAILED, "context_too_long", 0)
    assert "left out or summarised" in last.error
    assert not engine.summaries


async def test_the_oldest_are_left_out_and_counted(api: Api, engine: SmallEngine) -> None:
    chat = await api.chat(overflow="cut", system_prompt="Be brief.")
    answers = await talk(api, chat, 4)
    assert [answer.status for answer in answers] == ["complete"] * 4
    assert [answer.left_out for answer in answers[:2]] == [0, 0]
    kept_body = engine.bodies[-1]
    assert kept_body[0] == {"role": "system", "content": "Be brief."}
    assert kept_body[-1]["content"] == "Question 3"
    path = [message.content for message in (await api.read(chat.id)).messages]
    assert path[answers[3].left_out] == kept_body[1]["content"]
    assert path[: answers[3].left_out]
    assert not engine.summaries


async def test_a_summary_stands_for_the_oldest_and_is_used_again(api: Api, engine: SmallEngine) -> None:
    chat = await api.chat(overflow="summarise")
    answers = await talk(api, chat, 3)
    assert (answers[2].summary, len(engine.summaries)) == (SUMMARY, 1)
    assert "User: Question 0" in engine.summaries[0]
    assert engine.bodies[-1][0]["role"] == "system"
    assert SUMMARY in engine.bodies[-1][0]["content"]
    await talk(api, chat, 1, answers[2].id)
    assert len(engine.summaries) == 2
    assert SUMMARY in engine.summaries[1]  # only what is new is read again
    assert "Question 0" not in engine.summaries[1]


async def test_a_model_that_cannot_sum_up_leaves_out(api: Api, engine: SmallEngine) -> None:
    engine.can_summarise = False
    last = (await talk(api, await api.chat(overflow="summarise"), 3))[-1]
    assert (last.status, last.summary) == (MessageStatus.COMPLETE, "")
    assert last.left_out > 0


async def test_one_question_that_is_too_long_is_said_whatever_the_rule(api: Api, engine: SmallEngine) -> None:
    engine.most = 0
    chat = await set_rule(api, await api.chat(), "cut")
    first = (await talk(api, chat, 1))[0]
    assert (first.status, first.finish_reason) == (MessageStatus.FAILED, "context_too_long")
    assert await api.expect_refusal("PATCH", f"/chats/{chat.id}", {"overflow": "burn"}) == (400, "invalid_value")


async def test_the_setting_counts_where_a_chat_says_nothing(api: Api, engine: SmallEngine) -> None:
    await api.call("PATCH", "/settings", list[object], {"chats.overflow": "cut"})
    chat = await api.chat()
    assert (await talk(api, chat, 3))[-1].left_out > 0
    stops = await set_rule(api, await api.chat(), "stop")
    assert stops.overflow is OverflowRule.STOP
    assert (await talk(api, stops, 3))[-1].status is MessageStatus.FAILED
    assert engine.bodies


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 -- the played engine is asked by a task of the gateway
            await asyncio.sleep(0.01)


async def title_of(api: Api, chat: Chat, title: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await api.read(chat.id)).title != title:  # noqa: ASYNC110 -- stored by a task of the gateway
            await asyncio.sleep(0.01)


async def use_titles(api: Api) -> None:
    await api.call("PATCH", "/settings", list[object], {"chats.titles": True})


async def test_without_the_setting_no_title_is_asked_for(api: Api, engine: SmallEngine) -> None:
    chat = await api.chat()
    await talk(api, chat, 1)
    assert (await api.read(chat.id)).title == "Question 0"
    assert not engine.titles


async def test_the_model_names_the_chat_once(api: Api, engine: SmallEngine) -> None:
    await use_titles(api)
    chat = await api.chat()
    first = (await talk(api, chat, 1))[0]
    await title_of(api, chat, "Turntables")
    await talk(api, chat, 1, first.id)
    assert len(engine.titles) == 1


async def test_a_title_of_a_person_stays(api: Api, engine: SmallEngine) -> None:
    await use_titles(api)
    named_chat = await api.chat(title="Mine")
    await talk(api, named_chat, 1)
    engine.title_gate.clear()
    renamed_chat = await api.chat()
    await talk(api, renamed_chat, 1)
    await wait_for(lambda: bool(engine.titles))
    await api.call("PATCH", f"/chats/{renamed_chat.id}", Chat, ChatPatch(title="Mine too"))
    engine.title_gate.set()
    last = await api.chat()
    await talk(api, last, 1)
    await title_of(api, last, "Turntables")
    assert [(await api.read(chat.id)).title for chat in (named_chat, renamed_chat)] == ["Mine", "Mine too"]


async def test_the_next_question_does_not_wait_for_a_title(api: Api, engine: SmallEngine) -> None:
    await use_titles(api)
    engine.title_gate.clear()
    chat = await api.chat()
    first = (await talk(api, chat, 1))[0]
    await wait_for(lambda: bool(engine.titles))
    second = (await talk(api, chat, 1, first.id))[0]
    assert second.status is MessageStatus.COMPLETE
    assert (await api.read(chat.id)).title == "Question 0"
    engine.title_gate.set()


async def test_an_engine_that_writes_no_title_changes_nothing(api: Api, engine: SmallEngine) -> None:
    await use_titles(api)
    engine.title = "\n\n"
    chat = await api.chat()
    await talk(api, chat, 1)
    await wait_for(lambda: bool(engine.titles))
    assert (await api.read(chat.id)).title == "Question 0"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ('"Steam pressure"\n\nIt is about', "Steam pressure"),
        ("Title: **Rails**", "Rails"),
        ("", ""),
        ("x", ""),
        ("A " * 200, ""),
    ],
)
def test_what_a_model_wrote_as_a_title(text: str, title: str) -> None:
    assert clean_title(text) == title


def message(role: Role, content: str = "x") -> Message:
    return Message(id="m", chat="c", parent=None, role=role, content=content)


def test_messages_of_one_side_in_a_row_are_one_turn() -> None:
    question, answer, nothing = message(Role.USER), message(Role.ASSISTANT), message(Role.ASSISTANT, " ")
    path = [question, nothing, question, answer, question]
    assert [messages_in_turns(path, turns) for turns in range(4)] == [0, 3, 4, 5]
