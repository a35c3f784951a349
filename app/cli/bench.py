"""`roundhouse bench`: measure models and endpoints under a workload, and compare, repeat and report what came of it."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from app.benchmark.comparison import ReceiptComparison, compare_receipts
from app.benchmark.field_formats import format_receipt
from app.benchmark.html import html_report
from app.benchmark.markdown import COMPARISON_HEAD, HEAD, comparison_rows, level_cells, markdown_row, summary_lines
from app.benchmark.prompt_files import parse_prompts
from app.cli.gateway import connect_gateway
from app.cli.measuring import follow_job
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.benchmarks import (
    BUILT_IN_WORKLOADS,
    LEAST_ROUNDS,
    MOST_CONCURRENCY,
    MOST_LEVELS,
    BenchmarkPrompt,
    BenchmarkReceipt,
    BenchmarkSettings,
    FieldFormat,
    LossResult,
    MeasureLoss,
    PredictionAccuracy,
    StartBenchmark,
    Workload,
)
from app.core.errors import BadRequest, EngineFailed, quote_value
from app.core.events import BenchmarkChanged

_LARGEST = "-"
"""No model's name: the service chooses."""
_LOSS_S = 1800.0
"""Two loads, and a hundred short requests to a slow model."""
_START_S = 60.0
"""Looking for the model on a drive that slept."""
_REFUSED = frozenset({"benchmark_disturbed", "benchmark_noisy"})
_SUFFIXES = (".json", ".jsonl")


def _read_levels(_ctx: click.Context, _option: click.Parameter, value: str) -> list[int]:
    try:
        levels = sorted({int(part) for part in value.split(",")})
    except ValueError:
        raise click.BadParameter("Give whole numbers with commas between them, as in 1,4,8.") from None
    if not all(1 <= level <= MOST_CONCURRENCY for level in levels) or len(levels) > MOST_LEVELS:
        raise click.BadParameter(f"At most {MOST_LEVELS} numbers from 1 to {MOST_CONCURRENCY}.")
    return levels


def _check_output(context: click.Context, _option: click.Parameter, file: Path | None) -> Path | None:
    """Return the file. Raises UsageError without a format, which is read before it."""
    if file is not None and not context.params.get("field_format"):
        raise click.UsageError("Say with --format how the file is written.")
    return file


@click.command()
@click.argument("targets", nargs=-1, metavar="[MODEL | URL]...")
@click.option(
    "--workload",
    type=click.Choice([kind.value for kind in BUILT_IN_WORKLOADS]),
    default=Workload.CHAT.value,
    show_default=True,
    help="What is asked.",
)
@click.option(
    "--prompts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSONL file of your own prompts instead: a line has `prompt` or `messages`, and may have `max_tokens`.",
)
@click.option(
    "--kept", type=click.IntRange(1, 200), help="Your newest requests that the inspector keeps, so many, instead."
)
@click.option(
    "--concurrency", callback=_read_levels, default="1", show_default=True, help="Requests at once, as in 1,4,8."
)
@click.option("--stop-saturated", is_flag=True, help="Begin with the fewest at once, and end once more write no more.")
@click.option("--requests", type=click.IntRange(1, 1000), default=6, show_default=True, help="Per round, at least.")
@click.option(
    "--rounds", type=click.IntRange(LEAST_ROUNDS, 20), default=LEAST_ROUNDS, show_default=True, help="Of each level."
)
@click.option("--answer-tokens", type=click.IntRange(2, 65_536), help="Length of answers instead of the workload's.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, help="Decides prompts and order.")
@click.option("--engine", default="", help="Id of the engine, instead of the one that is set for the model.")
@click.option("--served-name", default="", help="What the endpoint at a URL calls the model.")
@click.option("--key", default="", envvar="ROUNDHOUSE_BENCH_KEY", help="Key of the endpoint at a URL.")
@click.option("--price", type=click.FloatRange(0, 1000), help="Price of a kilowatt-hour, for the cost of tokens.")
@click.option("--keep-disturbed", is_flag=True, help="Keep a result that was disturbed or is noisy, and say so in it.")
@click.option("--list", "only_list", is_flag=True, help="List earlier results of MODEL, or all.")
@click.option("--show", metavar="ID", help="Show an earlier result.")
@click.option("--forget", metavar="ID", help="Delete an earlier result.")
@click.option("--compare", nargs=2, metavar="A B", help="Compare two results, each an id or a file written by --json.")
@click.option(
    "--loss",
    metavar="[LARGER]",
    is_flag=False,
    flag_value=_LARGEST,
    help="Say what MODEL, a quantisation, loses against LARGER, another of the same model; else the largest that fits.",
)
@click.option("--replay", metavar="FILE", help="Run a result's benchmark again, and say what differs.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print a table in Markdown.")
@click.option(
    "--format",
    "field_format",
    type=click.Choice([kind.value for kind in FieldFormat]),
    is_eager=True,
    help="Print the result as this program writes its own.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_check_output,
    help="Write what --format makes to a file instead of printing it.",
)
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path), help="Also write a report.")
@json_option
def bench(
    targets: tuple[str, ...],
    *,
    as_json: bool,
    **options: Any,  # noqa: ANN401 -- options of every type
) -> None:
    """Measure MODEL, or the endpoint at URL, under a workload. Several are measured one after the other.

    TTFT is the time to the first token, ITL that between two pieces of an answer, TPOT that per token. Each figure has
    the interval that holds the true one with 95 % probability. A run that other programs disturb is repeated, and
    refused where that does not help.
    """
    client = connect_gateway()
    if options["forget"]:
        client.delete(f"/benchmarks/{quote_segment(options['forget'])}")
        return
    if options["only_list"]:
        _list_receipts(client, targets, as_json=as_json)
        return
    if options["compare"]:
        first, second = (_find_receipt(client, name) for name in options["compare"])
        _show_comparison(first, second, options, as_json=as_json)
        return
    if options["loss"]:
        _show_loss(client, targets, options["loss"], as_json=as_json)
        return
    if options["replay"]:
        _replay(client, options, as_json=as_json)
        return
    if options["show"]:
        receipts = [_find_receipt(client, options["show"])]
    else:
        receipts = [measure_benchmark(client, request) for request in _requests_of(targets, options)]
    _report(receipts, options, as_json=as_json)


