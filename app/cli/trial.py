"""`roundhouse trial`: your own requests asked again of another model or engine; answers and speed side by side."""

import time
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import click
import msgspec

from app.benchmark.gains import format_ratio
from app.benchmark.markdown import format_seconds
from app.cli.gateway import connect_gateway
from app.cli.measuring import follow_job
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient
from app.core import words
from app.core.errors import EngineFailed
from app.core.events import TrialChanged
from app.core.trials import (
    MOST_TRIAL_REQUESTS,
    StartTrial,
    TrialAnswer,
    TrialComparison,
    TrialResult,
    TrialSide,
    TrialSwitch,
    TrialWords,
)

_START_S = 60.0
"""Looking for the model on a drive that slept."""


class TrialReport(msgspec.Struct, frozen=True, kw_only=True):
    """A result, with the answers in words if they were wanted."""

    result: TrialResult
    words: list[TrialWords] = []
    switch: TrialSwitch | None = None


@click.command()
@click.argument("model", required=False)
@click.option("--against", default="", metavar="OTHER", help="Another model, or another quantisation of MODEL.")
@click.option("--engine", default="", help="Run OTHER, or MODEL itself, on this engine.")
@click.option(
    "--requests",
    type=click.IntRange(1, MOST_TRIAL_REQUESTS),
    default=10,
    show_default=True,
    help="So many of your newest requests to MODEL.",
)
@click.option("--request", "ids", multiple=True, metavar="ID", help="This request of the inspector; repeatable.")
@click.option(
    "--answer-tokens", type=click.IntRange(1, 65_536), default=256, show_default=True, help="Of an answer at most."
)
@click.option("--words", "shows_words", is_flag=True, help="Show the answers too, not only their lengths.")
@click.option("--keep", is_flag=True, help="Let OTHER or the engine take MODEL's place, as the last trial had it.")
@click.option("--undo", is_flag=True, help="Take that back.")
@click.option("--list", "lists", is_flag=True, help="List what came of earlier trials, of MODEL or of all.")
@json_option
def trial(  # noqa: PLR0913 -- the options of one command
    model: str | None,
    *,
    against: str,
    engine: str,
    requests: int,
    ids: tuple[str, ...],
    answer_tokens: int,
    shows_words: bool,
    keep: bool,
    undo: bool,
    lists: bool,
    as_json: bool,
) -> None:
    """Ask MODEL your own requests again, and OTHER the same, and compare the answers.

    The requests are those the inspector keeps with their contents, which the setting inspector.bodies allows. They stay
    on this computer. Nothing is changed before --keep.
    """
    if model is None and not keep and not undo and not lists:
        raise click.UsageError("Name a model, or give --keep, --undo or --list.")
    client = connect_gateway()
    if lists:
        path = f"/trials?{urlencode({'model': model or ''})}"
        show_result("trials", client.get(path, list[TrialResult]), as_json=as_json, text=_list_lines)
        return
    if model is None:
        switch = client.post("/trials/undo" if undo else "/trials/switch", None, TrialSwitch)
        show_result("trial_switch", switch, as_json=as_json, text=lambda outcome: [outcome.sentence])
    else:
        request = StartTrial(
            model=model, against=against, engine=engine, requests=requests, ids=list(ids), answer_tokens=answer_tokens
        )
        report = _run_trial(client, request, shows_words=shows_words)
        if keep and report.result.can_switch:
            report = msgspec.structs.replace(report, switch=client.post("/trials/switch", None, TrialSwitch))
        show_result("trial", report, as_json=as_json, text=_report_lines)
        if report.result.can_switch and not keep:
            print_note("To use the second from now on: roundhouse trial --keep")
    if keep:
        print_note("To undo: roundhouse trial --undo")


def _list_lines(results: list[TrialResult]) -> Iterator[str]:
    for result in results:
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(result.at))
        yield f"{at}  {_name_side(result.first)} and {_name_side(result.second)}: {result.sentence}"


def _name_side(side: TrialSide) -> str:
    return " ".join(filter(None, (side.target.model, side.target.quantization, side.target.engine)))


def _run_trial(client: GatewayClient, request: StartTrial, *, shows_words: bool) -> TrialReport:
    client.post("/trials", request, TrialChanged, timeout_s=_START_S)
    result = follow_job(client, TrialChanged, stop="/trials/job").result
    if result is None:
        raise EngineFailed("The trial ended without a result.", code="trial_failed")
    return TrialReport(result=result, words=client.get("/trials/words", list[TrialWords]) if shows_words else [])


def _report_lines(report: TrialReport) -> Iterator[str]:
    result = report.result
    yield from format_table(("", "FIRST", "SECOND"), _side_rows(result.first, result.second))
    yield ""
    yield from format_table(
        ("REQUEST", "CHARACTERS", "FIRST", "SECOND", "DIFFERENT FROM"), [_request_row(part) for part in result.requests]
    )
    for part in report.words:
        yield from ("", f"{part.id}, first:", part.first, f"{part.id}, second:", part.second)
    for name, ratio in (("First token", result.ttft_ratio), ("Whole answer", result.e2e_ratio)):
        if ratio is not None:
            yield f"{name}: {format_ratio(ratio)} times the first's"
    yield result.sentence
    yield from result.disturbances
    if report.switch is not None:
        yield report.switch.sentence


def _side_rows(first: TrialSide, second: TrialSide) -> list[tuple[str, ...]]:
    sides = (first, second)
    rows: list[tuple[str, list[str]]] = [
        ("Model", [side.target.model for side in sides]),
        ("Quantisation", [side.target.quantization for side in sides]),
        ("Engine", [f"{side.target.engine} {side.target.engine_version}".strip() for side in sides]),
        ("Answered", [str(side.answered) for side in sides]),
        ("First token", [_show(side.ttft_s, format_seconds) for side in sides]),
        ("Tokens per second", [_show(side.tokens_s, words.format_rate) for side in sides]),
        ("Valid tool calls", [_show(side.valid_calls, "{:.0%}".format) for side in sides]),
        ("Valid JSON", [_show(side.valid_json, "{:.0%}".format) for side in sides]),
        ("Time to load", [_show(side.load_s, format_seconds) for side in sides]),
        ("Memory", [words.format_bytes(side.memory.engine_bytes or side.memory.peak_bytes) for side in sides]),
    ]
    return [(name, *values) for name, values in rows if any(values)]


def _show(value: float | None, show: Callable[[float], str]) -> str:
    return "" if value is None else show(value)


def _request_row(part: TrialComparison) -> tuple[str, ...]:
    place = "equal" if part.is_equal else ""
    if part.diverges_at is not None:
        place = f"character {part.diverges_at + 1}, token {(part.diverges_at_token or 0) + 1}"
    return (part.id, str(part.prompt_length), _answer_cell(part.first), _answer_cell(part.second), place)


def _answer_cell(answer: TrialAnswer) -> str:
    if answer.error:
        return answer.error
    calls = f", {answer.valid_calls} of {answer.calls} calls valid" if answer.calls else ""
    wrong = ", not as its schema" if answer.is_valid_json is False else ""
    return f"{answer.tokens} tokens{calls}{wrong}"
