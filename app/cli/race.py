"""`roundhouse race`: engines on the same model, one after the other; the fastest is used, if it is clearly faster."""

from collections.abc import Iterator
from urllib.parse import quote

import click

from app.benchmark.gains import format_ratio
from app.benchmark.markdown import format_seconds
from app.cli.gateway import connect_gateway
from app.cli.measuring import follow_job, print_undo
from app.cli.output import format_table, json_option, show_result
from app.core import words
from app.core.benchmarks import (
    BUILT_IN_WORKLOADS,
    BenchmarkSettings,
    RaceCandidate,
    RacePlan,
    RaceResult,
    StartRace,
    Workload,
)
from app.core.errors import BadRequest, EngineFailed, quote_value
from app.core.events import RaceChanged

_START_S = 60.0
"""Looking for the model on a drive that slept."""


@click.command()
@click.argument("model")
@click.option(
    "--workload",
    type=click.Choice([kind.value for kind in BUILT_IN_WORKLOADS]),
    default=Workload.CHAT.value,
    show_default=True,
    help="What is asked.",
)
@click.option("--install", "installs", multiple=True, metavar="ENGINE", help="Also install this engine; repeatable.")
@click.option("--yes", is_flag=True, help="Do not ask before installing.")
@click.option("--plan", "only_plan", is_flag=True, help="Only list who could run, and what installing takes.")
@json_option
def race(  # noqa: PLR0913 -- the options of one command
    model: str, *, workload: str, installs: tuple[str, ...], yes: bool, only_plan: bool, as_json: bool
) -> None:
    """Measure MODEL with every installed engine that reads it, and use the fastest from its next load on.

    The engine of now stays unless another saves at least 5 % of the time, with 95 % confidence. Nothing is installed
    unless --install names it.
    """
    client = connect_gateway()
    path = f"/races/plan?model={quote(model, safe='')}&workload={workload}"
    plan = client.get(path, RacePlan, timeout_s=_START_S)
    if only_plan:
        show_result("race_plan", plan, as_json=as_json, text=_plan_lines)
        return
    unknown_engines = [engine for engine in installs if engine not in [part.engine for part in plan.candidates]]
    if unknown_engines:
        raise BadRequest(
            f"{', '.join(map(quote_value, unknown_engines))} cannot run {model} here.",
            hint=f"Engines that can: {', '.join(part.engine for part in plan.candidates)}.",
            code="engine_unknown",
        )
    missing_engines = [part for part in plan.candidates if part.engine in installs and not part.is_installed]
    if missing_engines and not yes:
        sizes = ", ".join(f"{part.name} ({_download(part)})" for part in missing_engines)
        click.confirm(f"Install {sizes}?", abort=True, err=True)
    settings = BenchmarkSettings(workload=Workload(workload))
    request = StartRace(model=model, settings=settings, installs=[part.engine for part in missing_engines])
    client.post("/races", request, RaceChanged, timeout_s=_START_S)
    result = follow_job(client, RaceChanged, stop="/races/job").result
    if result is None:
        raise EngineFailed("The race ended without a result.", code="race_failed")
    show_result("race", result, as_json=as_json, text=_result_lines)
    if result.is_change:
        print_undo(model, result.settings_before, result.settings)


def _plan_lines(plan: RacePlan) -> Iterator[str]:
    rows = [
        (
            part.engine,
            part.version if part.is_installed else "not installed",
            "used now" if part.is_current else "",
            "" if part.is_installed else _download(part),
            "" if part.measure_s is None else words.format_duration(part.measure_s),
            f"as {part.measured_version}" if part.measured_version else "",
        )
        for part in plan.candidates
    ]
    yield from format_table(("ENGINE", "VERSION", "", "DOWNLOAD", "TO MEASURE", "MEASURED BEFORE"), rows)


def _download(part: RaceCandidate) -> str:
    size = words.format_bytes(part.download_bytes or None)
    return f"{size}, {words.format_duration(part.download_s)} at 50 Mbit/s" if part.download_bytes else size


def _result_lines(result: RaceResult) -> Iterator[str]:
    rows: list[tuple[str, ...]] = []
    for entry in result.entries:
        answer = "" if entry.e2e_s is None else format_seconds(entry.e2e_s)
        ratio = "" if entry.ratio is None else format_ratio(entry.ratio)
        rows.append((entry.engine, answer, ratio, entry.receipt, entry.problem or entry.note))
    yield from format_table(("ENGINE", "WHOLE ANSWER", f"TO {result.engine_before}".upper(), "RESULT", ""), rows)
    yield result.sentence
