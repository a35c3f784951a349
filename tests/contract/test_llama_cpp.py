"""llama.cpp's adapter, against output recorded from the pinned build (`recorded/`, folder names replaced)."""

import importlib.metadata
import json
import platform
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from engines import worker_base
from engines.api import (
    BufferAllocated,
    ContextSet,
    Draft,
    EngineInstallation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LoadProgress,
    LogEvent,
    ModelFormat,
    ModelSource,
    PortOpened,
    SoftStop,
    Suspicion,
)
from engines.llama_cpp import launch, worker
from engines.llama_cpp.launch import ADAPTER
from tests import oracle

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "recorded"
HERE = EngineInstallation(engine="llama.cpp", version="1", backend="cpu", python=Path("/opt/python"))
MODEL = ModelSource(name="tiny", path=Path("/models/tiny.gguf"), format=ModelFormat.GGUF)
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")


def read_recording(name: str) -> list[str]:
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def events(name: str) -> list[LogEvent]:
    return [event for line in read_recording(name) for event in ADAPTER.read_log(line)]


def cause(name: str, code: int) -> Failure:
    suspicions = [event for event in events(name) if isinstance(event, Suspicion)]
    return ADAPTER.classify_exit(
        Exit(code=code, suspicions=suspicions, tail=read_recording(name)[-10:], was_ready=False)
    )


def plan(options: Mapping[str, Any] = MappingProxyType({}), installation: EngineInstallation = HERE) -> LaunchPlan:
    return ADAPTER.plan(MODEL, LaunchOptions(**options), NET, installation)


def config(launch_plan: LaunchPlan) -> dict[str, object]:
    decoded_config: dict[str, object] = json.loads(launch_plan.processes[0].env[worker_base.CONFIG_VARIABLE])
    return decoded_config


@pytest.mark.parametrize(
    ("name", "code", "kind"),
    [
        ("truncated", 84, FailureKind.MODEL_CORRUPT),
        ("truncated_header", 84, FailureKind.MODEL_CORRUPT),
        ("wrong_magic", 84, FailureKind.MODEL_CORRUPT),
        ("empty", 84, FailureKind.MODEL_CORRUPT),
        ("text_file", 84, FailureKind.MODEL_CORRUPT),
        ("folder", 84, FailureKind.MODEL_CORRUPT),
        ("missing_tensor", 84, FailureKind.MODEL_CORRUPT),
        ("missing_key", 84, FailureKind.MODEL_CORRUPT),
        ("newer_format", 84, FailureKind.MODEL_UNSUPPORTED),
        ("unknown_architecture", 84, FailureKind.MODEL_UNSUPPORTED),
        ("unknown_tokenizer", 84, FailureKind.MODEL_UNSUPPORTED),
        ("missing_file", 84, FailureKind.MODEL_NOT_FOUND),
        ("bad_template", 84, FailureKind.BAD_TEMPLATE),
        ("context_too_large", 84, FailureKind.CONTEXT_TOO_LARGE),
        ("port_in_use", 84, FailureKind.PORT_IN_USE),
        ("killed", -9, FailureKind.KILLED),
        ("segfault", -11, FailureKind.CRASHED),
    ],
)
def test_a_recorded_end_has_its_cause(name: str, code: int, kind: FailureKind) -> None:
    assert cause(name, code).kind is kind


def test_a_good_load_raises_no_suspicion_and_reports_what_it_used() -> None:
    log_events = events("good")
    assert not [event for event in log_events if isinstance(event, Suspicion)]
    assert [event for event in log_events if isinstance(event, ContextSet)] == [ContextSet(tokens=512, slots=2)]
    assert [event.purpose for event in log_events if isinstance(event, BufferAllocated)] == [
        "model",
        "output",
        "kv",
        "compute",
    ]
    assert BufferAllocated(device="CPU", purpose="kv", size_bytes=512 * 1024) in log_events
    assert len([event for event in log_events if isinstance(event, PortOpened)]) == 1


def test_a_good_load_tells_its_stages_and_its_fraction() -> None:
    progress = [event for event in events("good") if isinstance(event, LoadProgress)]
    assert progress[0].stage == "Starting llama.cpp"
    assert {event.stage for event in progress} >= {"Reading weights", "Preparing the context", "Warming up", "Ready"}
    assert {event.fraction for event in progress} >= {0.0, 1.0}


