"""Which tool is called, with what, or none: cases of the kinds that benchmarks have, and a scripted model.

The model writes as one family after another does where the engine hands on its text; the same comes out where the
engine reads it, and in every dialect.
"""

import json
from dataclasses import replace
from itertools import cycle
from typing import Any, cast

import pytest

from app.gateway.services import Services
from tests.call_cases import CALL_CASES, CallCase, CallTuple, schemas_of
from tests.gateway.exchange.test_repairs import READERS, Facts, Scripted
from tests.gateway.exchange.test_supplied import Engine, writes
from tests.gateway.exchange.test_supplied import Facts as Templates
from tests.gateway.played import Gateway
from tests.unit.dialects.call_corpus import CorpusCall, write_answers

_FEWEST = 100
PATHS = {
    "openai": "/v1/chat/completions",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
    "responses": "/v1/responses",
    "google": "/v1beta/models/guide:generateContent",
}
dialects = pytest.mark.parametrize("dialect", PATHS)


@pytest.fixture
def is_raw() -> bool:
    """Whether the engine hands on the model's text."""
    return False


@pytest.fixture
def services(services: Services, *, is_raw: bool) -> Services:
    adapters = {"llama.cpp": Engine()} if is_raw else services.adapters
    return replace(services, facts=Templates() if is_raw else Facts(), adapters=cast("Any", adapters))


def request_for(case: CallCase, dialect: str) -> dict[str, object]:
    functions = [{"name": name, "parameters": schema} for name, schema in schemas_of(case).items()]
    message = {"role": "user", "content": case.kind}
    common = {"model": "guide", "stream": False}
    match dialect:
        case "google":
            declarations = [{"name": each["name"], "parametersJsonSchema": each["parameters"]} for each in functions]
            contents = [{"role": "user", "parts": [{"text": case.kind}]}]
            return {"contents": contents, "tools": [{"functionDeclarations": declarations}]}
        case "anthropic":
            tools = [{"name": each["name"], "input_schema": each["parameters"]} for each in functions]
            return {**common, "messages": [message], "max_tokens": 99, "tools": tools}
        case "responses":
            return {**common, "input": case.kind, "tools": [{"type": "function", **each} for each in functions]}
    return {**common, "messages": [message], "tools": [{"type": "function", "function": each} for each in functions]}


async def ask_for_calls(gateway: Gateway, case: CallCase, dialect: str) -> tuple[list[CallTuple], str]:
    async with gateway.http.post(gateway.url + PATHS[dialect], json=request_for(case, dialect)) as reply:
        document = await reply.json()
    assert reply.status == 200, document
    if dialect == "openai":
        return _of_openai(document)
    text, calls = READERS[dialect]([document])
    return calls, text


def _of_openai(document: dict[str, Any]) -> tuple[list[CallTuple], str]:
    message = document["choices"][0]["message"]
    functions = [entry["function"] for entry in message.get("tool_calls") or ()]
    return [(each["name"], json.loads(each["arguments"])) for each in functions], message.get("content") or ""


def test_there_are_cases_of_every_kind() -> None:
    kinds = {"simple", "multiple", "parallel", "parallel multiple", "irrelevance", "nested", "enum", "wrong types"}
    assert len(CALL_CASES) >= _FEWEST
    assert kinds <= {case.kind for case in CALL_CASES}


@pytest.mark.slow
@dialects
@pytest.mark.parametrize("is_raw", [True])
async def test_the_text_of_a_model_becomes_the_right_calls(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, dialect: str, *, is_raw: bool
) -> None:
    assert is_raw
    turns = cycle(range(len(list(write_answers((), "")))))
    for case in CALL_CASES:
        entries = list(write_answers([CorpusCall(*call) for call in case.calls], case.text if not case.calls else ""))
        entry = entries[next(turns) % len(entries)]
        monkeypatch.setattr(Templates, "template", entry.template)
        gateway.upstream.play = writes(entry.raw_text)
        calls, text = await ask_for_calls(gateway, case, dialect)
        assert (calls, text.strip()) == (case.result, entry.text), (entry.family, entry.raw_text)


@pytest.mark.slow(cases=1)
@dialects
async def test_calls_that_an_engine_read_are_checked_and_put_right(gateway: Gateway, dialect: str) -> None:
    for case in CALL_CASES:
        answers = [answer_deltas(calls, case.text) for calls in (case.first, case.calls) if calls or case.text]
        engine = Scripted(gateway, *answers[-2 if case.first else -1 :])
        calls, text = await ask_for_calls(gateway, case, dialect)
        assert (calls, text) == (case.result, case.text), case
        assert engine.answers == [], "it was told what was wrong where something was, and only there"


def answer_deltas(calls: list[CallTuple], text: str) -> list[object]:
    deltas: list[object] = [{"content": text}] if text else []
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas.append(
            {"tool_calls": [{"index": number, "id": f"call_{number}", "type": "function", "function": function}]}
        )
    return [*deltas, "tool_calls" if calls else "stop"]
