"""The whole path below a socket: the real library, catalogue and supervisor, and engines that misbehave."""

import asyncio
import dataclasses
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import msgspec
import psutil
import pytest

from app.config.paths import Paths
from app.config.store import SettingsStore
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.version_store import VersionStore
from app.gateway.exchange import upstream
from app.gateway.instance import bind
from app.gateway.loading.launch import load_request, model_folders, policy_from
from app.gateway.main import open_runner
from app.gateway.services import Limits, Services
from app.hub.library.library import Library
from app.supervisor import run
from app.supervisor.pool import Supervisor, SupervisorFolders
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.played import Upstream, played_services
from tests.gguf_files import TinyLlama
from tests.patience import until

BEHAVIOURS = {
    "emoji": Behaviour(token="\U0001f682é", splits_emoji=True),
    "slow": Behaviour(tokens=10_000, tokens_per_s=50.0),
    "loads": Behaviour(load_s=1.0),
    "dies": Behaviour(dies_after=3, tokens_per_s=100.0),
    "crashes": Behaviour(exit_code=1, says=("out of memory",)),
    "silent": Behaviour(is_silent=True),
    "mute": Behaviour(never_answers=True),
    "raw": Behaviour(writes='<think>Hm.</think>So.<tool_call>{"name": "now", "arguments": {}}</tool_call>'),
}
NOW = {"type": "function", "function": {"name": "now"}}
raw = pytest.mark.parametrize("adapter", [FakeAdapter(BEHAVIOURS, is_raw=True)], ids=["raw"])
both = pytest.mark.parametrize(
    "adapter", [FakeAdapter(BEHAVIOURS), FakeAdapter(BEHAVIOURS, is_raw=True)], ids=["native", "raw"]
)
"""What holds where bytes pass holds where an answer is put together here."""


@dataclasses.dataclass
class Real:
    """A gateway with a real supervisor."""

    url: str
    http: aiohttp.ClientSession
    services: Services

    @asynccontextmanager
    async def post_chat(self, model: str, *, stream: bool = True) -> AsyncIterator[aiohttp.ClientResponse]:
        body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            yield reply

    async def stats(self, model: str) -> dict[str, int]:
        """Ask the engine itself what it has done."""
        async with self.services.supervisor.lease(await load_request(self.services, model)) as lease:
            headers = {"Authorization": f"Bearer {lease.key}"}
            async with self.http.get(f"{lease.base_url}/fake/stats", headers=headers) as reply:
                return cast("dict[str, int]", await reply.json())

    async def until_stats(self, model: str, holds: Callable[[dict[str, int]], bool]) -> None:
        async def check_stats() -> bool:
            return holds(await self.stats(model))

        await until(check_stats)

    def states(self) -> dict[str, str]:
        return {status.model: status.state.value for status in self.services.supervisor.list_statuses()}


@pytest.fixture
def adapter() -> FakeAdapter:
    return FakeAdapter(BEHAVIOURS)


@pytest.fixture
async def real(paths: Paths, limits: Limits, unused_port: int, adapter: FakeAdapter) -> AsyncIterator[Real]:
    for name in BEHAVIOURS:
        TinyLlama().write(paths.models / f"{name}.gguf")
    settings = SettingsStore(
        paths.settings_file, {"ROUNDHOUSE_MODELS_MAX_LOADED": "1", "ROUNDHOUSE_ENGINE_DRAIN_SECONDS": "0"}
    )
    adapters = {"fake": adapter}
    base_services = await played_services(paths, {}, limits, Upstream())
    folders = SupervisorFolders(records=paths.engine_records, logs=paths.logs, scratch=paths.state)
    services = dataclasses.replace(
        base_services,
        settings=settings,
        adapters=adapters,
        supervisor=Supervisor(adapters, folders, policy_from(settings), base_services.events.publish),
        library=Library(lambda: model_folders(paths, settings), paths.data / "models.json", paths.data / "none.gguf"),
        catalogue=EngineCatalogue(adapters, VersionStore(paths.data / "engines")),
    )
    runner = await open_runner(services, bind("127.0.0.1", unused_port))
    async with aiohttp.ClientSession() as http:
        yield Real(f"http://127.0.0.1:{unused_port}", http, services)
    await runner.cleanup()


def content(stream: bytes) -> str:
    events = [json.loads(line[6:]) for line in stream.split(b"\n\n") if line.startswith(b"data: {")]
    return "".join(choice["delta"].get("content", "") for event in events for choice in event.get("choices", []))


def error_in(stream: bytes) -> Any:  # noqa: ANN401 -- whatever was sent
    return json.loads(stream.removesuffix(b"\n\n").rpartition(b"data: ")[2])["error"]


async def test_an_answer_whose_characters_arrive_in_pieces(real: Real) -> None:
    async with real.post_chat("emoji") as reply:
        stream = await reply.read()
    assert content(stream) == "\U0001f682é " * 5
    assert stream.endswith(b"data: [DONE]\n\n")
    async with real.http.get(f"{real.url}/v1/models") as reply:
        loaded_models = [model["id"] for model in (await reply.json())["data"] if model["loaded"]]
    assert loaded_models == ["emoji"]


@pytest.mark.slow
@raw
async def test_raw_text_is_read_from_a_real_engine(real: Real) -> None:
    body = {"model": "raw", "messages": [{"role": "user", "content": "Hi"}], "tools": [NOW]}
    async with real.http.post(f"{real.url}/v1/chat/completions", json=body) as reply:
        (choice,) = (await reply.json())["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "So.")
    assert choice["message"]["reasoning_content"] == "Hm."
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "now", "arguments": "{}"}