def _report(receipts: list[BenchmarkReceipt], options: dict[str, Any], *, as_json: bool) -> None:
    """Write results where and as they are to be."""
    _write_report(receipts, options["html_file"])
    if options["field_format"]:
        _write_format(receipts, FieldFormat(options["field_format"]), options["output"])
        return
    lines = _markdown_lines if options["as_markdown"] else _receipt_lines
    if as_json and len(receipts) == 1:
        show_result("benchmark", receipts[0], as_json=True, text=lambda _: [])
    else:
        show_result("benchmarks", receipts, as_json=as_json, text=lines)


def _write_report(receipts: Sequence[BenchmarkReceipt], file: Path | None) -> None:
    """Write a report, where one is wanted. Raises BadRequest where the file cannot be written."""
    if file is None:
        return
    try:
        file.write_text(html_report(receipts), encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror}.") from None
    print_note(f"The report is in {file}.")


def _write_format(receipts: Sequence[BenchmarkReceipt], kind: FieldFormat, file: Path | None) -> None:
    """Print the result as another program writes its own, or write it to a file. Raises BadRequest for several."""
    if len(receipts) != 1:
        raise BadRequest("Such a file holds one result.", hint="Name one model, or show one result with --show.")
    text = format_receipt(receipts[0], kind)
    if file is None:
        click.echo(text)
        return
    try:
        file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror}.") from None
    print_note(f"{receipts[0].id} is in {file}.")


def _requests_of(targets: Sequence[str], options: dict[str, Any]) -> list[StartBenchmark]:
    if not targets:
        raise click.UsageError("Name a model or a URL.")
    prompts = [] if options["prompts"] is None else _read_prompts(options["prompts"])
    settings = BenchmarkSettings(
        workload=Workload.FILE if prompts else Workload(options["workload"]),
        concurrency=options["concurrency"],
        stops_saturated=options["stop_saturated"],
        requests=options["requests"],
        rounds=options["rounds"],
        answer_tokens=options["answer_tokens"],
        seed=options["seed"],
        engine=options["engine"],
        price_kwh=options["price"],
    )
    return [_request_for(target, settings, prompts, options) for target in targets]


def _request_for(
    target: str, settings: BenchmarkSettings, prompts: list[BenchmarkPrompt], options: dict[str, Any]
) -> StartBenchmark:
    is_url = target.startswith(("http://", "https://"))
    return StartBenchmark(
        model=options["served_name"] if is_url else target,
        url=target if is_url else "",
        key=options["key"] if is_url else "",
        settings=settings,
        prompts=prompts,
        kept=options["kept"] or 0,
        keeps_disturbed=options["keep_disturbed"],
    )


def _read_prompts(file: Path) -> list[BenchmarkPrompt]:
    """Return the prompts of a JSONL file. Raises BadRequest with the line that is wrong."""
    return parse_prompts(file.read_text(encoding="utf-8", errors="replace"), file.name)


def measure_benchmark(client: GatewayClient, request: StartBenchmark) -> BenchmarkReceipt:
    """Begin, follow to the end, and pass Ctrl-C on. Raises EngineFailed with what went wrong."""
    client.post("/benchmarks", request, BenchmarkChanged, timeout_s=_START_S)
    try:
        end = follow_job(client, BenchmarkChanged, stop="/benchmarks/job")
    except EngineFailed as error:
        hint = "To keep it all the same: --keep-disturbed" if error.code in _REFUSED else ""
        raise EngineFailed(str(error), hint=hint, code=error.code) from None
    return client.get(f"/benchmarks/{end.receipt}", BenchmarkReceipt)


