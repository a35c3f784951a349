"""The real llama.cpp: what it has read is known to its next run, also after the service was ended or killed."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from app.client.discovery import has_ended
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.api import PortFile
from app.core.engines import EngineStatus
from app.core.kept_prompts import WarmPrompts
from app.core.models import UnloadModel
from app.core.requests import RequestInfo
from tests.end_to_end.conftest import stop
from tests.file_keyring import keyring_environment
from tests.gguf_files import TinyLlama
from tests.known_machine import ensure_gateway
from tests.patience import wait_until

pytestmark = [pytest.mark.real_engine, pytest.mark.own_gateway]

TEXT = " ".join(f"Line {number} of a file that is read once." for number in range(150))


@pytest.fixture
def service(home: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paths]:
    """A home with a model of made-up weights, and a keyring in a file."""
    for name, value in keyring_environment(tmp_path / "keyring.json").items():
        monkeypatch.setenv(name, value)
    home.create_folders()
    TinyLlama(values={"llama.context_length": 16_384}).write(home.models / "tiny.gguf")
    yield home
    stop(home)


def start_service(home: Paths) -> PortFile:
    return ensure_gateway(home, extra={"ROUNDHOUSE_MODELS_CONTEXT": "16384", "ROUNDHOUSE_MODELS_SLOTS": "2"})


def ask_model(gateway: PortFile, text: str) -> RequestInfo:
    """Ask the model; return what the inspector says of it."""
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0, timeout=300) as api:
        messages: Any = [{"role": "user", "content": text}]
        api.chat.completions.create(model="tiny", messages=messages, max_tokens=4)
    client = GatewayClient(gateway, timeout_s=60)

    def find_request() -> RequestInfo | None:
        return next((each for each in client.get("/requests", list[RequestInfo]) if each.is_over), None)

    wait_until(lambda: find_request() is not None)
    request = find_request()
    assert request is not None
    return request


@pytest.mark.slow
def test_a_prompt_survives_an_unload_and_a_restart(service: Paths) -> None:
    gateway = start_service(service)
    client = GatewayClient(gateway, timeout_s=60)
    cold = ask_model(gateway, TEXT)
    assert cold.prompt_tokens is not None
    assert (cold.cached_tokens or 0) < 100
    client.post("/unload", UnloadModel(model="tiny"), EngineStatus)
    (kept_prompt,) = client.get("/kept-prompts", WarmPrompts).prompts
    assert kept_prompt.place == "disk"
    after_unload = ask_model(gateway, TEXT + " And then?")
    stop(service)
    after_restart = ask_model(start_service(service), TEXT + " And after that?")
    for warm in (after_unload, after_restart):
        assert warm.cached_tokens is not None
        assert warm.cached_tokens > 0.9 * cold.prompt_tokens
        assert warm.saved_s is not None
    assert not list((service.state / "scratch").glob("*/large-states/*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL, and no file system in memory")
def test_what_a_killed_service_left_unsealed_is_removed(service: Paths) -> None:
    if sys.platform == "win32":  # for the type checker
        return
    gateway = start_service(service)
    ask_model(gateway, TEXT)
    memory = Path("/dev/shm")  # noqa: S108 -- where the product's own folders are looked for
    before = set(memory.glob("roundhouse-states-*")) if memory.is_mount() else set()
    folders_left = [folder for folder in before if folder.name.rpartition("-")[2] in _tokens(service)]
    for folder in folders_left:
        (folder / "state").write_bytes(b"what was asked")
    os.kill(gateway.pid, signal.SIGKILL)
    wait_until(lambda: has_ended(gateway))
    client = GatewayClient(start_service(service), timeout_s=60)
    wait_until(lambda: not any(folder.exists() for folder in folders_left))
    assert client.get("/kept-prompts", WarmPrompts).prompts is not None


def _tokens(home: Paths) -> set[str]:
    return {file.stem for file in home.engine_records.glob("*.json")}