@pytest.mark.slow(cases=1)
@both
async def test_an_engine_killed_in_the_middle_is_said_in_the_stream_and_the_next_request_works(real: Real) -> None:
    async with real.post_chat("dies") as reply:
        assert reply.status == 200
        stream = await reply.read()
    assert content(stream) == "word " * 3
    assert error_in(stream)["code"] == "killed"
    async with real.post_chat("dies", stream=False) as reply:
        assert reply.status == 502
        assert (await reply.json())["error"]["code"] == "killed"
    async with real.post_chat("emoji") as reply:
        assert content(await reply.read()) == "\U0001f682é " * 5


@pytest.mark.slow(cases=1)
@both
async def test_a_reader_who_leaves_stops_the_engines_work(real: Real) -> None:
    async with real.post_chat("slow") as reply:
        await reply.content.readany()
        reply.close()
    await real.until_stats("slow", lambda stats: stats["cancelled"] == 1)
    assert (await real.stats("slow"))["tokens"] < 1000


@pytest.mark.slow
async def test_a_client_that_leaves_before_the_first_byte_stops_the_engines_work(real: Real) -> None:
    async def ask() -> None:
        async with real.post_chat("mute", stream=False):
            raise AssertionError

    question = asyncio.create_task(ask())
    await real.until_stats("mute", lambda stats: stats["begun"] == 1)
    question.cancel()
    await real.until_stats("mute", lambda stats: stats["cancelled"] == 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_an_engine_that_hangs_when_a_client_leaves_is_restarted(
    real: Real, adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.05)
    adapter.descriptor = msgspec.structs.replace(adapter.descriptor, frozen_s=0.2)
    async with real.post_chat("slow") as reply:
        await reply.content.readany()
        (status,) = real.services.supervisor.list_statuses()
        engine = psutil.Process(status.pid)
        engine.suspend()
        reply.close()
    await until(lambda: "slow answers nothing any more and is restarted." in caplog.text)
    await until(lambda: not engine.is_running())
    async with real.post_chat("slow") as reply:
        assert await reply.content.readany(), "the next request is answered by the next engine"
        reply.close()
    await real.until_stats("slow", lambda stats: stats["cancelled"] == 1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_a_request_whose_engine_hangs_is_told(
    real: Real, adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.05)
    monkeypatch.setattr(upstream, "LOOK_S", 0.1)
    adapter.descriptor = msgspec.structs.replace(adapter.descriptor, frozen_s=0.2)

    async def ask() -> tuple[int, str]:
        async with real.post_chat("mute", stream=False) as reply:
            return reply.status, (await reply.json())["error"]["code"]

    question = asyncio.create_task(ask())
    await real.until_stats("mute", lambda stats: stats["begun"] == 1)
    (status,) = real.services.supervisor.list_statuses()
    psutil.Process(status.pid).suspend()
    assert await question == (502, "unresponsive")
    assert "is restarted" in caplog.text


@pytest.mark.slow
async def test_an_engine_whose_server_is_well_and_computes_nothing_is_restarted(
    real: Real, adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As Dynamo's frontend is once its worker is gone: a token tells, its health does not."""
    monkeypatch.setattr(run, "PULSE_S", 0.05)
    monkeypatch.setattr(upstream, "LOOK_S", 0.1)
    adapter.descriptor = msgspec.structs.replace(
        adapter.descriptor, frozen_s=0.2, stuck_s=1.0, probe_path="/v1/chat/completions"
    )
    async with real.post_chat("mute", stream=False) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (502, "unresponsive")
    assert "is restarted" in caplog.text


@pytest.mark.slow
async def test_a_client_that_leaves_while_the_model_loads_costs_the_engine_nothing(real: Real) -> None:
    async def ask() -> None:
        async with real.post_chat("loads"):
            raise AssertionError

    question = asyncio.create_task(ask())
    await until(lambda: real.states().get("loads") == "loading")
    question.cancel()
    assert (await real.stats("loads"))["begun"] == 0


@pytest.mark.slow
async def test_a_client_that_leaves_the_queue_leaves_no_trace(real: Real) -> None:
    async def ask() -> None:
        async with real.post_chat("emoji"):
            raise AssertionError

    async with real.post_chat("slow") as reply:
        await reply.content.readany()
        question = asyncio.create_task(ask())
        await until(lambda: "emoji" in real.states())
        assert real.states()["slow"] == "ready"
        question.cancel()
        reply.close()
    await real.until_stats("slow", lambda stats: stats["cancelled"] == 1)
    async with real.post_chat("emoji") as reply:
        assert content(await reply.read()) == "\U0001f682é " * 5
    assert (await real.stats("emoji"))["begun"] == 1


@pytest.mark.slow
async def test_an_engine_that_cannot_load_is_a_typed_502(real: Real) -> None:
    async with real.post_chat("crashes") as reply:
        assert (reply.status, reply.headers["x-should-retry"]) == (502, "false")
        error = (await reply.json())["error"]
    assert (error["code"], error["type"]) == ("out_of_memory", "server_error")


@pytest.mark.slow
async def test_an_engine_that_never_becomes_ready_is_given_up(real: Real) -> None:
    supervisor = real.services.supervisor
    supervisor.policy = type(supervisor.policy)(stall_s=0.5, drain_s=0.0, max_loaded=1)
    async with real.post_chat("silent") as reply:
        assert reply.status == 502
        assert (await reply.json())["error"]["code"] == "stalled"
