"""A real gateway with the real engine and the Guide, in a home of its own."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from app.client.discovery import find_running_gateway, has_ended
from app.client.http import GatewayClient
from app.config.paths import Paths, default_paths
from app.config.programs import module_command
from app.core.errors import GatewayGone
from tests.known_bandwidth import write_bandwidth
from tests.known_machine import ensure_gateway
from tests.patience import wait_until

Roundhouse = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    """Folders of an installation nobody else uses; its gateway, if any, is gone afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUNDHOUSE_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")  # no test asks the real hub
        patch.setenv("ROUNDHOUSE_MODELS_OTHER_PROGRAMS", "false")  # what is on this computer is nobody's business
        paths = default_paths()
        write_bandwidth(paths.data)
        yield paths
        stop(paths)


def stop(paths: Paths) -> None:
    gateway_info = find_running_gateway(paths)
    if gateway_info is not None:
        with suppress(GatewayGone):
            GatewayClient(gateway_info).post("/shutdown", None, object)
        wait_until(lambda: has_ended(gateway_info))


@pytest.fixture(scope="module")
def client(home: Paths) -> GatewayClient:
    return GatewayClient(ensure_gateway(home), timeout_s=60)


@pytest.fixture(scope="module")
def roundhouse(home: Paths) -> Roundhouse:
    """Run the command line as a person does: another process, its output read back."""

    def run(
        *arguments: str, stdin: str = "", env: dict[str, str] | None = None, within_s: float = 90
    ) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            module_command("app.cli", *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
            env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
        )

    return run


@pytest.fixture(scope="session")
def broken_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that says it is a model and is not."""
    path = tmp_path_factory.mktemp("models") / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    return path
