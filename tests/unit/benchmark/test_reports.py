"""Receipts against each other, as Markdown and as HTML: what differs is told, and no name becomes markup."""

import html
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import msgspec
import pytest

from app.benchmark.comparison import compare_receipts
from app.benchmark.gains import find_saturation
from app.benchmark.html import html_report
from app.benchmark.markdown import comparison_rows, markdown_row, summary_lines
from app.benchmark.plots import (
    axis_ticks,
    count_ticks,
    format_tick,
    make_history_plots,
    make_plots,
    name_series,
    svg_of,
)
from app.core.benchmarks import (
    WORKLOAD_TITLES,
    BenchmarkMemory,
    BenchmarkReceipt,
    BenchmarkSettings,
    Figure,
    PrefixReuse,
    Workload,
    tool_benchmark,
)
from tests.unit.benchmark.receipts import make_receipt

STEADY = (0.0100, 0.0101, 0.0099, 0.0100, 0.0102, 0.0098)


def test_a_receipt_survives_json() -> None:
    receipt = make_receipt(STEADY, levels=(1, 4))
    assert msgspec.json.decode(msgspec.json.encode(receipt), type=BenchmarkReceipt) == receipt


def test_equal_receipts_differ_in_nothing() -> None:
    comparison = compare_receipts(make_receipt(STEADY), make_receipt(STEADY))
    assert comparison.differences == []
    assert all(figure.is_noise for figure in comparison.figures)


@pytest.mark.parametrize(("factor", "verdict"), [(1.5, "worse"), (0.5, "better"), (1.002, "no difference")])
def test_a_difference_beyond_noise_is_told_and_another_is_not(factor: float, verdict: str) -> None:
    first, second = make_receipt(STEADY), make_receipt([part * factor for part in STEADY])
    rows = {row[1]: row for row in comparison_rows(compare_receipts(first, second))}
    assert rows["Per token (TPOT)"][-1] == verdict
    assert rows["First token (TTFT)"][-1] == "no difference"


def test_receipts_of_a_list_have_no_requests_and_are_compared_all_the_same() -> None:
    bare = [msgspec.structs.replace(make_receipt([part * by for part in STEADY]), samples=[]) for by in (1, 2)]
    figures = {figure.name: figure for figure in compare_receipts(*bare).figures}
    assert not figures["TPOT"].is_noise


def test_versions_hashes_and_settings_that_differ_are_named() -> None:
    first, second = make_receipt(STEADY), make_receipt(STEADY, engine="openvino", levels=(4,))
    comparison = compare_receipts(first, second)
    assert {part.name for part in comparison.differences} == {"engine", "concurrency"}
    assert comparison.figures == []


def test_a_markdown_table_has_a_row_for_each_level_and_escapes_bars() -> None:
    lines = markdown_row(make_receipt(STEADY, model="a|b", levels=(1, 4)))
    assert len(lines) == 4
    assert r"a\|b Q4_K_M" in lines[2]
    assert {line.replace(r"\|", "").count("|") for line in lines} == {10}


class _TagReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}, "it needs nothing beside itself"


def test_a_report_is_whole_and_nothing_in_it_is_taken_for_markup() -> None:
    receipt = make_receipt(STEADY, model="<script>alert(1)</script>", levels=(1, 4))
    page = html_report([receipt, make_receipt(STEADY, levels=(1, 4))])
    reader = _TagReader()
    reader.feed(page)
    assert "script" not in reader.tags
    assert reader.tags.count("svg") == 2
    assert "p99" in page


def test_plots_are_drawn_of_what_has_more_than_one_point() -> None:
    assert [plot.title for plot in make_plots([make_receipt(STEADY)])] == []
    plots = make_plots([make_receipt(STEADY, levels=(1, 2, 8))])
    assert len(plots) == 2
    for plot in plots:
        root = ET.fromstring(svg_of(plot))  # noqa: S314 -- our own
        assert len([part for part in root.iter() if part.tag.endswith("circle")]) >= 3


@pytest.mark.parametrize(("most", "ticks"), [(4, [0, 1, 2, 3, 4]), (95, [0, 20, 40, 60, 80, 100]), (0, [0, 1])])
def test_axes_have_round_values(most: float, ticks: list[float]) -> None:
    assert axis_ticks(most) == pytest.approx(ticks)


@pytest.mark.parametrize(("most", "ticks"), [(1, [0, 1]), (2, [0, 1, 2]), (3, [0, 1, 2, 3]), (8, [0, 2, 4, 6, 8])])
def test_what_is_counted_has_no_ticks_in_between(most: float, ticks: list[float]) -> None:
    assert count_ticks(most) == ticks


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.5, "0.5"), (8000, "8000"), (20_000, "20k"), (12_500, "12.5k")]
)
def test_large_ticks_are_short(value: float, text: str) -> None:
    assert format_tick(value) == text


def test_what_is_the_matter_is_in_the_summary() -> None:
    receipt = msgspec.structs.replace(
        make_receipt(STEADY),
        disturbances=["Other programs ran."],
        load_s=1.5,
        prefix=PrefixReuse(
            prompt_tokens=900,
            cold_ttft_s=make_receipt(STEADY).levels[0].ttft_s.median,
            warm_ttft_s=make_receipt(STEADY).levels[0].ttft_s.median,
        ),
    )
    lines = list(summary_lines(receipt))
    assert "Loaded in 1.50 s." in lines
    assert "Disturbed: Other programs ran." in lines
    assert any("900 tokens" in line for line in lines)


