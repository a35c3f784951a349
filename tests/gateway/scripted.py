"""An engine that answers by the first word of the last message, as llama-server would, for clients to be tried on.

text, tool, think, odds: an answer of that kind. slow: the rest comes once `go_on` is set. broken: an error in the
middle. dead: the connection breaks in the middle. hang: never a byte. It speaks chat and Anthropic's messages.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from tests.gateway.played import Upstream
from tests.patience import PATIENCE_S

TEXT = ["Hello", " from", " the script."]
THOUGHT = ["Let me", " think."]
CALL = {"name": "weather", "arguments": ['{"city":', ' "Köln"}']}
ODDS = [{"token": "Hello", "logprob": -0.25, "bytes": [72, 101, 108, 108, 111], "top_logprobs": []}]
ERROR = "The sampler gave up."
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


class Script:
    """The engine. `is_asked` is set when a request has come, `disconnect` when a client has gone."""

    def __init__(self, upstream: Upstream) -> None:
        self.is_asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.disconnect = upstream.disconnect
        upstream.play = self.play

    async def play(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.is_asked.set()
        body = json.loads(await request.read())
        kind = _last_word(body["messages"][-1]["content"])
        if kind == "hang":
            await asyncio.Event().wait()
        is_chat = request.path.endswith("/chat/completions")
        if not body.get("stream"):
            if kind in {"broken", "dead"}:
                return web.json_response({"error": {"message": ERROR, "code": 500, "type": "server_error"}}, status=500)
            return web.json_response(_whole_chat(kind) if is_chat else _whole_message(kind))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for event in self._pace_events(_chat(kind) if is_chat else _message(kind), kind):
            await response.write(event)
        if kind == "dead":
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _pace_events(self, events: list[bytes], kind: str) -> AsyncIterator[bytes]:
        for number, event in enumerate(events):
            if kind == "slow" and b" from" in event:
                await self.go_on.wait()
            if kind == "dead" and b" from" in event:
                return
            yield event
            await asyncio.sleep(0 if number else 0.001)

    async def check_left(self, give_up: Callable[[float], Awaitable[None]]) -> None:
        """Have a client give up after so many seconds, ever later until the engine has its request by then.

        The engine's work must end with it.
        """
        for patience_s in (0.3, 3.0, 30.0):
            await give_up(patience_s)
            if self.is_asked.is_set():
                break
        await asyncio.wait_for(self.disconnect.wait(), PATIENCE_S)


def _last_word(content: Any) -> str:  # noqa: ANN401 -- text, or parts
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return text.split()[0]


def _data(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _chunk(end: str | None = None, **delta: object) -> bytes:
    odds = {"logprobs": delta.pop("logprobs")} if "logprobs" in delta else {}
    choice = {"index": 0, "delta": delta, "finish_reason": end, **odds}
    return _data({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "guide", "choices": [choice]})


def _chat(kind: str) -> list[bytes]:
    events = [_chunk(role="assistant", content=None)]
    if kind == "think":
        events += [_chunk(reasoning_content=piece) for piece in THOUGHT]
    if kind == "tool":
        begun_call = {
            "index": 0,
            "id": "call_1",
            "type": "function",
            "function": {"name": CALL["name"], "arguments": ""},
        }
        events.append(_chunk(tool_calls=[begun_call]))
        events += [_chunk(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in CALL["arguments"]]
    elif kind == "odds":
        events.append(_chunk(content=TEXT[0], logprobs={"content": ODDS}))
    else:
        events += [_chunk(content=piece) for piece in TEXT]
    if kind == "broken":
        return [*events[:2], _data({"error": {"message": ERROR, "code": 500, "type": "server_error"}})]
    events.append(_chunk("tool_calls" if kind == "tool" else "stop"))
    last = {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "guide",
        "choices": [],
        "usage": USAGE,
    }
    return [*events, _data(last), b"data: [DONE]\n\n"]


def _whole_chat(kind: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(TEXT)}
    if kind == "think":
        message["reasoning_content"] = "".join(THOUGHT)
    if kind == "tool":
        function = {"name": CALL["name"], "arguments": "".join(CALL["arguments"])}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if kind == "tool" else "stop",
    }
    if kind == "odds":
        message["content"] = TEXT[0]
        choice["logprobs"] = {"content": ODDS}
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "guide"}
    return {**head, "choices": [choice], "usage": USAGE}


def _event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})


_COUNTS = {"input_tokens": 7, "cache_read_input_tokens": 0, "output_tokens": 3}


def _message(kind: str) -> list[bytes]:
    start = {**_whole_message("text"), "content": [], "stop_reason": None}
    events = [_event("message_start", message=start)]
    for index, (block, deltas) in enumerate(_blocks(kind)):
        events.append(_event("content_block_start", index=index, content_block=block))
        events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        events.append(_event("content_block_stop", index=index))
    if kind == "broken":
        error = {"message": ERROR, "code": 500, "type": "server_error"}
        return [*events[:3], _event("error", error=error)]
    end_fields = {"stop_reason": "tool_use" if kind == "tool" else "end_turn", "stop_sequence": None}
    return [*events, _event("message_delta", delta=end_fields, usage=_COUNTS), _event("message_stop")]


def _blocks(kind: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if kind == "tool":
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in CALL["arguments"]]
        return [({"type": "tool_use", "id": "call_1", "name": CALL["name"], "input": {}}, deltas)]
    thought = [{"type": "thinking_delta", "thinking": piece} for piece in THOUGHT]
    text_deltas = [{"type": "text_delta", "text": piece} for piece in TEXT]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [({"type": "text", "text": ""}, text_deltas)]
    return [({"type": "thinking", "thinking": "", "signature": ""}, thought), *blocks] if kind == "think" else blocks


def _whole_message(kind: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": "".join(TEXT)}]
    if kind == "think":
        content.insert(0, {"type": "thinking", "thinking": "".join(THOUGHT), "signature": ""})
    if kind == "tool":
        arguments = json.loads("".join(CALL["arguments"]))
        content = [{"type": "tool_use", "id": "call_1", "name": CALL["name"], "input": arguments}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "guide",
        "content": content,
        "stop_reason": "tool_use" if kind == "tool" else "end_turn",
        "stop_sequence": None,
        "usage": _COUNTS,
    }
