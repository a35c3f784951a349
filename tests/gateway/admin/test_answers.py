import asyncio
import json
import logging
from typing import Any, cast

import pytest
from aiohttp import web

from app.core.chats import (
    AnswerDelta,
    AnswerProgress,
    ChatPatch,
    ChatSummary,
    Message,
    NewTurn,
    Sampling,
)
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, Unavailable
from app.core.events import ChatChanged, EngineChanged, Event
from app.gateway.chats import answers
from app.gateway.chats.answer_writer import AnswerHelpers, AnswerWriter
from app.gateway.loading.launch import resolve_model as resolve_at_once
from app.gateway.mcp.servers import McpServers
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk, reasoning, text_and_end, text_until
from tests.gateway.played import KEY
from tests.patience import PATIENCE_S


async def test_a_question_is_answered(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id, "Why is the sky blue?")
    assert (turn.answer.status, turn.answer.model, turn.answer.engine) == ("generating", "guide", "llama.cpp")
    pen.write(chunk("Because "), chunk("of "), chunk("scattering."), LAST)
    pen.end()
    text, message = await api.follow_answer(turn.answer)
    assert text == message.content == "Because of scattering."
    assert (message.status, message.finish_reason, message.error) == ("complete", "stop", "")
    stored_chat = await api.read(chat.id)
    assert stored_chat.messages == [turn.question, message]
    assert (stored_chat.title, stored_chat.head) == ("Why is the sky blue?", message.id)


async def test_an_answer_says_what_it_cost(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("a"), chunk("b"), LAST)
    pen.end()
    cost = (await api.read_to_end(turn.answer)).timings
    assert cost is not None
    assert (cost.prompt_tokens, cost.cached_tokens, cost.completion_tokens) == (10, 2, 3)
    assert (cost.decode_tokens_per_s, cost.prefill_tokens_per_s, cost.load_s) == (50.0, 400.0, 0.0)
    assert cost.ttft_s is not None
    assert cost.total_s is not None
    assert 0 < cost.ttft_s <= cost.total_s < 10


async def test_the_engine_gets_the_path_and_the_sampling(api: Api, pen: Pen) -> None:
    chat = await api.chat(system_prompt="Be brief.", sampling=Sampling(temperature=0.5, max_tokens=9))
    pen.write(chunk("One."), LAST)
    pen.end()
    first = await api.ask(chat.id, "1?")
    await api.read_to_end(first.answer)
    pen.write(LAST)
    pen.end()
    second = await api.ask(chat.id, "2?", parent=first.answer.id)
    await api.read_to_end(second.answer)
    upstream = api.gateway.upstream
    assert upstream.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert json.loads(upstream.bodies[1]) == {
        "model": "guide",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "1?"},
            {"role": "assistant", "content": "One."},
            {"role": "user", "content": "2?"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 9,
        "return_progress": True,
        "timings_per_token": False,
    }


