"""The memory models share and what is set for single ones, over the API and by the command, with real processes."""

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from app.cli import main
from app.core.api import SettingInfo
from app.core.engines import EngineState, EngineStatus, MemoryState, Pause
from app.core.errors import BadRequest, NotFound
from app.core.models import LoadModel, LoadOptions, ModelSettings, SetModel, UnloadModel
from tests.gateway.admin.real_gateway import RealGateway
from tests.patience import PATIENCE_S


@pytest.fixture
def gateway(lent_gateway: RealGateway) -> RealGateway:
    return lent_gateway


def load(gateway: RealGateway, model: str) -> EngineStatus:
    return gateway.client.post("/load", LoadModel(model=model), EngineStatus)


def ready(gateway: RealGateway) -> list[str]:
    return [
        status.model
        for status in gateway.client.get("/running", list[EngineStatus])
        if status.state is EngineState.READY
    ]


def run_command(*arguments: str) -> str:
    result = CliRunner().invoke(main.roundhouse, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_what_runs_holds_memory_and_is_shown(gateway: RealGateway) -> None:
    assert gateway.client.get("/memory", MemoryState).pools[0].holders == []
    load(gateway, "quick")
    (pool, *_) = gateway.client.get("/memory", MemoryState).pools
    assert (pool.id, [holder.model for holder in pool.holders]) == ("system", ["quick"])
    assert 0 < pool.bytes_in_use < pool.limit
    assert "quick" in run_command("room")


def test_a_pinned_model_outlives_a_place_too_few_and_a_ceiling_of_pins_refuses(gateway: RealGateway) -> None:
    gateway.client.patch("/settings", {"models.max_loaded": 1}, list[SettingInfo])
    assert "stays loaded" in run_command("pin", "QUICK")
    load(gateway, "quick")
    result = CliRunner().invoke(main.roundhouse, ["load", "heavy"])
    assert result.exit_code == 1
    assert "cannot be loaded" in result.stderr
    assert "Unpin or unload quick" in result.stderr
    assert ready(gateway) == ["quick"]
    assert "pinned" in run_command("ps")
    run_command("unpin", "quick")
    load(gateway, "heavy")
    assert ready(gateway) == ["heavy"]


def test_what_is_set_counts_for_every_load(gateway: RealGateway) -> None:
    assert "as for all models" in run_command("tune", "quick")
    assert "512" in run_command("tune", "quick", "--context", "512", "--slots", "2", "--idle-minutes", "0")
    status = load(gateway, "quick")
    assert (status.context, status.slots, status.unload_at) == (512, 2, None)
    gateway.client.post("/unload", UnloadModel(model="quick"), EngineStatus)
    named_load = LoadModel(model="quick", options=LoadOptions(context=128))
    engine_status = gateway.client.post("/load", named_load, EngineStatus)
    assert (engine_status.context, engine_status.slots) == (128, 2), "what is asked for goes first"
    text = run_command("tune", "quick", "--temperature", "0.5", "--unset", "context", "--unset", "slots")
    assert "temperature 0.5" in text
    assert "512" not in text
    assert "temperature 0.5" in run_command("show", "quick")
    run_command("tune", "quick", "--reset")
    assert gateway.client.get("/model-settings", dict[str, ModelSettings]) == {}


def test_mistakes_are_sentences(gateway: RealGateway) -> None:
    with pytest.raises(NotFound, match="nosuch"):
        gateway.client.post("/model-settings", SetModel(model="nosuch"), ModelSettings)
    result = CliRunner().invoke(main.roundhouse, ["tune", "quick", "--draft", "nosuch"])
    assert result.exit_code == 2
    assert "nosuch" in result.stderr
    body = {"model": "quick", "settings": {"context": -1}}
    with pytest.raises(BadRequest):
        gateway.client.post("/model-settings", body, ModelSettings)


@contextmanager
def open_answer(gateway: RealGateway, path: str, *, streams: bool = False) -> Iterator[http.client.HTTPResponse]:
    """Ask a model that writes for minutes."""
    where = urlsplit(gateway.port_file.url)
    body = {"model": "slow", "max_tokens": 100_000, "stream": streams, "messages": [{"role": "user", "content": "Hi"}]}
    with closing(http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)) as connection:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        with connection.getresponse() as reply:
            yield reply


def status_of(gateway: RealGateway, path: str) -> int:
    with open_answer(gateway, path) as reply:
        return reply.status


def test_a_pause_gives_memory_back_after_the_answer_and_says_so_in_each_dialect(gateway: RealGateway) -> None:
    load(gateway, "quick")
    assert "was not paused" in run_command("resume")
    with open_answer(gateway, "/v1/chat/completions", streams=True) as first:
        assert first.read(10)
        assert "slow is finishing its answers first" in run_command("pause")
        assert "Paused" in run_command("status")
        for path in ("/v1/chat/completions", "/v1/completions", "/api/chat"):
            with open_answer(gateway, path) as refusal:
                assert (refusal.status, refusal.headers.get("x-should-retry")) == (503, "false")
                assert b"paused" in refusal.read()
        assert first.read(10), "an answer that had begun goes on"
        while "quick" in ready(gateway):
            time.sleep(0.05)
    while gateway.client.get("/running", list[EngineStatus]):
        time.sleep(0.05)
    assert gateway.client.get("/pause", Pause).finishing == []
    refused_load = CliRunner().invoke(main.roundhouse, ["load", "quick"])
    assert (refused_load.exit_code, "roundhouse resume" in refused_load.stderr) == (1, True)
    assert "loaded again" in run_command("resume")
    while sorted(ready(gateway)) != ["quick", "slow"]:
        time.sleep(0.05)
    assert "Paused" not in run_command("status")


def test_a_full_queue_turns_away_in_each_dialect_and_says_when_to_come_back(gateway: RealGateway) -> None:
    changes = {"models.slots": 1, "gateway.queue_limit": 1}
    gateway.client.patch("/settings", changes, list[SettingInfo])
    with open_answer(gateway, "/v1/chat/completions", streams=True) as first, ThreadPoolExecutor() as others:
        assert first.read(10)
        waiting_request = others.submit(status_of, gateway, "/v1/chat/completions")
        while [engine_status.queued for engine_status in gateway.client.get("/running", list[EngineStatus])] != [1]:
            time.sleep(0.05)
        assert "1 + 1 waiting" in run_command("ps")
        for path, status in (("/v1/chat/completions", 429), ("/v1/completions", 429), ("/api/chat", 503)):
            with open_answer(gateway, path) as refusal:
                assert (refusal.status, int(refusal.headers.get("Retry-After", 0)) > 0) == (status, True)
        gateway.client.post("/unload", UnloadModel(model="slow", force=True), EngineStatus)
        assert waiting_request.result() == 503, "it had not begun, so it has a status of its own"
