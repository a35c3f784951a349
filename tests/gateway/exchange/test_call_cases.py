"""Which tool is called, with what, or none: cases of the kinds that benchmarks have, and a scripted model.

The model writes as Qwen's does; the same comes out where the engine hands on its text and where the engine reads it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import pytest

from app.gateway.services import Services
from tests.gateway.exchange.test_repairs import Facts, Scripted
from tests.gateway.exchange.test_supplied import Engine, writes
from tests.gateway.played import Gateway

Call = tuple[str, dict[str, object]]


class CallCase(NamedTuple):
    """The tools' parameters by name, what the model wants to call, and what the client is to get."""

    kind: str
    tools: dict[str, dict[str, object]]
    written: tuple[Call, ...]
    expected: tuple[Call, ...]
    text: str = ""


def schema(required: tuple[str, ...] = (), **properties: object) -> dict[str, object]:
    kinds = {name: {"type": each} if isinstance(each, str) else each for name, each in properties.items()}
    return {"type": "object", "properties": kinds, "required": list(required)}


AREA = {"area": schema(("base", "height"), base="integer", height="integer", unit="string")}
PLACES = {
    "weather": schema(("city",), city="string", unit={"type": "string", "enum": ["celsius", "fahrenheit"]}),
    "time": schema(("city",), city="string"),
    "distance": schema(("start", "end"), start="string", end="string"),
}
BOOKING = {
    "book": schema(
        ("guest", "nights"),
        guest=schema(("name",), name="string", age="integer"),
        nights={"type": "array", "items": {"type": "string"}},
        extras={"type": "object", "additionalProperties": {"type": "boolean"}},
        price={"anyOf": [{"type": "number"}, {"type": "null"}]},
    )
}


def case(
    kind: str,
    tools: dict[str, dict[str, object]],
    *written: Call,
    expected: Sequence[Call] | None = None,
    text: str = "",
) -> CallCase:
    return CallCase(kind, tools, written, written if expected is None else tuple(expected), text)


CASES = (
    case("simple", AREA, ("area", {"base": 10, "height": 5})),
    case("simple, with an optional value", AREA, ("area", {"base": 10, "height": 5, "unit": "cm"})),
    case("one of several", PLACES, ("time", {"city": "Oslo"})),
    case("parallel", PLACES, ("weather", {"city": "Oslo"}), ("weather", {"city": "Rome"})),
    case("parallel, of several", PLACES, ("weather", {"city": "Oslo"}), ("distance", {"start": "Oslo", "end": "Rome"})),
    case("nested", BOOKING, ("book", {"guest": {"name": "A. B.", "age": 30}, "nights": ["fri", "sat"]})),
    case("any properties", BOOKING, ("book", {"guest": {"name": "A"}, "nights": [], "extras": {"late": True}})),
    case("null allowed", BOOKING, ("book", {"guest": {"name": "A"}, "nights": [], "price": None})),
    case("no tool fits", PLACES, text="None of these tools plays music."),
    case(
        "numbers as text", AREA, ("area", {"base": "10", "height": "5"}), expected=[("area", {"base": 10, "height": 5})]
    ),
    case(
        "a list as text",
        BOOKING,
        ("book", {"guest": {"name": "A"}, "nights": '["fri"]'}),
        expected=[("book", {"guest": {"name": "A"}, "nights": ["fri"]})],
    ),
    case("quotes and lines", PLACES, ("time", {"city": 'The "Old"\nTown \\ {x}'})),
    case("other writing", PLACES, ("distance", {"start": "北京", "end": "Åre"})),
    case("nothing to say to it", {"now": {"type": "object", "properties": {}}}, ("now", {})),
)
cases = pytest.mark.parametrize("given", CASES, ids=lambda given: given.kind)


@pytest.fixture
def is_raw() -> bool:
    """Whether the engine hands on the model's text."""
    return False


@pytest.fixture
def services(services: Services, *, is_raw: bool) -> Services:
    adapters = {"llama.cpp": Engine()} if is_raw else services.adapters
    return replace(services, facts=Facts(), adapters=cast("Any", adapters))


async def ask_for_calls(gateway: Gateway, given: CallCase, path: str) -> tuple[list[Call], str]:
    tools = [{"type": "function", "function": {"name": name, "parameters": each}} for name, each in given.tools.items()]
    body = {"model": "guide", "messages": [{"role": "user", "content": given.kind}], "tools": tools, "stream": False}
    async with gateway.http.post(gateway.url + path, json=body) as reply:
        document = await reply.json()
    message = document["message"] if path.startswith("/api") else document["choices"][0]["message"]
    functions = [entry["function"] for entry in message.get("tool_calls") or ()]
    calls = [(each["name"], _arguments(each["arguments"])) for each in functions]
    return calls, message.get("content") or ""


def _arguments(value: object) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(value) if isinstance(value, str) else value)


@cases
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
@pytest.mark.parametrize("is_raw", [True])
async def test_the_text_of_a_model_becomes_the_right_calls(
    gateway: Gateway, given: CallCase, path: str, *, is_raw: bool
) -> None:
    assert is_raw
    blocks = [
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
        for name, arguments in given.written
    ]
    gateway.upstream.play = writes("\n".join([*([given.text] if given.text else []), *blocks]))
    assert await ask_for_calls(gateway, given, path) == (list(given.expected), given.text)


@cases
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
async def test_calls_that_an_engine_read_are_checked_and_put_right(
    gateway: Gateway, given: CallCase, path: str
) -> None:
    deltas: list[object] = [{"content": given.text}] if given.text else []
    for number, (name, arguments) in enumerate(given.written):
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas.append({"tool_calls": [{"index": number, "id": f"call_{number}", "function": function}]})
    engine = Scripted(gateway, [*deltas, "tool_calls" if given.written else "stop"])
    assert await ask_for_calls(gateway, given, path) == (list(given.expected), given.text)
    assert len(engine.asked) == 1
