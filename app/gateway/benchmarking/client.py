"""One request of a benchmark, sent and timed: the same for an engine of ours and for an endpoint at an address.

Each has a connection of its own, as most programs' first request has, and is greedy, so that its answer can be
compared. Engines are told not to end early, so that equal prompts are equal work; who does not know that field is asked
without it.
"""

import itertools
from http import HTTPStatus
from typing import Any

import aiohttp
import msgspec

from app.benchmark.results import RequestTiming
from app.core.benchmarks import BenchmarkPrompt, BenchmarkSample
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import EngineFailed, Unauthorized
from app.gateway.advising.stream_timer import StreamTimer
from app.network.connector import OutboundRequest

_TIMEOUT = aiohttp.ClientTimeout(total=1800)
"""A prompt of 100,000 tokens on a slow processor takes half an hour."""
_MS = 1e3
_MOST_ERROR = 2000
_MOST_PIECES, _MORE_PIECES = 8, 1024
"""An endpoint that counts otherwise may send more pieces than tokens; one that never ends is left."""


WARM_UP_TOKENS = 8


class BenchmarkEndpoint(msgspec.Struct, kw_only=True):
    """Where requests go. `ignores_end` and `counts_usage` are taken back once it refuses the field."""

    url: str
    """Of chat completions, or of completions."""
    key: str
    model: str
    is_chat: bool = True
    is_here: bool = True
    """Whether it is an engine of ours, and no address that a person named."""
    ignores_end: bool = True
    counts_usage: bool = True

    def __repr__(self) -> str:
        """Leave out the key: what is shown may be logged."""
        return f"BenchmarkEndpoint({self.model!r} at {self.url})"

    def body_of(self, prompt: BenchmarkPrompt) -> dict[str, Any]:
        """Return the request's body."""
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": prompt.answer_tokens,
            "temperature": 0,
            "stream": True,
        }
        if self.is_chat:
            body["messages"] = [msgspec.to_builtins(message) for message in prompt.messages]
        else:
            body["prompt"] = "\n\n".join(message.content for message in prompt.messages)
        if self.counts_usage:
            body["stream_options"] = {"include_usage": True}
        if prompt.json_schema is not None and self.is_chat:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": prompt.json_schema, "strict": True},
            }
        elif self.ignores_end:
            body["ignore_eos"] = True
        return body


class BenchmarkClient:
    """Sends requests to one endpoint. Belongs to the event loop's thread."""

    def __init__(self, http: aiohttp.ClientSession, endpoint: BenchmarkEndpoint) -> None:
        self._http = http
        self.endpoint = endpoint

    async def find_accepted_fields(self, prompt: BenchmarkPrompt) -> None:
        """Send one request, and leave out from now on what the endpoint refuses. Raises as `send` does."""
        while True:
            try:
                await self.send(prompt)
            except EngineFailed as error:
                if error.code != "request_refused" or not self._leave_field_out():
                    raise
            else:
                return

    def _leave_field_out(self) -> bool:
        endpoint = self.endpoint
        if endpoint.ignores_end:
            endpoint.ignores_end = False
        elif endpoint.counts_usage:
            endpoint.counts_usage = False
        else:
            return False
        return True

    async def send(self, prompt: BenchmarkPrompt, *, concurrency: int = 1, place: int = 0) -> RequestTiming:
        """Return a request as it was answered. Raises EngineFailed, Unauthorized, OSError or aiohttp's ClientError."""
        endpoint, body = self.endpoint, msgspec.json.encode(self.endpoint.body_of(prompt))
        headers = {"Content-Type": "application/json", "Connection": "close"}
        if endpoint.key:
            headers["Authorization"] = f"Bearer {endpoint.key}"
        purpose = OutboundRequest(Purpose(why=ConnectionReason.ATTACHED, about=endpoint.model))
        stream = StreamTimer()
        with purpose.as_current():
            async with self._http.post(
                endpoint.url, data=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status != HTTPStatus.OK:
                    raise await _refusal(response)
                await _read_stream(response.content, stream, most=_MOST_PIECES * prompt.answer_tokens + _MORE_PIECES)
        return _make_timing(stream, prompt, concurrency=concurrency, place=place)


async def _read_stream(content: aiohttp.StreamReader, stream: StreamTimer, *, most: int) -> None:
    """Read an answer to its end. Raises EngineFailed for one that does not end, or is no stream of events."""
    try:
        async for line in content:
            stream.read_line(line)
            if len(stream.piece_times) > most:
                raise EngineFailed("The answer is longer than was asked for.", code="benchmark_failed")
    except ValueError as error:  # a line that is longer than aiohttp keeps
        raise EngineFailed(f"The answer cannot be read: {error}.", code="benchmark_failed") from None


def _make_timing(stream: StreamTimer, prompt: BenchmarkPrompt, *, concurrency: int, place: int) -> RequestTiming:
    if stream.error:
        raise EngineFailed(f"The answer ended with an error: {stream.error}", code="benchmark_failed")
    if not stream.piece_times:
        raise EngineFailed("The model gave no answer.", code="benchmark_failed")
    times = stream.piece_times
    sample = BenchmarkSample(
        concurrency=concurrency,
        prompt_tokens=stream.prompt_tokens or int(stream.engine_timings.get("prompt_n", 0)),
        cached_tokens=stream.cached_tokens or int(stream.engine_timings.get("cache_n", 0)),
        answer_tokens=stream.answer_tokens or len(times),
        ttft_s=stream.first_at - stream.begun_at,
        e2e_s=stream.last_at - stream.begun_at,
        prompt=place,
        prefill_s=stream.engine_timings.get("prompt_ms", (stream.first_at - stream.begun_at) * _MS) / _MS,
    )
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return RequestTiming(sample=sample, gaps_s=gaps, answer=stream.text, prompt=prompt)


class _ErrorBody(msgspec.Struct):
    message: str


class _ErrorReply(msgspec.Struct):
    error: _ErrorBody | str


def _error_message(body: bytes) -> str:
    """Return what an error says in words, without the JSON around it."""
    try:
        error = msgspec.json.decode(body, type=_ErrorReply).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return body.decode(errors="replace").strip()
    return (error if isinstance(error, str) else error.message).strip()


async def _refusal(response: aiohttp.ClientResponse) -> EngineFailed | Unauthorized:
    words = _error_message(await response.content.read(_MOST_ERROR))
    if response.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return Unauthorized(f"The endpoint refused the key ({response.status}).", hint="Give one with --key.")
    is_refused = response.status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
    return EngineFailed(
        f"The request was refused with status {response.status}: {words or 'no reason was given'}",
        code="request_refused" if is_refused else "benchmark_failed",
    )
