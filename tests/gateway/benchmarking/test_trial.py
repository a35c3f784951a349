"""A shadow trial from kept requests to the switch and back: with scripted engines that answer alike, or do not."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from app.core.benchmarks import BenchmarkMessage, StartBenchmark, Workload
from app.core.errors import BadRequest, Conflict, EngineFailed, NotFound
from app.core.events import TrialChanged
from app.core.requests import Peer, RequestDetail, RequestInfo, RequestState
from app.core.trials import StartTrial, TrialResult
from app.gateway.benchmarking.kept_requests import find_kept_requests, with_kept_prompts
from app.gateway.benchmarking.targets import OpenTarget
from app.gateway.benchmarking.trial import Trials
from app.gateway.exchange.observer import BODY_BYTES
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.gateway.benchmarking.played_engine import PlayedComputer
from tests.gateway.benchmarking.test_race import NEW, OLD
from tests.gateway.played import Upstream
from tests.patience import PATIENCE_S

parts = test_race.parts

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]},
        },
    }
]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


class PlayedInspector:
    """Keeps the bodies that a test gives it, as requests from newest to oldest."""

    def __init__(self, *bodies: dict[str, Any], path: str = "/v1/chat/completions") -> None:
        self.details = {
            f"r{number}": RequestDetail(
                request=RequestInfo(
                    id=f"r{number}",
                    at=1.0,
                    client="test",
                    peer=Peer.THIS_COMPUTER,
                    dialect="openai",
                    path=path,
                    model="guide",
                    state=RequestState.DONE,
                    total_s=1.0,
                ),
                has_bodies=True,
                asked=json.dumps(body),
            )
            for number, body in enumerate(bodies)
        }

    def list_requests(self, *, limit: int, model: str = "", outcome: str = "") -> list[RequestInfo]:
        assert not outcome
        infos = [detail.request for detail in self.details.values()]
        return [info for info in infos if model in ("", info.model)][:limit]

    def show_request(self, request_id: str) -> RequestDetail:
        if request_id not in self.details:
            raise NotFound("There is no such request.", code="request_not_found")
        return self.details[request_id]

    def keeps_words(self, request_id: str) -> bool:
        return request_id in self.details


def inspector_of(*bodies: dict[str, Any], **options: Any) -> Any:  # noqa: ANN401 -- stands in for the inspector
    return PlayedInspector(*bodies, **options)


def body_of(text: str, **fields: object) -> dict[str, Any]:
    return {"model": "guide", "messages": [{"role": "user", "content": text}], "temperature": 1.0, **fields}


class ScriptedPair:
    """Two engines: each answers by what was asked last, with a text, a call, a refusal or its death."""

    def __init__(self, services: Services) -> None:
        self._supervisor = cast("Any", services.supervisor)
        self.answers: dict[str, dict[str, Any]] = {OLD: {}, NEW: {}}
        self.bodies: list[tuple[str, dict[str, Any]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        engine = self._supervisor.load_requests[-1].engine
        self.bodies.append((engine, body))
        if body["messages"][-1]["content"] == "Hello":  # the warm-up
            self.bodies.pop()
        script = self.answers[engine].get(body["messages"][-1]["content"], "Hello there.")
        if isinstance(script, int):
            return web.json_response({"error": {"message": "this cannot be asked"}}, status=script)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if script is None:
            assert request.transport is not None
            request.transport.abort()
            return response
        deltas: list[dict[str, Any]] = (
            [{"tool_calls": [{"index": 0, "id": "c", "function": script}]}]
            if isinstance(script, dict)
            else [{"content": piece} for piece in script.split("|")]
        )
        for delta in deltas:
            await response.write(b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n")
        end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": len(deltas)}}
        await response.write(b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n")
        return response


@pytest.fixture
def pair(parts: Services, upstream: Upstream) -> ScriptedPair:
    scripted_pair = ScriptedPair(parts)
    upstream.play = scripted_pair.answer
    return scripted_pair


@pytest.fixture
async def trials(parts: Services) -> AsyncIterator[Trials]:
    new_trials = Trials(parts, PlayedComputer().read)
    yield new_trials
    await new_trials.stop()


async def finish(trials: Trials, inspector: Any, **fields: Any) -> TrialChanged:  # noqa: ANN401 -- as above
    await trials.start(StartTrial(model="guide", **{"engine": NEW, **fields}), inspector)
    async with asyncio.timeout(PATIENCE_S):
        await trials.job.wait()
    assert trials.job.last is not None
    return trials.job.last


async def result_of(trials: Trials, inspector: Any, **fields: Any) -> TrialResult:  # noqa: ANN401 -- as above
    end = await finish(trials, inspector, **fields)
    assert end.error == ""
    assert end.result is not None
    return end.result


async def test_equal_answers_are_equal_kept_and_both_were_asked_greedily(
    trials: Trials, pair: ScriptedPair, parts: Services
) -> None:
    result = await result_of(trials, inspector_of(body_of("newest", max_tokens=7), body_of("oldest")))
    assert result.equal == 1.0
    assert [part.id for part in result.requests] == ["r1", "r0"], "in the order in which they came"
    assert [part.is_equal for part in result.requests] == [True, True]
    assert result.sentence == "2 of 2 answers are equal."
    assert [engine for engine, _ in pair.bodies] == [OLD, OLD, NEW, NEW]
    assert {body["temperature"] for _, body in pair.bodies} == {0}
    assert [body["max_tokens"] for _, body in pair.bodies] == [256, 7, 256, 7]
    assert result.second.target.engine == NEW
    assert (result.ttft_ratio is None, result.e2e_ratio is None, result.can_switch) == (False, False, True)
    assert await parts.chats.list_trials() == await parts.chats.list_trials(model="guide") == [result]
    assert await parts.chats.list_trials(model="other") == []


async def test_where_answers_part_is_said_without_their_words(trials: Trials, pair: ScriptedPair) -> None:
    pair.answers = {OLD: {"q": "The |sky |is |blue"}, NEW: {"q": "The |sky |was |grey"}}
    inspector = inspector_of(body_of("q"))
    result = await result_of(trials, inspector)
    (part,) = result.requests
    assert (part.is_equal, part.diverges_at, part.diverges_at_token) == (False, 8, 2)
    assert (part.first.length, part.first.tokens, result.equal) == (15, 4, 0.0)
    assert "differ from character 9 on" in result.sentence
    kept_bytes = msgspec.json.encode(trials.job.last)
    assert b"blue" not in kept_bytes
    assert b'"q"' not in kept_bytes
    assert [(words.first, words.second) for words in trials.list_words(inspector)] == [
        ("The sky is blue", "The sky was grey")
    ]
    inspector.details.clear()
    assert trials.list_words(inspector) == []


async def test_tool_calls_and_schemas_are_judged(trials: Trials, pair: ScriptedPair) -> None:
    pair.answers = {
        OLD: {"call": {"name": "weather", "arguments": '{"town": "Bern"}'}, "json": '{"n": 1}'},
        NEW: {"call": {"name": "wether", "arguments": "{}"}, "json": '{"n": "one"}', "must": "I will not."},
    }
    format_ = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    bodies = [body_of("call", tools=TOOLS), body_of("json", response_format=format_)]
    result = await result_of(trials, inspector_of(*bodies))
    assert (result.first.valid_calls, result.first.valid_json) == (1.0, 1.0)
    assert (result.second.valid_calls, result.second.valid_json) == (0.0, 0.0)
    must = await result_of(trials, inspector_of(body_of("must", tools=TOOLS, tool_choice="required")))
    assert (must.second.valid_calls, must.requests[0].second.calls) == (0.0, 1), "a call that had to come did not"


async def test_a_refused_request_is_said_and_the_others_are_compared(trials: Trials, pair: ScriptedPair) -> None:
    pair.answers[NEW] = {"no": 400}
    result = await result_of(trials, inspector_of(body_of("no"), body_of("yes")))
    by_id = {part.id: part for part in result.requests}
    assert (by_id["r1"].is_equal, by_id["r0"].is_equal) == (True, None)
    assert "this cannot be asked" in by_id["r0"].second.error
    assert (result.first.answered, result.second.answered, result.equal) == (2, 1, 1.0)


async def test_speeds_are_not_compared_where_others_were_busy(
    parts: Services, pair: ScriptedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenTarget, "pids", property(lambda _target: [1]))
    trials = Trials(parts, PlayedComputer(0.9).read)
    result = await result_of(trials, inspector_of(body_of("q")))
    assert (result.ttft_ratio, result.e2e_ratio, result.equal) == (None, None, 1.0)
    assert [len(result.disturbances), "90 % of the CPU" in result.disturbances[0]] == [2, True]
    assert pair.bodies


async def test_an_engine_that_dies_is_asked_nothing_more(trials: Trials, pair: ScriptedPair) -> None:
    pair.answers[NEW] = {"deadly": None}
    result = await result_of(trials, inspector_of(body_of("later"), body_of("deadly")))
    assert [engine for engine, _ in pair.bodies].count(NEW) == 1
    assert all("The engine ended" in part.second.error for part in result.requests)
    assert (result.equal, result.can_switch) == (None, False)
    assert "Nothing can be compared" in result.sentence
    with pytest.raises(BadRequest, match="no trial"):
        await trials.switch()


async def test_a_trial_can_be_stopped_and_only_one_runs(trials: Trials, upstream: Upstream, parts: Services) -> None:
    async def wait_forever(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    upstream.play = wait_forever
    inspector = inspector_of(body_of("q"))
    await trials.start(StartTrial(model="guide", engine=NEW), inspector)
    async with asyncio.timeout(PATIENCE_S):
        await upstream.arrival.wait()
    with pytest.raises(Conflict, match="goes on"):
        await trials.start(StartTrial(model="guide", engine=NEW), inspector)
    await trials.stop()
    assert trials.job.last is not None
    assert (trials.job.last.code, trials.job.last.result) == ("cancelled", None)
    assert cast("Any", parts.supervisor).unloads == [("guide (benchmark)", False)]


async def test_the_engine_is_switched_and_undone(trials: Trials, pair: ScriptedPair, parts: Services) -> None:
    await result_of(trials, inspector_of(body_of("q")))
    assert parts.model_settings.settings_of("guide").engine is None, "nothing is changed before a person says so"
    assert (await trials.switch()).changed == ["model.guide"]
    assert parts.model_settings.settings_of("guide").engine == NEW
    with pytest.raises(BadRequest, match="already"):
        await trials.switch()
    await trials.undo()
    assert parts.model_settings.settings_of("guide").engine is None
    with pytest.raises(BadRequest, match="Nothing was switched"):
        await trials.undo()
    assert pair.bodies


async def test_another_model_takes_the_place_for_new_chats_and_aliases(
    trials: Trials, pair: ScriptedPair, parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = cast("Any", parts.library)
    find = library.find_model

    def find_other(name: str) -> object:
        return msgspec.structs.replace(find("guide"), name="other") if name.startswith("other") else find(name)

    monkeypatch.setattr(library, "find_model", find_other)
    parts.settings.change_values({"models.aliases": ["gpt-*=guide", "x=elsewhere"]})
    await result_of(trials, inspector_of(body_of("q")), against="other", engine="")
    switch = await trials.switch()
    assert parts.settings.get_text("models.default") == "other"
    assert parts.settings.get_list("models.aliases") == ["gpt-*=other", "x=elsewhere"]
    assert sorted(switch.changed) == ["models.aliases", "models.default"]
    await trials.undo()
    assert parts.settings.get_text("models.default") == "guide"
    assert parts.settings.get_list("models.aliases") == ["gpt-*=guide", "x=elsewhere"]
    assert pair.bodies


async def test_what_cannot_be_tried_is_refused(trials: Trials) -> None:
    inspector = inspector_of(body_of("q"))
    with pytest.raises(BadRequest, match="another model or an engine"):
        await trials.start(StartTrial(model="guide"), inspector)
    with pytest.raises(BadRequest, match="not answer in words"):
        await trials.start(StartTrial(model="guide", against="org/embed:q8"), inspector)
    with pytest.raises(EngineFailed, match="No installed engine"):
        await trials.start(StartTrial(model="guide", engine="nosuch"), inspector)
    with pytest.raises(BadRequest, match="No request to guide is kept"):
        await trials.start(StartTrial(model="guide", engine=NEW), inspector_of())
    with pytest.raises(NotFound, match="no such request"):
        await trials.start(StartTrial(model="guide", engine=NEW, ids=["gone"]), inspector)


@pytest.mark.parametrize(
    ("body", "path", "reason"),
    [
        (body_of("x" * BODY_BYTES), "/v1/chat/completions", "only its beginning"),
        ({"model": "guide", "input": "x"}, "/v1/embeddings", "no chat"),
        (
            body_of([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),  # type: ignore[arg-type] # parts
            "/v1/chat/completions",
            "images",
        ),
    ],
    ids=["cut", "no chat", "image"],
)
def test_what_was_not_kept_whole_or_holds_more_than_words_is_left_out(
    body: dict[str, Any], path: str, reason: str
) -> None:
    inspector = inspector_of(body, path=path)
    with pytest.raises(BadRequest, match=reason):
        find_kept_requests(inspector, ids=["r0"])
    with pytest.raises(BadRequest, match="No request"):
        find_kept_requests(inspector, model="guide", count=5)


def test_requests_of_the_other_dialects_are_read() -> None:
    messages = {
        "model": "guide",
        "max_tokens": 9,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "a"}],
    }
    (kept_request,) = find_kept_requests(inspector_of(messages, path="/v1/messages"), count=1)
    assert [message.role for message in kept_request.prompt.messages] == ["system", "user"]
    chat = {"model": "guide", "messages": [{"role": "user", "content": "b"}]}
    (kept_request,) = find_kept_requests(inspector_of(chat, path="/api/chat"), count=1)
    assert kept_request.prompt.messages == [BenchmarkMessage(role="user", content="b")]


async def test_a_benchmark_takes_kept_requests_for_its_prompts(parts: Services) -> None:
    turns = [
        {"role": "user", "content": "Is it warm?"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "20 degrees"},
    ]
    inspector = inspector_of({"model": "guide", "messages": turns, "tools": TOOLS}, body_of("q"))
    request = await with_kept_prompts(parts, StartBenchmark(model="guide", kept=2), inspector)
    assert request.settings.workload is Workload.FILE
    assert [len(prompt.messages) for prompt in request.prompts] == [1, 4]
    assert [message.role for message in request.prompts[1].messages] == ["system", "user", "assistant", "user"]
    assert "weather({})" in request.prompts[1].messages[2].content
    with pytest.raises(BadRequest, match="this computer only"):
        await with_kept_prompts(parts, StartBenchmark(url="http://far", kept=2), inspector)
