"""What a made model adds to a request on each of an engine's routes; the request's own values go first."""

import json
from typing import Any

import pytest

from app.core.models import ModelInfo, Preset, PresetMessage
from app.gateway.exchange.presets import apply_preset
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


def sent(route: Route, *, preset: Preset = PRESET, **fields: object) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(apply_preset(json.dumps(fields).encode(), model(preset), route))
    return decoded


def test_a_request_for_any_other_model_keeps_its_very_bytes() -> None:
    body = b'{ "messages" : [ ],  "odd":1.0}'
    assert apply_preset(body, model(None), Route.CHAT) is body


def test_a_chat_gets_everything_it_does_not_say_itself() -> None:
    body = sent(Route.CHAT, messages=[ASKED])
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, *SHOTS, ASKED]
    assert (body["temperature"], body["top_k"], body["stop"], body["max_tokens"]) == (0.1, 5, ["END"], 7)
    assert "num_ctx" not in body


def test_a_preset_that_looks_back_upon_everything_says_it_as_engines_take_it() -> None:
    told = sent(Route.CHAT, preset=Preset(parameters={"repeat_last_n": -1}), messages=[ASKED])
    assert told["repeat_last_n"] > 100_000


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_chats_own_system_prompt_goes_first_and_before_the_examples(role: str) -> None:
    own = {"role": role, "content": "Be long."}
    assert sent(Route.CHAT, messages=[own, ASKED])["messages"] == [own, *SHOTS, ASKED]
    late = sent(Route.CHAT, messages=[ASKED, own])["messages"]
    assert late == [*SHOTS, ASKED, own]


@pytest.mark.parametrize(
    "own", [{"temperature": 0.9}, {"stop": "X"}, {"max_tokens": 3}, {"max_completion_tokens": 3}, {"top_k": 0}]
)
def test_a_requests_own_values_win(own: dict[str, object]) -> None:
    body = sent(Route.CHAT, preset=PRESET, messages=[ASKED], **own)
    assert own.items() <= body.items()
    assert not {"max_completion_tokens", "max_tokens"} <= body.keys()


def test_null_is_as_good_as_absent() -> None:
    assert sent(Route.CHAT, messages=[ASKED], temperature=None)["temperature"] == 0.1


def test_anthropics_route_has_its_own_names() -> None:
    body = sent(Route.MESSAGES, messages=[ASKED], max_tokens=50)
    assert body["system"] == "Be brief."
    assert body["messages"] == [*SHOTS, ASKED]
    assert (body["stop_sequences"], body["max_tokens"], body["temperature"]) == (["END"], 50, 0.1)
    assert sent(Route.MESSAGES, system="Mine.", messages=[ASKED])["system"] == "Mine."
    counted = sent(Route.COUNT_TOKENS, messages=[ASKED])
    assert counted.keys() == {"system", "messages"}


def test_responses_gets_instructions() -> None:
    body = sent(Route.RESPONSES, input="Why?")
    assert body["instructions"] == "Be brief."
    assert body["input"] == [*SHOTS, ASKED]
    assert body["max_output_tokens"] == 7
    assert sent(Route.RESPONSES, input="Why?", instructions="Mine.")["instructions"] == "Mine."


def test_a_bare_prompt_gets_parameters_only() -> None:
    body = sent(Route.COMPLETIONS, prompt="Once")
    assert body == {"prompt": "Once", "temperature": 0.1, "top_k": 5, "stop": ["END"], "max_tokens": 7}
    assert sent(Route.INFILL, input_prefix="a", n_predict=0)["n_predict"] == 0


@pytest.mark.parametrize("route", [Route.EMBEDDINGS, Route.TOKENIZE, Route.RERANK, Route.DETOKENIZE])
def test_what_does_not_write_is_left_alone(route: Route) -> None:
    assert sent(route, input="text") == {"input": "text"}


def test_endless_is_not_a_number_of_tokens() -> None:
    endless = Preset(parameters={"num_predict": -1})
    assert "max_tokens" not in sent(Route.CHAT, preset=endless, messages=[ASKED])
