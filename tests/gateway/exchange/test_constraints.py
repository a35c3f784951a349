"""What an answer cannot be held to never reaches an engine, whatever the dialect."""

import json
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.exchange.constraints import refuse_constraints
from tests.gateway.played import Gateway

MORE_THAN_MAY_BE = {"type": "string", "minLength": 5, "maxLength": 2}
SAID = [{"role": "user", "content": "Hi"}]


def schema(of: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": {"a": {"anyOf": [of]}}}


def tool(of: dict[str, object]) -> dict[str, object]:
    return {"type": "function", "function": {"name": "f", "parameters": schema(of)}}


@pytest.mark.parametrize(
    "constraint",
    [
        MORE_THAN_MAY_BE,
        {"type": "array", "items": {}, "minItems": 3, "maxItems": 2.0},
        {"type": "string", "pattern": "^a{2,1}$"},
        {"type": "string", "pattern": "(((("},
        {"type": "string", "pattern": "^[a-z"},
        {"type": "string", "pattern": "*a"},
    ],
)
def test_what_cannot_be_is_refused(constraint: dict[str, object]) -> None:
    for fields in (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": schema(constraint)}}},
        {"json_schema": schema(constraint)},
        {"tools": [tool(constraint)]},
    ):
        with pytest.raises(BadRequest, match="No answer can be constrained to this"):
            refuse_constraints(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "constraint",
    [
        {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^a{1,2}$"},
        {"type": "string", "minLength": 2, "pattern": "a{2,}"},
        {"type": "string", "pattern": "(?<year>[0-9]{4})-[\\w-.]+[^]"},
        {"type": "object", "properties": {"minLength": {"type": "integer"}, "maxLength": {"type": "integer"}}},
    ],
)
def test_what_can_be_passes(constraint: dict[str, object]) -> None:
    refuse_constraints(json.dumps({"json_schema": schema(constraint)}).encode())


def test_grammars_repeat_no_more_than_they_may() -> None:
    with pytest.raises(BadRequest):
        refuse_constraints(b'{"grammar":"root ::= [a-z]{5,2}"}')
    refuse_constraints(b'{"grammar":"root ::= \\"{5,2}\\" [{5,2}] x{2,5}"}')
    refuse_constraints(b'{"prompt":"minLength\\" 5 maxLength\\" 2, pattern\\": (((("}')


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": SAID, "tools": [tool(MORE_THAN_MAY_BE)]}),
        (
            "/v1/responses",
            {
                "input": "Hi",
                "text": {"format": {"type": "json_schema", "name": "x", "schema": schema(MORE_THAN_MAY_BE)}},
            },
        ),
        (
            "/v1/messages",
            {"max_tokens": 9, "messages": SAID, "tools": [{"name": "f", "input_schema": schema(MORE_THAN_MAY_BE)}]},
        ),
        ("/api/chat", {"messages": SAID, "format": schema(MORE_THAN_MAY_BE)}),
        ("/v1/completions", {"prompt": "Hi", "json_schema": schema(MORE_THAN_MAY_BE)}),
    ],
)
async def test_no_dialect_lets_it_through(gateway: Gateway, path: str, body: dict[str, Any]) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("it reached the engine")

    gateway.upstream.play = play
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **body}) as reply:
        assert reply.status == 400
        assert "No answer can be constrained to this" in await reply.text()