def test_a_models_history_is_drawn_over_time_one_line_for_each_engine() -> None:
    old = msgspec.structs.replace(make_receipt([0.2] * 4), id="old", at=1.0)
    new = msgspec.structs.replace(make_receipt([0.1] * 4), id="new", at=3.0)
    other = msgspec.structs.replace(make_receipt([0.05] * 4, engine="mistral.rs"), id="other", at=2.0)
    disturbed_receipt = msgspec.structs.replace(new, id="no", disturbances=["Busy."])
    (plot,) = make_history_plots([new, other, disturbed_receipt, old])
    points = {series.name: [(point.x, round(point.y)) for point in series.points] for series in plot.series}
    assert points == {"llama.cpp, Chat": [(1, 5), (3, 10)], "mistral.rs, Chat": [(2, 20)]}
    assert make_history_plots([new]) == []


def test_no_line_joins_measurements_of_different_workloads() -> None:
    chat = msgspec.structs.replace(make_receipt([0.1] * 4), id="chat", at=1.0)
    settings = msgspec.structs.replace(chat.settings, workload=Workload.RAG)
    documents = msgspec.structs.replace(chat, id="documents", at=2.0, settings=settings)
    (plot,) = make_history_plots([chat, documents])
    assert [series.name for series in plot.series] == ["llama.cpp, Chat", "llama.cpp, Long documents"]


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        (BenchmarkSettings(workload=Workload.RAG), "Long documents"),
        (BenchmarkSettings(workload=Workload.FILE), "Own prompts"),
        (tool_benchmark("codex"), "A coding agent's first prompt (codex)"),
    ],
)
def test_a_workload_has_one_name_everywhere(settings: BenchmarkSettings, title: str) -> None:
    receipt = msgspec.structs.replace(make_receipt(STEADY), settings=settings)
    assert next(summary_lines(receipt)).startswith(f"m, llama.cpp 1: {title}, on ")
    assert f"| {title} |" in markdown_row(receipt)[2]
    assert f"{title}, on" in html.unescape(html_report([receipt]))


def test_every_workload_has_a_title() -> None:
    assert set(WORKLOAD_TITLES) == set(Workload)


def with_rates(*rates: tuple[int, float]) -> BenchmarkReceipt:
    receipt = make_receipt(STEADY, levels=[level for level, _ in rates])
    levels = [
        msgspec.structs.replace(level, answer_tokens_s=Figure(value=rate, low=rate, high=rate))
        for level, (_, rate) in zip(receipt.levels, rates, strict=True)
    ]
    return msgspec.structs.replace(receipt, levels=levels)


@pytest.mark.parametrize(
    ("rates", "saturation"),
    [
        ([(1, 10.0), (4, 30.0), (16, 31.0)], 4),
        ([(1, 10.0), (4, 30.0), (16, 20.0)], 4),
        ([(1, 10.0), (4, 9.0), (16, 30.0)], None),
        ([(1, 10.0), (4, 10.2)], 1),
        ([(1, 10.0), (4, 30.0)], None),
    ],
)
def test_from_where_on_no_more_is_written_is_said(rates: list[tuple[int, float]], saturation: int | None) -> None:
    receipt = with_rates(*rates)
    assert find_saturation(receipt.levels) == saturation
    expected_text = "more requests may gain more" if saturation is None else f"With more than {saturation} at once"
    assert any(expected_text in line for line in summary_lines(receipt))


def test_one_level_says_nothing_of_more_requests_at_once() -> None:
    assert not any("at once" in line for line in summary_lines(make_receipt(STEADY)))


def test_head_room_stands_beside_what_is_taken() -> None:
    memory = BenchmarkMemory(peak_bytes=2 << 30, estimate_bytes=3 << 30, free_bytes=5 << 30)
    lines = list(summary_lines(msgspec.structs.replace(make_receipt(STEADY), memory=memory)))
    assert "Memory: 2.0 GiB at most, 3.0 GiB estimated; 5.0 GiB free beside it." in lines


def test_long_waits_are_drawn_in_seconds() -> None:
    receipt = make_receipt(STEADY, levels=(1, 4))
    slow = [
        msgspec.structs.replace(level, ttft_s=msgspec.structs.replace(level.ttft_s, p95=8.0))
        for level in receipt.levels
    ]
    assert make_plots([receipt])[0].y_name == "ms"
    plot = make_plots([msgspec.structs.replace(receipt, levels=slow)])[0]
    assert (plot.y_name, plot.series[1].points[0].y) == ("s", 8.0)
    assert [series.name for series in plot.series] == ["half of the requests (p50)", "95 of 100 (p95)"]


def test_lines_are_told_apart_by_what_differs() -> None:
    first, second = make_receipt(STEADY), make_receipt(STEADY, engine="openvino", version="2")
    assert name_series([first, second]) == ["llama.cpp 1", "openvino 2"]
    assert name_series([first, first]) == ["1. llama.cpp 1", "2. llama.cpp 1"], "measured again"
    assert name_series([first, make_receipt(STEADY, model="n")]) == ["m, llama.cpp 1", "n, llama.cpp 1"]


def test_a_report_says_what_its_figures_mean() -> None:
    assert "TTFT is the time to the first token" in html_report([make_receipt(STEADY)])


def test_memory_is_drawn_over_the_context_of_all_slots() -> None:
    receipts = [
        msgspec.structs.replace(
            receipt,
            id=str(slots),
            target=msgspec.structs.replace(receipt.target, options={"context": 4096, "slots": slots}),
            memory=BenchmarkMemory(peak_bytes=slots << 30),
        )
        for receipt in [make_receipt([0.1] * 4)]
        for slots in (1, 4)
    ]
    plot = next(plot for plot in make_plots(receipts) if plot.title == "Memory over context")
    assert [(point.x, point.y) for point in plot.series[0].points] == [(4096, 1), (16384, 4)]
    assert plot in make_history_plots(receipts)
