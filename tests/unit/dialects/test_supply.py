"""Whatever a request needs, every engine's answer to it is as the table says: nothing is passed over in silence."""

import json
from typing import Any

import msgspec
import pytest

from app.core.errors import BadRequest
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.families.family import family_of
from app.gateway.canonical.request import (
    CompletionRequest,
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    Image,
    MessageRole,
    Request,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Sound,
    Text,
    ToolChoice,
    ToolMode,
)
from app.gateway.exchange.engine.capability import SUPPLY, Fulfilment, RequestNeed, fulfilment_of, needs_of
from app.gateway.exchange.engine.planning import UpstreamPlan, may_call, plan_request
from engines.api import Descriptor, Feature
from engines.registry import ADAPTERS
from tests.unit.dialects.outputs import OUTPUTS, TOOLS, WEATHER

FAMILY = family_of(OUTPUTS[0].template)
HI = (ConversationMessage(MessageRole.USER, (Text("Hi"),)),)
SCHEMA = ResponseFormat(shape=ResponseShape.SCHEMA, schema=msgspec.Raw(b'{"type":"object"}'))
GRAMMAR = ResponseFormat(shape=ResponseShape.GRAMMAR, grammar="root ::= x")
REQUESTS: dict[RequestNeed, Request] = {
    RequestNeed.TOOLS: ConversationRequest(messages=HI, tools=TOOLS),
    RequestNeed.TOOL_CHOICE: ConversationRequest(
        messages=HI, tools=TOOLS, tool_choice=ToolChoice(choose=ToolMode.REQUIRED)
    ),
    RequestNeed.ONE_CALL: ConversationRequest(messages=HI, tools=TOOLS, tool_choice=ToolChoice(one_at_a_time=True)),
    RequestNeed.REASONING: ConversationRequest(messages=HI, thinking=ThinkingLevel.HIGH),
    RequestNeed.THINKING_BUDGET: ConversationRequest(messages=HI, thinking_budget=50),
    RequestNeed.FORMAT: ConversationRequest(messages=HI, response_format=SCHEMA),
    RequestNeed.GRAMMAR: ConversationRequest(messages=HI, response_format=GRAMMAR),
    RequestNeed.FORMAT_OF_PROMPT: CompletionRequest(prompt="Hi", response_format=SCHEMA),
    RequestNeed.IMAGES: ConversationRequest(
        messages=(ConversationMessage(MessageRole.USER, (Image(media_type="image/png", data="AA=="),)),)
    ),
    RequestNeed.SOUND: ConversationRequest(
        messages=(ConversationMessage(MessageRole.USER, (Sound(format="wav", data="AA=="),)),)
    ),
    RequestNeed.PREFILL: ConversationRequest(
        messages=(*HI, ConversationMessage(MessageRole.ASSISTANT, (Text("Once"),))), continues=True
    ),
    RequestNeed.LOGPROBS: ConversationRequest(messages=HI, limits=GenerationLimits(logprobs=2)),
    RequestNeed.LOGIT_BIAS: ConversationRequest(messages=HI, sampling=SamplingParams(logit_bias={"5": 1.0})),
    RequestNeed.STOPS: ConversationRequest(messages=HI, limits=GenerationLimits(stops=("STOP",))),
    RequestNeed.SEED: ConversationRequest(messages=HI, sampling=SamplingParams(seed=5)),
}
SAID = {
    RequestNeed.TOOLS: "tools",
    RequestNeed.TOOL_CHOICE: "tool_choice",
    RequestNeed.ONE_CALL: "parallel_tool_calls",
    RequestNeed.REASONING: "chat_template_kwargs",
    RequestNeed.THINKING_BUDGET: "thinking_budget_tokens",
    RequestNeed.FORMAT: "response_format",
    RequestNeed.GRAMMAR: "root ::= x",
    RequestNeed.FORMAT_OF_PROMPT: "json_schema",
    RequestNeed.IMAGES: "image_url",
    RequestNeed.SOUND: "input_audio",
    RequestNeed.PREFILL: '"content":"Once"',
    RequestNeed.LOGPROBS: "top_logprobs",
    RequestNeed.LOGIT_BIAS: "logit_bias",
    RequestNeed.STOPS: '"stop"',
    RequestNeed.SEED: '"seed"',
}
"""What an engine that has it natively is told."""

engines = pytest.mark.parametrize("engine", list(ADAPTERS))


def plan_of(engine: str, request: Request) -> tuple[UpstreamPlan, Descriptor]:
    descriptor = ADAPTERS[engine].descriptor
    return plan_request(request, descriptor, FAMILY, model="m"), descriptor


