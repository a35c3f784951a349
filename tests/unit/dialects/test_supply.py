"""Whatever a request needs, every engine's answer to it is as the table says: nothing is passed over in silence."""

import json
from typing import Any

import msgspec
import pytest

from app.core.errors import BadRequest
from app.gateway.canonical.families.family import family_of
from app.gateway.canonical.request import (
    Choose,
    Complete,
    Generate,
    Image,
    Level,
    Limits,
    Message,
    Request,
    ResponseFormat,
    Role,
    Sampling,
    Shape,
    Text,
    ToolChoice,
)
from app.gateway.exchange.engine.call_schema import may_call
from app.gateway.exchange.engine.capability import SUPPLY, How, Need, how, needs
from app.gateway.exchange.engine.planning import Plan, planned
from engines.api import Descriptor
from engines.registry import ADAPTERS
from tests.unit.dialects.outputs import OUTPUTS, TOOLS, WEATHER

FAMILY = family_of(OUTPUTS[0].template)
HI = (Message(Role.USER, (Text("Hi"),)),)
SCHEMA = ResponseFormat(shape=Shape.SCHEMA, schema=msgspec.Raw(b'{"type":"object"}'))
REQUESTS: dict[Need, Request] = {
    Need.TOOLS: Generate(messages=HI, tools=TOOLS),
    Need.TOOL_CHOICE: Generate(messages=HI, tools=TOOLS, tool_choice=ToolChoice(choose=Choose.REQUIRED)),
    Need.ONE_CALL: Generate(messages=HI, tools=TOOLS, tool_choice=ToolChoice(one_at_a_time=True)),
    Need.REASONING: Generate(messages=HI, thinking=Level.HIGH),
    Need.FORMAT: Generate(messages=HI, response_format=SCHEMA),
    Need.FORMAT_OF_PROMPT: Complete(prompt="Hi", response_format=SCHEMA),
    Need.IMAGES: Generate(messages=(Message(Role.USER, (Image(media_type="image/png", data="AA=="),)),)),
    Need.LOGPROBS: Generate(messages=HI, limits=Limits(logprobs=2)),
    Need.LOGIT_BIAS: Generate(messages=HI, sampling=Sampling(logit_bias={"5": 1.0})),
    Need.STOPS: Generate(messages=HI, limits=Limits(stops=("STOP",))),
    Need.SEED: Generate(messages=HI, sampling=Sampling(seed=5)),
}
SAID = {
    Need.TOOLS: "tools",
    Need.TOOL_CHOICE: "tool_choice",
    Need.ONE_CALL: "parallel_tool_calls",
    Need.REASONING: "chat_template_kwargs",
    Need.FORMAT: "response_format",
    Need.FORMAT_OF_PROMPT: "json_schema",
    Need.IMAGES: "image_url",
    Need.LOGPROBS: "top_logprobs",
    Need.LOGIT_BIAS: "logit_bias",
    Need.STOPS: '"stop"',
    Need.SEED: '"seed"',
}
"""What an engine that has it natively is told."""

engines = pytest.mark.parametrize("engine", list(ADAPTERS))


def plan_of(engine: str, request: Request) -> tuple[Plan, Descriptor]:
    descriptor = ADAPTERS[engine].descriptor
    return planned(request, descriptor, FAMILY, model="m"), descriptor


@engines
@pytest.mark.parametrize("need", list(REQUESTS))
def test_a_need_is_met_as_the_table_says(engine: str, need: Need) -> None:
    request, descriptor = REQUESTS[need], ADAPTERS[engine].descriptor
    assert need in needs(request)
    refused = [one for one in needs(request) if how(one, descriptor.features) is How.REFUSED]
    if refused:
        with pytest.raises(BadRequest, match=descriptor.name) as refusal:
            planned(request, descriptor, FAMILY, model="m")
        assert refusal.value.code == "engine_cannot"
        return
    plan, _ = plan_of(engine, request)
    body, reading = plan.body.decode(), plan.reading
    match how(need, descriptor.features):
        case How.ENGINE | How.PASSED_ON:
            assert SAID[need] in body
        case How.READ:
            assert reading is not None
            assert need is not Need.TOOLS or reading.tools == TOOLS
            assert need is not Need.ONE_CALL or reading.one_at_a_time
            assert need is not Need.REASONING or reading.reads_thoughts
        case How.CONSTRAINED:
            schema = json.loads(body)["response_format"]["json_schema"]["schema"]
            assert [one["properties"]["name"]["const"] for one in schema["anyOf"]] == [tool.name for tool in TOOLS]
        case How.CHECKED:
            assert reading is not None
            assert reading.must_call
            assert plan.again not in {None, plan.body}
        case How.CUT:
            assert reading is not None
            assert reading.stops == ("STOP",)
            assert SAID[need] not in body
        case other:
            pytest.fail(f"{need} is {other}, which this test does not know")


@engines
def test_usage_is_asked_for_where_the_engine_tells_it(engine: str) -> None:
    plan, descriptor = plan_of(engine, Generate(messages=HI))
    assert ("stream_options" in plan.body.decode()) is (how(Need.USAGE, descriptor.features) is How.ENGINE)


def test_every_need_is_in_the_table_and_tried() -> None:
    assert set(SUPPLY) == set(Need)
    assert set(REQUESTS) | {Need.USAGE, Need.CHOICES} == set(Need)
    assert all(way.name for way in SUPPLY.values() if way.otherwise is How.REFUSED)


def test_llama_cpp_does_all_of_it_itself() -> None:
    features = ADAPTERS["llama.cpp"].descriptor.features
    lacking = {need for need in Need if how(need, features) not in {How.ENGINE, How.PASSED_ON}}
    assert lacking <= {Need.IMAGES}


def test_a_call_or_an_answer_in_a_form_are_one_schema_with_its_references_whole() -> None:
    tool = msgspec.structs.replace(
        WEATHER, parameters=msgspec.Raw(b'{"properties":{"at":{"$ref":"#/$defs/p"}},"$defs":{"p":{"type":"number"}}}')
    )
    form = ResponseFormat(
        shape=Shape.SCHEMA,
        schema=msgspec.Raw(b'{"properties":{"a":{"$ref":"#/definitions/p"}},"definitions":{"p":{"type":"string"}}}'),
    )
    found: dict[str, Any] = json.loads(bytes(may_call([tool], form).schema or b""))
    answer, call = found["anyOf"]
    assert (answer["properties"]["a"], found["$defs"]["p"]) == ({"$ref": "#/$defs/p"}, {"type": "string"})
    at = call["properties"]["arguments"]["properties"]["at"]
    assert found["$defs"][at["$ref"].removeprefix("#/$defs/")] == {"type": "number"}


@pytest.mark.parametrize(
    ("level", "opens"), [(Level.DEFAULT, True), (Level.ON, True), (Level.OFF, False), (Level.HIGH, True)]
)
def test_whether_the_prompt_opens_the_reasoning_follows_the_request(level: Level, *, opens: bool) -> None:
    template = "{% if add_generation_prompt %}{% if enable_thinking is false %}{% else %}<think>{% endif %}{% endif %}"
    descriptor = msgspec.structs.replace(ADAPTERS["llama.cpp"].descriptor, features=frozenset())
    plan = planned(Generate(messages=HI, thinking=level), descriptor, family_of(template), model="m")
    assert plan.reading is not None
    assert plan.reading.is_open is opens
