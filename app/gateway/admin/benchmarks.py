"""Benchmarks: what runs, and what came of those that ran."""

from typing import Annotated, Any

import msgspec

from app.core.benchmarks import (
    BenchmarkFile,
    BenchmarkReceipt,
    BenchmarkSettings,
    FieldFormat,
    LossResult,
    MeasureLoss,
    PredictionAccuracy,
    RacePlan,
    StartBenchmark,
    StartRace,
    StartTune,
    Workload,
)
from app.core.engine_store import InstallEngine
from app.core.errors import EngineFailed
from app.core.events import BenchmarkChanged, RaceChanged, TrialChanged, TuneChanged
from app.core.tool_prompts import PreflightQuery, ToolPreflight
from app.core.trials import StartTrial, TrialResult, TrialSwitch, TrialWords
from app.gateway.admin.calls import AdminCall, NoQuery, RouteTable
from app.gateway.benchmarking.preflight import preflight_tools
from app.gateway.benchmarking.race import plan_race
from app.store.measurements import KEPT_BENCHMARKS

routes = RouteTable()


class ReceiptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which receipts."""

    model: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=500)] = 100


def _check_quiet(call: AdminCall[Any, Any]) -> None:
    """Return if nothing is measured now: two measurements would disturb each other. Raises Conflict."""
    for job in (call.benchmarks, call.races, call.tunings, call.trials):
        job.job.check_idle()


@routes.add("GET", "/benchmarks")
async def benchmarks(call: AdminCall[None, ReceiptQuery]) -> list[BenchmarkReceipt]:
    """List what benchmarks came to, newest first, without their single requests."""
    receipts = await call.services.chats.list_benchmarks(model=call.query.model, limit=call.query.limit)
    return [msgspec.structs.replace(receipt, samples=[]) for receipt in receipts]


@routes.add("POST", "/benchmarks", status=202)
async def start_benchmark(call: AdminCall[StartBenchmark, NoQuery]) -> BenchmarkChanged:
    """Measure a model or an endpoint; takes a minute or more, and events say how far it is."""
    _check_quiet(call)
    request = call.body
    if request.kept:
        from app.gateway.benchmarking.kept_requests import with_kept_prompts  # noqa: PLC0415 -- start-up must not pay for it

        request = await with_kept_prompts(call.services, request, call.inspector)
    return await call.benchmarks.start(request)


@routes.add("GET", "/benchmarks/job")
async def benchmark_job(call: AdminCall[None, NoQuery]) -> BenchmarkChanged | None:
    """Say what runs, or ran last."""
    return call.benchmarks.job.last


@routes.add("DELETE", "/benchmarks/job")
async def stop_benchmark(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs."""
    await call.benchmarks.stop()


@routes.add("GET", "/benchmarks/accuracy")
async def benchmark_accuracy(call: AdminCall[None, NoQuery]) -> PredictionAccuracy:
    """Say how far predicted speeds were off, before and after something was measured of a model.

    Also with each model left out in turn: predicted from what the others showed on this computer.
    """
    from app.benchmark.accuracy import add_left_out, compare_with_predictions, describe_accuracy  # noqa: PLC0415 -- start-up must not pay for it
    from app.gateway.benchmarking.left_out import measure_left_out_here  # noqa: PLC0415 -- as above

    accuracy = compare_with_predictions(await call.services.chats.list_benchmarks(limit=KEPT_BENCHMARKS))
    errors = await measure_left_out_here(call.services)
    accuracy = add_left_out(accuracy, errors.before, errors.after)
    return msgspec.structs.replace(accuracy, sentence=describe_accuracy(accuracy))


@routes.add("GET", "/benchmarks/{id}")
async def benchmark(call: AdminCall[None, NoQuery]) -> BenchmarkReceipt:
    """Show one receipt whole."""
    return await call.services.chats.find_benchmark(call.names["id"])


class FormatQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which format."""

    format: FieldFormat


@routes.add("GET", "/benchmarks/{id}/file")
async def benchmark_file(call: AdminCall[None, FormatQuery]) -> BenchmarkFile:
    """Write one receipt as vLLM, GuideLLM or llama-bench write theirs."""
    from app.benchmark.field_formats import format_receipt  # noqa: PLC0415 -- start-up must not pay for it

    receipt = await call.services.chats.find_benchmark(call.names["id"])
    return BenchmarkFile(format=call.query.format, text=format_receipt(receipt, call.query.format))


@routes.add("DELETE", "/benchmarks/{id}")
async def delete_benchmark(call: AdminCall[None, NoQuery]) -> None:
    """Forget one receipt."""
    await call.services.chats.delete_benchmark(call.names["id"])


@routes.add("POST", "/tunings", status=202)
async def start_tuning(call: AdminCall[StartTune, NoQuery]) -> TuneChanged:
    """Find the settings with which a model answers fastest here, and use them from its next load on.

    Takes about as long as is asked for; events say how far it is. What is not faster beyond noise stays as it is.
    """
    _check_quiet(call)
    return await call.tunings.start(call.body)


@routes.add("GET", "/tunings/job")
async def tune_job(call: AdminCall[None, NoQuery]) -> TuneChanged | None:
    """Say what runs, or ran last, and what came of it."""
    return call.tunings.job.last


@routes.add("DELETE", "/tunings/job")
async def stop_tuning(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs; nothing is changed."""
    await call.tunings.stop()


