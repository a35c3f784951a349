"""Receipts as GuideLLM reports them: version 2 of its report, which GuideLLM 0.8 reads again.

Its time per output token counts the wait for the first; its inter-token latency is what others call TPOT. Both are
weighted by tokens. Rates over time are not kept in a receipt, so each has one value, that of all the time. What was
never measured has no observations, and times of its own scheduler are -1, as it writes them where they are unknown.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, pvariance
from typing import Any

from app.benchmark.statistics import percentile
from app.core.benchmarks import BenchmarkLevel, BenchmarkReceipt, BenchmarkSample

_MS = 1e3
_SHARES = {
    "p001": 0.001,
    "p01": 0.01,
    "p05": 0.05,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
}
_UNKNOWN_S = -1.0
_SCHEDULER_TIMES = (
    "queued_time_avg",
    "resolve_start_delay_avg",
    "resolve_targeted_start_delay_avg",
    "request_start_delay_avg",
    "request_targeted_start_delay_avg",
    "resolve_end_delay_avg",
    "resolve_time_avg",
    "finalized_delay_avg",
    "processed_delay_avg",
)
_SUMMARY = (
    "input",
    "input_per_second",
    "input_concurrency",
    "output",
    "output_per_second",
    "output_concurrency",
    "total",
    "total_per_second",
    "total_concurrency",
)
_OTHER_KINDS = {
    "image": ("tokens", "images", "pixels", "bytes"),
    "video": ("tokens", "frames", "seconds", "bytes"),
    "audio": ("tokens", "samples", "seconds", "bytes"),
    "tool_call": ("tokens", "mixed_tokens", "count"),
}


def guidellm_report(receipt: BenchmarkReceipt) -> dict[str, Any]:
    """Return the report: a benchmark for each level. It has no single requests, and no key."""
    streams = [level.concurrency for level in receipt.levels]
    return {
        "metadata": {
            "version": 2,
            "guidellm_version": "",
            "python_version": "",
            "platform": receipt.machine.system,
        },
        "config": {
            "spec": {
                "backend": _backend(receipt),
                "profile": {"kind": "concurrent", "streams": streams},
                "data": [{"kind": "in_memory_item_list", "data": [str(receipt.settings.workload)]}],
                "seed": {"kind": "static", "value": receipt.settings.seed},
            }
        },
        "benchmarks": [_benchmark(receipt, level, index) for index, level in enumerate(receipt.levels)],
        "conclusions": [],
    }


def _backend(receipt: BenchmarkReceipt) -> dict[str, str]:
    return {
        "kind": "openai_http",
        "target": receipt.target.url or "http://localhost",
        "model": receipt.target.model,
        "request_format": "/v1/chat/completions",
    }


def _benchmark(receipt: BenchmarkReceipt, level: BenchmarkLevel, index: int) -> dict[str, Any]:
    samples = [sample for sample in receipt.samples if sample.concurrency == level.concurrency]
    counts = {
        "successful": level.requests,
        "incomplete": 0,
        "errored": level.failures,
        "total": level.requests + level.failures,
    }
    end = receipt.at
    start = end - level.measured_s
    return {
        "type_": "generative_benchmark",
        "config": {
            "id_": f"{receipt.id}-{level.concurrency}",
            "run_id": receipt.id,
            "run_index": index,
            "strategy": {"type_": "concurrent", "streams": level.concurrency, "max_concurrency": level.concurrency},
            "constraints": {},
            "profile": {"kind": "concurrent"},
            "requests": {"workload": str(receipt.settings.workload), "prompts_sha256": receipt.prompts_sha256},
            "backend": _backend(receipt),
            "environment": {"roundhouse": receipt.roundhouse, "machine": receipt.machine.summary},
        },
        "scheduler_state": {},
        "scheduler_metrics": {
            "start_time": start,
            "request_start_time": start,
            "measure_start_time": start,
            "measure_end_time": end,
            "request_end_time": end,
            "end_time": end,
            "requests_made": counts,
            **dict.fromkeys(_SCHEDULER_TIMES, _UNKNOWN_S),
            "request_time_avg": level.e2e_s.mean,
            "strategy_type": "concurrent",
        },
        "metrics": {"request_totals": counts, **_metrics(samples, level.measured_s)},
        "requests": {"successful": [], "incomplete": [], "errored": [], "total": None},
        "start_time": start,
        "end_time": end,
        "duration": level.measured_s,
    }


def _metrics(samples: Sequence[BenchmarkSample], duration_s: float) -> dict[str, Any]:
    read = [float(sample.prompt_tokens) for sample in samples]
    written_tokens = [float(sample.answer_tokens) for sample in samples]
    both = [float(sample.prompt_tokens + sample.answer_tokens) for sample in samples]
    several = [sample for sample in samples if sample.answer_tokens > 1]
    first = _successful([sample.ttft_s * _MS for sample in samples])
    read_rate, write_rate, all_tokens = (_successful([sum(part) / duration_s]) for part in (read, written_tokens, both))
    tokens = {
        **dict.fromkeys(_SUMMARY),
        "input": _successful(read),
        "input_per_second": read_rate,
        "output": _successful(written_tokens),
        "output_per_second": write_rate,
        "total": _successful(both),
        "total_per_second": all_tokens,
    }
    return {
        "requests_per_second": _successful([len(samples) / duration_s]),
        "request_concurrency": _successful([sum(sample.e2e_s for sample in samples) / duration_s]),
        "request_latency": _successful([sample.e2e_s for sample in samples]),
        "request_streaming_iterations_count": _successful([]),
        "prompt_token_count": _successful(read),
        "output_token_count": _successful(written_tokens),
        "total_token_count": _successful(both),
        "time_to_first_token_ms": first,
        "time_to_first_output_token_ms": first,
        "time_per_output_token_ms": _successful(
            [sample.e2e_s / sample.answer_tokens * _MS for sample in samples],
            [sample.answer_tokens for sample in samples],
        ),
        "inter_token_latency_ms": _successful(
            [sample.tpot_s * _MS for sample in several], [sample.answer_tokens - 1 for sample in several]
        ),
        "time_to_last_round_trip_ms": _successful([]),
        "avg_round_trip_time_ms": _successful([]),
        "prompt_tokens_per_second": read_rate,
        "output_tokens_per_second": write_rate,
        "tokens_per_second": all_tokens,
        "output_tokens_per_iteration": _successful([]),
        "iter_tokens_per_iteration": _successful([]),
        "text": {"tokens": tokens, "words": None, "characters": None},
        **{kind: dict.fromkeys(names) for kind, names in _OTHER_KINDS.items()},
    }


def _successful(values: Sequence[float], weights: Sequence[int] | None = None) -> dict[str, Any]:
    """Return how values of answered requests spread, by status as GuideLLM does; each counts `weights` times."""
    request_counts = (
        [value for value, weight in zip(values, weights, strict=True) for _ in range(weight)] if weights else values
    )
    distribution, none = _distribution(request_counts), _distribution([])
    return {"successful": distribution, "incomplete": none, "errored": none, "total": distribution}


def _distribution(values: Sequence[float]) -> dict[str, Any]:
    """Return the summary; all zero for no values."""
    nonempty_values = values or [0.0]
    sorted_values = sorted(nonempty_values)
    variance = pvariance(sorted_values)
    return {
        "mean": fmean(sorted_values),
        "median": percentile(sorted_values, 0.5),
        "mode": Counter(sorted_values).most_common(1)[0][0],
        "variance": variance,
        "std_dev": variance**0.5,
        "min": sorted_values[0],
        "max": sorted_values[-1],
        "count": len(values),
        "total_sum": sum(values),
        "percentiles": {name: percentile(sorted_values, share) for name, share in _SHARES.items()},
    }
