"""Receipts as other programs write theirs: the fields that their readers need, and the receipt's figures."""

import json
from statistics import fmean

import msgspec
import pytest

from app.benchmark.field_formats import format_receipt
from app.core.benchmarks import FieldFormat
from app.core.errors import BadRequest
from tests.unit.benchmark.receipts import make_receipt

TOKEN_S = (0.010, 0.012, 0.011, 0.010, 0.013, 0.010)
RECEIPT = make_receipt(TOKEN_S, levels=(1, 4), version="2026.10.11549")
WITHOUT_SAMPLES = msgspec.structs.replace(RECEIPT, samples=[])
GUIDELLM_METRICS = """request_totals requests_per_second request_concurrency request_latency
request_streaming_iterations_count prompt_token_count output_token_count total_token_count time_to_first_token_ms
time_to_first_output_token_ms time_per_output_token_ms inter_token_latency_ms time_to_last_round_trip_ms
avg_round_trip_time_ms prompt_tokens_per_second output_tokens_per_second tokens_per_second output_tokens_per_iteration
iter_tokens_per_iteration text image video audio tool_call"""
"""What the schema of GuideLLM 0.8.1 requires."""
GUIDELLM_SCHEDULER = """start_time request_start_time measure_start_time measure_end_time request_end_time end_time
requests_made queued_time_avg resolve_start_delay_avg resolve_targeted_start_delay_avg request_start_delay_avg
request_targeted_start_delay_avg request_time_avg resolve_end_delay_avg resolve_time_avg finalized_delay_avg
processed_delay_avg"""
GUIDELLM_CONFIG = "run_id run_index strategy constraints profile requests backend environment"
GUIDELLM_SPREAD = "mean median mode variance std_dev min max count total_sum percentiles"


def test_vllm_has_a_line_for_each_level_with_its_names_and_milliseconds() -> None:
    first, second = map(json.loads, format_receipt(RECEIPT, FieldFormat.VLLM).splitlines())
    assert (first["max_concurrency"], second["max_concurrency"]) == (1, 4)
    assert first["completed"] == first["num_prompts"] == 18
    assert first["mean_ttft_ms"] == pytest.approx(100)
    assert first["mean_tpot_ms"] == pytest.approx(fmean(TOKEN_S) * 1e3)
    assert first["std_itl_ms"] == pytest.approx(first["std_tpot_ms"])
    assert first["output_throughput"] == pytest.approx(first["total_output_tokens"] / first["duration"])
    assert first["duration"] == pytest.approx(sum(0.1 + part * 10 for part in TOKEN_S) * 3)
    assert second["output_throughput"] == pytest.approx(4 * first["output_throughput"])
    assert len(first["latencies"]) == 18
    assert not {"ttfts", "generated_texts"} & first.keys()


def test_guidellm_has_what_its_schema_requires_and_its_own_meaning_of_a_token_s_time() -> None:
    report = json.loads(format_receipt(RECEIPT, FieldFormat.GUIDELLM))
    assert report["metadata"]["version"] == 2
    assert report["config"]["spec"]["profile"] == {"kind": "concurrent", "streams": [1, 4]}
    first, second = report["benchmarks"]
    metrics = first["metrics"]
    assert metrics.keys() >= set(GUIDELLM_METRICS.split())
    assert first["scheduler_metrics"].keys() >= set(GUIDELLM_SCHEDULER.split())
    assert first["config"].keys() >= set(GUIDELLM_CONFIG.split())
    assert metrics["request_latency"]["successful"].keys() >= set(GUIDELLM_SPREAD.split())
    assert metrics["time_to_first_token_ms"]["successful"]["mean"] == pytest.approx(100)
    assert metrics["inter_token_latency_ms"]["successful"]["mean"] == pytest.approx(fmean(TOKEN_S) * 1e3)
    whole_s = fmean([0.1 + part * 10 for part in TOKEN_S])
    assert metrics["time_per_output_token_ms"]["successful"]["mean"] == pytest.approx(whole_s / 11 * 1e3)
    assert metrics["time_per_output_token_ms"]["successful"]["count"] == 18 * 11
    assert metrics["request_totals"] == {"successful": 18, "incomplete": 0, "errored": 0, "total": 18}
    assert second["metrics"]["request_concurrency"]["successful"]["mean"] == pytest.approx(4)
    assert metrics["output_tokens_per_iteration"]["successful"]["count"] == 0


def test_llama_bench_has_reading_and_writing_of_one_request_at_a_time() -> None:
    read, write_test = json.loads(format_receipt(RECEIPT, FieldFormat.LLAMA_BENCH))
    assert (read["n_prompt"], read["n_gen"], write_test["n_prompt"], write_test["n_gen"]) == (100, 0, 0, 11)
    assert read["avg_ts"] == pytest.approx(1000)
    assert write_test["avg_ts"] == pytest.approx(fmean([1 / part for part in TOKEN_S]))
    assert len(write_test["samples_ts"]) == len(write_test["samples_ns"]) == 18
    assert write_test["samples_ns"][0] / 1e9 == pytest.approx(11 / write_test["samples_ts"][0])
    assert (read["build_number"], read["test_time"]) == (11549, "2023-11-14T22:13:20Z")
    lines = format_receipt(RECEIPT, FieldFormat.LLAMA_BENCH_MD).splitlines()
    assert lines[0].startswith("| model | size | params | backend |")
    assert [line.split("|")[6].strip() for line in lines[2:4]] == ["pp100", "tg11"]
    assert lines[-1] == "build: llama.cpp 2026.10.11549 (11549)"


def test_sizes_are_in_the_units_that_llama_bench_has() -> None:
    target = msgspec.structs.replace(RECEIPT.target, size_bytes=3 << 29, parameters=541_000_000)
    text = format_receipt(msgspec.structs.replace(RECEIPT, target=target), FieldFormat.LLAMA_BENCH_MD)
    assert "| 1.50 GiB | 541.00 M |" in text


@pytest.mark.parametrize("kind", [FieldFormat.LLAMA_BENCH, FieldFormat.LLAMA_BENCH_MD])
def test_a_result_without_a_request_at_a_time_is_nothing_for_llama_bench(kind: FieldFormat) -> None:
    with pytest.raises(BadRequest, match="one request at a time"):
        format_receipt(make_receipt(TOKEN_S, levels=(4,)), kind)


@pytest.mark.parametrize("kind", FieldFormat)
def test_a_result_without_its_requests_cannot_be_written(kind: FieldFormat) -> None:
    with pytest.raises(BadRequest, match="without its single requests"):
        format_receipt(WITHOUT_SAMPLES, kind)


def test_older_receipts_have_their_duration_from_their_rate_and_no_spread_of_gaps() -> None:
    level = RECEIPT.levels[0]
    old = msgspec.structs.replace(level, duration_s=None, itl_s=msgspec.structs.replace(level.itl_s, deviation=None))
    text = format_receipt(msgspec.structs.replace(RECEIPT, levels=[old]), FieldFormat.VLLM)
    assert json.loads(text)["duration"] == pytest.approx(level.duration_s)
    assert "std_itl_ms" not in json.loads(text)
