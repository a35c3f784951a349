"""Self-tuning from the request to the settings in use, with visits that take what a test says."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from app.benchmark.results import BenchmarkRound
from app.benchmark.tuning import BEFORE, CandidateScope, SettingCandidate
from app.core.benchmarks import BenchmarkSample, BenchmarkSettings, LossResult, StartBenchmark, StartTune
from app.core.errors import BadRequest, Conflict, EngineFailed
from app.core.events import TuneChanged
from app.core.models import ModelSettings
from app.gateway.benchmarking import loss as loss_module
from app.gateway.benchmarking import run as benchmark_run
from app.gateway.benchmarking.run import BenchmarkRun
from app.gateway.benchmarking.self_tuning import SelfTuning
from app.gateway.benchmarking.setting_search import SettingSearch
from app.gateway.loading import memory_fit
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest, MemoryNeeds
from tests.gateway.benchmarking import test_race
from tests.gateway.benchmarking.played_engine import PlayedComputer, PlayedEngine
from tests.gateway.played import Upstream
from tests.patience import PATIENCE_S
from tests.unit.benchmark.receipts import make_round, make_timing
from tests.unit.benchmark.test_tuning import make_samples

parts = test_race.parts
Pace = Callable[[ModelSettings], float]
JITTER = (1.0, 1.01, 0.99)


class PlayedVisits:
    """How long a token takes with which settings; a time of it is what the clock says."""

    def __init__(self, pace: Pace, *, visit_s: float = 1.0, is_busy: bool = False) -> None:
        self.pace, self.visit_s, self.is_busy = pace, visit_s, is_busy
        self.visits: list[ModelSettings] = []
        self.now_s = 0.0

    async def time_visit(self, _request: StartBenchmark, own: ModelSettings) -> tuple[BenchmarkRound, str]:
        self.visits.append(own)
        self.now_s += self.visit_s
        token_s = self.pace(own)
        timings = [make_timing(0.01, token_s * part) for part in JITTER]
        return make_round(timings, other_share=0.4 if self.is_busy else 0.0, is_busy=self.is_busy), "llama.cpp"


def play_visits(monkeypatch: pytest.MonkeyPatch, visits: PlayedVisits) -> None:
    monkeypatch.setattr(BenchmarkRun, "time_settings", lambda _run, request, own: visits.time_visit(request, own))


async def run_tuning(services: Services, visits: PlayedVisits, request: StartTune) -> TuneChanged:
    self_tuning = SelfTuning(services, PlayedComputer().read, clock=lambda: visits.now_s)
    await self_tuning.start(request)
    async with asyncio.timeout(PATIENCE_S):
        await self_tuning.job.wait()
    assert self_tuning.job.last is not None
    return self_tuning.job.last


@pytest.fixture(autouse=True)
def fixed_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same to choose from on every computer."""

    async def find_scope(_tuner: object, _model: object, _own: object, request: StartTune) -> CandidateScope:
        return CandidateScope(
            takes=frozenset({"threads", "batch_tokens", "flash_attention"}),
            engine="llama.cpp",
            threads=4,
            logical_cores=8,
            usable_cores=8.0,
            tries_kv=request.most_loss is not None,
        )

    monkeypatch.setattr(SelfTuning, "_find_scope", find_scope)


def play_scope(monkeypatch: pytest.MonkeyPatch, *, takes: frozenset[str]) -> None:
    """Have an engine that takes these settings, and no others."""

    async def find_scope(*_: object) -> CandidateScope:
        return CandidateScope(takes=takes, engine="MLX-LM", threads=4, logical_cores=8, usable_cores=8.0)

    monkeypatch.setattr(SelfTuning, "_find_scope", find_scope)


def mostly_attention(own: ModelSettings) -> float:
    """Smaller pieces help a little, attention in one piece a lot."""
    return 0.1 * (0.7 if own.flash_attention == "off" else 1.0) * (0.9 if own.batch_tokens == 128 else 1.0)


