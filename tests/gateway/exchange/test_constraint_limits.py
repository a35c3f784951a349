"""What would keep an engine busy for minutes is refused with a sentence; what people send passes."""

import json
import string
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import BadRequest
from app.gateway.exchange.constraint_limits import refuse_large_constraints, strip_literals
from tests.gateway.played import Gateway

JSON_GRAMMAR = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws     ::= | " " | "\n" [ \t]{0,20}
"""
"""As llama.cpp brings it along."""


def schema_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


REFUSED = [
    ({"grammar": "root ::= " + '("a"?)' * 3000}, "A rule of the grammar has more than 16 parts"),
    ({"grammar": "root ::= " + "[a-z]{0,1}" * 40}, "A rule of the grammar"),
    ({"grammar": "root ::= " + '"a"' * 30_000}, "The grammar has more than 65,536 characters"),
    ({"grammar": "root ::= " + "a|" * 6000}, "more than 5,000 alternatives"),
    ({"response_format": {"type": "grammar", "grammar": "root ::= " + "[a-z]*" * 30}}, "A rule of the grammar"),
    ({"logit_bias": {str(token): 1 for token in range(100_000)}}, "`logit_bias` has more than 10,000 entries"),
    ({"logit_bias": [[1, 1]] * 10_001}, "`logit_bias` has more than 10,000 entries"),
    (schema_body({"enum": [f"w{n}" for n in range(10_000)]}), "`enum` of a schema has more than 2,000 values"),
    (schema_body({"properties": {f"w{n}": {} for n in range(500)}}), "more than 300 optional properties"),
    (schema_body({"type": "string", "pattern": "^" + "[a-z]?" * 40 + "$"}), "A pattern of a schema has"),
    ({"tools": [{}] * 100_001}, "The schemas have more than 100,000 parts"),
    ({"grammar": "root ::= " + "a " * 10_000}, "The grammars and patterns have more than 10,000 parts"),
    (schema_body({"anyOf": [{"pattern": "(a)" * 40}] * 90}), "The grammars and patterns have more than 10,000 parts"),
    ({"grammar": "root ::= ([a-z]?){0,40}"}, "The grammar has more than 16 parts in a row"),
    ({"grammar": "root ::= ([a-z]?){40}"}, "The grammar has more than 16 parts in a row"),
    ({"grammar": "root ::= (([a-z]*){4} [a-z]?){4}"}, "The grammar has more than 16 parts in a row"),
    ({"grammar": "root ::=" + " a" * 17 + "\na ::= [a-z]?"}, "The grammar has more than 16 parts in a row"),
    ({"grammar": "a ::= [a-z]? | b b\nb ::= c c\nc ::= d d\nd ::= e e e\ne ::= [0-9]*\nroot ::= a"}, "in a row"),
    (schema_body({"type": "string", "pattern": "^([a-z]?){0,40}$"}), "A pattern of a schema has more than 16 parts in"),
    (
        schema_body({"type": "string", "pattern": r"^(?:(?:\w?){5}){5}$"}),
        "A pattern of a schema has more than 16 parts in",
    ),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_takes_too_long_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequest, match=sentence) as error:
        refuse_large_constraints(json.dumps(fields).encode())
    assert error.value.code == "constraint_too_large"
    assert error.value.hint


@pytest.mark.parametrize(
    "fields",
    [
        {"grammar": JSON_GRAMMAR},
        {"grammar": 'root ::= "????????????????????????????" [*]' + " # ?" * 40},
        {"logit_bias": {str(token): -100 for token in range(5000)}},
        schema_body({"properties": {f"w{n}": {} for n in range(500)}, "required": [f"w{n}" for n in range(400)]}),
        schema_body({"enum": list(string.ascii_letters)}),
        schema_body({"pattern": r"^(?:\d{4}-)?" + r"\?\*" * 30 + '#".*?$'}),
    ],
)
def test_what_people_send_passes(fields: dict[str, Any]) -> None:
    refuse_large_constraints(json.dumps(fields).encode())


def test_a_key_written_with_escapes_is_no_way_around() -> None:
    body = json.dumps({"grammar": "root ::= " + '("a"?)' * 3000}).replace("grammar", r"\u0067rammar", 1)
    with pytest.raises(BadRequest):
        refuse_large_constraints(body.encode())


def test_literals_are_left_out_with_their_escapes() -> None:
    assert strip_literals(r'a ::= "x\"?" [^\]?]* # why?' + "\nb") == "a ::= _ _* _b"


async def test_the_refusal_is_a_typed_400(gateway: Gateway) -> None:
    async def play(_request: web.Request) -> web.StreamResponse:
        raise AssertionError("it reached the engine")

    gateway.upstream.play = play
    body = {
        "model": "guide",
        "messages": [{"role": "user", "content": "Hi"}],
        "grammar": "root ::= " + '("a"?)' * 3000,
    }
    async with gateway.http.post(gateway.url + "/v1/chat/completions", json=body) as reply:
        assert reply.status == 400
        assert (await reply.json())["error"]["code"] == "constraint_too_large"


@pytest.mark.parametrize(("count", "is_refused"), [(16, False), (17, True)])
def test_sixteen_parts_may_be_left_out_and_no_more(count: int, *, is_refused: bool) -> None:
    for fields in ({"grammar": "root ::= " + '"a"? "b" ' * count}, schema_body({"pattern": "^" + "a?b" * count + "$"})):
        if is_refused:
            with pytest.raises(BadRequest):
                refuse_large_constraints(json.dumps(fields).encode())
        else:
            refuse_large_constraints(json.dumps(fields).encode())
