"""The Guide over HTTP: what is looked up is shown as calls, what it does not know it says."""

import json
from pathlib import Path

import msgspec
import pytest

from app.client.http import quote_segment
from app.core.api import GUIDE
from app.core.capabilities import Capability
from app.core.chats import MessageStatus
from app.core.documents import DocumentText
from app.core.engines import EngineState, EngineStatus
from app.core.guide import ActionKind, AskGuide, GuideAnswer, GuideOutcome, GuideTool
from app.core.tool_calls import ToolCallState
from app.gateway.guide.larger_model import MOST_ROUNDS
from app.supervisor.policy import LoadRequest
from engines.api import ModelFormat, ModelSource
from tests.gateway.admin.conftest import Api, Pen, chunk
from tests.gateway.admin.test_chat_tools import wish, write_rounds
from tests.gateway.played import Gateway


async def ask(api: Api, question: str) -> GuideAnswer:
    return await api.call("POST", "/guide", GuideAnswer, AskGuide(question=question))


async def test_a_fact_of_this_computer_comes_from_a_call_that_is_shown(api: Api) -> None:
    answer = await ask(api, "What is loaded?")
    assert (answer.outcome, answer.topic) == (GuideOutcome.ANSWERED, "loaded")
    assert [(call.tool, call.state, call.is_read_only) for call in answer.calls] == [
        ("status", ToolCallState.ANSWERED, True)
    ]
    assert answer.calls[0].result
    assert [(action.kind, action.target) for action in answer.actions] == [(ActionKind.OPEN_PAGE, "models")]


@pytest.mark.slow
async def test_the_models_that_are_here_are_named(api: Api) -> None:
    answer = await ask(api, "which models do I have")
    assert "org/embed:q8" in answer.text
    assert answer.actions[-1].command == "roundhouse list"


@pytest.mark.slow
async def test_how_something_is_done_ends_at_its_page_and_chapter(api: Api) -> None:
    answer = await ask(api, "How do I attach a PDF?")
    assert (answer.calls, answer.topic) == ([], "attach-file")
    assert answer.actions[0].target == "chat"
    assert answer.sources[0].file == "guide/attachments.md"


@pytest.mark.slow
async def test_what_a_tool_refuses_is_said_and_nothing_is_made_up(api: Api) -> None:
    answer = await ask(api, "how much memory does madeup 9b need")
    assert answer.calls[0].state is ToolCallState.FAILED
    assert answer.text == answer.calls[0].result
    assert not [action for action in answer.actions if action.kind is not ActionKind.OPEN_PAGE]


@pytest.mark.slow
async def test_other_questions_and_false_premises_are_declined(api: Api) -> None:
    answer = await ask(api, "What is the capital of France?")
    assert (answer.outcome, answer.topic, answer.calls, answer.actions) == (GuideOutcome.UNKNOWN, "", [], [])
    assert (await ask(api, "Where do I sign in to my account?")).outcome is GuideOutcome.DENIED


async def test_bad_questions_are_refused(api: Api) -> None:
    for body in ({}, {"question": ""}, {"question": "x" * 4001}, {"question": 3}, {"question": "Hi", "more": 1}):
        assert (await api.raw("POST", "/guide", body))[0] == 400


