"""Engines that bring their own server: their command lines against golden ones, their lines, and what they refuse.

Most of them cannot run here. `golden/` holds what `plan` gives for one rich and one plain set of options; a line that
changes there is a change of what users' engines are started with.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.api import (
    BufferAllocated,
    ContextSet,
    Draft,
    EngineAdapter,
    EngineInstallation,
    EngineLocation,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LoadProgress,
    ModelSource,
    NodePlace,
    Suspicion,
)
from engines.dynamo.launch import ADAPTER as DYNAMO
from engines.flags import WORDS
from engines.lmdeploy.launch import ADAPTER as LMDEPLOY
from engines.mlc_llm.launch import ADAPTER as MLC_LLM
from engines.mlx_vlm.launch import ADAPTER as MLX_VLM
from engines.server_adapter import ServerAdapter
from engines.sglang.launch import ADAPTER as SGLANG
from engines.tensorrt_llm.launch import ADAPTER as TENSORRT_LLM
from engines.vllm.launch import ADAPTER as VLLM

GOLDEN = Path(__file__).parent / "golden"
ON_CPU = Path(__file__).parent / "recorded" / "vllm_on_cpu.txt"
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
ALL = {adapter.descriptor.id: adapter for adapter in (VLLM, SGLANG, LMDEPLOY, TENSORRT_LLM, MLC_LLM, MLX_VLM)}
EACH = pytest.mark.parametrize("adapter", ALL.values(), ids=list(ALL))
KV = {"vllm": "fp8", "sglang": "fp8", "lmdeploy": "q8_0", "tensorrt-llm": "fp8", "mlx-vlm": "q4_0"}
DRAFT = Draft(path=Path("/models/draft"), kind="eagle3", tokens=5)
SINGLE = {
    "context": 8192,
    "slots": 4,
    "device_ids": ("0", "1"),
    "tensor_parallel": 2,
    "pipeline_parallel": 2,
    "gpu_memory_fraction": 0.8,
    "draft": DRAFT,
    "lora": (Path("/models/tone"),),
    "chat_template": "{{ messages }}",
    "tool_parser": "hermes",
    "reasoning_parser": "qwen3",
    "max_batch_tokens": 2048,
    "prefix_cache": False,
    "trust_remote_code": True,
}


def make_installation(adapter: ServerAdapter, flags: frozenset[str] = frozenset()) -> EngineInstallation:
    return EngineInstallation(
        engine=adapter.descriptor.id, version="99.0", backend="cuda", python=Path("/e/bin/python"), flags=flags
    )


def plan(adapter: ServerAdapter, installation: EngineInstallation | None = None, **options: Any) -> LaunchPlan:  # noqa: ANN401 -- any field
    kind = max(adapter.descriptor.formats)
    model = ModelSource(name="served", path=Path("/models/m"), format=kind)
    return adapter.plan(model, LaunchOptions(**options), NET, installation or make_installation(adapter))


def known_options(adapter: ServerAdapter) -> dict[str, Any]:
    rows = {flag.option for flag in adapter.flag_table.flags}
    kv = {"kv_type": KV[adapter.descriptor.id]} if "kv_type" in rows else {}
    return {name: value for name, value in SINGLE.items() if name in rows} | kv


def render_plan(launch_plan: LaunchPlan) -> str:
    (server,) = launch_plan.processes
    env = sorted(f"{name}={value}" for name, value in server.env.items() if name != "PYTHONPATH")
    files = [f"--- {file.name}\n{file.content.decode()}" for file in launch_plan.files]
    return "\n".join([*server.argv, *env, *files]) + "\n"


@EACH
@pytest.mark.parametrize("kind", ["plain", "rich"])
def test_the_command_line_is_as_it_was_reviewed(adapter: ServerAdapter, kind: str) -> None:
    launch_plan = plan(adapter, **(known_options(adapter) if kind == "rich" else {}))
    assert render_plan(launch_plan) == (GOLDEN / f"{adapter.descriptor.id}-{kind}.txt").read_text(encoding="utf-8")


@EACH
def test_every_option_is_either_in_the_table_or_refused_with_a_sentence(adapter: ServerAdapter) -> None:
    rows = {flag.option for flag in adapter.flag_table.flags}
    others: dict[str, Any] = {"gpu_layers": 3, "cpu_moe_layers": 2, "flash_attention": True, "split_ratio": (1.0, 2.0)}
    others |= {"device_bytes": (1 << 30, 1 << 30), "rpc_servers": ("127.0.0.1:6001",)}
    others["node"] = NodePlace(rank=1, addresses=("10.96.0.1", "10.96.0.2"), layers=(1, 2), descriptor=9)
    others["traces_url"] = "http://127.0.0.1:4318/v1/traces"
    for option in WORDS.keys() - rows:
        value = {**SINGLE, **others, "projector": Path("/p"), "task": "embed", "threads": 3, "kv_type": "q8_0"}[option]
        with pytest.raises(ValueError, match=r"has no setting for .*\.$"):
            plan(adapter, **{option: value})


@EACH
def test_reserved_arguments_are_refused_in_every_spelling(adapter: ServerAdapter) -> None:
    for flag in adapter.flag_table.reserved | {name for row in adapter.flag_table.flags for name in row.names}:
        spellings = {flag, f"{flag}=1"}
        if flag.startswith("--"):
            spellings |= {f"--{flag[2:].replace('-', '_')}", flag[:-1] if len(flag) > 5 else flag}
        for variant_spelling in spellings:
            with pytest.raises(ValueError, match="Roundhouse's to set"):
                plan(adapter, extra_args=(variant_spelling, "x"))


@EACH
def test_other_arguments_are_passed_on_but_not_what_the_version_lacks(adapter: ServerAdapter) -> None:
    assert plan(adapter, extra_args=("--seed", "7")).processes[0].argv[-2:] == ("--seed", "7")
    with pytest.raises(ValueError, match="has no argument --seed"):
        plan(adapter, make_installation(adapter, frozenset({"--other"})), extra_args=("--seed", "7"))
    with pytest.raises(ValueError, match="begin with a dash"):
        plan(adapter, extra_args=("--seed", "7", "/another/model"))


@EACH
def test_what_it_can_do_without_is_left_out_with_a_word_and_the_rest_is_refused(adapter: ServerAdapter) -> None:
    argv = set(plan(adapter, context=512).processes[0].argv)
    flags = frozenset(name for row in adapter.flag_table.flags if not row.can_do_without for name in row.names) | argv
    launch_plan = plan(adapter, make_installation(adapter, flags), context=512, max_batch_tokens=64)
    if adapter is not MLC_LLM:  # its sizes share one flag
        assert [each.option for each in launch_plan.left_out] == ["max_batch_tokens"]
        with pytest.raises(ValueError, match=r"99\.0 has no --\S+, so the length of the context cannot be set\.$"):
            plan(adapter, make_installation(adapter, frozenset({"--x"})), context=512)
    assert launch_plan.left_out or adapter is MLC_LLM


@EACH
def test_the_environment_keeps_it_off_the_net_and_may_not_be_changed(adapter: ServerAdapter) -> None:
    assert plan(adapter).processes[0].env["HF_HUB_OFFLINE"] == "1"
    with pytest.raises(ValueError, match="Roundhouse's to set"):
        plan(adapter, extra_env={"ROUNDHOUSE_WORKER_KEY": "x"})


def test_devices_are_chosen_by_what_every_version_understands() -> None:
    assert plan(VLLM, device_ids=("2", "3")).processes[0].env["CUDA_VISIBLE_DEVICES"] == "2,3"


@EACH
def test_an_environment_is_asked_once_for_its_flags(adapter: ServerAdapter, tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("the stand-in is a shell script")
    calls_file = tmp_path / "asked"
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho x >> {calls_file}\necho '  --max-model-len N   the context'\n", encoding="utf-8"
    )
    python.chmod(0o755)
    place = EngineLocation(folder=tmp_path, version="1.2", backend="cuda", python=python)
    installations = [adapter.probe(place) for _ in range(2)]
    assert all(isinstance(each, EngineInstallation) and each.flags == {"--max-model-len"} for each in installations)
    assert calls_file.read_text(encoding="utf-8") == "x\n"
    assert json.loads((tmp_path / "flags.json").read_text(encoding="utf-8"))["flags"] == ["--max-model-len"]


LINES = [
    (
        VLLM,
        "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01]",
        LoadProgress(stage="Reading weights", fraction=0.5),
    ),
    (
        VLLM,
        "INFO 11-21 [gpu_model_runner.py:3338] Model loading took 7.6 GiB memory and 3.2 seconds",
        BufferAllocated(device="GPU", purpose="model", size_bytes=round(7.6 * 2**30)),
    ),
    (
        VLLM,
        "INFO 11-21 [gpu_worker.py:298] Available KV cache memory: 12.5 GiB",
        BufferAllocated(device="GPU", purpose="kv", size_bytes=round(12.5 * 2**30)),
    ),
    (VLLM, "INFO 11-21 [model.py:1745] Using max model len 40960", ContextSet(tokens=40960)),
    (
        VLLM,
        "Loading safetensors checkpoint shards (eager):  25% Completed | 1/4 [00:01<00:03]",
        LoadProgress(stage="Reading weights", fraction=0.25),
    ),
    (
        VLLM,
        "Multi-thread loading shards:  75% Completed | 3/4 [00:01<00:01]",
        LoadProgress(stage="Reading weights", fraction=0.75),
    ),
    (VLLM, "INFO 11-21 [monitor.py:40] Starting torch.compile", LoadProgress(stage="Compiling")),
    (VLLM, "INFO 11-21 [monitor.py:54] torch.compile took 12.31 s in total", LoadProgress(stage="Compiling")),
    (VLLM, "INFO 11-21 [entry.py:140] Starting vLLM server on http://127.0.0.1:50001", LoadProgress(stage="Ready")),
    (
        SGLANG,
        "Multi-thread loading shards:  50% Completed | 1/2 [00:01<00:01]",
        LoadProgress(stage="Reading weights", fraction=0.5),
    ),
    (
        SGLANG,
        "[2026-11-21 10:00:00 TP0] Capture target prefill CUDA graph begin. backend=full, num_tokens=[1]",
        LoadProgress(stage="Capturing graphs"),
    ),
    (
        SGLANG,
        "[2026-11-21 10:00:00 TP0] Capture Frozen-KV MTP draft cuda graph begin.",
        LoadProgress(stage="Capturing graphs"),
    ),
    (
        SGLANG,
        "[2026-11-21 10:00:00] Post-capture KV sizing: KV cache allocated. dtype: x, #tokens: 9, KV size: 1.50 GB",
        BufferAllocated(device="GPU", purpose="kv", size_bytes=round(1.5 * 2**30)),
    ),
    (SGLANG, "[2026-11-21 10:00:00] The server is fired up and ready to roll!", LoadProgress(stage="Ready")),
    (SGLANG, "[2026-11-21 10:00:00] max_total_num_tokens=1, context_len=40960", ContextSet(tokens=40960)),
    (
        LMDEPLOY,
        "Loading weights from safetensors:  25%|##5       | 1/4",
        LoadProgress(stage="Reading weights", fraction=0.25),
    ),
    (
        TENSORRT_LLM,
        "[TRT-LLM] [I] Allocated 10.50 GiB for max tokens in paged KV cache (1).",
        BufferAllocated(device="GPU", purpose="kv", size_bytes=round(10.5 * 2**30)),
    ),
    (
        MLC_LLM,
        "[2026-11-21 10:00:00] INFO jit.py:118: Compiling using commands below:",
        LoadProgress(stage="Compiling"),
    ),
]


@pytest.mark.parametrize(("adapter", "line", "event"), LINES, ids=[line[:40] for _, line, _ in LINES])
def test_its_lines_are_understood(adapter: ServerAdapter, line: str, event: object) -> None:
    assert event in adapter.read_log(line)


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("KV Cache is allocated. dtype: x, #tokens: 9, K size: 2.00 GB, V size: 1.00 GB", [2 << 30, 1 << 30]),
        ("KV Cache is allocated. dtype: x, #tokens: 9, KV size: 3.00 GB", [3 << 30]),
        ("KV Cache VA upper bound. dtype: x, #tokens: 9, K size: 2.00 GB, V size: 2.00 GB", []),
    ],
)
def test_a_cache_of_sglang_is_counted_once_and_not_while_only_addresses_are_taken(line: str, sizes: list[int]) -> None:
    read = SGLANG.read_log(f"[2026-11-21 10:00:00 TP0] {line}")
    assert [event.size_bytes for event in read if isinstance(event, BufferAllocated)] == sizes


@pytest.mark.parametrize(
    ("kind", "expected_argv"),
    [
        ("model", ("STANDALONE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1")),
        ("mtp", ("NEXTN", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1")),
        ("ngram", ("NGRAM", "--speculative-num-draft-tokens", "3")),
    ],
)
def test_sglang_is_told_steps_width_and_count_of_a_draft_together(kind: str, expected_argv: tuple[str, ...]) -> None:
    argv = plan(SGLANG, draft=Draft(kind=kind, tokens=3)).processes[0].argv
    begins = argv.index("--speculative-algorithm") + 1
    assert argv[begins : begins + len(expected_argv)] == expected_argv


@pytest.mark.parametrize(
    ("adapter", "name"),
    [(VLLM, "VLLM_USE_RUST_FRONTEND"), (SGLANG, "SGLANG_RUST_SERVER"), (SGLANG, "SGLANG_GRPC_PORT")],
)
def test_no_server_but_the_one_that_asks_for_the_key_can_be_chosen(adapter: ServerAdapter, name: str) -> None:
    with pytest.raises(ValueError, match="Roundhouse's to set"):
        plan(adapter, extra_env={name: "1"})


def planned_on_a_processor(
    adapter: EngineAdapter = VLLM,
    **options: Any,  # noqa: ANN401 -- options of every type
) -> tuple[tuple[str, ...], dict[str, str]]:
    about = adapter.descriptor
    installation = EngineInstallation(engine=about.id, version="1", backend="cpu", python=Path("/venv/bin/python"))
    source = ModelSource(name="m", path=Path("/models/m"), format=about.formats[-1])
    process = adapter.plan(source, LaunchOptions(**options), NET, installation).processes[-1]
    return process.argv, dict(process.env)


def test_vllm_on_a_processor_takes_a_share_that_is_there_and_compiles_nothing() -> None:
    argv, env = planned_on_a_processor(threads=6)
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.4"
    assert "--enforce-eager" in argv
    assert (env["TORCHDYNAMO_DISABLE"], env["VLLM_CPU_OMP_THREADS_BIND"], env["OMP_NUM_THREADS"]) == (
        "1",
        "nobind",
        "6",
    )


def test_what_a_person_says_counts_before_what_suits_a_processor() -> None:
    argv, env = planned_on_a_processor(
        gpu_memory_fraction=0.2, extra_env={"OMP_NUM_THREADS": "3"}, pipeline_parallel=2, threads=6
    )
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.2"
    assert "--enforce-eager" not in argv, "it fails on the first request where a model is cut"
    assert env["OMP_NUM_THREADS"] == "3"


def test_dynamo_s_worker_on_a_processor_is_told_what_vllm_is() -> None:
    argv, env = planned_on_a_processor(DYNAMO, threads=6)
    assert argv[argv.index("--gpu-memory-utilization") + 1] == "0.4"
    assert "--enforce-eager" in argv
    assert (env["TORCHDYNAMO_DISABLE"], env["OMP_NUM_THREADS"]) == ("1", "6")


def test_sglang_on_a_processor_holds_as_many_tokens_as_were_planned() -> None:
    argv, env = planned_on_a_processor(SGLANG, context=8192, slots=4)
    assert argv[argv.index("--device") + 1] == "cpu"
    assert argv[argv.index("--max-total-tokens") + 1] == "32768"
    assert env["SGLANG_USE_CPU_ENGINE"] == "1"
    assert "--max-total-tokens" not in plan(SGLANG, context=8192).processes[0].argv, "on a card it has a share"


def test_vllm_s_lines_on_a_processor_are_understood() -> None:
    events = [event for line in ON_CPU.read_text(encoding="utf-8").splitlines() for event in VLLM.read_log(line)]
    stages = list(dict.fromkeys(event.stage for event in events if isinstance(event, LoadProgress)))
    assert stages == ["Reading weights", "Preparing", "Warming up", "Ready"]
    (cache,) = (event for event in events if isinstance(event, BufferAllocated))
    assert (cache.device, cache.purpose, cache.size_bytes) == ("CPU", "kv", round(1.43 * 1024**3))
    assert ContextSet(tokens=2048) in events
    assert not [event for event in events if isinstance(event, Suspicion)]


@pytest.mark.parametrize(
    ("versions", "backend"),
    [
        (("0.32.0+cpu", "2.13.0"), "cpu"),
        (("0.32.0", "2.13.0+cpu"), "cpu"),
        (("0.32.0", "2.13.0+cu130"), "cuda"),
        (("0.32.0+rocm7", ""), "rocm"),
        (("0.32.0", "2.13.0"), "cuda"),
        (("", ""), "cuda"),
    ],
)
def test_a_build_on_path_says_what_it_computes_with(versions: tuple[str, str], backend: str) -> None:
    assert VLLM._backend_of(*versions) == backend


def test_what_sglang_asks_itself_without_our_key_is_no_cause() -> None:
    line = "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: http://127.0.0.1:50001/freeze_gc"
    assert not SGLANG.read_log(line)
    assert SGLANG.read_log(line.replace("127.0.0.1:50001/freeze_gc", "huggingface.co/api/models"))
