"""How an answer is timed: as the engine says, else by the clock over its stream; and what a trial can try where."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web

from app.core.errors import EngineFailed
from app.core.models import ModelInfo
from app.gateway.advising.draft_trials import DraftTrials
from app.gateway.loading import draft_choice
from app.gateway.loading.draft_choice import own_draft_of
from app.gateway.services import Services
from engines.api import EngineInstallation, Route
from engines.registry import ADAPTERS
from tests.gateway.advising.test_measuring import STATUS
from tests.patience import PATIENCE_S

PIECE_S = 0.02
"""Between two pieces of a played answer."""


class PlayedStream:
    """An engine's chat route: a piece every `PIECE_S`, several tokens in each, and what it says at the end."""

    def __init__(self) -> None:
        self.end: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.connections: list[str | None] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await request.json())
        self.connections.append(request.headers.get("Connection"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(6):
            await response.write(b'data: {"choices": [{"delta": {"content": "so"}}]}\n\n')
            await asyncio.sleep(PIECE_S)
        for document in self.end:
            await response.write(b"data: " + json.dumps(document).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response


class PlayedLease:
    """What a lease says of its engine."""

    def __init__(self, base_url: str) -> None:
        self.base_url, self.key, self.served_name, self.engine, self.status = base_url, "k", "m", "vllm", STATUS


@pytest.fixture
async def stream(unused_port: int) -> AsyncIterator[PlayedStream]:
    played_stream, app = PlayedStream(), web.Application()
    app.router.add_post("/v1/chat/completions", played_stream.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_port).start()
    yield played_stream
    await runner.cleanup()


@pytest.fixture
async def trials(services: Services) -> AsyncIterator[DraftTrials]:
    yield DraftTrials(services)
    await services.http.close()
    await services.chats.close()


async def timing_of(trials: DraftTrials, port: int) -> Any:  # noqa: ANN401 -- a Generation
    lease = cast("Any", PlayedLease(f"http://127.0.0.1:{port}"))
    return await asyncio.wait_for(trials._time_request(lease, Route.CHAT, {"max_tokens": 32}), PATIENCE_S)


async def test_an_engine_that_keeps_no_time_is_timed_by_the_clock(
    trials: DraftTrials, stream: PlayedStream, unused_port: int
) -> None:
    stream.end = [{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 30}}]
    generation = await timing_of(trials, unused_port)
    assert (generation.prompt_tokens, generation.completion_tokens) == (7, 30)
    assert generation.decode_s >= 5 * PIECE_S * 0.9, "from the first piece to the last"
    assert generation.prefill_s > 0
    (request,) = stream.requests
    assert request["stream_options"] == {"include_usage": True}
    assert request["ignore_eos"]
    assert stream.connections == ["close"], "an idle one may be closed under the next request"


async def test_an_engine_that_keeps_time_is_believed(
    trials: DraftTrials, stream: PlayedStream, unused_port: int
) -> None:
    stream.end = [{"choices": [{"delta": {}}], "timings": {"predicted_n": 40, "predicted_ms": 800.0, "prompt_n": 9}}]
    generation = await timing_of(trials, unused_port)
    assert (generation.completion_tokens, generation.decode_s, generation.prompt_tokens) == (40, 0.8, 9)


async def test_an_answer_without_a_count_is_no_measurement(
    trials: DraftTrials, stream: PlayedStream, unused_port: int
) -> None:
    stream.end = [{"error": {"message": "out of memory"}}]
    with pytest.raises(EngineFailed, match="did not say how long"):
        await timing_of(trials, unused_port)


class PlayedCatalogue:
    """Every engine is here."""

    def find_installation(self, engine: str) -> EngineInstallation:
        return EngineInstallation(
            engine=engine, version="99.0", backend="cuda", python=Path("/p/python"), executable=Path("/p/program")
        )


class PlayedServices:
    """What `own_draft_of` looks at."""

    adapters, catalogue, facts = ADAPTERS, PlayedCatalogue(), None


@pytest.mark.parametrize(
    ("engine", "form", "plain_kind", "head_kind"),
    [
        ("llama.cpp", "gguf", "ngram", "mtp"),
        ("vllm", "safetensors", "ngram", "mtp"),
        ("sglang", "safetensors", "ngram", "mtp"),
        ("tensorrt-llm", "safetensors", "ngram", "mtp"),
        ("tgi", "safetensors", "ngram", "ngram"),
        ("lmdeploy", "safetensors", "", "mtp"),
        ("mlx-lm", "mlx", "", ""),
        ("exllamav3", "exl3", "ngram", "mtp"),
        ("openvino", "openvino", "", ""),
    ],
)
def test_what_can_be_tried_with_which_engine(
    monkeypatch: pytest.MonkeyPatch, engine: str, form: str, plain_kind: str, head_kind: str
) -> None:
    model = ModelInfo(name="m", title="M", path="/models/m", format=form, size_bytes=1)
    for has_head, expected_kinds in ((False, plain_kind), (True, head_kind)):
        monkeypatch.setattr(draft_choice, "has_draft_head", lambda *_, has_head=has_head: has_head)
        assert own_draft_of(cast("Services", PlayedServices()), model, engine) == expected_kinds
