"""What an answer in each dialect says, read from its bytes alone, so that a soak can tell right from wrong.

An answer is whole, or it says why not. One that does neither ended silently, which is never right.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

_OK = 200


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The words of an answer; whether it said that it is over; and the error it ended with, if any."""

    text: str = ""
    is_over: bool = False
    error: str = ""


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """One way to ask: where, what for some words, and how its answer is read."""

    path: str
    body: Callable[[str], dict[str, object]]
    read: Callable[[bytes], Said]


def read(asking: Asking, status: int, body: bytes) -> Said:
    """Return what an answer says. Nonsense is an answer that is not over."""
    try:
        if status != _OK:
            return Said(error=_error(msgspec.json.decode(body)))
        return asking.read(body)
    except (msgspec.MsgspecError, KeyError, IndexError, TypeError):
        return Said()


def verdict(said: Said, wanted: str) -> str:
    """Return "right", "refused" (a typed error, after a part of the answer at most), or what is wrong."""
    words, expected = said.text.split(), wanted.split()
    if words != expected[: len(words)]:
        return "wrong words"
    if said.error:
        return "refused"
    if not said.is_over:
        return "ended silently"
    return "right" if words == expected else "words missing"


def _chat(words: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": words}]}


def _events(body: bytes) -> Iterator[Any]:
    for line in body.split(b"\n"):
        if line.startswith(b"data: {"):
            yield msgspec.json.decode(line[6:])


def _error(found: Mapping[str, Any]) -> str:
    error = found["error"]
    return str(error["message"]) if isinstance(error, dict) else str(error)


def _chat_stream(body: bytes) -> Said:
    text, is_over = "", False
    for event in _events(body):
        if "error" in event:
            return Said(text=text, error=_error(event))
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            is_over |= choice["finish_reason"] is not None
    return Said(text=text, is_over=is_over and body.endswith(b"data: [DONE]\n\n"))


def _chat_whole(body: bytes) -> Said:
    choice = msgspec.json.decode(body)["choices"][0]
    return Said(text=choice["message"]["content"], is_over=choice["finish_reason"] is not None)


def _ollama(body: bytes) -> Said:
    text, is_over = "", False
    for line in body.splitlines():
        reply = msgspec.json.decode(line)
        if "error" in reply:
            return Said(text=text, error=_error(reply))
        text += reply["message"]["content"] if "message" in reply else reply["response"]
        is_over = reply["done"]
    return Said(text=text, is_over=is_over)


def _lm_studio(body: bytes) -> Said:
    text, error, is_over = "", "", False
    for event in _events(body):
        kind = event["type"]
        text += event["content"] if kind == "message.delta" else ""
        error = _error(event) if kind == "error" else error
        is_over |= kind == "chat.end"
    return Said(text=text, error=error, is_over=is_over)


def _anthropic(body: bytes) -> Said:
    text, is_over = "", False
    for event in _events(body):
        if event["type"] == "error":
            return Said(text=text, error=_error(event))
        if event["type"] == "content_block_delta":
            text += event["delta"]["text"]
        is_over |= event["type"] == "message_stop"
    return Said(text=text, is_over=is_over)


def _responses(body: bytes) -> Said:
    text, error, is_over = "", "", False
    for event in _events(body):
        kind = event["type"]
        text += event["delta"] if kind == "response.output_text.delta" else ""
        if kind == "response.failed":
            error = _error(event["response"])
        elif kind == "error":
            error = str(event["message"])
        is_over |= kind == "response.completed"
    return Said(text=text, error=error, is_over=is_over)


ASKINGS: Mapping[str, Asking] = {
    "chat, streamed": Asking(
        path="/v1/chat/completions", body=lambda words: {**_chat(words), "stream": True}, read=_chat_stream
    ),
    "chat, whole": Asking(path="/v1/chat/completions", body=_chat, read=_chat_whole),
    "Ollama chat, streamed": Asking(path="/api/chat", body=_chat, read=_ollama),
    "Ollama generate, whole": Asking(
        path="/api/generate", body=lambda words: {"prompt": words, "stream": False}, read=_ollama
    ),
    "LM Studio, streamed": Asking(
        path="/api/v1/chat", body=lambda words: {"input": words, "stream": True, "store": False}, read=_lm_studio
    ),
    "Anthropic, streamed": Asking(
        path="/v1/messages", body=lambda words: {**_chat(words), "max_tokens": 1000, "stream": True}, read=_anthropic
    ),
    "Responses, streamed": Asking(
        path="/v1/responses", body=lambda words: {"input": words, "stream": True, "store": False}, read=_responses
    ),
}
"""Everything is asked to say the words of the prompt again."""
