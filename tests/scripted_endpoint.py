"""An OpenAI endpoint that makes any coding agent write one file, with whatever tool it offers, and then says so.

It is asked over HTTP by a gateway to which it is attached, always for a stream. An agent's tools differ in names and
parameters; the tool is chosen by its name, and its arguments by the names of what it takes.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

FILE, CONTENT, ANSWER = "hello.txt", "Hello from the script", "The file is there."
_WRITERS = ("write_file", "write", "create", "save", "editor", "exec_command", "shell_command", "shell", "bash")
"""Tools that can write a file, the plainest first; names are compared without their case."""
_PATHS = ("file_path", "filePath", "filepath", "path", "filename", "absolute_path")
_TEXTS = ("content", "file_text", "contents", "text", "new_text")
_COMMANDS = ("cmd", "command")
_LISTING_WORDS, _LISTING = "*file listing*", f"{FILE}\n```\n{CONTENT}\n```\n{ANSWER}"
"""How aider asks for a file where it knows nothing of a model, and a file as it wants it."""
_PIECES = 3
"""An answer comes in so many chunks, so that it is a stream."""


class ScriptedEndpoint:
    """The endpoint, for as long as the `with` block runs; `folder` is where the agent is to write."""

    def __init__(self, folder: str, context: int = 131_072) -> None:
        self.folder, self.context = folder, context
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def chunks_for(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the deltas of an answer: a call that writes the file, and after its result the last words."""
        messages = body.get("messages", [])
        has_result = any(message.get("role") == "tool" for message in messages)
        call = None if has_result else _call_for(body.get("tools") or [], f"{self.folder}/{FILE}")
        if call is None:
            words = _LISTING if _LISTING_WORDS in json.dumps(messages) else ANSWER
            for at in range(0, len(words), len(words) // _PIECES):
                yield {"content": words[at : at + len(words) // _PIECES]}
            return
        name, arguments = call
        yield {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": name}}]}
        for at in range(0, len(arguments), len(arguments) // _PIECES):
            piece = arguments[at : at + len(arguments) // _PIECES]
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}

    def prompt_tokens(self, body: Mapping[str, Any]) -> int:
        """Return how long the prompt is said to have been."""
        del body
        return 900

    def refusal_of(self, body: Mapping[str, Any]) -> str:
        """Return why a request is refused; empty where it is answered."""
        del body
        return ""

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
                """Say nothing."""

            def do_GET(self) -> None:
                model = {"id": "coder", "object": "model", "owned_by": "vllm", "max_model_len": endpoint.context}
                self._send("application/json", json.dumps({"object": "list", "data": [model]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                endpoint.requests.append(body)
                if refusal := endpoint.refusal_of(body):
                    document = {"object": "error", "message": refusal, "type": "BadRequestError", "code": 400}
                    self._send("application/json", json.dumps(document).encode(), 400)
                    return
                deltas = list(endpoint.chunks_for(body))
                reason = "tool_calls" if "tool_calls" in deltas[0] else "stop"
                if body.get("stream"):
                    events = [_chunk(delta) for delta in deltas]
                    last = {**_chunk({}, reason), "usage": _usage(endpoint.prompt_tokens(body))}
                    lines = [f"data: {json.dumps(event)}\n\n" for event in (*events, last)]
                    self._send("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())
                else:
                    whole = {**_whole(deltas, reason), "usage": _usage(endpoint.prompt_tokens(body))}
                    self._send("application/json", json.dumps(whole).encode())

            def _send(self, content_type: str, data: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        return Handler


SUMMARY = "Summary: the file was written as it was asked for."
_SUMMARY_WORDS = ("summar", "compact", "compress", "handoff", "checkpoint")
"""What stands in the last message of an agent that wants its conversation shortened, or before it."""
_OWN_SUMMARY = "Earlier context was compacted."
"""Cline's words where it sums up without asking the model: it had no room left to ask in."""


SECOND_FILE = "again.txt"


class CompactingEndpoint(ScriptedEndpoint):
    """As its base, but the conversation is said to nearly fill the context until it is summed up.

    A second file has to be written, again and again until there were `calls`, each time of `characters`; who goes on
    after that without a summary is refused.
    """

    def __init__(self, folder: str, context: int = 65_536, *, calls: int = 2, characters: int = 0) -> None:
        super().__init__(folder, context)
        self.calls, self.characters = calls, characters
        self.summaries: list[dict[str, Any]] = []
        """Requests for a summary."""

    @property
    def requests_after(self) -> list[dict[str, Any]]:
        """Return the requests that hold a summary in place of what it sums up."""
        return [body for body in self.requests if _has_summary(body) and body not in self.summaries]

    def chunks_for(self, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield a summary where one is asked for."""
        if self._asks_for_summary(body):
            self.summaries.append(dict(body))
            yield {"content": SUMMARY[:10]}
            yield {"content": SUMMARY[10:]}
        elif _has_summary(body):
            yield {"content": ANSWER[:5]}
            yield {"content": ANSWER[5:]}
        elif body.get("tools") and 0 < _count_results(body) < self.calls:
            text = CONTENT + "." * self.characters
            yield _call_delta(_call_for(body["tools"], f"{self.folder}/{SECOND_FILE}", text), _count_results(body))
        else:
            yield from super().chunks_for(body)

    def prompt_tokens(self, body: Mapping[str, Any]) -> int:
        """Return nearly all of the context while nothing has been summed up."""
        is_short = _has_summary(body) or not (body.get("tools") or self._asks_for_summary(body))
        return super().prompt_tokens(body) if is_short else self.context * 15 // 16

    def refusal_of(self, body: Mapping[str, Any]) -> str:
        """Refuse, in vLLM's words, what goes on with the conversation without having it summed up."""
        is_for_shortening = self._asks_for_summary(body) or _has_summary(body)
        if is_for_shortening or not body.get("tools") or _count_results(body) < self.calls:
            return ""
        return (
            f"This model's maximum context length is {self.context} tokens. However, your messages resulted in "
            f"{self.context + 100} tokens. Please reduce the length of the messages."
        )

    def _asks_for_summary(self, body: Mapping[str, Any]) -> bool:
        """Tell whether a conversation in which the file was written is to be shortened."""
        messages = body.get("messages") or [{}]
        text, last = json.dumps(messages), messages[-1]
        words = json.dumps([last] if body.get("tools") else messages).casefold()
        is_written = any(f"{self.folder}/{file}" in text for file in (FILE, SECOND_FILE))
        return (
            is_written
            and _OWN_SUMMARY not in text
            and last.get("role") == "user"
            and any(word in words for word in _SUMMARY_WORDS)
        )


def _has_summary(body: Mapping[str, Any]) -> bool:
    text = json.dumps(body)
    return SUMMARY in text or _OWN_SUMMARY in text


def _count_results(body: Mapping[str, Any]) -> int:
    return sum(message.get("role") == "tool" for message in body.get("messages", []))


def _call_delta(call: tuple[str, str] | None, number: int) -> dict[str, Any]:
    if call is None:
        return {"content": ANSWER}
    function = {"name": call[0], "arguments": call[1]}
    return {"tool_calls": [{"index": 0, "id": f"call_{number + 1}", "type": "function", "function": function}]}


def _chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "coder", "choices": [choice]}


def _whole(deltas: Sequence[Mapping[str, Any]], reason: str) -> dict[str, Any]:
    calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(delta.get("content", "") for delta in deltas) or None,
    }
    if calls:
        arguments = "".join(call["function"].get("arguments", "") for call in calls)
        function = {"name": calls[0]["function"]["name"], "arguments": arguments}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "coder", "choices": choices}


def _usage(prompt_tokens: int) -> dict[str, int]:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": 9, "total_tokens": prompt_tokens + 9}


def _call_for(tools: Sequence[Mapping[str, Any]], path: str, content: str = CONTENT) -> tuple[str, str] | None:
    """Return the name and the arguments of a call that writes the file; None where no tool that was offered can."""
    by_name = {tool["function"]["name"].casefold(): tool["function"] for tool in tools if tool.get("function")}
    function = next((by_name[name] for name in _WRITERS if name in by_name), None)
    if function is None:
        return None
    properties = (function.get("parameters") or {}).get("properties") or {}
    command = next((name for name in _COMMANDS if name in properties), None)
    place = next((name for name in _PATHS if name in properties), None)
    arguments: dict[str, Any] = {}
    if place is not None:
        text = next((name for name in _TEXTS if name in properties), "content")
        arguments = {place: path, text: content}
    elif command is not None:
        line = f"printf '{content}' > {path}"
        arguments[command] = ["bash", "-lc", line] if properties[command].get("type") == "array" else line
    if "command" in properties and place is not None:
        arguments["command"] = "create"
    if "description" in ((function.get("parameters") or {}).get("required") or []):
        arguments["description"] = "Write a file"
    return function["name"], json.dumps(arguments)
