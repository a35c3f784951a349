"""Receipts to compare and to show, made of requests that take as long as a test says."""

from collections.abc import Sequence
from typing import Any

from app.benchmark.results import BenchmarkRound, RequestTiming, summarize_level
from app.core.benchmarks import (
    BenchmarkMachine,
    BenchmarkMessage,
    BenchmarkPrompt,
    BenchmarkReceipt,
    BenchmarkSample,
    BenchmarkSettings,
    BenchmarkTarget,
)

PROMPT = BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content="Why?")])


def make_timing(
    ttft_s: float, token_s: float, *, tokens: int = 11, concurrency: int = 1, prompt: int = 0
) -> RequestTiming:
    sample = BenchmarkSample(
        concurrency=concurrency,
        prompt_tokens=100,
        cached_tokens=0,
        answer_tokens=tokens,
        ttft_s=ttft_s,
        e2e_s=ttft_s + token_s * (tokens - 1),
        prefill_s=ttft_s,
        prompt=prompt,
    )
    return RequestTiming(sample=sample, gaps_s=[token_s] * (tokens - 1), answer="Because.", prompt=PROMPT)


def make_round(requests: Sequence[RequestTiming], *, concurrency: int = 1, **fields: Any) -> BenchmarkRound:  # noqa: ANN401 -- fields by name
    duration_s = sum(request.sample.e2e_s for request in requests) / concurrency
    return BenchmarkRound(concurrency=concurrency, duration_s=duration_s, requests=list(requests), **fields)


def make_receipt(
    token_s: Sequence[float],
    *,
    model: str = "m",
    engine: str = "llama.cpp",
    version: str = "1",
    levels: Sequence[int] = (1,),
) -> BenchmarkReceipt:
    """Return a receipt of three rounds per level, whose requests took so long per token, one after the other."""
    rounds = {
        level: [make_round([make_timing(0.1, part, concurrency=level) for part in token_s], concurrency=level)] * 3
        for level in levels
    }
    return BenchmarkReceipt(
        id="abc",
        at=1.7e9,
        roundhouse="1.0",
        target=BenchmarkTarget(
            model=model, engine=engine, engine_version=version, backend="cpu", quantization="Q4_K_M"
        ),
        machine=BenchmarkMachine(
            system="Linux", processor="A <processor>", summary="A <processor>, 16.0 GiB of memory"
        ),
        settings=BenchmarkSettings(concurrency=list(levels)),
        prompts_sha256="0" * 64,
        levels=[summarize_level(parts) for parts in rounds.values()],
        samples=[request.sample for parts in rounds.values() for part in parts for request in part.requests],
    )
