"""What a chat asks of its answers beyond sampling: it reaches the engine, or is refused before a question is stored."""

import json
from http import HTTPStatus

import pytest

from app.core.chats import Sampling
from app.core.thinking import ThinkingLevel
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk

_SCHEMA = '{"type": "object",\n "properties": {"a": {"type": "string"}}}'


async def body_sent(api: Api, pen: Pen, sampling: Sampling) -> dict[str, object]:
    chat = await api.chat(sampling=sampling)
    pen.write(chunk("Yes."), LAST)
    pen.end()
    await api.read_to_end((await api.ask(chat.id)).answer)
    body: dict[str, object] = json.loads(api.gateway.upstream.bodies[-1])
    return body


async def test_thinking_stops_and_a_schema_reach_the_engine(api: Api, pen: Pen) -> None:
    sampling = Sampling(thinking=ThinkingLevel.LOW, thinking_budget=300, stops=["END"], json_schema=_SCHEMA)
    body = await body_sent(api, pen, sampling)
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "thinking": True, "reasoning_effort": "low"}
    assert (body["thinking_budget_tokens"], body["stop"]) == (300, ["END"])
    form = body["response_format"]
    assert isinstance(form, dict)
    assert form["json_schema"]["schema"] == json.loads(_SCHEMA)


async def test_with_a_grammar_the_model_does_not_think(api: Api, pen: Pen) -> None:
    body = await body_sent(api, pen, Sampling(thinking=ThinkingLevel.HIGH, grammar='root ::= "yes"'))
    assert body["grammar"] == 'root ::= "yes"'
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "thinking": False}


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"json_schema": '{"type":\n"strin"}'}, "line 2: there is no type 'strin'"),
        ({"grammar": "root ::= x"}, "line 1: there is no rule 'x'"),
        ({"json_schema": "{}", "grammar": 'root ::= "a"'}, "not to both"),
        ({"thinking": "much"}, "much"),
        ({"thinking_budget": 0}, "thinking_budget"),
        ({"stops": [""]}, "stops"),
        ({"stops": ["x"] * 17}, "stops"),
        ({"form": "x"}, "form"),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, sampling: dict[str, object], words: str) -> None:
    chat = await api.chat()
    for method, path in (("POST", "/chats"), ("PATCH", f"/chats/{chat.id}")):
        status, reply = await api.raw(method, path, {"sampling": sampling})
        assert status == HTTPStatus.BAD_REQUEST
        assert words in reply.decode()
