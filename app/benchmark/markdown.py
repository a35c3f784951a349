"""Receipts as lines: for a terminal, and as a Markdown table to be posted."""

from collections.abc import Iterator, Sequence

from app.benchmark.comparison import ReceiptComparison
from app.benchmark.gains import find_saturation, format_ratio
from app.core import words
from app.core.benchmarks import BenchmarkLevel, BenchmarkReceipt, Distribution, Figure, SpeedRatio

DISTURBED = "Disturbed: "
"""Begins the sentences of a summary that say why a result is not the computer's own."""
_MS = 1e3
_SHORT_S = 10.0
_LEAST_LEVELS = 2
HEAD = (
    "at once",
    "TTFT p50/p95/p99",
    "ITL p50/p95/p99",
    "TPOT p50",
    "end to end p50/p95",
    "decode",
    "prefill",
    "all together",
)
_ROW_HEAD = (
    "model",
    "engine",
    "machine",
    "workload",
    "at once",
    "TTFT p50/p99",
    "TPOT p50/p99",
    "decode",
    "all together",
)


def level_cells(level: BenchmarkLevel) -> list[str]:
    """Return the cells of one level, in the order of `HEAD`."""
    return [
        str(level.concurrency),
        format_percentiles(level.ttft_s),
        format_percentiles(level.itl_s),
        format_seconds(level.tpot_s.median.value),
        f"{format_seconds(level.e2e_s.median.value)} / {format_seconds(level.e2e_s.p95)}",
        format_figure(level.decode_tokens_s),
        format_figure(level.prefill_tokens_s),
        format_figure(level.answer_tokens_s),
    ]


def format_seconds(duration_s: float) -> str:
    """Return a time in three digits or so: milliseconds below a second."""
    if duration_s >= 1:
        return f"{duration_s:.1f} s" if duration_s >= _SHORT_S else f"{duration_s:.2f} s"
    milliseconds = duration_s * _MS
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.1f} ms"  # noqa: PLR2004 -- three digits


def format_percentiles(values: Distribution) -> str:
    """Return the three percentiles."""
    return " / ".join(map(format_seconds, (values.median.value, values.p95, values.p99)))


def format_figure(figure: Figure) -> str:
    """Return a rate with its interval."""
    return f"{_format_number(figure.value)} tok/s ({_format_number(figure.low)} to {_format_number(figure.high)})"


def summary_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    """Yield what a receipt says beside its levels, in sentences."""
    yield f"{receipt.title}: {receipt.settings.workload_title}, on {receipt.machine.summary}"
    if receipt.load_s is not None:
        yield f"Loaded in {format_seconds(receipt.load_s)}."
    yield from _prefix_lines(receipt)
    yield from _memory_lines(receipt)
    yield from _prediction_lines(receipt)
    yield from _saturation_lines(receipt)
    yield from _correctness_lines(receipt)
    if receipt.schema_cost is not None:
        yield f"Held to a schema, {_ratio_words(receipt.schema_cost)}."
    if receipt.lora_cost is not None:
        yield f"With its LoRA adapters, {_ratio_words(receipt.lora_cost)}."
    if receipt.cost is not None:
        price = receipt.cost.price_per_million_tokens
        cost = "" if price is None else f"; a million tokens cost {price:.2f}"
        yield f"{receipt.cost.watts:.1f} W ({receipt.cost.source}){cost}."
    failures = sum(level.failures for level in receipt.levels)
    if failures:
        yield f"{failures} requests failed and are in no figure."
    yield from receipt.notes
    for sentence in receipt.disturbances:
        yield DISTURBED + sentence


def _ratio_words(ratio: SpeedRatio) -> str:
    ttft, token = format_ratio(ratio.ttft), format_ratio(ratio.token)
    return f"the first token takes {ttft} times as long as without, and whole answers, per token, {token} times"


def _prefix_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    prefix = receipt.prefix
    if prefix is not None:
        yield (
            f"A prompt of {prefix.prompt_tokens} tokens: first token after "
            f"{format_seconds(prefix.cold_ttft_s.value)}, asked again after {format_seconds(prefix.warm_ttft_s.value)}."
        )