async def test_what_is_faster_is_put_together_used_and_can_be_undone(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = PlayedVisits(mostly_attention)
    play_visits(monkeypatch, visits)
    before = ModelSettings(pinned=True)
    parts.model_settings.change_settings("guide", before)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.error == ""
    result = end.result
    assert result is not None
    assert result.is_change
    assert result.settings == ModelSettings(pinned=True, flash_attention="off", batch_tokens=128)
    assert parts.model_settings.settings_of("guide") == result.settings
    assert result.settings_before == before
    assert result.ratios.e2e.value == pytest.approx(0.63, abs=0.02)
    assert f"at most {result.ratios.e2e.high:.2f} times as long as before" in result.sentence
    assert result.after.tpot_s < result.before.tpot_s
    assert {entry.name for entry in result.entries if entry.is_kept} == {"flash attention off", "batch 128"}
    assert visits.visits.count(before) > visits.visits.count(ModelSettings(pinned=True, batch_tokens=256)), (
        "it runs along"
    )


@pytest.mark.slow
async def test_nothing_changes_where_nothing_is_faster(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = PlayedVisits(lambda own: 0.1 if own == ModelSettings() else 0.0995)
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.result is not None
    assert not end.result.is_change
    assert "stay" in end.result.sentence
    assert parts.model_settings.settings_of("guide") == ModelSettings()


@pytest.mark.slow
async def test_what_is_faster_once_and_not_again_is_not_kept(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    def token_pace(own: ModelSettings) -> float:
        return 0.05 if own.batch_tokens == 128 and visits.visits.count(own) <= 3 else 0.1

    visits = PlayedVisits(token_pace)
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.result is not None
    assert not end.result.is_change
    assert parts.model_settings.settings_of("guide") == ModelSettings()


async def test_what_looked_faster_and_was_not_in_the_end_is_named() -> None:
    batch = SettingCandidate(kind="batch_tokens", value=128)
    search = SettingSearch(ModelSettings(), [batch], seed=0, elapsed_s=lambda: 0.0, duration_s=60.0)
    search.samples = {BEFORE: make_samples(0.1, 0.1, 0.1), batch.name: make_samples(0.05, 0.05, 0.05)}

    async def visit(_settings: ModelSettings) -> list[BenchmarkSample]:
        return make_samples(0.1, 0.1, 0.1)

    candidates = await search.decide(visit, lambda _stage, _share: None)
    result = search.make_result("guide", "llama.cpp", candidates, {})
    assert not result.is_change
    assert result.sentence.endswith("was not when compared in turns: batch 128.")
    assert result.entries[0].problem == "Not confirmed: 1.00 (1.00 to 1.00) when compared in turns."


async def test_the_time_is_kept(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = PlayedVisits(mostly_attention, visit_s=20)
    play_visits(monkeypatch, visits)
    await run_tuning(parts, visits, StartTune(model="guide", duration_s=60))
    assert visits.visits[0] == ModelSettings(), "what is there is measured first"
    assert visits.now_s <= 60 + 6 * 20, "what was begun is compared to the end"


async def test_what_takes_more_memory_than_there_is_is_not_loaded(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = PlayedVisits(mostly_attention)
    play_visits(monkeypatch, visits)

    async def fit_load(_services: Services, load: LoadRequest, *, is_fixed: bool = False) -> LoadRequest:
        assert is_fixed
        size = 3 if load.options.flash_attention is False else 1
        return msgspec.structs.replace(load, needs=MemoryNeeds(pools={"system": size}))

    async def model_capacity(_model: str) -> dict[str, int]:
        return {"system": 2}

    monkeypatch.setattr(memory_fit, "fit_load", fit_load)
    monkeypatch.setattr(parts.supervisor, "model_capacity", model_capacity)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.result is not None
    problems = {entry.name: entry.problem for entry in end.result.entries if entry.problem}
    assert problems.pop("draft") == "Nothing here drafts for it with llama.cpp."
    assert problems == {"flash attention off": "There is not enough memory for it."}
    assert not any(visit.flash_attention == "off" for visit in visits.visits)
    assert end.result.settings == ModelSettings(batch_tokens=128)


async def test_a_disturbed_search_changes_nothing(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse_visit(*_: object) -> tuple[BenchmarkRound, str]:
        raise Conflict("It was disturbed.", code="benchmark_disturbed")

    monkeypatch.setattr(BenchmarkRun, "time_settings", refuse_visit)
    end = await run_tuning(parts, PlayedVisits(mostly_attention), StartTune(model="guide"))
    assert (end.code, end.result) == ("benchmark_disturbed", None)
    assert parts.model_settings.settings_of("guide") == ModelSettings()


@pytest.mark.slow
async def test_a_disturbed_search_that_is_kept_shows_and_does_not_use(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = PlayedVisits(mostly_attention, is_busy=True)
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600, keeps_disturbed=True))
    assert end.result is not None
    assert "40 %" in end.result.disturbances[0]
    assert not end.result.is_change
    assert end.result.settings.flash_attention == "off"
    assert parts.model_settings.settings_of("guide") == ModelSettings()


@pytest.mark.slow
async def test_settings_with_which_the_engine_fails_are_out_of_it(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def token_pace(own: ModelSettings) -> float:
        if own.flash_attention == "off":
            raise EngineFailed("It does not start so.")
        return mostly_attention(own)

    visits = PlayedVisits(token_pace)
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.result is not None
    assert end.result.settings == ModelSettings(batch_tokens=128)
    problems = {entry.name: entry.problem for entry in end.result.entries}
    assert problems["flash attention off"] == "It does not start so."


@pytest.mark.slow
@pytest.mark.parametrize(("divergence", "expected_type"), [(0.001, "q4_0"), (0.5, None)])
async def test_a_smaller_cache_is_kept_only_within_the_loss_that_is_allowed(
    parts: Services, monkeypatch: pytest.MonkeyPatch, divergence: float, expected_type: str | None
) -> None:
    async def compare_caches(*_: object) -> LossResult:
        return LossResult(positions=48, kl_divergence=divergence, same_likeliest=1, perplexity_before=10, perplexity=10)

    monkeypatch.setattr(loss_module, "compare_settings", compare_caches)
    visits = PlayedVisits(lambda own: 0.05 if own.kv_type == "q4_0" else 0.1)
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600, most_loss=0.01))
    assert end.result is not None
    assert end.result.settings.kv_type == expected_type
    assert next(entry for entry in end.result.entries if entry.name == "KV cache q4_0").loss == divergence
    without = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert without.result is not None
    assert not any("KV" in entry.name for entry in without.result.entries)


@pytest.mark.slow
async def test_a_cache_whose_loss_cannot_be_measured_is_left_out_and_the_rest_goes_on(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse_comparison(*_: object) -> LossResult:
        raise BadRequest("It does not say.", code="loss_unknown")

    monkeypatch.setattr(loss_module, "compare_settings", refuse_comparison)
    visits = PlayedVisits(lambda own: mostly_attention(own) * (0.5 if own.kv_type == "q4_0" else 1.0))
    play_visits(monkeypatch, visits)
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600, most_loss=0.01))
    assert end.result is not None
    assert end.result.settings.kv_type is None
    assert end.result.is_change
    assert {entry.problem for entry in end.result.entries if entry.name == "KV cache q4_0"} == {"It does not say."}


async def test_what_the_engine_has_no_option_for_is_named_in_the_result(
    parts: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = PlayedVisits(mostly_attention)
    play_visits(monkeypatch, visits)
    play_scope(monkeypatch, takes=frozenset({"batch_tokens"}))
    end = await run_tuning(parts, visits, StartTune(model="guide", duration_s=600))
    assert end.result is not None
    problems = {entry.name: entry.problem for entry in end.result.entries if not entry.requests}
    assert problems["flash attention"] == "MLX-LM has no option for it."
    assert set(problems) == {"threads", "flash attention", "draft"}


async def test_where_nothing_can_be_tried_it_says_why(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    play_scope(monkeypatch, takes=frozenset())
    with pytest.raises(BadRequest, match="no other setting to try") as refusal:
        await SelfTuning(parts, PlayedComputer().read).start(StartTune(model="guide"))
    assert "Flash attention: MLX-LM has no option for it." in refusal.value.body.hint


async def test_it_can_be_stopped_and_only_one_runs(parts: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    forever = asyncio.Event()

    async def wait_forever(*_: object) -> Any:  # noqa: ANN401 -- never returns
        await forever.wait()

    monkeypatch.setattr(BenchmarkRun, "time_settings", wait_forever)
    self_tuning = SelfTuning(parts, PlayedComputer().read)
    await self_tuning.start(StartTune(model="guide"))
    with pytest.raises(Conflict, match="are being tried"):
        await self_tuning.start(StartTune(model="guide"))
    await self_tuning.stop()
    assert self_tuning.job.last is not None
    assert (self_tuning.job.last.code, self_tuning.job.last.result) == ("cancelled", None)


async def test_a_model_that_does_not_answer_in_words_is_refused(parts: Services) -> None:
    self_tuning = SelfTuning(parts, PlayedComputer().read)
    with pytest.raises(BadRequest, match="does not answer in words"):
        await self_tuning.start(StartTune(model="org/embed:q8"))


class TickingTime:
    """A clock that goes on by half a second whenever somebody looks."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 0.5
        return self.now_s


async def test_a_round_goes_on_until_it_says_something(
    parts: Services, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = PlayedEngine()
    upstream.play = engine.answer
    monkeypatch.setattr(benchmark_run, "time", TickingTime())
    monkeypatch.setattr(benchmark_run, "LEAST_ROUND_S", 2.0)
    run = BenchmarkRun(parts, threading.Event(), lambda _stage, _share: None, PlayedComputer().read)
    request = StartBenchmark(model="guide", settings=BenchmarkSettings(requests=3, answer_tokens=4))
    timings, _ = await run.time_settings(request, ModelSettings())
    assert len(timings.requests) == 3 * 4, "three passes end before two seconds are over, the fourth does not"
    prompts = [body["messages"][-1]["content"] for body in engine.bodies]
    assert len(set(prompts)) == len(prompts), "nothing is taken from the cache"


async def test_a_visit_loads_the_model_with_the_settings_and_times_it(parts: Services, upstream: Upstream) -> None:
    engine = PlayedEngine()
    upstream.play = engine.answer
    run = BenchmarkRun(parts, threading.Event(), lambda _stage, _share: None, PlayedComputer().read)
    request = StartBenchmark(model="guide", settings=BenchmarkSettings(requests=3, answer_tokens=4))
    timings, name = await run.time_settings(request, ModelSettings(threads=1, flash_attention="off", batch_tokens=64))
    assert len(timings.requests) == 3
    supervisor: Any = parts.supervisor
    options = supervisor.load_requests[-1].options
    assert (options.threads, options.flash_attention, options.max_batch_tokens) == (1, False, 64)
    assert name == "llama.cpp"
