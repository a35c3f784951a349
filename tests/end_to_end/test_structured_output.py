"""Answers held to a form, and calls held to a tool, by the real engine, asked by the clients of three dialects."""

import json
from collections.abc import Iterator
from typing import Any, cast

import anthropic
import ollama
import openai
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from tests.scripted_gguf import ScriptedLlama

pytestmark = pytest.mark.real_engine

HI: list[Any] = [{"role": "user", "content": "Will it rain?"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"rain": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["rain"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "schema": SCHEMA}
RAINS = ({"rain": "yes"}, {"rain": "no"})
PLACE = {"type": "object", "properties": {"at": {"type": "string", "enum": ["Bern", "Basel"]}}, "required": ["at"]}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": PLACE}}
    for name in ("weather", "traffic")
]
PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Without reasoning: a form is kept from the first token on."""
CALLS = ['<tool_call>\n{"name": "weather", ', '"arguments": {"at": "Bern"}}\n</tool_call>']


@pytest.fixture(scope="module", autouse=True)
def models(client: GatewayClient, home: Paths) -> None:
    """One that would rather talk, and one that calls a tool."""
    ScriptedLlama(["It may ", "rain ", "or not."], template=PLAIN).write(home.models / "talker.gguf")
    ScriptedLlama(CALLS).write(home.models / "caller.gguf")


@pytest.fixture
def oai(client: GatewayClient) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{client.gateway.url}/v1", api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


@pytest.fixture
def claude(client: GatewayClient) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=client.gateway.url, api_key="any", max_retries=0, timeout=60) as client_api:
        yield client_api


def test_openai(oai: openai.OpenAI) -> None:
    response_format: Any = {"type": "json_schema", "json_schema": {"name": "rain", "schema": SCHEMA, "strict": True}}
    reply = oai.chat.completions.create(model="talker", messages=HI, response_format=response_format)
    assert json.loads(reply.choices[0].message.content or "") in RAINS


@pytest.mark.parametrize("body", [{"output_config": {"format": FORMAT}}, {"output_format": FORMAT}])
def test_anthropic(claude: anthropic.Anthropic, body: dict[str, object]) -> None:
    reply = claude.messages.create(model="talker", max_tokens=60, messages=HI, system="Be brief.", extra_body=body)
    assert json.loads(cast("Any", reply.content[0]).text) in RAINS
    assert (reply.stop_reason, reply.model) == ("end_turn", "talker")
    assert reply.usage.input_tokens + (reply.usage.cache_read_input_tokens or 0) > 3
    assert reply.usage.output_tokens > 3
    with claude.messages.stream(model="talker", max_tokens=60, messages=HI, extra_body=body) as stream:
        assert json.loads(stream.get_final_text()) in RAINS


def test_ollama(client: GatewayClient) -> None:
    with ollama.Client(host=client.gateway.url, timeout=60) as api:
        reply = api.chat("talker", messages=HI, format=SCHEMA)
        assert json.loads(reply.message.content or "") in RAINS
        assert json.loads(api.generate("talker", prompt="Will it rain?", format=SCHEMA).response) in RAINS


def test_the_tool_that_is_named_is_called(oai: openai.OpenAI) -> None:
    choice: Any = {"type": "function", "function": {"name": "weather"}}
    reply = oai.chat.completions.create(model="caller", messages=HI, tools=TOOLS, tool_choice=choice)
    assert reply.choices[0].finish_reason == "tool_calls"
    call = cast("Any", reply.choices[0].message.tool_calls)[0].function
    assert (call.name, json.loads(call.arguments)) == ("weather", {"at": "Bern"})
    with pytest.raises(openai.BadRequestError, match="not among the tools"):
        oai.chat.completions.create(model="caller", messages=HI, tools=TOOLS[1:], tool_choice=choice)


def test_anthropic_calls_the_tool_that_is_named(claude: anthropic.Anthropic) -> None:
    tools: Any = [{"name": name, "input_schema": PLACE} for name in ("weather", "traffic")]
    choice: Any = {"type": "tool", "name": "weather"}
    reply = claude.messages.create(model="caller", max_tokens=99, messages=HI, tools=tools, tool_choice=choice)
    assert (reply.stop_reason, cast("Any", reply.content[-1]).input) == ("tool_use", {"at": "Bern"})


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "traffic"}}])
@pytest.mark.parametrize("streams", [True, False])
def test_a_template_without_tools_calls_one_all_the_same(oai: openai.OpenAI, choice: Any, *, streams: bool) -> None:  # noqa: ANN401 -- as the SDK takes it
    arguments: Any = {"model": "talker", "messages": HI, "tools": TOOLS, "tool_choice": choice, "max_tokens": 99}
    if streams:
        deltas = [chunk.choices[0].delta for chunk in oai.chat.completions.create(**arguments, stream=True)]
        calls = [call for delta in deltas for call in delta.tool_calls or ()]
    else:
        calls = cast("Any", oai.chat.completions.create(**arguments).choices[0].message.tool_calls)
    name = "".join(call.function.name or "" for call in calls)
    assert name in ({"weather", "traffic"} if choice == "required" else {"traffic"})
    assert json.loads("".join(call.function.arguments for call in calls))["at"] in {"Bern", "Basel"}


def test_a_template_without_tools_calls_one_for_anthropics_clients_and_in_responses(
    oai: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    tools: Any = [{"name": name, "input_schema": PLACE} for name in ("weather", "traffic")]
    reply = claude.messages.create(
        model="talker", max_tokens=99, messages=HI, tools=tools, tool_choice=cast("Any", {"type": "any"})
    )
    assert (reply.stop_reason, cast("Any", reply.content[-1]).type) == ("tool_use", "tool_use")
    flat: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]
    response = oai.responses.create(model="talker", input=HI, tools=flat, tool_choice="required", max_output_tokens=99)
    assert [item.type for item in response.output] == ["function_call"]


def test_tools_of_a_template_without_them_are_counted(oai: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    tools: Any = [{"name": "weather", "input_schema": PLACE}]
    bare = claude.messages.count_tokens(model="talker", messages=HI).input_tokens
    input_tokens = claude.messages.count_tokens(model="talker", messages=HI, tools=tools).input_tokens
    assert input_tokens > bare + 50
    flat: Any = [{"type": "function", **tool["function"]} for tool in TOOLS]
    count = oai.responses.input_tokens.count(model="talker", input=HI, tools=flat[:1]).input_tokens
    reply = oai.chat.completions.create(model="talker", messages=HI, tools=TOOLS[:1], max_tokens=1)
    assert count == cast("Any", reply.usage).prompt_tokens > bare + 50
