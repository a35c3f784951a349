"""Receipts as other programs write their results: what reads theirs reads ours.

vLLM's is the file of `vllm bench serve --save-result`, one object per level as `--append-result` adds them;
llama-bench's is what `llama-bench -o json` and `-o md` print. What a receipt does not know is left out where that is
allowed, and otherwise has the value that says nothing there: an empty text, or -1. GuideLLM's, much larger, is in
`guidellm_report`.
"""

import time
from collections.abc import Callable, Sequence
from statistics import fmean, median, pstdev, stdev
from typing import Any

import msgspec

from app.benchmark.guidellm_report import guidellm_report
from app.benchmark.markdown import markdown_table
from app.benchmark.results import LEAST_PREFILL_TOKENS
from app.benchmark.statistics import percentile
from app.core.benchmarks import BenchmarkLevel, BenchmarkReceipt, BenchmarkSample, FieldFormat
from app.core.errors import BadRequest
from app.core.trials import LEAST_GAP_S

_MS, _NS = 1e3, 1e9
_UNKNOWN = -1
_MIB, _GIB = 1 << 20, 1 << 30
_MILLION, _BILLION = 1e6, 1e9


def format_receipt(receipt: BenchmarkReceipt, kind: FieldFormat) -> str:
    """Return a receipt in one of the formats. Raises BadRequest where it has not what the format is made of."""
    if not receipt.samples:
        raise BadRequest("This result was kept without its single requests.", code="format_unusable")
    return _WRITERS[kind](receipt)


def _vllm_lines(receipt: BenchmarkReceipt) -> str:
    return "\n".join(_encode(_vllm_document(receipt, level)) for level in receipt.levels)


def _vllm_document(receipt: BenchmarkReceipt, level: BenchmarkLevel) -> dict[str, Any]:
    samples = [sample for sample in receipt.samples if sample.concurrency == level.concurrency]
    duration_s = level.measured_s
    read = sum(sample.prompt_tokens for sample in samples)
    written_tokens = sum(sample.answer_tokens for sample in samples)
    return {
        "date": time.strftime("%Y%m%d-%H%M%S", time.gmtime(receipt.at)),
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": receipt.target.engine or None,
        "model_id": receipt.target.model,
        "tokenizer_id": receipt.target.model,
        "num_prompts": level.requests + level.failures,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": level.concurrency,
        "duration": duration_s,
        "completed": level.requests,
        "failed": level.failures,
        "total_input_tokens": read,
        "total_output_tokens": written_tokens,
        "request_throughput": level.requests / duration_s,
        "request_goodput": None,
        "output_throughput": written_tokens / duration_s,
        "total_token_throughput": (read + written_tokens) / duration_s,
        "latencies": [sample.e2e_s for sample in samples],
        **_vllm_metric("ttft", [sample.ttft_s for sample in samples]),
        **_vllm_metric("tpot", [sample.tpot_s for sample in samples if sample.answer_tokens > 1]),
        **_vllm_gaps(level),
        **_vllm_metric("e2el", [sample.e2e_s for sample in samples]),
    }


def _vllm_metric(name: str, values: Sequence[float]) -> dict[str, float]:
    nonempty_values = values or [0.0]
    return {
        f"mean_{name}_ms": fmean(nonempty_values) * _MS,
        f"median_{name}_ms": median(nonempty_values) * _MS,
        f"std_{name}_ms": pstdev(nonempty_values) * _MS,
        f"p95_{name}_ms": percentile(nonempty_values, 0.95) * _MS,
        f"p99_{name}_ms": percentile(nonempty_values, 0.99) * _MS,
    }


def _vllm_gaps(level: BenchmarkLevel) -> dict[str, float]:
    """Return the gaps between pieces, of which a receipt keeps how they spread and not each."""
    gaps = level.itl_s
    deviation_field = {} if gaps.deviation is None else {"std_itl_ms": gaps.deviation * _MS}
    return {
        "mean_itl_ms": gaps.mean * _MS,
        "median_itl_ms": gaps.median.value * _MS,
        **deviation_field,
        "p95_itl_ms": gaps.p95 * _MS,
        "p99_itl_ms": gaps.p99 * _MS,
    }


class _LlamaTest(msgspec.Struct, frozen=True, kw_only=True):
    """One row: so many tokens read, or written, and the tokens per second of each request."""

    n_prompt: int = 0
    n_gen: int = 0
    rates: list[float]

    @property
    def name(self) -> str:
        return f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"

    @property
    def deviation(self) -> float:
        return stdev(self.rates) if len(self.rates) > 1 else 0.0

    @property
    def samples_ns(self) -> list[int]:
        return [round((self.n_prompt + self.n_gen) / rate * _NS) for rate in self.rates]


