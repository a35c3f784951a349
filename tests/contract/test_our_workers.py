"""The adapters of our workers: options in, one worker's configuration out, and recorded ends."""

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from engines import worker_base
from engines.api import (
    ContextSet,
    Draft,
    EngineAdapter,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LoadProgress,
    ModelSource,
    PortOpened,
    SoftStop,
    Suspicion,
)
from engines.mistral_rs.launch import ADAPTER as MISTRAL_RS
from engines.onnx_genai.launch import ADAPTER as ONNX
from engines.openvino.launch import ADAPTER as OPENVINO

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "recorded" / "workers"
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")
FOLDERS = {"openvino": "openvino", "onnxruntime-genai": "onnx_genai", "mistral.rs": "mistral_rs"}
EACH = pytest.mark.parametrize("adapter", [OPENVINO, ONNX, MISTRAL_RS], ids=["openvino", "onnx", "mistral.rs"])


def plan(
    adapter: EngineAdapter,
    backend: str = "cpu",
    options: Mapping[str, Any] = MappingProxyType({}),
    net: ListenOptions = NET,
) -> LaunchPlan:
    installation = EngineInstallation(
        engine=adapter.descriptor.id, version="1", backend=backend, python=Path("/venv/bin/python")
    )
    kind = next(iter(adapter.descriptor.formats))
    return adapter.plan(
        ModelSource(name="tiny", path=Path("/models/tiny"), format=kind), LaunchOptions(**options), net, installation
    )


def config(
    adapter: EngineAdapter, backend: str = "cpu", options: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, object]:
    (process,) = plan(adapter, backend, options).processes
    decoded_config: dict[str, object] = json.loads(process.env[worker_base.CONFIG_VARIABLE])
    return decoded_config


@EACH
def test_options_reach_the_worker(adapter: EngineAdapter) -> None:
    worker_config = config(adapter, options={"context": 4096, "slots": 3, "threads": 7, "prefix_cache": False})
    assert (worker_config["model"], worker_config["alias"], worker_config["port"]) == (
        str(Path("/models/tiny")),
        "tiny",
        50_001,
    )
    assert (
        worker_config["context"],
        worker_config["slots"],
        worker_config["threads"],
        worker_config["prefix_cache"],
    ) == (4096, 3, 7, False)


@pytest.mark.parametrize(
    ("backend", "options", "device"),
    [
        ("cpu", {}, "CPU"),
        ("gpu", {}, "GPU"),
        ("gpu", {"device_ids": ("1",)}, "GPU.1"),
        ("gpu", {"device_ids": ("GPU.0",)}, "GPU.0"),
        ("gpu", {"device_ids": ("cpu",)}, "CPU"),
    ],
)
def test_openvino_is_told_its_device(backend: str, options: dict[str, Any], device: str) -> None:
    assert config(OPENVINO, backend, options)["device"] == device


@pytest.mark.parametrize(("ours", "theirs"), [(None, "f16"), ("f16", "f16"), ("q8_0", "u8")])
def test_openvino_keeps_its_cache_as_it_is_told(ours: str | None, theirs: str) -> None:
    assert config(OPENVINO, options={"kv_type": ours})["kv_precision"] == theirs


@pytest.mark.parametrize(
    ("backend", "options", "provider", "expected_options"),
    [
        ("cpu", {}, "", {}),
        ("cuda", {}, "cuda", {}),
        ("cuda", {"device_ids": ("1",)}, "cuda", {"device_id": "1"}),
        ("directml", {"device_ids": ("0",)}, "dml", {"device_id": "0"}),
        ("npu", {}, "qnn", {"backend_path": "QnnHtp.dll"}),
    ],
)
def test_onnx_runtime_is_told_its_provider(
    backend: str, options: dict[str, Any], provider: str, expected_options: dict[str, str]
) -> None:
    worker_config = config(ONNX, backend, options)
    assert (worker_config["provider"], worker_config["provider_options"]) == (provider, expected_options)


NOBODY = [
    {"task": "embed"},
    {"slots": 0},
    {"context": 0},
    {"threads": 0},
    {"gpu_layers": 3},
    {"device_ids": ("0", "1")},
    {"tensor_parallel": 2},
    {"pipeline_parallel": 2},
    {"split_ratio": (1.0, 2.0)},
    {"gpu_memory_fraction": 0.5},
    {"cpu_moe_layers": 3},
    {"flash_attention": True},
    {"draft": Draft()},
    {"lora": (Path("/models/lora"),)},
    {"projector": Path("/models/eyes")},
    {"extra_args": ("--port", "1")},
    {"trust_remote_code": True},
    {"tool_parser": "hermes"},
    {"reasoning_parser": "qwen3"},
]