def _saturation_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    """Say from how many requests at once on no more is written: each then only waits longer."""
    if len(receipt.levels) < _LEAST_LEVELS:
        return
    most = max(level.concurrency for level in receipt.levels)
    saturation = find_saturation(receipt.levels)
    if saturation is None:
        yield f"With {most} at once it writes more than with fewer: more requests may gain more."
    else:
        yield f"With more than {saturation} at once it writes no more, and each request waits longer."


def _memory_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    memory = receipt.memory
    parts = {
        "at most": memory.peak_bytes,
        "by its engine's account": memory.engine_bytes,
        "estimated": memory.estimate_bytes,
    }
    known_parts = [f"{words.format_bytes(count)} {name}" for name, count in parts.items() if count is not None]
    free = "" if memory.free_bytes is None else f"; {words.format_bytes(memory.free_bytes)} free beside it"
    if known_parts:
        yield f"Memory: {', '.join(known_parts)}{free}."


def _prediction_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    prediction, level = receipt.prediction.decode_tokens_s, receipt.first_level
    if prediction and level.concurrency == 1 and level.decode_tokens_s.value:
        ratio = level.decode_tokens_s.value / prediction
        yield f"Predicted were {_format_number(prediction)} tok/s; it is {ratio:.2f} times that."


def _correctness_lines(receipt: BenchmarkReceipt) -> Iterator[str]:
    right = receipt.correctness
    if right.equal_answers is not None:
        yield f"Asked again, {right.equal_answers * 100:.0f} % of the answers were equal."
    if right.valid_json is not None:
        yield f"{right.valid_json * 100:.0f} % of the answers satisfy their schema."
    if right.tool_tasks:
        yield f"{right.valid_calls} of {right.tool_tasks} tasks were answered by valid tool calls."


def markdown_row(receipt: BenchmarkReceipt) -> list[str]:
    """Return a Markdown table with one row for each level, head included."""
    return markdown_table(_ROW_HEAD, [_row_cells(receipt, level) for level in receipt.levels])


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _row_cells(receipt: BenchmarkReceipt, level: BenchmarkLevel) -> list[str]:
    target = receipt.target
    name = " ".join(filter(None, [target.model, target.quantization]))
    engine = " ".join(filter(None, [target.engine or target.url, target.engine_version, target.backend]))
    return [
        name,
        engine,
        receipt.machine.summary,
        receipt.settings.workload_title,
        str(level.concurrency),
        f"{format_seconds(level.ttft_s.median.value)} / {format_seconds(level.ttft_s.p99)}",
        f"{format_seconds(level.tpot_s.median.value)} / {format_seconds(level.tpot_s.p99)}",
        format_figure(level.decode_tokens_s),
        format_figure(level.answer_tokens_s),
    ]


FIGURES = (
    "TTFT is the time to the first token: from sending a request to the first piece of its answer. ITL is the time "
    "between two pieces, TPOT that per token after the first; end to end is all of it. Of 100 requests, 50 took no "
    "longer than p50, 95 no longer than p95, 99 no longer than p99. Decode is how fast one answer is written, prefill "
    "how fast one prompt is read. In brackets is the interval that holds the true value with 95 % probability."
)
"""What the heads of a table of levels mean, for whoever reads a report without having measured anything."""
_FIGURE_TITLES = {
    "TTFT": "First token (TTFT)",
    "TPOT": "Per token (TPOT)",
    "End to end": "Whole answer",
    "Tokens per second": "All requests together",
}
"""What people read instead of the names that programs get."""
COMPARISON_HEAD = ("at once", "figure", "first", "second", "second to first", "")


def comparison_rows(comparison: ReceiptComparison) -> list[list[str]]:
    """Return the cells of a comparison, in the order of `COMPARISON_HEAD`."""
    rows: list[list[str]] = []
    for figure in comparison.figures:
        show = format_seconds if figure.unit == "s" else words.format_rate
        verdict = "no difference" if figure.is_noise else "better" if figure.is_better else "worse"
        values = (show(figure.first), show(figure.second), format_ratio(figure.ratio))
        title = _FIGURE_TITLES.get(figure.name, figure.name)
        rows.append([str(figure.concurrency), title, *values, verdict])
    return rows


def _format_number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"  # noqa: PLR2004 -- three digits