@pytest.mark.slow
async def test_a_chat_with_the_guide_is_looked_up_and_keeps_calls_and_actions(
    api: Api, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = gateway.services.library
    models = [msgspec.structs.replace(model, is_builtin=model.name == GUIDE) for model in library.list_models()]
    monkeypatch.setattr(library, "list_models", lambda: models)
    monkeypatch.setattr(library, "find_model", lambda name: next(model for model in models if model.name == name))
    turn = await api.ask((await api.chat(model=GUIDE)).id, "What is loaded?")
    text, message = await api.follow_answer(turn.answer)
    assert text == message.content == "No model is in memory."
    assert ([call.tool for call in message.calls], message.engine) == (["status"], "")
    assert message.status is MessageStatus.COMPLETE
    assert [action.target for action in message.actions] == ["models"]
    stored_message = (await api.read(turn.answer.chat)).messages[-1]
    assert stored_message == message


@pytest.mark.slow
async def test_what_no_entry_knows_is_answered_by_a_passage_of_the_manual(api: Api) -> None:
    answer = await ask(api, "What does a pull cost besides the bytes?")
    assert (answer.outcome, answer.topic) == (GuideOutcome.ANSWERED, "manual")
    (source,) = answer.documents.sources
    assert source.heading == "Downloads > What a pull costs besides the bytes"
    path = f"/collections/{quote_segment(source.collection)}/files/{quote_segment(source.file)}/text"
    chapter = await api.call("GET", path, DocumentText)
    assert chapter.text[source.start : source.end] == source.text
    missing_path = path.replace("downloads", "nothing")
    assert (await api.raw("GET", missing_path))[0] == 404


@pytest.mark.slow
async def test_an_answer_brings_the_section_that_says_more(api: Api) -> None:
    answer = await ask(api, "How do I attach a PDF?")
    assert [source.heading for source in answer.documents.sources] == ["Files in chats > In the window"]


@pytest.fixture
def larger(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model is loaded that chats and calls tools; its engine is scripted."""
    library, supervisor = gateway.services.library, gateway.services.supervisor
    able = msgspec.structs.replace(
        library.find_model(GUIDE), name="larger", capabilities=[Capability.CHAT, Capability.TOOLS]
    )
    models = [msgspec.structs.replace(model, is_builtin=model.name == GUIDE) for model in library.list_models()]
    monkeypatch.setattr(library, "list_models", lambda: [*models, able])
    monkeypatch.setattr(
        library, "find_model", lambda name: next(model for model in (*models, able) if model.name == name)
    )
    source = ModelSource(name="larger", path=Path("model.gguf"), format=ModelFormat.GGUF)
    status = EngineStatus(model="larger", engine="llama.cpp", state=EngineState.READY, context=4096)
    monkeypatch.setattr(supervisor, "list_statuses", lambda: [status])
    monkeypatch.setattr(supervisor, "request_of", lambda _name: LoadRequest(engine="llama.cpp", source=source))
    return "larger"


@pytest.mark.slow
async def test_a_larger_model_answers_from_what_it_looks_up(api: Api, pen: Pen, larger: str, gateway: Gateway) -> None:
    write_rounds(
        pen,
        [wish("status"), wish("search_manual", {"text": "xet storage"}, index=1)],
        [chunk("One model is loaded.")],
    )
    answer = await ask(api, "What is loaded?")
    assert (answer.model, answer.topic) == (larger, "loaded")
    assert answer.text == "One model is loaded.\n\n*larger wrote this from what it looked up.*"
    assert [(call.tool, call.state) for call in answer.calls] == [
        ("status", ToolCallState.ANSWERED),
        ("search_manual", ToolCallState.ANSWERED),
    ]
    assert [(action.kind, action.target) for action in answer.actions] == [
        (ActionKind.UNLOAD, larger),
        (ActionKind.OPEN_PAGE, "models"),
    ]
    assert answer.documents.sources[0].heading == "Downloads > Xet storage"
    first, second = (json.loads(body) for body in gateway.upstream.bodies)
    offered_names = {tool["function"]["name"] for tool in first["tools"]}
    assert offered_names == {tool.value for tool in GuideTool}
    assert [message["role"] for message in second["messages"]][-3:] == ["assistant", "tool", "tool"]


@pytest.mark.slow
@pytest.mark.usefixtures("larger")
async def test_a_larger_model_that_calls_nothing_leaves_what_was_looked_up(api: Api, pen: Pen) -> None:
    write_rounds(pen, [chunk("I guess that nothing is.")])
    answer = await ask(api, "which models do I have")
    assert (answer.model, answer.topic) == ("", "installed")
    assert "org/embed:q8" in answer.text


@pytest.mark.slow
@pytest.mark.usefixtures("larger")
async def test_calls_that_fail_are_no_ground_for_an_answer(api: Api, pen: Pen, gateway: Gateway) -> None:
    write_rounds(
        pen,
        [wish("status", "{broken"), wish("format_disk", index=1), wish("estimate", {"context": 3}, index=2)],
        [chunk("All is well.")],
    )
    answer = await ask(api, "What is loaded?")
    assert answer.model == ""
    assert [call.tool for call in answer.calls] == ["status"]
    results = [message["content"] for message in json.loads(gateway.upstream.bodies[1])["messages"][-3:]]
    assert all("not right" in result for result in results)


@pytest.mark.slow
@pytest.mark.usefixtures("larger")
async def test_an_engine_that_fails_or_calls_for_ever_leaves_what_was_looked_up(api: Api, pen: Pen) -> None:
    write_rounds(pen, *[[wish("status")]] * (MOST_ROUNDS + 2))
    answer = await ask(api, "What is loaded?")
    assert answer.model == ""
    assert "larger" in answer.text


@pytest.mark.slow
@pytest.mark.usefixtures("larger")
async def test_no_model_is_asked_where_the_setting_says_so(api: Api, gateway: Gateway) -> None:
    await api.call("PATCH", "/settings", list[object], {"chats.guide_model": False})
    assert (await ask(api, "What is loaded?")).model == ""
    assert gateway.upstream.bodies == []


@pytest.mark.slow
async def test_a_model_that_calls_no_tools_is_not_asked(
    api: Api, larger: str, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = gateway.services.library
    models = [
        msgspec.structs.replace(model, capabilities=[Capability.CHAT]) if model.name == larger else model
        for model in library.list_models()
    ]
    monkeypatch.setattr(library, "list_models", lambda: models)
    assert (await ask(api, "What is loaded?")).model == ""
    assert gateway.upstream.bodies == []