@EACH
@pytest.mark.parametrize("options", NOBODY, ids=" ".join)
def test_what_no_library_has_is_refused_with_a_sentence(adapter: EngineAdapter, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        plan(adapter, options=options)


@pytest.mark.parametrize(
    ("adapter", "backend", "options"),
    [
        (OPENVINO, "cpu", {"kv_type": "q4_1"}),
        (OPENVINO, "npu", {}),
        (OPENVINO, "gpu", {"device_ids": ("AUTO",)}),
        (OPENVINO, "cuda", {}),
        (ONNX, "cpu", {"kv_type": "f16"}),
        (ONNX, "cpu", {"max_batch_tokens": 512}),
        (ONNX, "vulkan", {}),
        (ONNX, "cpu", {"device_ids": ("0",)}),
        (ONNX, "cuda", {"device_ids": ("first",)}),
        (MISTRAL_RS, "cuda", {}),
        (MISTRAL_RS, "cpu", {"device_ids": ("0",)}),
        (MISTRAL_RS, "cpu", {"kv_type": "q8_0"}),
        (MISTRAL_RS, "cpu", {"max_batch_tokens": 512}),
    ],
)
def test_what_one_of_them_lacks_is_refused_with_a_sentence(
    adapter: EngineAdapter, backend: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"[.;]"):
        plan(adapter, backend, options)


@EACH
def test_it_is_stopped_in_a_way_the_system_has(adapter: EngineAdapter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert plan(adapter).stop.how is SoftStop.SIGTERM
    monkeypatch.setattr(sys, "platform", "win32")
    assert (plan(adapter).stop.how, plan(adapter).stop.path) == (SoftStop.HTTP, "/shutdown")


@EACH
def test_an_address_of_the_new_kind_is_bracketed(adapter: EngineAdapter) -> None:
    assert plan(adapter, net=ListenOptions(host="::1", port=1, key="k")).base_url == "http://[::1]:1"


@EACH
def test_the_library_is_found_where_it_was_put_and_nowhere_else(adapter: EngineAdapter) -> None:
    place = EngineLocation(folder=Path("/x"), version="9", backend="gpu", python=Path("/x/python"))
    installation = adapter.probe(place)
    assert isinstance(installation, EngineInstallation)
    assert (installation.version, installation.backend, installation.python) == ("9", "gpu", Path("/x/python"))
    failure = adapter.probe()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_INSTALLED
    assert failure.hint


@EACH
def test_every_backend_of_the_recipe_can_be_planned_for(adapter: EngineAdapter) -> None:
    folder = FOLDERS[adapter.descriptor.id]
    recipe = tomllib.loads((ROOT / "engines" / folder / "install.toml").read_text(encoding="utf-8"))
    backends = {variant["backend"] for variant in recipe["variant"]}
    assert backends <= set(adapter.descriptor.accelerators)
    assert all(config(adapter, backend) for backend in backends)


def lines_of(name: str) -> list[str]:
    return (RECORDED / f"{name}.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openvino_trunc_bin", FailureKind.MODEL_CORRUPT),
        ("openvino_trunc_xml", FailureKind.MODEL_CORRUPT),
        ("openvino_badops", FailureKind.MODEL_UNSUPPORTED),
        ("openvino_no_tok", FailureKind.MODEL_NOT_FOUND),
        ("openvino_nowhere", FailureKind.MODEL_NOT_FOUND),
        ("openvino_bad_tmpl", FailureKind.BAD_TEMPLATE),
        ("openvino_no_gpu", FailureKind.DRIVER),
        ("onnx_trunc_data", FailureKind.MODEL_CORRUPT),
        ("onnx_trunc_onnx", FailureKind.MODEL_CORRUPT),
        ("onnx_bad_cfg", FailureKind.MODEL_CORRUPT),
        ("onnx_no_tok", FailureKind.MODEL_NOT_FOUND),
        ("onnx_nodata", FailureKind.MODEL_NOT_FOUND),
        ("onnx_nowhere", FailureKind.MODEL_NOT_FOUND),
        ("onnx_no_cuda", FailureKind.DRIVER),
        ("onnx_no_dml", FailureKind.DRIVER),
        ("onnx_no_qnn", FailureKind.DRIVER),
    ],
)
def test_a_recorded_end_has_its_cause(name: str, kind: FailureKind) -> None:
    adapter = OPENVINO if name.startswith("openvino") else ONNX
    lines = lines_of(name)
    events = [event for line in lines for event in adapter.read_log(line)]
    suspicions = [event for event in events if isinstance(event, Suspicion)]
    failure = adapter.classify_exit(Exit(code=84, suspicions=suspicions, tail=lines[-10:], was_ready=False))
    assert failure.kind is kind
    assert failure.evidence


@EACH
def test_a_good_start_is_understood(adapter: EngineAdapter) -> None:
    lines = [
        {"event": "listening", "port": 5},
        {"event": "progress", "stage": "Reading weights", "fraction": None},
        {"event": "device", "name": "CPU", "description": "a processor"},
        {"event": "context", "tokens": 1024, "slots": 4},
    ]
    events = [event for line in lines for event in adapter.read_log(json.dumps(line))]
    assert events == [PortOpened(port=5), LoadProgress(stage="Reading weights"), ContextSet(tokens=1024, slots=4)]
