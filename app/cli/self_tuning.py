"""`roundhouse tune MODEL --measure`: find the settings with which a model answers fastest here, and use them."""

from collections.abc import Iterator

from app.benchmark.gains import format_ratio
from app.benchmark.markdown import DISTURBED, format_seconds
from app.cli.measuring import follow_job, print_undo
from app.cli.output import format_table, show_result
from app.client.http import GatewayClient
from app.core.benchmarks import CandidateResult, StartTune, TuneResult
from app.core.errors import EngineFailed
from app.core.events import TuneChanged

_START_S = 60.0
"""Looking for the model on a drive that slept."""


def measure_settings(client: GatewayClient, request: StartTune, *, as_json: bool) -> None:
    """Begin, follow to the end, and show what came of it. Raises EngineFailed with what went wrong."""
    client.post("/tunings", request, TuneChanged, timeout_s=_START_S)
    result = follow_job(client, TuneChanged, stop="/tunings/job").result
    if result is None:
        raise EngineFailed("Self-tuning ended without a result.", code="tuning_failed")
    show_result("tuning", result, as_json=as_json, text=_result_lines)
    if result.is_change:
        print_undo(request.model, result.settings_before, result.settings)


def _result_lines(result: TuneResult) -> Iterator[str]:
    rows = [_entry_row(entry) for entry in result.entries]
    yield from format_table(("SETTING", "ANSWERS", "WHOLE ANSWER", "TO BEFORE", ""), rows)
    before, after = result.before, result.after
    for title, old, new in (
        ("First token", before.ttft_s, after.ttft_s),
        ("Per token", before.tpot_s, after.tpot_s),
        ("Whole answer", before.e2e_s, after.e2e_s),
    ):
        yield f"{title}: {format_seconds(old)} before, {format_seconds(new)} now"
    yield result.sentence
    if result.disturbances:
        yield f"{DISTURBED}{' '.join(result.disturbances)} Nothing was changed."
    elif result.is_change:
        yield "It is used from the next load on."


def _entry_row(entry: CandidateResult) -> tuple[str, ...]:
    ratio = entry.ratio
    remarks = [
        "used" if entry.is_kept else "",
        entry.problem,
        "" if entry.loss is None else f"KL divergence {entry.loss:.4f}",
    ]
    return (
        entry.name,
        str(entry.requests),
        "" if entry.e2e_s is None else format_seconds(entry.e2e_s),
        "" if ratio is None else format_ratio(ratio),
        ", ".join(filter(None, remarks)),
    )
