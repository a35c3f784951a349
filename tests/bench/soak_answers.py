"""What an answer in each dialect says, read from its bytes alone, so that a soak can tell right from wrong.

An answer is whole, or it says why not. One that does neither ended silently, which is never right.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

_OK = 200


class SoakAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The words of an answer; whether it said that it is over; and the error it ended with, if any."""

    text: str = ""
    is_over: bool = False
    error: str = ""


class SoakRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One way to ask: where, what for some words, and how its answer is read."""

    path: str
    body: Callable[[str], dict[str, object]]
    read: Callable[[bytes], SoakAnswer]


def read_answer(soak_request: SoakRequest, status: int, body: bytes) -> SoakAnswer:
    """Return what an answer says. Nonsense is an answer that is not over."""
    try:
        if status != _OK:
            return SoakAnswer(error=_error_text(msgspec.json.decode(body)))
        return soak_request.read(body)
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError):
        return SoakAnswer()


def judge_answer(answer: SoakAnswer, expected_text: str) -> str:
    """Return "right", "refused" (a typed error, after a part of the answer at most), or what is wrong."""
    words, expected_words = answer.text.split(), expected_text.split()
    if words != expected_words[: len(words)]:
        return "wrong words"
    if answer.error:
        return "refused"
    if not answer.is_over:
        return "ended silently"
    return "right" if words == expected_words else "words missing"


def _chat_body(words: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": words}]}


def _event_documents(body: bytes) -> Iterator[Any]:
    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            yield msgspec.json.decode(line[6:])


def _error_text(document: Mapping[str, Any]) -> str:
    error = document["error"]
    return str(error["message"]) if isinstance(error, dict) else str(error)


def _read_chat_stream(body: bytes) -> SoakAnswer:
    text, is_over = "", False
    for event in _event_documents(body):
        if "error" in event:
            return SoakAnswer(text=text, error=_error_text(event))
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            is_over |= choice["finish_reason"] is not None
    return SoakAnswer(text=text, is_over=is_over and body.endswith(b"data: [DONE]\n\n"))


def _read_chat_whole(body: bytes) -> SoakAnswer:
    choice = msgspec.json.decode(body)["choices"][0]
    return SoakAnswer(text=choice["message"]["content"], is_over=choice["finish_reason"] is not None)


def _read_ollama(body: bytes) -> SoakAnswer:
    text, is_over = "", False
    for line in body.splitlines():
        reply = msgspec.json.decode(line)
        if "error" in reply:
            return SoakAnswer(text=text, error=_error_text(reply))
        text += reply["message"]["content"] if "message" in reply else reply["response"]
        is_over = reply["done"]
    return SoakAnswer(text=text, is_over=is_over)


def _read_lm_studio(body: bytes) -> SoakAnswer:
    text, error, is_over = "", "", False
    for event in _event_documents(body):
        kind = event["type"]
        text += event["content"] if kind == "message.delta" else ""
        error = _error_text(event) if kind == "error" else error
        is_over |= kind == "chat.end"
    return SoakAnswer(text=text, error=error, is_over=is_over)


def _read_anthropic(body: bytes) -> SoakAnswer:
    text, is_over = "", False
    for event in _event_documents(body):
        if event["type"] == "error":
            return SoakAnswer(text=text, error=_error_text(event))
        if event["type"] == "content_block_delta":
            text += event["delta"]["text"]
        is_over |= event["type"] == "message_stop"
    return SoakAnswer(text=text, is_over=is_over)


def _read_responses(body: bytes) -> SoakAnswer:
    text, error, is_over = "", "", False
    for event in _event_documents(body):
        kind = event["type"]
        text += event["delta"] if kind == "response.output_text.delta" else ""
        if kind == "response.failed":
            error = _error_text(event["response"])
        elif kind == "error":
            error = str(event["message"])
        is_over |= kind == "response.completed"
    return SoakAnswer(text=text, error=error, is_over=is_over)


SOAK_REQUESTS: Mapping[str, SoakRequest] = {
    "chat, streamed": SoakRequest(
        path="/v1/chat/completions", body=lambda words: {**_chat_body(words), "stream": True}, read=_read_chat_stream
    ),
    "chat, whole": SoakRequest(path="/v1/chat/completions", body=_chat_body, read=_read_chat_whole),
    "Ollama chat, streamed": SoakRequest(path="/api/chat", body=_chat_body, read=_read_ollama),
    "Ollama generate, whole": SoakRequest(
        path="/api/generate", body=lambda words: {"prompt": words, "stream": False}, read=_read_ollama
    ),
    "LM Studio, streamed": SoakRequest(
        path="/api/v1/chat", body=lambda words: {"input": words, "stream": True, "store": False}, read=_read_lm_studio
    ),
    "Anthropic, streamed": SoakRequest(
        path="/v1/messages",
        body=lambda words: {**_chat_body(words), "max_tokens": 1000, "stream": True},
        read=_read_anthropic,
    ),
    "Responses, streamed": SoakRequest(
        path="/v1/responses", body=lambda words: {"input": words, "stream": True, "store": False}, read=_read_responses
    ),
}
"""Everything is asked to say the words of the prompt again."""
