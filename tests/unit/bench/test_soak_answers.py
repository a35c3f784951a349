"""A soak is worth what its judge is: right answers pass in every dialect, and each way to be wrong is seen."""

import json

import pytest

from tests.bench.soak_answers import SOAK_REQUESTS, SoakAnswer, judge_answer, read_answer


def sse(*events: object, is_done: bool = False) -> bytes:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return body + (b"data: [DONE]\n\n" if is_done else b"")


def lines(*replies: object) -> bytes:
    return b"".join(json.dumps(reply).encode() + b"\n" for reply in replies)


def chunk(text: str = "", end: str | None = None) -> dict[str, object]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": end}]}


def ollama(text: str, *, is_done: bool = False) -> dict[str, object]:
    return {"message": {"role": "assistant", "content": text}, "done": is_done}


def make_event(kind: str, **fields: object) -> dict[str, object]:
    return {"type": kind, **fields}


WHOLE = {
    "chat, streamed": sse(chunk("a "), chunk("b"), chunk(end="stop"), is_done=True),
    "chat, whole": json.dumps({"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}]}).encode(),
    "Ollama chat, streamed": lines(ollama("a "), ollama("b"), ollama("", is_done=True)),
    "Ollama generate, whole": lines({"response": "a b", "done": True}),
    "LM Studio, streamed": sse(
        make_event("chat.start"),
        make_event("message.delta", content="a "),
        make_event("message.delta", content="b"),
        make_event("chat.end"),
    ),
    "Anthropic, streamed": sse(
        make_event("message_start"),
        make_event("content_block_delta", delta={"text": "a "}),
        make_event("content_block_delta", delta={"text": "b"}),
        make_event("message_stop"),
    ),
    "Responses, streamed": sse(
        make_event("response.output_text.delta", delta="a "),
        make_event("response.output_text.delta", delta="b"),
        make_event("response.completed"),
    ),
}
BROKEN = {
    "chat, streamed": sse(chunk("a "), {"error": {"message": "It crashed."}}),
    "Ollama chat, streamed": lines(ollama("a "), {"error": "It crashed."}),
    "Ollama generate, whole": lines({"error": "It crashed."}),
    "LM Studio, streamed": sse(
        make_event("message.delta", content="a "),
        make_event("error", error={"message": "It crashed."}),
        make_event("chat.end"),
    ),
    "Anthropic, streamed": sse(make_event("error", error={"message": "It crashed."})),
    "Responses, streamed": sse(make_event("response.failed", response={"error": {"message": "It crashed."}})),
}
SILENT = {
    "chat, streamed": sse(chunk("a "), chunk("b")),
    "Ollama chat, streamed": lines(ollama("a "), ollama("b")),
    "LM Studio, streamed": sse(make_event("message.delta", content="a b")),
    "Anthropic, streamed": sse(make_event("content_block_delta", delta={"text": "a b"})),
    "Responses, streamed": sse(make_event("response.output_text.delta", delta="a b")),
}


@pytest.mark.parametrize("name", SOAK_REQUESTS)
def test_a_whole_answer_is_right_if_its_words_are(name: str) -> None:
    answer = read_answer(SOAK_REQUESTS[name], 200, WHOLE[name])
    assert answer == SoakAnswer(text="a b", is_over=True)
    assert judge_answer(answer, "a b") == "right"
    assert judge_answer(answer, "a c") == "wrong words"
    assert judge_answer(answer, "a b c") == "words missing"


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_may_break_off_if_it_says_so(name: str) -> None:
    answer = read_answer(SOAK_REQUESTS[name], 200, BROKEN[name])
    assert answer.error == "It crashed."
    assert judge_answer(answer, "a b") == "refused"


@pytest.mark.parametrize("name", SILENT)
def test_an_answer_that_just_ends_is_seen(name: str) -> None:
    assert judge_answer(read_answer(SOAK_REQUESTS[name], 200, SILENT[name]), "a b") == "ended silently"


def test_somebody_elses_words_before_an_error_are_wrong() -> None:
    assert judge_answer(SoakAnswer(text="x", error="It crashed."), "a b") == "wrong words"


@pytest.mark.parametrize("body", [b'{"error": "No."}', b'{"error": {"message": "No."}}'])
def test_a_refusal_is_read_in_either_shape(body: bytes) -> None:
    assert read_answer(SOAK_REQUESTS["chat, whole"], 503, body) == SoakAnswer(error="No.")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error": '])
@pytest.mark.parametrize("status", [200, 500])
def test_nonsense_is_no_answer(body: bytes, status: int) -> None:
    for soak_request in SOAK_REQUESTS.values():
        assert judge_answer(read_answer(soak_request, status, body), "a b") == "ended silently"