def test_a_projector_shares_the_progress_with_the_weights() -> None:
    line = (
        'cmd_child_to_router:state:{"state":"loading","payload":'
        '{"stages":["text_model","mmproj_model"],"current":"mmproj_model","value":0.5}}'
    )
    assert list(ADAPTER.read_log(line)) == [LoadProgress(stage="Reading the projector", fraction=0.75)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory", FailureKind.OUT_OF_GPU_MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'", FailureKind.OUT_OF_MEMORY),
        ("/src/ggml-cpu/ops.cpp:1234: GGML_ASSERT(params->wdata != nullptr) failed", FailureKind.BACKEND_CRASH),
    ],
)
def test_causes_that_need_other_hardware_are_known_from_their_lines(line: str, kind: FailureKind) -> None:
    assert [event.kind for event in ADAPTER.read_log(line) if isinstance(event, Suspicion)] == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "failed to allocate compute buffers, retrying without pipeline parallelism",
        "0.00.025.322 E spec common_specu: the target and draft vocabs are not compatible",
        "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
    ],
)
def test_what_llama_cpp_does_without_ends_nothing(line: str) -> None:
    (suspicion,) = ADAPTER.read_log(line)
    assert isinstance(suspicion, Suspicion)
    assert suspicion.survived.endswith("."), "how it goes on is told"
    plain = Suspicion(kind=FailureKind.MODEL_CORRUPT, line="magic")
    ends = [Exit(code=84, suspicions=each, tail=[], was_ready=False) for each in ([suspicion, plain], [suspicion])]
    assert [ADAPTER.classify_exit(end).kind for end in ends] == [FailureKind.MODEL_CORRUPT, suspicion.kind]
    kill = Exit(code=-9, suspicions=[suspicion], tail=[], was_ready=True)
    assert ADAPTER.classify_exit(kill).kind is FailureKind.KILLED


@pytest.mark.parametrize("level", ["0.00.014.792 W ", "0.00.014.792 I ", "0.00.014.792 D ", "W "])
def test_lines_of_a_level_that_ends_nothing_name_no_cause(level: str) -> None:
    assert not ADAPTER.read_log(f"{level}slot launch_slot_: processing task: what is a CUDA error: out of memory?")


def test_sources_a_debugger_does_not_find_are_no_model_that_is_gone() -> None:
    lines = [
        "58\t../sysdeps/nptl/libc_start_call_main.h: No such file or directory.",
        "5\t./a.cpp: No such file or directory.",
    ]
    assert not [event for line in lines for event in ADAPTER.read_log(line) if isinstance(event, Suspicion)]
    text_line = "gguf: failed to open model.gguf: No such file or directory"
    assert [event.kind for event in ADAPTER.read_log(text_line) if isinstance(event, Suspicion)] == [
        FailureKind.MODEL_NOT_FOUND
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (81, FailureKind.LOST_PARENT),
        (82, FailureKind.BAD_FLAG),
        (83, FailureKind.MISSING_LIBRARY),
        (84, FailureKind.UNKNOWN),
        (-4, FailureKind.ILLEGAL_INSTRUCTION),
        (-6, FailureKind.CRASHED),
        (-15, FailureKind.KILLED),
        (0xC000001D, FailureKind.ILLEGAL_INSTRUCTION),
        (0xC000001D - 2**32, FailureKind.ILLEGAL_INSTRUCTION),
        (0xC0000135, FailureKind.MISSING_LIBRARY),
        (0xC0000005, FailureKind.CRASHED),
        (0, FailureKind.UNKNOWN),
    ],
)
def test_a_silent_end_is_named_by_its_code(code: int, kind: FailureKind) -> None:
    assert ADAPTER.classify_exit(Exit(code=code, suspicions=[], tail=[], was_ready=True)).kind is kind


def test_the_command_runs_the_worker_with_the_installation_s_python() -> None:
    (worker,) = plan().processes
    assert worker.argv == (str(HERE.python), "-P", "-m", "engines.llama_cpp.worker")
    assert worker.secrets == {worker_base.KEY_VARIABLE: "secret"}


def test_options_reach_the_worker() -> None:
    options = {"context": 4096, "slots": 3, "threads": 7, "gpu_layers": 12, "kv_type": "q8_0", "task": "embed"}
    worker_config = config(plan({**options, "prefix_cache": False}))
    assert (worker_config["model"], worker_config["alias"], worker_config["port"]) == (str(MODEL.path), "tiny", 50_001)
    assert (
        worker_config["context"],
        worker_config["slots"],
        worker_config["threads"],
        worker_config["gpu_layers"],
    ) == (4096, 3, 7, 12)
    assert (worker_config["kv_type"], worker_config["task"], worker_config["prefix_cache"]) == ("q8_0", "embed", False)


def test_layers_are_fitted_to_memory_only_where_there_is_a_gpu() -> None:
    metal = EngineInstallation(engine="llama.cpp", version="1", backend="metal", python=Path("/opt/python"))
    fits = [config(plan(installation=installation))["fit"] for installation in (HERE, metal)]
    assert fits == [False, True]


def test_extra_environment_wins() -> None:
    assert plan({"extra_env": {"OMP_WAIT_POLICY": "active"}}).processes[0].env["OMP_WAIT_POLICY"] == "active"


