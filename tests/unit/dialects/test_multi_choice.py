"""Several answers to one request: counted together, and put together from a stream."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import RoundhouseError
from app.gateway.dialects.openai.answers import CHAT, OpenAIChatForm, OpenAICompletionForm
from app.gateway.dialects.openai.multi_choice import as_stream, gather_stream


def usage(prompt: int, completion: int, cached_tokens: int = 0) -> dict[str, object]:
    details = {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **details}


def event(choices: list[dict[str, object]], **fields: object) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
    return b"data: " + json.dumps({**head, "choices": choices, **fields}).encode() + b"\n\n"


def delta(index: int, *, finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"finish_reason": finish, "index": index, "delta": fields}


def call(index: int, arguments: str, **first: str) -> dict[str, object]:
    name = {"name": first.pop("name")} if "name" in first else {}
    return {"index": index, **first, "function": {**name, "arguments": arguments}}


DONE = b"data: [DONE]\n\n"
CHATS = b"".join(
    (
        event([delta(1, role="assistant", content=None)]),
        event([delta(1, reasoning_content="hm")]),
        event([delta(0, role="assistant", content=None)]),
        event([delta(0, content="Sa")]),
        event([delta(1, tool_calls=[call(0, "{", id="a", type="function", name="f")])]),
        event([delta(1, tool_calls=[call(0, "}")])]),
        event([delta(1, tool_calls=[call(1, "{}", id="b", type="function", name="g")])]),
        event([delta(1, finish="tool_calls")]),
        event([], usage=usage(7, 4, 3), timings={"predicted_n": 4}),
        event([delta(0, content="lut")]),
        event([delta(0, finish="stop")]),
        event([], usage=usage(7, 2, 3), timings={"predicted_n": 2}),
        DONE,
    )
)


def events(data: bytes) -> list[dict[str, Any]]:
    *frames, last, nothing = data.split(b"\n\n")
    assert (last, nothing) == (b"data: [DONE]", b"")
    return [json.loads(frame.removeprefix(b"data: ")) for frame in frames]


@given(at=st.integers(0, len(CHATS)))
def test_a_stream_of_chats_tells_the_counts_of_all_once_and_last(at: int) -> None:
    edit = OpenAIChatForm(each=2).editor()
    chunks = events(edit(CHATS[:at]) + edit(CHATS[at:]))
    assert [chunk["choices"] for chunk in chunks].count([]) == 1
    assert chunks[-1]["usage"] == usage(7, 6, 3)
    untouched_editor = CHAT.editor()
    pieces = [chunk for chunk in events(untouched_editor(CHATS)) if chunk["choices"]]
    assert chunks[:-1] == pieces


def test_a_stream_without_counts_has_none() -> None:
    plain = event([delta(0, content="a")]) + DONE
    assert events(OpenAIChatForm(each=2).editor()(b"data: null\n\n" + plain)) == events(plain)


def test_a_whole_answer_is_put_together() -> None:
    whole = json.loads(gather_stream(CHATS, each=2))
    assert (whole["object"], whole["id"], whole["usage"]) == ("chat.completion", "chatcmpl-1", usage(7, 6, 3))
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    assert whole["choices"] == [
        {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "Salut"}},
        {
            "finish_reason": "tool_calls",
            "index": 1,
            "message": {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": calls},
        },
    ]
    mended_answer = json.loads(CHAT.whole(json.dumps(whole, separators=(",", ":")).encode()))
    assert mended_answer["choices"][0]["message"]["refusal"] is None


def piece(index: int, text: str, *, finish: str | None = None) -> dict[str, object]:
    logprobs = {"content": [{"token": text, "logprob": -1.0, "top_logprobs": []}]} if text else None
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}


TEXTS = b"".join(
    (
        b"data: null\n\n",
        *(event([piece(index, text)], object="text_completion") for text in "ab" for index in range(4)),
        *(
            event([piece(index, "", finish="length")], object="text_completion", usage=usage(3 + 2 * (index > 1), 2))
            for index in range(4)
        ),
        DONE,
    )
)
"""Two prompts, of three and of five tokens, with two answers each."""


def test_each_prompt_counts_once() -> None:
    assert events(OpenAICompletionForm(includes_usage=True, each=2).editor()(TEXTS))[-1]["usage"] == usage(8, 8)
    whole = json.loads(OpenAICompletionForm().whole(gather_stream(TEXTS, each=2)))
    assert [choice["text"] for choice in whole["choices"]] == ["ab"] * 4
    assert (whole["object"], whole["usage"]) == ("text_completion", usage(8, 8))
    assert whole["choices"][3]["logprobs"]["tokens"] == ["a", "b"]


def test_an_error_in_the_stream_is_the_answer() -> None:
    broken_stream = (
        CHATS[: CHATS.index(b"lut")].rpartition(b"data:")[0] + b'data: {"error":{"code":400,"message":"too much"}}\n\n'
    )
    with pytest.raises(RoundhouseError, match="too much"):
        gather_stream(broken_stream, each=2)


def test_the_engine_is_asked_for_a_stream_with_counts() -> None:
    body = json.loads(as_stream(b'{"model":"m","n":2,"stream":false}'))
    assert body == {"model": "m", "n": 2, "stream": True, "stream_options": {"include_usage": True}}
