"""A whole gateway as a program of its own, over fake engines that end when it is killed.

    ROUNDHOUSE_HOME=... python -m tests.gateway.admin.real_gateway

The model "slow" writes for minutes, "heavy" takes its time to load, "broken" never does; others answer at once.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from app.client.discovery import find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import Paths
from app.config.programs import child_environment, module_command
from app.core.api import PortFile
from app.core.errors import RoundhouseError
from app.gateway.main import main
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gguf_files import TinyLlama
from tests.known_bandwidth import write_bandwidth
from tests.known_machine import machine_environment, share_machine
from tests.patience import PATIENCE_S

SLOW_TOKENS_PER_S = 50.0
BEHAVIOURS = {
    "quick": Behaviour(says=("here in a moment", "here")),
    "slow": Behaviour(says=("here at last",), tokens=100_000, tokens_per_s=SLOW_TOKENS_PER_S),
    "heavy": Behaviour(load_s=1.5),
    "broken": Behaviour(exit_code=1, says=("corrupted or incomplete",)),
}
MODELS = tuple(BEHAVIOURS)
ROOT = Path(__file__).resolve().parents[3]


class RealGateway(msgspec.Struct, frozen=True):
    """A gateway that runs, and how to reach or kill it."""

    process: "subprocess.Popen[bytes]"
    paths: Paths
    port_file: PortFile
    patience_s: float = PATIENCE_S

    @property
    def client(self) -> GatewayClient:
        return GatewayClient(self.port_file, timeout_s=self.patience_s)

    def kill(self) -> None:
        """End it as the system does when it is out of memory: at once."""
        self.process.kill()
        self.process.wait()


@contextmanager
def run_gateway(  # noqa: PLR0913 -- what tests start otherwise, each by its name
    home: Path,
    port: int,
    *,
    hub: str = "http://127.0.0.1:1",
    argv: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[RealGateway]:
    """Start a gateway with three models and end it afterwards, if nobody has. Without a hub it can reach none.

    `argv` starts another than the one over fake engines; `extra` is more environment. What is watched is slower, and
    takes more `patience_s`.
    """
    paths = Paths(config=home / "config", data=home / "data", state=home / "state", logs=home / "logs")
    paths.create_folders()
    write_bandwidth(paths.data)
    for name in MODELS:
        TinyLlama().write(paths.models / f"{name}.gguf")
    process = subprocess.Popen(
        argv or module_command("tests.gateway.admin.real_gateway"),
        cwd=ROOT,
        env=child_environment(
            {
                "ROUNDHOUSE_HOME": str(home),
                "ROUNDHOUSE_GATEWAY_PORT": str(port),
                "HF_ENDPOINT": hub,
                "HF_TOKEN": "",
                "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
                # The settings of tools are looked for here, and written here, not in those of whoever runs the tests.
                **dict.fromkeys(("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME"), str(home / "person")),
                **dict.fromkeys(("CODEX_HOME", "CLAUDE_CONFIG_DIR", "LLM_USER_PATH"), ""),
                **machine_environment(),
                **(extra or {}),
            }
        ),
    )
    try:
        yield RealGateway(process, paths, _wait_for_port(process, paths, patience_s), patience_s)
    finally:
        _end(process, paths, patience_s)


def _wait_for_port(process: "subprocess.Popen[bytes]", paths: Paths, patience_s: float) -> PortFile:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        gateway_info = find_running_gateway(paths)
        if gateway_info is not None:
            return gateway_info
        time.sleep(0.02)  # it starts sooner where nobody asks all the time
    raise AssertionError("the gateway did not start")


def _end(process: "subprocess.Popen[bytes]", paths: Paths, patience_s: float) -> None:
    port_file = find_running_gateway(paths) if process.poll() is None else None
    try:
        if port_file is not None:
            GatewayClient(port_file).post("/shutdown", None, object)
            process.wait(patience_s)
    except (RoundhouseError, subprocess.TimeoutExpired):
        process.kill()
    finally:
        process.wait()


if __name__ == "__main__":
    # Not as ROUNDHOUSE_HOME's default: without one, the tests would use the settings of whoever runs them.
    assert os.environ["ROUNDHOUSE_HOME"]
    share_machine()
    sys.exit(main([], adapters={"fake": FakeAdapter(BEHAVIOURS, has_lifeline=True)}))
