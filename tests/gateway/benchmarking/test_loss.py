"""What a quantisation loses, from two loads: what is asked, what is compared, and what cannot be."""

import json
import math
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from app.benchmark.loss import POSITIONS, TOP_TOKENS
from app.core.advice import EstimateRequest
from app.core.errors import BadRequest, EngineFailed
from app.core.models import ModelSettings
from app.gateway.advising import advice
from app.gateway.benchmarking import loss as loss_module
from app.gateway.benchmarking.loss import compare_models, compare_settings
from app.gateway.services import Services
from tests.gateway.benchmarking import test_race
from tests.gateway.played import Upstream

parts = test_race.parts


class PlayedTokens:
    """Holds the same token for likely everywhere, less so after a load with other settings."""

    def __init__(self, services: Services) -> None:
        self._supervisor = cast("Any", services.supervisor)
        self.bodies: list[dict[str, Any]] = []
        self.status = 200
        self.reply: object = None

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        likely = 0.9 if self._supervisor.load_requests[-1].options.kv_type is None else 0.5
        pairs = [{"token": " the", "logprob": math.log(likely)}, {"token": " a", "logprob": math.log(0.05)}]
        reply = self.reply or {"choices": [{"logprobs": {"content": [{"token": " the", "top_logprobs": pairs}]}}]}
        return web.Response(status=self.status, text=json.dumps(reply), content_type="application/json")


async def test_two_loads_are_asked_for_the_same_next_tokens(parts: Services, upstream: Upstream) -> None:
    played_tokens = PlayedTokens(parts)
    upstream.play = played_tokens.answer
    loss = await compare_settings(parts, "guide", ModelSettings(), ModelSettings(kv_type="q4_0"))
    assert loss.positions == POSITIONS
    assert len(played_tokens.bodies) == 2 * POSITIONS
    assert [body["prompt"] for body in played_tokens.bodies[:POSITIONS]] == [
        body["prompt"] for body in played_tokens.bodies[POSITIONS:]
    ]
    assert {(body["max_tokens"], body["logprobs"]) for body in played_tokens.bodies} == {(1, TOP_TOKENS)}
    expected_loss = 0.9 * math.log(0.9 / 0.5) + 0.05 * math.log(0.05 / 0.45)
    assert loss.kl_divergence == pytest.approx(expected_loss, rel=1e-3)
    assert loss.same_likeliest == 1.0


async def test_equal_models_lose_nothing(parts: Services, upstream: Upstream) -> None:
    upstream.play = PlayedTokens(parts).answer
    assert (await compare_models(parts, "guide", "guide")).kl_divergence == pytest.approx(0)


async def test_an_engine_that_names_no_tokens_or_fails_is_said(parts: Services, upstream: Upstream) -> None:
    played_tokens = PlayedTokens(parts)
    upstream.play = played_tokens.answer
    played_tokens.reply = {"choices": [{"text": "the"}]}
    with pytest.raises(BadRequest, match="names no next tokens"):
        await compare_models(parts, "guide", "guide")
    played_tokens.status = 500
    with pytest.raises(EngineFailed, match="status 500"):
        await compare_models(parts, "guide", "guide")


async def test_models_that_are_not_alike_are_refused(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadRequest, match="chat model"):
        await compare_models(parts, "guide", "org/embed:q8")
    library = cast("Any", parts.library)
    find = library.find_model

    def find_other(name: str) -> object:
        model = find("guide")
        return msgspec.structs.replace(model, architecture="llama") if name == "other" else model

    monkeypatch.setattr(library, "find_model", find_other)
    with pytest.raises(BadRequest, match="not two quantisations"):
        await compare_models(parts, "guide", "other")


async def test_the_largest_that_fits_is_the_reference_where_none_is_named(
    parts: Services, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.play = PlayedTokens(parts).answer
    guide = parts.library.find_model("guide")
    larger = [
        msgspec.structs.replace(guide, name=name, size_bytes=guide.size_bytes * times)
        for name, times in (("q8", 2), ("f32", 8), ("f16", 4))
    ]
    others = [msgspec.structs.replace(larger[0], name="other", architecture="other"), guide]
    monkeypatch.setattr(parts.library, "list_models", lambda: [*larger, *others])

    async def estimate(_services: Services, request: EstimateRequest) -> SimpleNamespace:
        return SimpleNamespace(fits=request.model != "f32")

    monkeypatch.setattr(advice, "estimate_model", estimate)
    chosen_reference = await loss_module._largest_fit(parts, guide)
    assert chosen_reference.name == "f16"
    monkeypatch.setattr(parts.library, "list_models", lambda: others)
    with pytest.raises(BadRequest, match="No larger quantisation") as error:
        await compare_models(parts, "", "guide")
    assert error.value.code == "reference_required"
