"""The fake engine keeps the contract it stands in for, and misbehaves exactly as told."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from engines.api import EngineAdapter, EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.patience import PATIENCE_S

KEY = "launch-key"
RunEngine = Callable[[Behaviour], AbstractAsyncContextManager[aiohttp.ClientSession]]


def plan_for(adapter: EngineAdapter, port: int) -> tuple[tuple[str, ...], dict[str, str]]:
    installation = adapter.probe()
    assert isinstance(installation, EngineInstallation)
    source = ModelSource(name="m", path=Path("m.gguf"), format=ModelFormat.GGUF)
    plan = adapter.plan(source, LaunchOptions(), ListenOptions(host="127.0.0.1", port=port, key=KEY), installation)
    (spec,) = plan.processes
    return spec.argv, {**spec.env, **spec.secrets}


def test_the_key_travels_as_a_secret_only() -> None:
    argv, _ = plan_for(FakeAdapter(), 1)
    assert KEY not in " ".join(argv)


def test_behaviour_survives_the_way_through_the_environment() -> None:
    behaviour = Behaviour(says=("a", "b"), tokens_per_s=2.5, exit_code=0)
    assert Behaviour.from_json(behaviour.to_json()) == behaviour


@pytest.fixture
def run_engine(unused_port: int) -> RunEngine:
    @asynccontextmanager
    async def run(behaviour: Behaviour) -> AsyncIterator[aiohttp.ClientSession]:
        argv, env = plan_for(FakeAdapter({"m": behaviour}), unused_port)
        process = await asyncio.create_subprocess_exec(*argv, env={**os.environ, **env})
        headers = {"Authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession(f"http://127.0.0.1:{unused_port}", headers=headers) as http:
            try:
                await until_there(http, process)
                yield http
            finally:
                process.kill()
                await process.wait()

    return run


async def until_there(http: aiohttp.ClientSession, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while process.returncode is None:
            try:
                async with http.get("/health"):
                    return
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.02)


async def post(http: aiohttp.ClientSession, path: str, **body: object) -> bytes:
    async with http.post(path, json=body) as response:
        assert response.status == 200
        return await response.read()


def events(raw: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]


async def test_it_speaks_openai(run_engine: RunEngine) -> None:
    async with run_engine(Behaviour(tokens=3, token="héllo")) as http:
        whole = json.loads(await post(http, "/v1/chat/completions", messages=[]))
        assert whole["choices"][0]["message"] == {"role": "assistant", "content": "héllo héllo héllo "}
        assert whole["usage"]["completion_tokens"] == 3
        assert (
            json.loads(await post(http, "/v1/completions", prompt="", max_tokens=1))["choices"][0]["text"] == "héllo "
        )
        assert len(json.loads(await post(http, "/v1/embeddings", input=["a", "b"]))["data"]) == 2
        async with http.get("/v1/models") as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["m"]
        async with http.post("/v1/rerank", json={}) as response:
            assert response.status == 404


async def test_it_streams(run_engine: RunEngine) -> None:
    async with run_engine(Behaviour(tokens=2, token="🚂", splits_emoji=True)) as http:
        *pieces, last, done_line = events(await post(http, "/v1/chat/completions", stream=True))
        assert [json.loads(piece)["choices"][0]["delta"]["content"] for piece in pieces] == ["🚂 ", "🚂 "]
        assert json.loads(last)["choices"][0]["finish_reason"] == "stop"
        assert done_line == "[DONE]"


async def test_sixteen_paced_streams_take_as_long_as_one(run_engine: RunEngine) -> None:
    async with run_engine(Behaviour(tokens=10, tokens_per_s=20.0, first_byte_s=0.1)) as http:
        start = asyncio.get_running_loop().time()
        raw = await asyncio.gather(*(post(http, "/v1/completions", stream=True) for _ in range(16)))
        took_s = asyncio.get_running_loop().time() - start
        assert {len(events(chunks)) for chunks in raw} == {12}
        assert 0.6 <= took_s < 5.0, "one takes 0.6 s, sixteen in turn would take 9.6 s"
        async with http.get("/fake/stats") as response:
            assert await response.json() == {"begun": 16, "finished": 16, "cancelled": 0, "tokens": 160}


async def test_it_lies_when_told_to(run_engine: RunEngine) -> None:
    async with run_engine(Behaviour(lies=True)) as http:
        async with http.get("/health") as response:
            assert response.status == 200
        async with http.post("/v1/completions", json={}) as response:
            assert response.status == 500


async def test_without_the_key_it_answers_nothing_but_health(run_engine: RunEngine) -> None:
    async with (
        run_engine(Behaviour()) as http,
        http.get("/v1/models", headers={"Authorization": "Bearer x"}) as response,
    ):
        assert response.status == 401


def run_to_end(behaviour: Behaviour) -> "subprocess.CompletedProcess[str]":
    argv, env = plan_for(FakeAdapter({"m": behaviour}), 1)
    return subprocess.run(
        argv, env={**os.environ, **env}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_it_ends_with_the_code_and_the_words_it_is_told() -> None:
    end = run_to_end(Behaviour(says=("ggml: out of memory",), exit_code=7, says_key=True))
    assert (end.returncode, end.stderr.splitlines()) == (7, ["ggml: out of memory", f"listening with api_key={KEY}"])


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_it_crashes_as_often_as_it_is_told(tmp_path: Path) -> None:
    behaviour = Behaviour(crashes=1, exit_code=0, state_file=str(tmp_path / "starts"))
    assert [run_to_end(behaviour).returncode for _ in range(2)] == [-6, 0]
