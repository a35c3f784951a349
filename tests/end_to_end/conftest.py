"""A real gateway with the real engine and the Guide: lent, or for files marked `own_gateway` one of their own."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from app.client.discovery import find_running_gateway, has_ended
from app.client.http import GatewayClient
from app.config.paths import Paths, default_paths
from app.config.programs import module_command
from app.core.errors import GatewayGone
from tests.gateway_pool import GatewayPool
from tests.known_bandwidth import write_bandwidth
from tests.known_machine import ensure_gateway
from tests.patience import wait_until

Roundhouse = Callable[..., "subprocess.CompletedProcess[str]"]


class GuideGateway(NamedTuple):
    """A gateway that runs, and its installation."""

    client: GatewayClient
    paths: Paths


@contextmanager
def open_home(folder: Path) -> Iterator[Paths]:
    """Have a folder be the installation of what is started meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUNDHOUSE_HOME", str(folder))
        patch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")  # no test asks the real hub
        patch.setenv("ROUNDHOUSE_MODELS_OTHER_PROGRAMS", "false")  # what is on this computer is nobody's business
        yield default_paths()


@contextmanager
def start_gateway(folder: Path) -> Iterator[GuideGateway]:
    with open_home(folder) as paths:
        write_bandwidth(paths.data)
        port_file = ensure_gateway(paths)
    yield GuideGateway(GatewayClient(port_file, timeout_s=60), paths)
    stop(paths)


@pytest.fixture(scope="session")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayPool[GuideGateway]]:
    pool = GatewayPool(lambda: start_gateway(tmp_path_factory.mktemp("home")))
    yield pool
    pool.close_all()


@pytest.fixture(scope="module")
def home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, gateways: GatewayPool[GuideGateway]
) -> Iterator[Paths]:
    """Folders of an installation nobody else uses meanwhile: of a lent gateway, or new ones without any."""
    if any(request.node.get_closest_marker(name) for name in ("own_gateway", "engines")):
        with open_home(tmp_path_factory.mktemp("home")) as paths:
            write_bandwidth(paths.data)
            yield paths
            stop(paths)
    else:
        with gateways.lend_gateway() as gateway, open_home(gateway.paths.data.parent):
            yield gateway.paths


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
