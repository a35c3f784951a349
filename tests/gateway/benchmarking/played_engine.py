"""An engine whose answers take as long as a test says, and a computer on which as much else runs as it says."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from app.gateway.advising.quiet_rounds import ProcessorTimes
from app.gateway.benchmarking.system_watch import SystemCounters


class PlayedEngine:
    """Answers chat completions as a stream with the times of an engine that keeps them."""

    def __init__(self) -> None:
        self.first_s = self.token_s = 0.0
        self.text = "word "
        self.refused_fields: set[str] = set()
        self.bodies: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        self.status = 200
        self.characters_per_token = 4.0
        self.together: tuple[int, asyncio.Barrier] | None = None
        """Answers of this length, but for the first, begin once as many requests wait as the barrier has places."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/models"):
            return web.json_response({"data": [{"id": "served"}]})
        body = await request.json()
        if request.path.endswith("/tokenize"):
            return web.json_response({"tokens": [1] * int(len(body["content"]) / self.characters_per_token)})
        if self.status != 200 or self.refused_fields & body.keys():
            status = self.status if self.status != 200 else 400
            return web.json_response({"error": {"message": "no such field"}}, status=status)
        self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._stream(request, body)
        finally:
            self.in_flight -= 1

    async def _stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(self.first_s)
        tokens = body["max_tokens"]
        if self.together is not None and tokens == self.together[0] and len(self.bodies) > 1:
            await self.together[1].wait()
        for _ in range(tokens):
            await _send(response, {"choices": [{"delta": {"content": self.text}}]})
            if self.token_s:
                await asyncio.sleep(self.token_s)
        usage = {"prompt_tokens": 40, "completion_tokens": tokens}
        end = {"choices": [{"delta": {}, "finish_reason": "length"}]}
        await _send(response, {**end, "usage": usage} if "stream_options" in body else end)
        await response.write(b"data: [DONE]\n\n")
        return response


async def _send(response: web.StreamResponse, document: object) -> None:
    await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")


class PlayedComputer:
    """Its counters, as a test sets them: `other_shares` are those of the next readings, the last one for ever."""

    def __init__(self, *other_shares: float) -> None:
        self._other_shares = list(other_shares) or [0.0]
        self._capacity_s = self._busy_s = 0.0
        self.swapped_bytes = 0

    def read(self, _pids: Sequence[int] = ()) -> SystemCounters:
        share = self._other_shares.pop(0) if len(self._other_shares) > 1 else self._other_shares[0]
        self._capacity_s += 1.0
        self._busy_s += share
        return SystemCounters(
            processors=ProcessorTimes(capacity_s=self._capacity_s, busy_s=self._busy_s, own_s=0.0),
            swapped_bytes=self.swapped_bytes,
            engine_bytes=1 << 20,
        )
