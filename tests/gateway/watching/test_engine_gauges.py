"""What engines say of themselves comes through `/metrics`, and nobody waits for one that says nothing."""

import asyncio
import json

import msgspec
import pytest
from aiohttp import web

from app.gateway.watching.routes import in_series, in_slots
from engines.api import Gauge
from engines.registry import ADAPTERS
from tests.gateway.played import Gateway

SERIES = """# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} NaN
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 8e2
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 200
"""
IDLE = {"id": 0, "n_ctx": 512, "is_processing": False, "n_prompt_tokens": 31}
BUSY = {"id": 1, "n_ctx": 512, "is_processing": True, "n_prompt_tokens": 100, "next_token": [{"n_decoded": 28}]}


def slots(*values: object) -> bytes:
    return msgspec.json.encode(values)


def test_shares_of_several_ranks_are_not_added_up_and_counts_are() -> None:
    gauges = in_series(SERIES, ADAPTERS["vllm"].descriptor)
    assert gauges[Gauge.KV_USAGE] == 0.5
    assert gauges[Gauge.RUNNING] == 3
    assert gauges[Gauge.PREFIX_HIT_RATE] == 0.25
    assert Gauge.WAITING not in gauges, "no number, no figure"


def test_what_slots_hold_counts_while_they_work() -> None:
    assert in_slots(slots(IDLE, BUSY)) == 128 / 1024
    assert in_slots(slots(IDLE)) == 0.0


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b"[1]", b"\xff", b"<html>"])
def test_what_is_no_list_of_slots_says_nothing(document: bytes) -> None:
    assert in_slots(document) is None


async def read_metrics(gateway: Gateway) -> list[str]:
    async with gateway.http.get(f"{gateway.url}/metrics") as reply:
        assert reply.status == 200
        return (await reply.text()).splitlines()


async def test_an_engine_that_tells_is_in_the_metrics(gateway: Gateway) -> None:
    async def answer_metrics(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {gateway.upstream.key}"
        if request.path == "/slots":
            return web.Response(text=json.dumps([IDLE, BUSY]))
        return web.Response(text="llamacpp:prompt_tokens_total 12\nllamacpp:requests_processing 1\n")

    gateway.upstream.play = answer_metrics
    lines = await read_metrics(gateway)
    assert 'roundhouse_engine_kv_cache_usage_ratio{model="guide",engine="llama.cpp"} 0.125' in lines
    assert 'roundhouse_engine_prompt_tokens_total{model="guide",engine="llama.cpp"} 12' in lines


async def test_an_engine_that_does_not_answer_is_not_waited_for(gateway: Gateway) -> None:
    may_answer = asyncio.Event()

    async def silent(_request: web.Request) -> web.Response:
        await may_answer.wait()
        return web.Response()

    gateway.upstream.play = silent
    lines = await read_metrics(gateway)
    may_answer.set()
    assert 'roundhouse_engine_up{model="guide",engine="llama.cpp"} 1' in lines
    assert not [line for line in lines if line.startswith("roundhouse_engine_kv_cache_usage_ratio{")]


async def test_a_page_that_comes_in_pieces_is_read_whole(gateway: Gateway) -> None:
    async def answer_metrics(request: web.Request) -> web.StreamResponse:
        if request.path == "/slots":
            return web.json_response([IDLE, BUSY])
        reply = web.StreamResponse()
        await reply.prepare(request)
        await reply.write(b"# HELP other What comes first.\nother 1\n")
        await asyncio.sleep(0.05)  # so that the two come apart
        await reply.write(b"llamacpp:prompt_tokens_total 12\n")
        return reply

    gateway.upstream.play = answer_metrics
    assert 'roundhouse_engine_prompt_tokens_total{model="guide",engine="llama.cpp"} 12' in await read_metrics(gateway)
