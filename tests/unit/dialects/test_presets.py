"""What a made model adds to a request on each of an engine's routes; the request's own values go first."""

import json
from typing import Any

import msgspec
import pytest

from app.core.models import ModelInfo, Preset, PresetMessage
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Text
from app.gateway.exchange.engine.request import body_of
from app.gateway.exchange.presets import apply_preset, with_default_thinking
from engines.api import Route

PRESET = Preset(
    system="Be brief.",
    parameters={"temperature": 0.1, "top_k": 5, "stop": ["END"], "num_predict": 7, "num_ctx": 512},
    messages=[PresetMessage(role="user", content="Hi"), PresetMessage(role="assistant", content="Ho")],
)
SHOTS = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
ASKED = {"role": "user", "content": "Why?"}


def model(preset: Preset | None) -> ModelInfo:
    return ModelInfo(name="m", title="m", path="p", format="gguf", size_bytes=1, preset=preset)


def engine_body(route: Route, *, preset: Preset = PRESET, **fields: object) -> dict[str, Any]:
    decoded_body: dict[str, Any] = json.loads(apply_preset(json.dumps(fields).encode(), model(preset), route))
    return decoded_body


def test_a_request_for_any_other_model_keeps_its_very_bytes() -> None:
    body = b'{ "messages" : [ ],  "odd":1.0}'
    assert apply_preset(body, model(None), Route.CHAT) is body


def test_a_chat_gets_everything_it_does_not_say_itself() -> None:
    body = engine_body(Route.CHAT, messages=[ASKED])
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, *SHOTS, ASKED]
    assert (body["temperature"], body["top_k"], body["stop"], body["max_tokens"]) == (0.1, 5, ["END"], 7)
    assert "num_ctx" not in body


def test_a_preset_that_looks_back_upon_everything_says_it_as_engines_take_it() -> None:
    document = engine_body(Route.CHAT, preset=Preset(parameters={"repeat_last_n": -1}), messages=[ASKED])
    assert document["repeat_last_n"] > 100_000


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_chats_own_system_prompt_goes_first_and_before_the_examples(role: str) -> None:
    own = {"role": role, "content": "Be long."}
    assert engine_body(Route.CHAT, messages=[own, ASKED])["messages"] == [own, *SHOTS, ASKED]
    late = engine_body(Route.CHAT, messages=[ASKED, own])["messages"]
    assert late == [*SHOTS, ASKED, own]


@pytest.mark.parametrize(
    "own", [{"temperature": 0.9}, {"stop": "X"}, {"max_tokens": 3}, {"max_completion_tokens": 3}, {"top_k": 0}]
)
def test_a_requests_own_values_win(own: dict[str, object]) -> None:
    body = engine_body(Route.CHAT, preset=PRESET, messages=[ASKED], **own)
    assert own.items() <= body.items()
    assert not {"max_completion_tokens", "max_tokens"} <= body.keys()


def test_null_is_as_good_as_absent() -> None:
    assert engine_body(Route.CHAT, messages=[ASKED], temperature=None)["temperature"] == 0.1


def test_anthropics_route_has_its_own_names() -> None:
    body = engine_body(Route.MESSAGES, messages=[ASKED], max_tokens=50)
    assert body["system"] == "Be brief."
    assert body["messages"] == [*SHOTS, ASKED]
    assert (body["stop_sequences"], body["max_tokens"], body["temperature"]) == (["END"], 50, 0.1)
    assert engine_body(Route.MESSAGES, system="Mine.", messages=[ASKED])["system"] == "Mine."
    counted_body = engine_body(Route.COUNT_TOKENS, messages=[ASKED])
    assert counted_body.keys() == {"system", "messages"}


def test_responses_gets_instructions() -> None:
    body = engine_body(Route.RESPONSES, input="Why?")
    assert body["instructions"] == "Be brief."
    assert body["input"] == [*SHOTS, ASKED]
    assert body["max_output_tokens"] == 7
    assert engine_body(Route.RESPONSES, input="Why?", instructions="Mine.")["instructions"] == "Mine."