def _llama_tests(receipt: BenchmarkReceipt) -> list[_LlamaTest]:
    """Return reading and writing of one request at a time, which is all that llama-bench measures."""
    samples = [sample for sample in receipt.samples if sample.concurrency == 1]
    read = [sample for sample in samples if _unread_tokens(sample) >= LEAST_PREFILL_TOKENS and sample.prefill_s > 0]
    written_samples = [sample for sample in samples if sample.tpot_s > LEAST_GAP_S]  # others came at once
    tests = [
        _LlamaTest(
            n_prompt=round(median(map(_unread_tokens, read))),
            rates=[_unread_tokens(sample) / sample.prefill_s for sample in read],
        )
        if read
        else None,
        _LlamaTest(
            n_gen=round(median(sample.answer_tokens for sample in written_samples)),
            rates=[1 / sample.tpot_s for sample in written_samples],
        )
        if written_samples
        else None,
    ]
    if not any(tests):
        raise BadRequest(
            "llama-bench measures one request at a time, and this result has none of those.",
            hint="Measure with --concurrency 1, or several numbers with 1 among them.",
            code="format_unusable",
        )
    return [test for test in tests if test is not None]


def _unread_tokens(sample: BenchmarkSample) -> int:
    return sample.prompt_tokens - sample.cached_tokens


def _llama_json(receipt: BenchmarkReceipt) -> str:
    return _encode([_llama_document(receipt, test) for test in _llama_tests(receipt)])


def _llama_document(receipt: BenchmarkReceipt, test: _LlamaTest) -> dict[str, Any]:
    target, options = receipt.target, receipt.target.options
    times = test.samples_ns
    kv_type = str(options.get("kv_type") or "")
    flash = options.get("flash_attention")
    return {
        "build_commit": " ".join(filter(None, [target.engine, target.engine_version])),
        "build_number": _build_number(receipt),
        "cpu_info": receipt.machine.processor,
        "gpu_info": ", ".join(receipt.machine.gpus),
        "backends": target.backend.upper(),
        "model_filename": target.model,
        "model_type": _model_type(receipt),
        "model_size": target.size_bytes or 0,
        "model_n_params": target.parameters or 0,
        "n_batch": _UNKNOWN,
        "n_ubatch": _UNKNOWN,
        "n_threads": options.get("threads", _UNKNOWN),
        "cpu_mask": "",
        "cpu_strict": False,
        "poll": _UNKNOWN,
        "type_k": kv_type,
        "type_v": kv_type,
        "n_gpu_layers": options.get("gpu_layers", _UNKNOWN),
        "n_cpu_moe": options.get("cpu_moe_layers", 0),
        "split_mode": "",
        "main_gpu": 0,
        "no_kv_offload": False,
        "flash_attn": _UNKNOWN if flash is None else int(bool(flash)),
        "devices": "",
        "tensor_split": "",
        "tensor_buft_overrides": "",
        "load_mode": "",
        "embeddings": False,
        "no_op_offload": 0,
        "no_host": False,
        "fit_target": _UNKNOWN,
        "fit_min_ctx": _UNKNOWN,
        "n_prompt": test.n_prompt,
        "n_gen": test.n_gen,
        "n_depth": 0,
        "test_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(receipt.at)),
        "avg_ns": round(fmean(times)),
        "stddev_ns": round(stdev(times)) if len(times) > 1 else 0,
        "avg_ts": fmean(test.rates),
        "stddev_ts": test.deviation,
        "samples_ns": times,
        "samples_ts": test.rates,
    }


def _llama_markdown(receipt: BenchmarkReceipt) -> str:
    target = receipt.target
    threads = str(target.options.get("threads", ""))
    size = _in_units(target.size_bytes, (_GIB, "GiB"), (_MIB, "MiB"))
    count = _in_units(target.parameters, (_BILLION, "B"), (_MILLION, "M"))
    cells = [_model_type(receipt), size, count, target.backend.upper(), threads]
    rows = [[*cells, test.name, f"{fmean(test.rates):.2f} ± {test.deviation:.2f}"] for test in _llama_tests(receipt)]
    head = ("model", "size", "params", "backend", "threads", "test", "t/s")
    build = " ".join(filter(None, [target.engine, target.engine_version]))
    return "\n".join([*markdown_table(head, rows), "", f"build: {build} ({_build_number(receipt)})"])


def _in_units(value: int | None, large: tuple[float, str], small: tuple[float, str]) -> str:
    if value is None:
        return ""
    unit, name = large if value >= large[0] else small
    return f"{value / unit:.2f} {name}"


def _model_type(receipt: BenchmarkReceipt) -> str:
    target = receipt.target
    return " ".join(filter(None, [target.architecture or target.model, target.quantization]))


def _build_number(receipt: BenchmarkReceipt) -> int:
    """Return llama.cpp's own number, the end of its version here; 0 for other engines."""
    number = receipt.target.engine_version.rpartition(".")[2]
    return int(number) if receipt.target.engine == "llama.cpp" and number.isascii() and number.isdigit() else 0


def _guidellm_json(receipt: BenchmarkReceipt) -> str:
    return _encode(guidellm_report(receipt))


def _encode(document: object) -> str:
    return msgspec.json.encode(document).decode()


_WRITERS: dict[FieldFormat, Callable[[BenchmarkReceipt], str]] = {
    FieldFormat.VLLM: _vllm_lines,
    FieldFormat.GUIDELLM: _guidellm_json,
    FieldFormat.LLAMA_BENCH: _llama_json,
    FieldFormat.LLAMA_BENCH_MD: _llama_markdown,
}