@routes.add("POST", "/quantization-loss")
async def quantization_loss(call: AdminCall[MeasureLoss, NoQuery]) -> LossResult:
    """Measure what a quantisation loses against a larger one: both are loaded and asked for the same next tokens.

    Takes two loads and about a hundred short requests; who leaves ends it.
    """
    from app.gateway.benchmarking.loss import compare_models  # noqa: PLC0415 -- start-up must not pay for it

    _check_quiet(call)
    return await compare_models(call.services, call.body.reference, call.body.model)


@routes.add("GET", "/preflights")
async def preflights(call: AdminCall[None, PreflightQuery]) -> list[ToolPreflight]:
    """Say how a model would do with coding agents: time to the first token, and the context they need.

    By the sizes of what the real programs send; predicted, or as it was measured here.
    """
    return await preflight_tools(call.services, call.query.model, call.query.tool)


class RaceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose race."""

    model: str
    workload: Workload = Workload.CHAT


@routes.add("GET", "/races/plan")
async def race_plan(call: AdminCall[None, RaceQuery]) -> RacePlan:
    """Say which engines could run a model here, what installing the others takes, and how long measuring takes."""
    return await plan_race(call.services, call.query.model, BenchmarkSettings(workload=call.query.workload))


@routes.add("POST", "/races", status=202)
async def start_race(call: AdminCall[StartRace, NoQuery]) -> RaceChanged:
    """Find the fastest engine of a model and use it from its next load on; takes minutes, and events say how far it is.

    Nothing is installed but what is named.
    """
    _check_quiet(call)

    async def install(engine: str) -> None:
        jobs = call.engines.store.jobs
        await call.engines.store.install(engine, InstallEngine())
        await jobs.wait()
        if jobs.last is not None and jobs.last.error is not None:
            raise EngineFailed(jobs.last.error.sentence, hint=jobs.last.error.hint, code=jobs.last.error.code)

    return await call.races.start(call.body, install)


@routes.add("GET", "/races/job")
async def race_job(call: AdminCall[None, NoQuery]) -> RaceChanged | None:
    """Say what runs, or ran last, and what came of it."""
    return call.races.job.last


@routes.add("DELETE", "/races/job")
async def stop_race(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs; nothing is changed."""
    await call.races.stop()


@routes.add("POST", "/trials", status=202)
async def start_trial(call: AdminCall[StartTrial, NoQuery]) -> TrialChanged:
    """Ask a model, and another or the same on another engine, the requests that the inspector keeps.

    Takes two loads and the answers; events say how far it is. Nothing is changed, and nothing leaves this computer.
    """
    _check_quiet(call)
    return await call.trials.start(call.body, call.inspector)


class TrialsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of which model; all without one."""

    model: Annotated[str, msgspec.Meta(max_length=500)] = ""


@routes.add("GET", "/trials")
async def trials(call: AdminCall[None, TrialsQuery]) -> list[TrialResult]:
    """List what came of the last trials, newest first: hashes and lengths, no words."""
    return await call.services.chats.list_trials(model=call.query.model)


@routes.add("GET", "/trials/job")
async def trial_job(call: AdminCall[None, NoQuery]) -> TrialChanged | None:
    """Say what runs, or ran last, and what came of it."""
    return call.trials.job.last


@routes.add("DELETE", "/trials/job")
async def stop_trial(call: AdminCall[None, NoQuery]) -> None:
    """Stop the one that runs."""
    await call.trials.stop()


@routes.add("GET", "/trials/words")
async def trial_words(call: AdminCall[None, NoQuery]) -> list[TrialWords]:
    """Show the answers of the last trial in words, of requests whose words the inspector still keeps."""
    return call.trials.list_words(call.inspector)


@routes.add("POST", "/trials/switch")
async def switch_trial(call: AdminCall[None, NoQuery]) -> TrialSwitch:
    """Have the second of the last trial take the first's place: as engine, as model of new chats, behind aliases."""
    return await call.trials.switch()


@routes.add("POST", "/trials/undo")
async def undo_trial(call: AdminCall[None, NoQuery]) -> TrialSwitch:
    """Set everything as it was before the switch."""
    return await call.trials.undo()