def test_a_bare_prompt_gets_parameters_only() -> None:
    body = engine_body(Route.COMPLETIONS, prompt="Once")
    assert body == {"prompt": "Once", "temperature": 0.1, "top_k": 5, "stop": ["END"], "max_tokens": 7}
    assert engine_body(Route.INFILL, input_prefix="a", n_predict=0)["n_predict"] == 0


@pytest.mark.parametrize("route", [Route.EMBEDDINGS, Route.TOKENIZE, Route.RERANK, Route.DETOKENIZE])
def test_what_does_not_write_is_left_alone(route: Route) -> None:
    assert engine_body(route, input="text") == {"input": "text"}


def test_endless_is_not_a_number_of_tokens() -> None:
    endless = Preset(parameters={"num_predict": -1})
    assert "max_tokens" not in engine_body(Route.CHAT, preset=endless, messages=[ASKED])


THINKS = Preset(parameters={"think": "medium", "thinking_budget_tokens": 900})


def test_a_chat_that_does_not_say_thinks_as_the_preset_does() -> None:
    body = engine_body(Route.CHAT, preset=THINKS, messages=[ASKED])
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True, "reasoning_effort": "medium"}
    assert (body["reasoning_effort"], body["thinking_budget_tokens"]) == ("medium", 900)


def test_thinking_is_switched_off_by_both_words_and_without_a_budget() -> None:
    off = Preset(parameters={"think": False, "thinking_budget_tokens": 900})
    body = engine_body(Route.CHAT, preset=off, messages=[ASKED], chat_template_kwargs={"language": "de"})
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False, "language": "de"}
    assert not {"reasoning_effort", "thinking_budget_tokens"} & body.keys()


@pytest.mark.parametrize(
    "own",
    [
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"chat_template_kwargs": {"thinking": False}},
        {"chat_template_kwargs": {"reasoning_effort": "high"}},
        {"thinking_budget_tokens": 5},
        {"output_config": {"effort": "low"}},
    ],
)
def test_a_request_that_says_how_much_to_think_is_left_alone(own: dict[str, object]) -> None:
    body = engine_body(Route.CHAT, preset=THINKS, messages=[ASKED], **own)
    assert body == {"messages": [ASKED], **own}


@pytest.mark.parametrize("route", [Route.MESSAGES, Route.COUNT_TOKENS, Route.APPLY_TEMPLATE])
def test_other_routes_are_told_by_their_template_alone(route: Route) -> None:
    body = engine_body(route, preset=THINKS, messages=[ASKED])
    assert body["chat_template_kwargs"]["reasoning_effort"] == "medium"
    assert not {"reasoning_effort", "thinking_budget_tokens"} & body.keys()
    own = engine_body(Route.MESSAGES, preset=THINKS, messages=[ASKED], thinking={"type": "disabled"})
    assert "chat_template_kwargs" not in own


@pytest.mark.parametrize("value", ["default", "a lot", 3])
def test_a_level_that_is_none_changes_nothing(value: str | int) -> None:
    body = engine_body(Route.CHAT, preset=Preset(parameters={"think": value}), messages=[ASKED])
    assert body == {"messages": [ASKED]}


def test_a_translated_request_is_read_as_it_thinks() -> None:
    request = ConversationRequest(messages=(ConversationMessage(MessageRole.USER, (Text("Why?"),)),))
    assert with_default_thinking(request, THINKS).thinking is ThinkingLevel.MEDIUM
    assert with_default_thinking(request, None) is request
    own = msgspec.structs.replace(request, thinking=ThinkingLevel.OFF)
    assert with_default_thinking(own, THINKS) is own
    arguments = msgspec.structs.replace(request, template_arguments={"enable_thinking": msgspec.Raw(b"false")})
    assert with_default_thinking(arguments, THINKS) is arguments
    body = body_of(with_default_thinking(request, THINKS), model="m", features=frozenset())
    document = json.loads(apply_preset(body, model(THINKS), Route.CHAT))
    assert (document["reasoning_effort"], document["thinking_budget_tokens"]) == ("medium", 900)