async def test_reasoning_is_kept_apart_and_not_sent_back(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(reasoning("Let me "), reasoning("think."), chunk("Yes."), LAST)
    pen.end()
    async with api.follow(turn.answer) as events:
        seen_events = [event async for event in events]
    assert "".join(event.reasoning for event in seen_events if isinstance(event, AnswerDelta)) == "Let me think."
    message = (await api.read(chat.id)).messages[-1]
    assert (message.content, message.reasoning) == ("Yes.", "Let me think.")


async def test_two_followers_read_the_same_and_one_leaving_changes_nothing(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("One "))
    async with api.follow(turn.answer) as stays:
        async with api.follow(turn.answer) as leaves:
            assert await text_until(leaves, "One ") == await text_until(stays, "One ")
        pen.write(chunk("two"), LAST)
        pen.end()
        rest, message = await text_and_end(stays)
    assert (rest, message.content, message.status) == ("two", "One two", "complete")


async def test_a_follower_comes_back_where_it_was(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(reasoning("Hm."), chunk("Grüße 🎉 "))
    async with api.follow(turn.answer) as events:
        await text_until(events, "Grüße 🎉 ")
    pen.write(chunk("an alle"))
    async with api.follow(turn.answer, len("Grüße 🎉 ")) as events:
        first = await anext(events)
        assert isinstance(first, AnswerDelta)
        assert (first.offset, first.reasoning) == (8, "")
        pen.write(LAST)
        pen.end()
        rest, message = await text_and_end(events)
    assert first.content + rest == "an alle"
    assert message.content == "Grüße 🎉 an alle"


@pytest.mark.parametrize(("offset", "text"), [(0, "Done."), (2, "ne."), (5, ""), (99, "")])
async def test_a_finished_answer_can_be_followed_too(api: Api, pen: Pen, offset: int, text: str) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Done."), LAST)
    pen.end()
    message = await api.read_to_end(turn.answer)
    assert await api.follow_answer(turn.answer, offset) == (text, message)


async def test_a_chat_shows_the_text_of_this_moment(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(chunk("So far"))
    async with api.follow(turn.answer) as events:
        await text_until(events, "So far")
    now = (await api.read(chat.id)).messages[-1]
    assert (now.content, now.status) == ("So far", "generating")


async def test_characters_split_between_network_chunks_arrive_whole(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    for byte in chunk("é🎉漢"):
        pen.write(bytes([byte]))
    pen.write(LAST)
    pen.end()
    assert await api.follow_answer(turn.answer) == ("é🎉漢", (await api.read(turn.answer.chat)).messages[-1])


async def test_a_fast_engine_makes_few_events(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    async with api.follow(turn.answer) as events:
        pen.write(*[chunk(f"{number} ") for number in range(500)], LAST)
        pen.end()
        deltas = [event async for event in events if isinstance(event, AnswerDelta)]
    assert "".join(event.content for event in deltas) == "".join(f"{number} " for number in range(500))
    assert len(deltas) < 100


async def test_stopping_before_the_first_token(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    await pen.has_begun.wait()
    message = await api.stop(turn.answer)
    assert (message.status, message.content, message.error) == ("stopped", "", "")
    await asyncio.wait_for(api.gateway.upstream.disconnect.wait(), PATIENCE_S)


async def test_stopping_while_the_model_loads(api: Api, pen: Pen) -> None:
    api.gateway.supervisor.may_load.clear()
    turn = await api.ask((await api.chat()).id)
    message = await api.stop(turn.answer)
    assert (message.status, message.content) == ("stopped", "")
    assert api.gateway.supervisor.waiter_count == 0


async def test_stopping_midway_keeps_the_text_and_tells_the_followers(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(chunk("Half of"))
    async with api.follow(turn.answer) as events:
        await text_until(events, "Half of")
        stopped_answer = await api.stop(turn.answer)
        _, last_message = await text_and_end(events)
    assert (stopped_answer.status, stopped_answer.content) == ("stopped", "Half of")
    assert last_message == stopped_answer == (await api.read(chat.id)).messages[-1]
    assert stopped_answer.timings is not None
    assert stopped_answer.timings.total_s is not None
    await asyncio.wait_for(api.gateway.upstream.disconnect.wait(), PATIENCE_S)
    assert await api.stop(turn.answer) == stopped_answer


async def test_regenerating_makes_a_sibling(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(chunk("First."), LAST)
    pen.end()
    await api.read_to_end(turn.answer)
    pen.write(chunk("Second."), LAST)
    pen.end()
    assert turn.question is not None
    again = await api.ask(chat.id, None, parent=turn.question.id)
    await api.read_to_end(again.answer)
    stored_chat = await api.read(chat.id)
    assert [message.content for message in stored_chat.messages] == ["Why?", "First.", "Second."]
    assert stored_chat.messages[1].parent == stored_chat.messages[2].parent == turn.question.id
    first, second = (json.loads(body)["messages"] for body in api.gateway.upstream.bodies)
    assert first == second == [{"role": "user", "content": "Why?"}]


async def test_editing_makes_a_branch_that_the_other_does_not_reach(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    for content in ("First try", "Second try"):
        pen.write(chunk("Ok."), LAST)
        pen.end()
        await api.read_to_end((await api.ask(chat.id, content)).answer)
    assert json.loads(api.gateway.upstream.bodies[1])["messages"] == [{"role": "user", "content": "Second try"}]
    assert [message.parent is None for message in (await api.read(chat.id)).messages] == [True, False, True, False]


async def test_an_engine_that_dies_leaves_what_was_written_and_says_why(api: Api, pen: Pen) -> None:
    api.gateway.supervisor.death = EngineFailed("The engine crashed.", hint="Try a smaller model.", code="crashed")
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Half of"))
    pen.drop()
    message = await api.read_to_end(turn.answer)
    assert (message.status, message.content) == ("failed", "Half of")
    assert message.error == "The engine crashed. Try a smaller model."


async def test_a_stream_that_just_ends_is_a_failure(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Half of"))
    pen.end()
    message = await api.read_to_end(turn.answer)
    assert (message.status, message.content) == ("failed", "Half of")
    assert message.error.startswith("The engine cut off its answer.")


async def test_a_connection_lost_before_anything_was_written_is_tried_once_more(api: Api, pen: Pen) -> None:
    api.gateway.supervisor.base_urls = ["http://127.0.0.1:1"]
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Here."), LAST)
    pen.end()
    message = await api.read_to_end(turn.answer)
    assert (message.status, message.content) == ("complete", "Here.")
    assert api.gateway.supervisor.base_urls == []


async def test_a_model_that_cannot_load_says_so_in_the_answer(api: Api, pen: Pen) -> None:
    api.gateway.supervisor.refuse_with = EngineFailed(
        "Too little memory.", hint="Close something.", code="out_of_memory"
    )
    message = await api.read_to_end((await api.ask((await api.chat()).id)).answer)
    assert (message.status, message.error) == ("failed", "Too little memory. Close something.")


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9123,
                    "n_ctx": 8192,
                }
            },
            "This conversation is 9,123 tokens long, and the model has a context of 8,192 tokens.",
        ),
        (500, {"error": {"message": "template broke"}}, "The engine refused to answer: template broke"),
        (400, {"error": "plain text"}, "The engine refused to answer: plain text"),
        (503, b"Loading", "The engine refused to answer: Loading"),
        (500, b"", "The engine refused to answer: it did not say why."),
    ],
)
async def test_a_refusal_of_the_engine_is_the_answers_error(
    api: Api, status: int, body: dict[str, object] | bytes, error: str
) -> None:
    async def play(_request: web.Request) -> web.Response:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=data)

    api.gateway.upstream.play = play
    message = await api.read_to_end((await api.ask((await api.chat()).id)).answer)
    assert message.status == "failed"
    assert message.error.startswith(error)


async def test_an_error_event_in_the_stream_is_the_answers_error(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Half"), b'data: {"error":{"message":"out of slots","code":500}}\n\n')
    pen.end()
    message = await api.read_to_end(turn.answer)
    assert (message.status, message.content) == ("failed", "Half")
    assert "out of slots" in message.error


async def test_nonsense_from_the_engine_is_said_plainly(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Half"), b"data: {what?\n\n")
    pen.end()
    message = await api.read_to_end(turn.answer)
    assert (message.status, message.content) == ("failed", "Half")
    assert message.error.startswith("The engine's answer could not be understood.")


async def test_a_mistake_of_ours_ends_the_answer_too(
    api: Api, pen: Pen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def raise_mistake(*_arguments: object) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(AnswerWriter, "write", raise_mistake)
    message = await api.read_to_end((await api.ask((await api.chat()).id)).answer)
    assert (message.status, message.error) == ("failed", "There was an error in Roundhouse. See the log.")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_progress_is_told_while_there_is_nothing_to_read(api: Api, pen: Pen) -> None:
    api.gateway.supervisor.may_load.clear()
    turn = await api.ask((await api.chat()).id)
    async with api.follow(turn.answer) as events:
        assert await anext(events) == AnswerProgress(stage="Waiting for the model")
        status = EngineStatus(
            model="guide", engine="llama.cpp", state=EngineState.LOADING, progress=0.4, stage="Reading weights"
        )
        api.gateway.services.events.publish(EngineChanged(status=status))
        assert await anext(events) == AnswerProgress(stage="Reading weights", fraction=0.4)
        api.gateway.supervisor.may_load.set()
        assert await anext(events) == AnswerProgress(stage="Reading the prompt")
        pen.write(b'data: {"choices":[],"prompt_progress":{"total":12,"cache":2,"processed":7,"time_ms":9}}\n\n')
        assert await anext(events) == AnswerProgress(stage="Reading the prompt", fraction=0.5)
        pen.write(chunk("Now."), LAST)
        pen.end()
        assert (await text_and_end(events))[0] == "Now."


async def test_what_is_written_is_saved_every_second(api: Api, pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SAVE_EVERY_S", 0.02)
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("Saved"))
    message = await _stored_with(api, turn.answer, "Saved")
    assert message.status == "generating"


async def _stored_with(api: Api, answer: Message, content: str) -> Message:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            message = await api.gateway.services.chats.read_message(answer.chat, answer.id)
            if message.content == content:
                return message


async def test_a_full_disk_fails_the_answer_and_the_store_goes_on_when_there_is_space(
    api: Api, pen: Pen, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "SAVE_EVERY_S", 0.02)
    monkeypatch.setattr(answers, "SAVE_AGAIN_S", 0.02)
    chats = api.gateway.services.chats
    turn = await api.ask((await api.chat()).id)
    await chats._run_job(lambda c: c.execute(f"PRAGMA max_page_count = {c.execute('PRAGMA page_count').fetchone()[0]}"))
    pen.write(chunk("x" * 50_000))
    message = await api.read_to_end(turn.answer)
    assert (message.status, len(message.content)) == ("failed", 50_000)
    assert message.error.startswith("The disk is full")
    assert (await api.read(turn.answer.chat)).messages[-1] == message
    await chats._run_job(lambda c: c.execute("PRAGMA max_page_count = 100000"))
    assert (await _stored_with(api, message, message.content)) == message
    assert {record.levelno for record in caplog.records} <= {logging.ERROR}
    pen.write(LAST)
    pen.end()
    await api.ask(turn.answer.chat, "And now?", parent=message.id)


async def test_an_answer_goes_on_when_the_one_who_asked_leaves_at_once(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    question = asyncio.create_task(api.ask(chat.id))
    await pen.has_begun.wait()
    question.cancel()
    pen.write(chunk("Anyway."), LAST)
    pen.end()
    message = await api.read_to_end((await api.read(chat.id)).messages[-1])
    assert (message.status, message.content) == ("complete", "Anyway.")


async def test_a_question_that_comes_while_we_end_is_turned_away(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, may_go_on = await api.chat(), asyncio.Event()

    async def slowly(*arguments: Any) -> Any:  # noqa: ANN401 -- passes on what it gets
        await may_go_on.wait()
        return await resolve_at_once(*arguments)

    monkeypatch.setattr(answers, "resolve_model", slowly)
    services = api.gateway.services
    helpers = AnswerHelpers(McpServers(services.paths, services.events), cast("Any", None))
    ours = answers.ChatAnswers(services, api.gateway.engines, helpers)
    question = asyncio.create_task(ours.start(chat.id, NewTurn(content="Why?")))
    await asyncio.wait({question}, timeout=0.05)
    await ours.close()
    may_go_on.set()
    with pytest.raises(Unavailable, match="shutting down"):
        await question
    assert (await api.read(chat.id)).messages == []


async def test_deleting_a_chat_stops_its_answers_and_can_be_undone(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    pen.write(chunk("Half"))
    async with api.follow(turn.answer) as events:
        await text_until(events, "Half")
        status, _ = await api.raw("DELETE", f"/chats/{chat.id}")
        assert status == 204
        assert (await text_and_end(events))[1].status == "stopped"
    assert await api.call("GET", "/chats", list[ChatSummary]) == []
    await api.raw("POST", f"/chats/{chat.id}/restore")
    assert (await api.read(chat.id)).messages[-1].content == "Half"


async def test_windows_hear_when_an_answer_begins_and_ends(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    async with api.events("/events", Event) as events:
        turn = await api.ask(chat.id)
        assert await anext(events) == ChatChanged(chat=chat.id)
        pen.write(LAST)
        pen.end()
        await api.read_to_end(turn.answer)
        assert await anext(events) == ChatChanged(chat=chat.id)


async def test_the_model_of_the_turn_comes_before_that_of_the_chat(api: Api, pen: Pen) -> None:
    chat = await api.chat(model="nothing")
    assert await api.expect_refusal("POST", f"/chats/{chat.id}/turns", {"content": "Hm?"}) == (404, "model_not_found")
    assert (await api.read(chat.id)).messages == []
    status, _ = await api.raw("POST", f"/chats/{chat.id}/turns", {"content": "Hm?", "model": "guide:latest"})
    assert status == 200
    assert (await api.read(chat.id)).messages[-1].model == "guide"


@pytest.mark.parametrize(("model", "code"), [("org/embed:q8", "model_cannot"), ("broken", "model_unusable")])
async def test_a_model_that_cannot_chat_is_refused(api: Api, model: str, code: str) -> None:
    chat = await api.chat(model=model)
    assert await api.expect_refusal("POST", f"/chats/{chat.id}/turns", {"content": "Hm?"}) == (400, code)


async def test_what_is_no_answer_cannot_be_followed_or_stopped(api: Api, pen: Pen) -> None:
    chat = await api.chat()
    turn = await api.ask(chat.id)
    assert turn.question is not None
    other = await api.chat()
    for path in (
        f"/chats/{chat.id}/answers/{turn.question.id}",
        f"/chats/{chat.id}/answers/nothing",
        f"/chats/{other.id}/answers/{turn.answer.id}",
    ):
        assert await api.expect_refusal("GET", path) == (404, "message_not_found")
        assert await api.expect_refusal("POST", f"{path}/stop") == (404, "message_not_found")


async def test_a_system_prompt_changed_later_counts_from_the_next_answer(api: Api, pen: Pen) -> None:
    chat = await api.chat(system_prompt="Old")
    changed_chat = await api.call("PATCH", f"/chats/{chat.id}", type(chat), ChatPatch(system_prompt="New"))
    assert changed_chat.system_prompt == "New"
    await api.ask(chat.id)
    await pen.has_begun.wait()
    assert json.loads(api.gateway.upstream.bodies[0])["messages"][0] == {"role": "system", "content": "New"}


async def test_metrics_count_chats(api: Api, pen: Pen) -> None:
    turn = await api.ask((await api.chat()).id)
    pen.write(chunk("x"), LAST)
    pen.end()
    await api.read_to_end(turn.answer)
    async with api.gateway.http.get(f"{api.gateway.url}/metrics") as reply:
        text = await reply.text()
    assert 'roundhouse_requests_total{route="chat",model="guide",outcome="ok"} 1' in text
    assert 'roundhouse_tokens_total{model="guide",kind="completion"} 3' in text
    assert 'roundhouse_requests_in_flight{route="chat",model="guide"} 0' in text
