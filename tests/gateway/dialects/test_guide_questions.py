"""The built-in model at the endpoint: plain questions are looked up in every dialect, the rest is the engine's."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from app.core.api import GUIDE
from app.core.guide import LONGEST_QUESTION, AskGuide, GuideAnswer
from app.core.models import ModelInfo, Preset
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Part,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
    ToolDefinition,
)
from app.gateway.guide.questions import LEAST_LIMIT, guide_question
from tests.gateway.played import Gateway

QUESTION = "What is loaded?"
TURN = {"role": "user", "content": QUESTION}
REQUESTS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": GUIDE, "messages": [TURN]},
    "/v1/messages": {"model": GUIDE, "messages": [TURN], "max_tokens": LEAST_LIMIT},
    "/v1/responses": {"model": GUIDE, "input": QUESTION},
    "/api/chat": {"model": GUIDE, "messages": [TURN]},
    "/api/generate": {"model": GUIDE, "prompt": QUESTION},
    "/api/v0/chat/completions": {"model": GUIDE, "messages": [TURN]},
    "/api/v1/chat": {"model": GUIDE, "input": QUESTION},
    f"/v1beta/models/{GUIDE}:generateContent": {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]},
}
TEXT = "No model is in memory."


@pytest.fixture
def guide(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> ModelInfo:
    """The model of that name is the built-in one, as in an installed Roundhouse."""
    library = gateway.services.library
    models = [msgspec.structs.replace(model, is_builtin=model.name == GUIDE) for model in library.list_models()]
    monkeypatch.setattr(library, "list_models", lambda: models)
    monkeypatch.setattr(library, "find_model", lambda name: next(model for model in models if model.name == name))
    return library.find_model(GUIDE)


async def post(gateway: Gateway, path: str, body: object) -> tuple[int, str]:
    async with gateway.http.post(f"{gateway.url}{path}", json=body) as reply:
        return reply.status, await reply.text()


@pytest.mark.slow(cases=1)
@pytest.mark.usefixtures("guide")
@pytest.mark.parametrize("path", REQUESTS)
async def test_a_plain_question_is_looked_up_in_every_dialect(gateway: Gateway, path: str) -> None:
    for body in (REQUESTS[path], {**REQUESTS[path], "stream": True}):
        status, text = await post(gateway, path, body)
        assert status == 200, text
        assert TEXT in text
        assert "roundhouse ps" in text
    assert gateway.upstream.bodies == []


@pytest.mark.slow
@pytest.mark.usefixtures("guide")
async def test_the_text_is_what_the_guide_answers_elsewhere(gateway: Gateway) -> None:
    headers = {"Authorization": f"Bearer {gateway.services.identity.token}"}
    question = msgspec.json.encode(AskGuide(question=QUESTION))
    async with gateway.http.post(f"{gateway.url}/roundhouse/v1/guide", data=question, headers=headers) as reply:
        answer = msgspec.json.decode(await reply.read(), type=GuideAnswer)
    _, text = await post(gateway, "/v1/chat/completions", REQUESTS["/v1/chat/completions"])
    assert json.loads(text)["choices"][0]["message"]["content"] == answer.markdown


@pytest.mark.slow(cases=6)
@pytest.mark.usefixtures("guide")
@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function", "function": {"name": "now"}}]},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "system", "content": "You are a cook."}, TURN]},
        {"temperature": 0},
        {"max_tokens": 16},
        {"n": 2},
        {"stop": "."},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_what_wants_a_model_reaches_the_engine(gateway: Gateway, more: dict[str, Any]) -> None:
    async def play(_request: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return web.json_response({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hm."}}]})

    gateway.upstream.play = play
    await post(gateway, "/v1/chat/completions", {**REQUESTS["/v1/chat/completions"], **more})
    assert gateway.upstream.bodies


async def test_another_model_of_that_name_is_asked_itself(gateway: Gateway) -> None:
    await post(gateway, "/v1/chat/completions", REQUESTS["/v1/chat/completions"])
    assert len(gateway.upstream.bodies) == 1


def ask(*parts: Part, **more: Any) -> ConversationRequest:  # noqa: ANN401 -- fields of any type
    return ConversationRequest(messages=(ConversationMessage(MessageRole.USER, parts or (Text(QUESTION),)),), **more)


def test_which_requests_are_questions(guide: ModelInfo) -> None:
    assert guide_question(guide, ask()) == QUESTION
    assert guide_question(guide, ask(limits=GenerationLimits(max_tokens=LEAST_LIMIT))) == QUESTION
    earlier = ConversationMessage(MessageRole.ASSISTANT, (Text("Yes."),))
    talk = ConversationRequest(messages=(*ask(Text("Is it on?")).messages, earlier, *ask().messages))
    assert guide_question(guide, talk) == QUESTION
    for request in (
        ask(tools=(ToolDefinition(name="now"),)),
        ask(response_format=ResponseFormat(shape=ResponseShape.JSON)),
        ask(sampling=SamplingParams(seed=1)),
        ask(limits=GenerationLimits(max_tokens=LEAST_LIMIT - 1)),
        ask(limits=GenerationLimits(logprobs=1)),
        ask(thinking=ThinkingLevel.OFF),
        ask(continues=True),
        ask(Text("What is it?"), Image(media_type="image/png", data="AA==")),
        ask(Text("a file"), Text(QUESTION)),
        ask(Text("  ")),
        ask(Text("why " * LONGEST_QUESTION)),
        ConversationRequest(messages=()),
        ConversationRequest(messages=(*ask().messages, earlier)),
        ConversationRequest(messages=(ConversationMessage(MessageRole.SYSTEM, (Text("Be."),)), *ask().messages)),
        CompletionRequest(prompt=QUESTION),
    ):
        assert guide_question(guide, request) == "", request
    assert guide_question(msgspec.structs.replace(guide, is_builtin=False), ask()) == ""
    assert guide_question(msgspec.structs.replace(guide, preset=Preset(base=GUIDE)), ask()) == ""