@engines
@pytest.mark.parametrize("need", list(REQUESTS))
def test_a_need_is_met_as_the_table_says(engine: str, need: RequestNeed) -> None:
    request, descriptor = REQUESTS[need], ADAPTERS[engine].descriptor
    assert need in needs_of(request)
    refused_needs = [
        entry for entry in needs_of(request) if fulfilment_of(entry, descriptor.features) is Fulfilment.REFUSED
    ]
    if refused_needs:
        with pytest.raises(BadRequest, match=descriptor.name) as refusal:
            plan_request(request, descriptor, FAMILY, model="m")
        assert refusal.value.code == "engine_cannot"
        return
    plan, _ = plan_of(engine, request)
    body, reading_options = plan.body.decode(), plan.reading
    is_loose = need is RequestNeed.TOOL_CHOICE and descriptor.loosens_calls
    match fulfilment_of(need, descriptor.features - ({Feature.TOOLS} if is_loose else set())):
        case Fulfilment.ENGINE | Fulfilment.PASSED_ON:
            assert SAID[need] in body
        case Fulfilment.READ:
            assert reading_options is not None
            assert need is not RequestNeed.TOOLS or reading_options.tools == TOOLS
            assert need is not RequestNeed.ONE_CALL or reading_options.one_at_a_time
            assert need is not RequestNeed.REASONING or reading_options.reads_thoughts
        case Fulfilment.CONSTRAINED:
            schema = json.loads(body)["response_format"]["json_schema"]["schema"]
            assert [entry["properties"]["name"]["const"] for entry in schema["anyOf"]] == [tool.name for tool in TOOLS]
        case Fulfilment.CHECKED:
            assert reading_options is not None
            assert reading_options.must_call
            assert plan.again not in {None, plan.body}
        case Fulfilment.CUT:
            assert reading_options is not None
            assert reading_options.stops == ("STOP",)
            assert SAID[need] not in body
        case other:
            pytest.fail(f"{need} is {other}, which this test does not know")


@engines
def test_usage_is_asked_for_where_the_engine_tells_it(engine: str) -> None:
    plan, descriptor = plan_of(engine, ConversationRequest(messages=HI))
    assert ("stream_options" in plan.body.decode()) is (
        fulfilment_of(RequestNeed.USAGE, descriptor.features) is Fulfilment.ENGINE
    )


def test_vllm_is_held_to_the_schema_of_a_call_that_must_be_made_and_reads_others_itself() -> None:
    plan, _ = plan_of("vllm", REQUESTS[RequestNeed.TOOL_CHOICE])
    assert "response_format" in json.loads(plan.body)
    plan, _ = plan_of("vllm", REQUESTS[RequestNeed.TOOLS])
    assert "response_format" not in json.loads(plan.body)


def test_every_need_is_in_the_table_and_tried() -> None:
    assert set(SUPPLY) == set(RequestNeed)
    assert set(REQUESTS) | {RequestNeed.USAGE, RequestNeed.CHOICES} == set(RequestNeed)
    assert all(way.name for way in SUPPLY.values() if way.otherwise is Fulfilment.REFUSED)


def test_llama_cpp_does_all_of_it_itself() -> None:
    features = ADAPTERS["llama.cpp"].descriptor.features
    lacking_needs = {
        need for need in RequestNeed if fulfilment_of(need, features) not in {Fulfilment.ENGINE, Fulfilment.PASSED_ON}
    }
    assert lacking_needs <= {RequestNeed.IMAGES}


def test_a_call_or_an_answer_in_a_form_are_one_schema_with_its_references_whole() -> None:
    tool = msgspec.structs.replace(
        WEATHER, parameters=msgspec.Raw(b'{"properties":{"at":{"$ref":"#/$defs/p"}},"$defs":{"p":{"type":"number"}}}')
    )
    form = ResponseFormat(
        shape=ResponseShape.SCHEMA,
        schema=msgspec.Raw(b'{"properties":{"a":{"$ref":"#/definitions/p"}},"definitions":{"p":{"type":"string"}}}'),
    )
    body: dict[str, Any] = json.loads(bytes(may_call([tool], form).schema or b""))
    answer, call = body["anyOf"]
    assert (answer["properties"]["a"], body["$defs"]["p"]) == ({"$ref": "#/$defs/p"}, {"type": "string"})
    at = call["properties"]["arguments"]["properties"]["at"]
    assert body["$defs"][at["$ref"].removeprefix("#/$defs/")] == {"type": "number"}


@pytest.mark.parametrize(
    ("level", "opens"),
    [(ThinkingLevel.DEFAULT, True), (ThinkingLevel.ON, True), (ThinkingLevel.OFF, False), (ThinkingLevel.HIGH, True)],
)
def test_whether_the_prompt_opens_the_reasoning_follows_the_request(level: ThinkingLevel, *, opens: bool) -> None:
    template = "{% if add_generation_prompt %}{% if enable_thinking is false %}{% else %}<think>{% endif %}{% endif %}"
    descriptor = msgspec.structs.replace(ADAPTERS["llama.cpp"].descriptor, features=frozenset())
    plan = plan_request(ConversationRequest(messages=HI, thinking=level), descriptor, family_of(template), model="m")
    assert plan.reading is not None
    assert plan.reading.is_open is opens
