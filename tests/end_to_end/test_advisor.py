"""Plans, estimates and a calibration from the command line, with the real engine: what it says is what comes true."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from app.client.http import GatewayClient
from app.core.advice import Advice, Calibration, Estimate, EstimateAccuracy
from app.core.engines import EngineStatus
from app.core.models import LoadModel, LoadOptions, ModelSettings, SetModel, UnloadModel
from tests.end_to_end.conftest import Roundhouse
from tests.patience import wait_until

pytestmark = pytest.mark.real_engine

WORKSTATION = {
    "os": "linux",
    "cpu": "AMD Ryzen 9 7950X",
    "ram_gb": 64,
    "gpus": [{"name": "NVIDIA GeForce RTX 4090", "vram_gb": 24}],
}


@pytest.fixture
def workstation(tmp_path: Path) -> str:
    file = tmp_path / "workstation.json"
    file.write_text(json.dumps(WORKSTATION))
    return str(file)


def run_json(roundhouse: Roundhouse, *arguments: str, within_s: float = 90) -> Any:  # noqa: ANN401 -- JSON
    result = roundhouse(*arguments, "--json", within_s=within_s)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_an_estimate_has_the_documented_names(roundhouse: Roundhouse) -> None:
    estimate = run_json(roundhouse, "estimate", "guide", "--context", "2048", "--kv", "q8_0", "--slots", "2")
    assert estimate["version"] == 1
    for name in ("weights", "kv", "state", "compute", "output", "runtime", "total"):
        assert {"bytes", "confidence"} <= set(estimate[name])
    assert {"name", "bytes", "free"} <= set(estimate["pools"][0])
    assert (estimate["fits"], estimate["context"], estimate["slots"], estimate["kv_type"]) == (True, 2048, 2, "q8_0")
    assert estimate["largest_context"] == 4096
    for rate in (estimate["decode"], estimate["prefill"]):
        assert rate["low"] < rate["tokens_per_second"] < rate["high"]
        assert rate["confidence"]
    parts = ("weights", "kv", "state", "compute", "output", "runtime")
    assert estimate["total"]["bytes"] == sum(estimate[part]["bytes"] for part in parts)


def list_loads(client: GatewayClient, since: float) -> list[EstimateAccuracy]:
    """Return what is known of the Guide's loads since then; other files' tests had others, of which word comes late."""
    loads = client.get("/loads", list[EstimateAccuracy])
    return [load for load in loads if load.model == "guide" and load.at > since]


@pytest.mark.slow
def test_what_was_estimated_is_what_the_engine_takes(client: GatewayClient) -> None:
    options = LoadOptions(context=1024, slots=2, kv_type="q8_0")
    started_at = time.time()
    client.post("/load", LoadModel(model="guide", options=options), EngineStatus, timeout_s=120)
    wait_until(lambda: list_loads(client, started_at))
    (truth,) = list_loads(client, started_at)
    for exact in ("weights", "kv"):
        assert abs(truth.predicted[exact] - truth.logged[exact]) <= 0.005 * 2**20, "it is logged in 0.01 MiB"
    assert truth.predicted["state"] == truth.logged.get("state", 0) == 0
    assert truth.resident is not None


def test_a_plan_for_this_machine_and_a_file(roundhouse: Roundhouse) -> None:
    recommendation = run_json(roundhouse, "plan", "guide")
    best = recommendation["plans"][0]
    assert (best["engine"], best["format"], best["backend"]) == ("llama.cpp", "gguf", "cpu")
    assert best["context"] <= 4096
    assert best["reasons"]
    assert all({"text", "value", "source"} >= set(reason) for reason in best["reasons"])
    assert "ollama" not in {plan["engine"] for plan in recommendation["plans"]}
    assert best["obtainable"] is True
    assert all(plan["missing"] for plan in recommendation["plans"] if not plan["obtainable"])


def test_a_plan_is_what_is_loaded_and_what_runs(roundhouse: Roundhouse, client: GatewayClient) -> None:
    settings = ModelSettings(context=1024, slots=3, kv_type="q8_0")
    client.post("/unload", UnloadModel(model="guide"), EngineStatus)
    client.post("/model-settings", SetModel(model="guide", settings=settings), ModelSettings)
    try:
        plan = run_json(roundhouse, "plan", "guide")["plans"][0]
        status = client.post("/load", LoadModel(model="guide"), EngineStatus, timeout_s=120)
        assert (plan["engine"], plan["backend"]) == (status.engine, status.backend)
        assert (plan["context"], plan["parallelism"]["slots"]) == (status.context, status.slots) == (1024, 3)
        assert plan["kv_type"] == status.kv_type == "q8_0"
        assert any(reason["source"] == "settings" for reason in plan["reasons"])
        (step,) = run_json(roundhouse, "engines", "plan", "guide", "--engine", "llama.cpp")["engine_plan"]["steps"]
        worker_config = json.loads(step["env"]["ROUNDHOUSE_WORKER_CONFIG"])
        assert (worker_config["context"], worker_config["slots"], worker_config["kv_type"]) == (1024, 3, "q8_0")
    finally:
        client.post("/model-settings", SetModel(model="guide"), ModelSettings)
        client.post("/unload", UnloadModel(model="guide"), EngineStatus)


@pytest.mark.slow
def test_a_plan_for_another_machine(roundhouse: Roundhouse, workstation: str) -> None:
    best = run_json(roundhouse, "plan", "Qwen3 14B", "--intent", "chat", "--machine", workstation)["plans"][0]
    assert (best["engine"], best["format"], best["backend"]) == ("exllamav3", "exl3", "cuda")
    team = run_json(roundhouse, "plan", "--intent", "team", "--users", "20", "--machine", workstation)["plans"][0]
    assert team["engine"] == "vllm"


@pytest.mark.slow
def test_a_saved_machine_can_be_planned_for(roundhouse: Roundhouse, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    file.write_text(roundhouse("machine", "--json").stdout)
    here, saved_plan = run_json(roundhouse, "plan"), run_json(roundhouse, "plan", "--machine", str(file))
    assert {plan["engine"] for plan in saved_plan["plans"]} == {plan["engine"] for plan in here["plans"]}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("estimate", "no-such-model"), "model_not_found"),
        (("estimate", "guide", "--engine", "ollama"), "engine_unknown"),
        (("plan", "no-such-model"), "model_not_found"),
    ],
)
def test_what_cannot_be_answered_is_said(roundhouse: Roundhouse, arguments: tuple[str, ...], code: str) -> None:
    result = roundhouse(*arguments, "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"]["code"] == code


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("content", ["", "{", '{"os": "templeos"}', '{"ram_gb": "much"}', "[]"])
def test_a_machine_that_is_none_is_refused(roundhouse: Roundhouse, tmp_path: Path, content: str) -> None:
    file = tmp_path / "machine.json"
    file.write_text(content)
    result = roundhouse("plan", "--machine", str(file), "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"]["code"] == "machine_invalid"


def test_a_damaged_file_is_refused(roundhouse: Roundhouse, tmp_path: Path) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF" + bytes(20))
    result = roundhouse("estimate", str(file), "--json")
    assert result.returncode == 2
    assert json.loads(result.stdout)["error"]["code"] in {"model_corrupt", "model_unsupported"}


@pytest.mark.slow
def test_text_for_people(roundhouse: Roundhouse, workstation: str) -> None:
    text = roundhouse("estimate", "Llama 3.1 8B Q4_K_M", "--machine", workstation).stdout
    assert "It fits." in text
    assert "tok/s" in text
    text = roundhouse("plan", "Qwen3 14B", "--machine", workstation).stdout
    assert "ExLlamaV3" in text.splitlines()[1]
    assert len(text.splitlines()) <= 24, "it fits on one screen"
    assert "MLX" not in text
    reasons = roundhouse("plan", "Qwen3 14B", "--machine", workstation, "--why").stdout
    assert "MLX-LM needs a Mac" in reasons


@pytest.mark.slow
def test_a_plan_for_windows_names_what_would_be_better_and_how(roundhouse: Roundhouse, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    machine = {"os": "windows", "architecture": "x86_64", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}
    file.write_text(json.dumps(machine))
    first, second, *_ = run_json(roundhouse, "plan", "Qwen3 14B", "--machine", str(file))["plans"]
    assert (first["engine"], first["obtainable"]) == ("llama.cpp", True)
    assert (second["engine"], second["obtainable"], second["is_preferred"]) == ("exllamav3", False, True)
    text = roundhouse("plan", "Qwen3 14B", "--machine", str(file)).stdout
    assert "wsl --install" in text.partition("Better, but not available here")[2]


@pytest.mark.engines  # waits for a quiet computer and repeats what was disturbed: minutes beside other tests
def test_a_calibration_is_kept_and_used(roundhouse: Roundhouse, client: GatewayClient) -> None:
    (calibration,) = run_json(roundhouse, "calibrate", within_s=900)["calibrations"]
    assert (calibration["device"], calibration["engine"], calibration["backend"]) == ("cpu", "llama.cpp", "cpu")
    assert 0 < calibration["efficiency"] < 1.2
    (stored_calibration,) = client.get("/calibration", list[Calibration])
    assert stored_calibration.samples == 2
    rate = client.post("/estimate", {"model": "Llama 3.2 1B Q8_0"}, Estimate).decode
    assert rate is not None
    assert (rate.confidence == "calibrated") is not bool(stored_calibration.disturbances)
    plan = client.post("/plan", {"model": "Llama 3.2 1B"}, Advice).plans[0]
    assert plan.estimate is not None
    assert plan.estimate.decode is not None
    client.delete("/calibration")
    assert client.get("/calibration", list[Calibration]) == []