@pytest.mark.parametrize(
    "options",
    [
        {"task": "dance"},
        {"kv_type": "q3_k"},
        {"kv_type": "q8_0", "flash_attention": False},
        {"slots": 0},
        {"context": 0},
        {"tensor_parallel": 2},
        {"pipeline_parallel": 2},
        {"device_ids": ("0",)},
        {"split_ratio": (1.0, 2.0)},
        {"gpu_memory_fraction": 0.5},
        {"cpu_moe_layers": 3},
        {"draft": Draft()},
        {"draft": Draft(kind="prophecy")},
        {"extra_args": ("--tools", "all")},
        {"trust_remote_code": True},
        {"tool_parser": "hermes"},
        {"reasoning_parser": "qwen3"},
    ],
    ids=" ".join,
)
def test_what_it_cannot_honour_is_refused_with_a_sentence(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        plan(options)


def test_an_address_of_the_new_kind_is_bracketed() -> None:
    net = ListenOptions(host="::1", port=1, key="k")
    assert ADAPTER.plan(MODEL, LaunchOptions(), net, HERE).base_url == "http://[::1]:1"


def test_a_missing_installation_is_a_failure_with_a_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "PACKAGE", "no-such-package-anywhere")
    failure = ADAPTER.probe()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_INSTALLED
    assert failure.hint


@pytest.mark.parametrize(("system", "machine", "backend"), [("darwin", "arm64", "metal"), ("linux", "x86_64", "cpu")])
def test_the_backend_is_what_the_wheel_was_built_for(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, backend: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    installation = ADAPTER.probe()
    assert isinstance(installation, EngineInstallation)
    assert installation.backend == backend
    assert installation.version == importlib.metadata.version("xllamacpp")


@pytest.mark.skipif(sys.platform == "win32", reason="a script plays Python")
def test_the_devices_are_listed_by_our_worker_whatever_else_is_called_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh\necho '{"event": "devices", "names": ["'"$PYTHONPATH"'", "'"$HF_TOKEN"'"]}'\n""")
    python.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    installation = EngineInstallation(engine="llama.cpp", version="1", backend="cpu", python=python)
    assert launch.ask_devices(installation) == (str(ROOT), "")


@pytest.mark.parametrize(("system", "how"), [("linux", SoftStop.SIGTERM), ("win32", SoftStop.STDIN_EOF)])
def test_it_is_stopped_in_a_way_the_system_has(monkeypatch: pytest.MonkeyPatch, system: str, how: SoftStop) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert plan().stop.how is how


def test_the_recipe_is_what_the_lock_installs() -> None:
    recipe = tomllib.loads((ROOT / "engines/llama_cpp/install.toml").read_text(encoding="utf-8"))
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    (locked_package,) = [package for package in lock["package"] if package["name"] == recipe["bundled"]["package"]]
    assert locked_package["version"] == recipe["bundled"]["version"]
    hashes = {wheel["hash"].removeprefix("sha256:") for wheel in locked_package["wheels"] if "-abi3-" in wheel["url"]}
    assert set(recipe["bundled"]["wheels"].values()) == hashes


def test_threads_of_tiny_models_sleep_and_those_of_others_spin_briefly(tmp_path: Path) -> None:
    tiny, large = tmp_path / "tiny.gguf", tmp_path / "large.gguf"
    tiny.write_bytes(b"GGUF")
    with large.open("wb") as file:
        file.truncate(worker.TINY_BYTES)
    assert worker.thread_wait_policy(tiny) == {"OMP_WAIT_POLICY": "passive"}
    assert worker.thread_wait_policy(large) == {"GOMP_SPINCOUNT": "1000"}
    assert worker.thread_wait_policy(tmp_path / "none.gguf") == {"GOMP_SPINCOUNT": "1000"}


def test_tiny_models_write_with_one_thread_and_read_with_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    tiny = tmp_path / "tiny.gguf"
    tiny.write_bytes(b"GGUF")
    assert worker.decode_threads(tiny, 8) == 1
    large = tmp_path / "large.gguf"
    with large.open("wb") as file:
        file.truncate(worker.ONE_THREAD_BYTES)
    assert [worker.decode_threads(path, 8) for path in (large, tmp_path / "none.gguf")] == [8, 8]
    monkeypatch.setenv("GOMP_SPINCOUNT", "1000")
    assert worker.decode_threads(tiny, 8) == 8, "a calibration asks the Guide how long large models' threads wait"


def test_prompts_are_read_in_pieces_as_large_as_set() -> None:
    sizes = []
    for batch in (128, 2048):
        params = SimpleNamespace(n_batch=2048, n_ubatch=512)
        worker._tune(None, params, config(plan({"max_batch_tokens": batch})))
        sizes.append((params.n_batch, params.n_ubatch))
    assert sizes == [(128, 512), (2048, 2048)], "llama.cpp computes at most a batch at once"


def test_the_oracle_hands_the_worker_what_the_adapter_would() -> None:
    by_adapter = config(plan({"context": 512}))
    assert set(oracle.configuration("/m.gguf", oracle.Setting())) == set(by_adapter) - {"usual_sampling"}
