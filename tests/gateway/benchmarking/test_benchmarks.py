"""A benchmark from the request to its receipt, against an engine and a computer that the test plays."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from app.benchmark.field_formats import format_receipt
from app.benchmark.markdown import summary_lines
from app.core.api import PREFIX
from app.core.benchmarks import (
    BenchmarkMessage,
    BenchmarkPrompt,
    BenchmarkReceipt,
    BenchmarkSettings,
    FieldFormat,
    StartBenchmark,
    Workload,
)
from app.core.engines import EngineState, EngineStatus
from app.core.errors import BadRequest, Conflict, NotFound
from app.core.events import BenchmarkChanged
from app.core.models import ModelSettings
from app.gateway.advising import quiet_rounds
from app.gateway.benchmarking import run as benchmark_run
from app.gateway.benchmarking import targets
from app.gateway.benchmarking.job import Benchmarks
from app.gateway.benchmarking.targets import hash_weights
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from tests.gateway.benchmarking.played_engine import PlayedComputer, PlayedEngine
from tests.gateway.played import Gateway, Upstream
from tests.patience import PATIENCE_S
from tests.played_nvml import pynvml
from tests.unit.benchmark.receipts import make_receipt

CARD_BINDING = Path(pynvml.__file__).parent
SHORT = BenchmarkSettings(requests=2, answer_tokens=4)


@pytest.fixture
def engine(upstream: Upstream) -> PlayedEngine:
    played_engine = PlayedEngine()
    upstream.play = played_engine.answer
    return played_engine


@pytest.fixture
async def parts(services: Services, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    """The parts of a gateway that is not opened, and so does not close them. Its engine has a process to watch."""
    monkeypatch.setattr(quiet_rounds, "QUIET_POLL_S", 0.001)
    monkeypatch.setattr(quiet_rounds, "QUIET_WAIT_S", 0.01)
    monkeypatch.setattr(benchmark_run, "hash_weights", lambda *_: "f" * 64)
    status = EngineStatus(
        model="guide", engine="llama.cpp", version="9", backend="cpu", state=EngineState.READY, pid=1, context=4096
    )
    monkeypatch.setattr(services.supervisor, "status", lambda: status)
    yield services
    await services.speed_measurements.close()
    await services.http.close()
    await services.chats.close()


async def run_to_end(benchmarks: Benchmarks, request: StartBenchmark) -> BenchmarkChanged:
    await benchmarks.start(request)
    async with asyncio.timeout(PATIENCE_S):
        await benchmarks.job.wait()
    assert benchmarks.job.last is not None
    return benchmarks.job.last


async def test_a_benchmark_measures_and_is_kept(parts: Services, engine: PlayedEngine) -> None:
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    settings = msgspec.structs.replace(SHORT, concurrency=[4, 1, 4])
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=settings, keeps_disturbed=True))
    assert (end.done, end.error) == (True, "")
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert [level.concurrency for level in receipt.levels] == [1, 4]
    assert [level.requests for level in receipt.levels] == [6, 12]
    assert engine.most_in_flight <= 4
    assert {sample.answer_tokens for sample in receipt.samples} == {4}
    assert receipt.target.engine == "llama.cpp"
    assert receipt.target.weights_sha256 == "f" * 64
    assert receipt.correctness.equal_answers == 1
    assert receipt.memory.peak_bytes == 1 << 20
    assert receipt.prefix is not None
    assert receipt.machine.system
    supervisor = cast("Any", parts.supervisor)
    (load,) = supervisor.load_requests
    assert (load.source.name, load.options.slots) == ("guide (benchmark)", 4), "what runs is left alone"
    assert supervisor.unloads == [("guide (benchmark)", False)]


async def test_more_requests_at_once_end_with_the_first_that_write_no_more(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {1: 10.0, 2: 18.0, 4: 18.4, 8: 90.0}
    order: list[int] = []

    async def play_round(run: benchmark_run.BenchmarkRun, client: Any, target: Any, request: Any, level: int) -> Any:  # noqa: ANN401 -- passed on
        order.append(level)
        real = await run_round(run, client, target, request, level)
        tokens = sum(timing.sample.answer_tokens for timing in real.requests)
        return msgspec.structs.replace(real, duration_s=tokens / rates[level])

    run_round = benchmark_run.BenchmarkRun._run_round
    monkeypatch.setattr(benchmark_run.BenchmarkRun, "_run_round", play_round)
    settings = msgspec.structs.replace(SHORT, concurrency=[8, 4, 2, 1], stops_saturated=True)
    end = await run_to_end(
        Benchmarks(parts, PlayedComputer().read), StartBenchmark(model="guide", settings=settings, keeps_disturbed=True)
    )
    assert (end.error, engine.status) == ("", 200)
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert order == [1, 1, 1, 2, 2, 2, 4, 4, 4], "8 would have written more, and nobody waits for that"
    assert [level.concurrency for level in receipt.levels] == [1, 2, 4]
    assert "With more than 2 at once it writes no more, and each request waits longer." in summary_lines(receipt)


async def test_what_computes_on_a_card_has_the_card_s_energy_counted(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CARD_BINDING))
    on_card = msgspec.structs.replace(cast("Any", parts.supervisor).status(), backend="cuda")
    monkeypatch.setattr(parts.supervisor, "status", lambda: on_card)
    end = await run_to_end(
        Benchmarks(parts, PlayedComputer().read), StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True)
    )
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert engine.bodies
    assert receipt.cost is not None
    assert receipt.cost.source == "NVML + NVML, power added up"
    assert receipt.cost.joules >= 3 * 7, "three rounds of 7 J by the counter, and what the power comes to"
    assert receipt.levels[0].tokens_j is not None


async def test_the_processor_s_benchmark_asks_no_card(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(CARD_BINDING))
    end = await run_to_end(
        Benchmarks(parts, PlayedComputer().read), StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True)
    )
    assert engine.bodies
    assert (await parts.chats.find_benchmark(end.receipt)).cost is None


async def test_as_many_requests_run_at_once_as_the_level_says(parts: Services, engine: PlayedEngine) -> None:
    engine.together = (20, asyncio.Barrier(4))
    settings = BenchmarkSettings(concurrency=[4], requests=4, answer_tokens=20)
    end = await run_to_end(
        Benchmarks(parts, PlayedComputer().read), StartBenchmark(model="guide", settings=settings, keeps_disturbed=True)
    )
    assert end.error == "", "no answer began before four requests were there"


async def test_rounds_share_no_prompt_and_answers_are_greedy_and_of_full_length(
    parts: Services, engine: PlayedEngine
) -> None:
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True))
    firsts = [body["messages"][0]["content"] for body in engine.bodies if body["max_tokens"] == 4]
    measured_bodies = firsts[1:7]
    assert len({text.partition(")")[0] for text in measured_bodies}) == 6
    assert all(body["temperature"] == 0 and body["ignore_eos"] and body["stream"] for body in engine.bodies)


async def test_a_disturbed_run_is_repeated_and_then_refused(parts: Services, engine: PlayedEngine) -> None:
    benchmarks = Benchmarks(parts, PlayedComputer(0.7).read)
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT))
    assert end.code == "benchmark_disturbed"
    assert "other programs used 70 %" in end.error
    assert await parts.chats.list_benchmarks() == []
    assert len(engine.bodies) > 2 * 3, "more rounds were tried"


async def test_a_disturbed_run_is_kept_if_it_is_to_be_and_teaches_nothing(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts.speed_measurements, "learn", lambda _: pytest.fail("a disturbed run is not learnt from"))
    benchmarks = Benchmarks(parts, PlayedComputer(0.7).read)
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True))
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert "70 %" in receipt.disturbances[0]
    assert engine.bodies


async def test_a_round_that_was_disturbed_is_run_again_and_left_out(parts: Services, engine: PlayedEngine) -> None:
    # Readings: three while it waits for quiet, then two for each round; the second round is the busy one.
    computer = PlayedComputer(*[0.0] * 3, *[0.0, 0.0], *[0.0, 0.9], 0.0)
    benchmarks = Benchmarks(parts, computer.read)
    engine.token_s = 0.02
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True))
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert not any("other programs" in sentence for sentence in receipt.disturbances)
    measured_bodies = [body for body in engine.bodies if body["max_tokens"] == 4]
    assert len(measured_bodies) >= 1 + 2 * 4, "warm-up, three rounds and one again"


async def test_quiet_results_teach_predictions(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    lessons: list[Any] = []
    monkeypatch.setattr(parts.speed_measurements, "learn", lessons.append)
    monkeypatch.setattr(benchmark_run, "round_disturbances", lambda _: [])  # a loaded machine may be noisy
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT))
    assert {(lesson.model, lesson.engine, lesson.completion_tokens) for lesson in lessons} == {
        ("guide", "llama.cpp", 4)
    }


async def test_what_an_engine_refuses_is_left_out(parts: Services, engine: PlayedEngine) -> None:
    engine.refused_fields = {"ignore_eos", "stream_options"}
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True))
    assert end.error == ""
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert {sample.answer_tokens for sample in receipt.samples} == {4}, "counted by pieces where nobody tells"


@pytest.mark.parametrize(
    ("status", "code"), [(500, "benchmark_failed"), (400, "request_refused"), (401, "unauthorized")]
)
async def test_an_engine_that_does_not_answer_ends_it_with_its_words(
    parts: Services, engine: PlayedEngine, status: int, code: str
) -> None:
    engine.status = status
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    end = await run_to_end(benchmarks, StartBenchmark(model="guide", settings=SHORT))
    assert end.code == code
    assert cast("Any", parts.supervisor).unloads


async def test_a_model_that_makes_many_tokens_of_the_prompts_gets_a_context_they_fit_in(
    parts: Services, engine: PlayedEngine
) -> None:
    engine.characters_per_token = 2.0
    prompt = BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content="word " * 600)], answer_tokens=4)
    settings = BenchmarkSettings(workload=Workload.FILE, requests=1)
    benchmarks = Benchmarks(parts, read=PlayedComputer().read)
    await run_to_end(benchmarks, StartBenchmark(model="guide", settings=settings, prompts=[prompt]))
    contexts = [request.options.context for request in cast("Any", parts.supervisor).load_requests]
    assert len(contexts) == 2
    assert contexts[0] < 3000 / engine.characters_per_token + 4 <= contexts[1]


async def test_prompts_are_cut_by_what_the_engine_counts_where_the_model_takes_no_more(
    parts: Services, engine: PlayedEngine
) -> None:
    engine.characters_per_token = 2.0
    settings = BenchmarkSettings(workload=Workload.RAG, requests=1, answer_tokens=4)
    await run_to_end(Benchmarks(parts, read=PlayedComputer().read), StartBenchmark(model="guide", settings=settings))
    assert len(cast("Any", parts.supervisor).load_requests) == 1
    longest = max(len(message["content"]) for body in engine.bodies for message in body["messages"])
    assert longest / engine.characters_per_token + 4 <= 4096  # which the engine says it has


async def test_an_endpoint_at_an_address_is_measured_by_what_it_serves(
    parts: Services, engine: PlayedEngine, upstream: Upstream
) -> None:
    benchmarks = Benchmarks(parts, PlayedComputer(0.9).read)
    request = StartBenchmark(url=upstream.url, key="secret", settings=SHORT, keeps_disturbed=True)
    end = await run_to_end(benchmarks, request)
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert (receipt.target.model, receipt.target.url) == ("served", f"{upstream.url}/v1")
    assert b"secret" not in msgspec.json.encode(receipt)
    assert not any("other programs" in part for part in receipt.disturbances), "its own server is among the others"
    assert {body["model"] for body in engine.bodies} == {"served"}


async def test_what_cannot_be_measured_is_refused_at_once(parts: Services) -> None:
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    for request, error in [
        (StartBenchmark(), BadRequest),
        (StartBenchmark(model="nosuch"), NotFound),
        (StartBenchmark(model="org/embed:q8"), BadRequest),
        (StartBenchmark(model="guide", settings=BenchmarkSettings(workload=Workload.FILE)), BadRequest),
        (StartBenchmark(url="ftp://x"), BadRequest),
        (StartBenchmark(url="http://169.254.169.254"), BadRequest),
    ]:
        with pytest.raises(error):
            await benchmarks.start(request)
    assert benchmarks.job.last is None


async def test_only_one_runs_and_it_can_be_stopped(parts: Services, engine: PlayedEngine) -> None:
    engine.first_s = PATIENCE_S
    benchmarks = Benchmarks(parts, PlayedComputer().read)
    await benchmarks.start(StartBenchmark(model="guide", settings=SHORT))
    async with asyncio.timeout(PATIENCE_S):
        while not engine.in_flight:  # noqa: ASYNC110 -- the engine is another task's
            await asyncio.sleep(0.01)
    with pytest.raises(Conflict, match="goes on"):
        await benchmarks.start(StartBenchmark(model="guide"))
    await benchmarks.stop()
    assert benchmarks.job.last is not None
    assert (benchmarks.job.last.done, benchmarks.job.last.code) == (True, "cancelled")
    async with asyncio.timeout(PATIENCE_S):
        while engine.in_flight:  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.01)
    assert cast("Any", parts.supervisor).unloads, "nothing of it is left"


async def test_own_prompts_come_with_the_request(parts: Services, engine: PlayedEngine) -> None:
    prompt = BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content="Mine.")], answer_tokens=3)
    request = StartBenchmark(
        model="guide",
        settings=BenchmarkSettings(workload=Workload.FILE, requests=1),
        prompts=[prompt],
        keeps_disturbed=True,
    )
    end = await run_to_end(Benchmarks(parts, PlayedComputer().read), request)
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert b"Mine." not in msgspec.json.encode(receipt), "a receipt can be posted"
    assert all(body["messages"][0]["content"].endswith("Mine.") for body in engine.bodies)


async def test_the_api_lists_shows_and_forgets_receipts(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer token"}
    base = f"{gateway.url}{PREFIX}/benchmarks"
    receipt = make_receipt([0.01] * 6)
    await gateway.services.chats.save_benchmark(receipt)
    async with gateway.http.post(base, json={}, headers=headers) as reply:
        assert reply.status == 400
    async with gateway.http.get(f"{base}/nosuch", headers=headers) as reply:
        assert reply.status == 404
    async with gateway.http.get(f"{base}/{receipt.id}/file?format=vllm", headers=headers) as reply:
        assert (await reply.json())["text"] == format_receipt(receipt, FieldFormat.VLLM)
    async with gateway.http.get(f"{base}/{receipt.id}/file?format=csv", headers=headers) as reply:
        assert reply.status == 400
    async with gateway.http.get(base, headers=headers) as reply:
        (listed_receipt,) = msgspec.json.decode(await reply.read(), type=list[BenchmarkReceipt])
    assert listed_receipt == msgspec.structs.replace(receipt, samples=[])
    async with gateway.http.get(f"{base}?model=other", headers=headers) as reply:
        assert await reply.json() == []
    async with gateway.http.get(f"{base}/{receipt.id}", headers=headers) as reply:
        assert msgspec.json.decode(await reply.read(), type=BenchmarkReceipt) == receipt
    async with gateway.http.delete(f"{base}/{receipt.id}", headers=headers) as reply:
        assert reply.status == 204
    assert await gateway.services.chats.list_benchmarks() == []


def test_weights_in_the_hubs_cache_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob, link = tmp_path / ("a" * 64), tmp_path / "model.gguf"
    blob.write_bytes(b"x")
    try:
        link.symlink_to(blob)
    except OSError:
        pytest.skip("links need a right here")
    monkeypatch.setattr("app.gateway.benchmarking.targets.files_of", lambda _: [link])
    assert hash_weights(cast("Any", None), threading.Event()) == "a" * 64
    link.unlink()
    link.write_bytes(b"abc")
    assert hash_weights(cast("Any", None), threading.Event()).startswith("ba7816bf")


async def test_a_schema_s_cost_is_of_the_same_prompts_without_it(parts: Services, engine: PlayedEngine) -> None:
    settings = msgspec.structs.replace(SHORT, workload=Workload.STRUCTURED)
    request = StartBenchmark(model="guide", settings=settings, keeps_disturbed=True)
    end = await run_to_end(Benchmarks(parts, PlayedComputer().read), request)
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert receipt.schema_cost is not None
    assert receipt.lora_cost is None
    assert any("Held to a schema" in line for line in summary_lines(receipt))
    plain = [body for body in engine.bodies if "response_format" not in body and body["max_tokens"] == 4]
    assert len(plain) == 2, "each prompt once"


async def test_adapters_of_a_model_are_measured_against_a_load_without_them(
    parts: Services, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ModelSettings(loras=["/a.gguf"])
    monkeypatch.setattr(parts.model_settings, "settings_of", lambda _: own)
    loads: list[ModelSettings | None] = []

    def load_of(*args: Any, own: ModelSettings | None = None) -> LoadRequest:  # noqa: ANN401 -- passed on
        loads.append(own)
        return plain_load(*args, own=msgspec.structs.replace(own or ModelSettings(), loras=[]))

    plain_load = targets._load_of
    monkeypatch.setattr(targets, "_load_of", load_of)
    request = StartBenchmark(model="guide", settings=SHORT, keeps_disturbed=True)
    end = await run_to_end(Benchmarks(parts, PlayedComputer().read), request)
    receipt = await parts.chats.find_benchmark(end.receipt)
    assert engine.bodies
    assert receipt.lora_cost is not None
    assert loads[-1] == ModelSettings()
    assert any("LoRA adapters" in line for line in summary_lines(receipt))