def _replay(client: GatewayClient, options: dict[str, Any], *, as_json: bool) -> None:
    before = _find_receipt(client, options["replay"])
    prompts = [] if options["prompts"] is None else _read_prompts(options["prompts"])
    request = StartBenchmark(
        model=before.target.model,
        url=before.target.url if not before.target.engine else "",
        key=options["key"],
        settings=before.settings,
        prompts=prompts,
        keeps_disturbed=options["keep_disturbed"],
    )
    after = measure_benchmark(client, request)
    print_note(f"The new result is {after.id}.")
    _show_comparison(before, after, options, as_json=as_json)


def _find_receipt(client: GatewayClient, name: str) -> BenchmarkReceipt:
    """Return a receipt by its id, or from a file. Raises BadRequest for a file that holds none."""
    file = Path(name)
    if file.suffix.lower() not in _SUFFIXES and not file.is_file():
        return client.get(f"/benchmarks/{quote_segment(name)}", BenchmarkReceipt)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.") from None
    with contextlib.suppress(msgspec.ValidationError):
        return msgspec.json.decode(data, type=BenchmarkReceipt)
    try:
        return msgspec.json.decode(data, type=_ReceiptFile).benchmark
    except msgspec.MsgspecError as error:
        raise BadRequest(f"{quote_value(str(file))} holds no result of a benchmark: {error}.") from None


class _ReceiptFile(msgspec.Struct):
    """What `--json` prints."""

    benchmark: BenchmarkReceipt


def _show_loss(client: GatewayClient, targets: Sequence[str], reference: str, *, as_json: bool) -> None:
    if len(targets) != 1:
        raise click.UsageError("Name the one model that is to be compared.")
    request = MeasureLoss(model=targets[0], reference="" if reference == _LARGEST else reference)
    loss = client.post("/quantization-loss", request, LossResult, timeout_s=_LOSS_S)
    show_result("loss", loss, as_json=as_json, text=_loss_lines)


def _loss_lines(loss: LossResult) -> Iterator[str]:
    if loss.reference:
        yield f"Against {loss.reference}:"
    yield f"KL divergence {loss.kl_divergence:.4f} (mean over {loss.positions} places of a text, in nats)"
    yield f"The same token is the likeliest at {loss.same_likeliest * 100:.0f} % of them."
    yield f"Perplexity {loss.perplexity:.2f}, of the larger {loss.perplexity_before:.2f}"


def _list_receipts(client: GatewayClient, targets: Sequence[str], *, as_json: bool) -> None:
    model = f"?model={quote_segment(targets[0])}" if targets else ""
    receipts = client.get(f"/benchmarks{model}", list[BenchmarkReceipt])
    show_result("benchmarks", receipts, as_json=as_json, text=_list_lines)
    accuracy = client.get("/benchmarks/accuracy", PredictionAccuracy)
    if accuracy.sentence:
        print_note(accuracy.sentence)


def _list_lines(receipts: list[BenchmarkReceipt]) -> Iterator[str]:
    if not receipts:
        yield "Nothing has been measured yet. `roundhouse bench MODEL` does."
        return
    yield from format_table(
        ("ID", "AGO", "MODEL", "ENGINE", "WORKLOAD", "TTFT", "DECODE"), [_list_row(receipt) for receipt in receipts]
    )


def _list_row(receipt: BenchmarkReceipt) -> list[str]:

    level, target = receipt.first_level, receipt.target
    return [
        receipt.id,
        words.format_duration(time.time() - receipt.at),
        target.model,
        f"{target.engine} {target.engine_version}".strip() or target.url,
        str(receipt.settings.workload),
        f"{level.ttft_s.median.value * 1e3:.0f} ms",
        words.format_rate(level.decode_tokens_s.value) + (" (disturbed)" if receipt.disturbances else ""),
    ]


def _receipt_lines(receipts: list[BenchmarkReceipt]) -> Iterator[str]:
    for receipt in receipts:
        yield from summary_lines(receipt)
        yield from format_table([name.upper() for name in HEAD], [level_cells(level) for level in receipt.levels])
        yield f"Kept as {receipt.id}."


def _markdown_lines(receipts: list[BenchmarkReceipt]) -> Iterator[str]:
    head, rule, *_ = markdown_row(receipts[0])
    yield from (head, rule)
    for receipt in receipts:
        yield from markdown_row(receipt)[2:]


def _show_comparison(
    first: BenchmarkReceipt, second: BenchmarkReceipt, options: dict[str, Any], *, as_json: bool
) -> None:
    """Show what differs; with --html both are in the report, with --markdown both are rows of a table."""
    _write_report([first, second], options["html_file"])
    if options["as_markdown"] and not as_json:
        show_result("benchmarks", [first, second], as_json=False, text=_markdown_lines)
    else:
        show_result("comparison", compare_receipts(first, second), as_json=as_json, text=_comparison_lines)


def _comparison_lines(comparison: ReceiptComparison) -> Iterator[str]:
    yield f"First:  {comparison.first}"
    yield f"Second: {comparison.second}"
    for difference in comparison.differences:
        yield f"{difference.name}: {difference.first} -> {difference.second}"
    if not comparison.figures:
        yield "They have no number of requests at once in common."
        return
    yield from format_table([name.upper() for name in COMPARISON_HEAD], comparison_rows(comparison))
