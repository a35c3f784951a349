"""An engine that turns against whoever runs it: it reads, writes, connects, signals and forks in vain."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

from app.confinement.confiner import Confiner
from app.confinement.landlock import SCOPE_ABI, landlock_version
from app.confinement.rules import ConfinementRules, LaunchOrder
from app.confinement.socket_filter import can_filter
from app.supervisor.policy import LoadRequest, SupervisorFolders, SupervisorPolicy
from app.supervisor.pool import Supervisor
from engines.api import (
    EngineInstallation,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    ModelFormat,
    ModelSource,
    ProcessSpec,
    Readiness,
)
from engines.worker_launch import own_python
from tests.fake_engine.adapter import FakeAdapter

ENGINE = Path(__file__).with_name("attacking_engine.py").read_text(encoding="utf-8")
STRANGER = 65534
SYSTEM_PYTHON = "/usr/bin/python3"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or landlock_version() < SCOPE_ABI or not can_filter(),
    reason="this kernel holds less; what it holds is in the table of `test_support`",
)


class AttackingAdapter(FakeAdapter):
    """The engine, told where a person's home is and what there is to reach."""

    def __init__(self, home: Path, targets: dict[str, str], *, has_helpers: bool = False) -> None:
        super().__init__(readiness=Readiness(interval_s=0.02))
        self.descriptor = msgspec.structs.replace(self.descriptor, id="attacking", has_helpers=has_helpers)
        self.home, self.targets = home, targets

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        usual = super().plan(model, options, net, installation)
        argv = (str(own_python()), "-P", "-c", ENGINE, str(net.port), str(self.home))
        return msgspec.structs.replace(usual, processes=(ProcessSpec(role="server", argv=argv, env=self.targets),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home, with what is worth having."""
    place = tmp_path / "person"
    for folder in (".ssh", "models"):
        (place / folder).mkdir(parents=True)
    (place / ".ssh" / "id_ed25519").write_text("secret")
    (place / ".bashrc").write_text("# mine\n")
    for name in ("model", "other"):
        (place / "models" / f"{name}.gguf").write_bytes(b"GGUF")
    return place


@pytest.fixture
def targets(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Servers that would be reached, and a program that would be signalled."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        make_local_socket() as local,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other,
    ):
        local.bind(str(tmp_path / "bus"))
        local.listen()
        yield {
            "OPEN_PORT": str(server.getsockname()[1]),
            "OPEN_SOCKET": str(tmp_path / "bus"),
            "OTHER_PROGRAM": str(other.pid),
        }
        other.kill()


@pytest.fixture
async def attack(tmp_path: Path, home: Path, targets: dict[str, str]) -> AsyncIterator["Attack"]:
    attack = Attack(tmp_path, home, targets)
    yield attack
    for supervisor in attack.supervisors:
        await supervisor.close()


class Attack:
    """Runs the engine as the gateway would."""

    def __init__(self, folder: Path, home: Path, targets: dict[str, str]) -> None:
        self.folder, self.home, self.targets = folder, home, targets
        self.homes = folder / "engine-homes"
        self.supervisors: list[Supervisor] = []

    async def run(self, *, is_wanted: bool = True, has_helpers: bool = False) -> dict[str, str]:
        adapter = AttackingAdapter(self.home, self.targets, has_helpers=has_helpers)
        if not is_wanted:  # it is told where its home is by its confinement
            own = self.homes / "attacking"
            own.mkdir(parents=True)
            adapter.targets |= {"HOME": str(own), "TMPDIR": str(own)}
        folders = SupervisorFolders(
            records=self.folder / "records", logs=self.folder / "logs", scratch=self.folder / "scratch"
        )
        confiner = Confiner(self.homes, lambda _engine: is_wanted)
        supervisor = Supervisor(
            {"attacking": adapter}, folders, SupervisorPolicy(), lambda _event: None, confiner=confiner
        )
        self.supervisors.append(supervisor)
        model = self.home / "models" / "model.gguf"
        source = ModelSource(name="m", path=model, format=ModelFormat.GGUF)
        await supervisor.ensure_ready(LoadRequest(engine="attacking", source=source))
        return dict(json.loads(await asyncio.to_thread((self.homes / "attacking" / "attempts.json").read_text)))


MAY = {
    "read its model",
    "write to its home",
    "write to its temporary folder",
    "run a program of the system",
    "make a pair of sockets",
    "drop output",
}


async def test_a_confined_engine_can_do_none_of_it(attack: Attack) -> None:
    outcomes = await attack.run()
    assert {name for name, outcome in outcomes.items() if outcome == "done"} == MAY
    assert len(outcomes) > len(MAY) + 25
    assert (attack.home / ".bashrc").read_text() == "# mine\n"
    assert (attack.home / "models" / "other.gguf").read_bytes() == b"GGUF"


async def test_without_confinement_it_can_do_most_of_it(attack: Attack) -> None:
    """The attacks work: that they fail above is not because they are wrong."""
    outcomes = await attack.run(is_wanted=False)
    failed_names = {name for name, outcome in outcomes.items() if outcome != "done"}
    assert failed_names <= {
        *("open another kind of socket", "queue system calls", "take a key of the session"),  # not in every kernel
        *("connect by MPTCP", "connect by sending", "change an attribute"),
    }, outcomes


async def test_an_engine_with_helpers_reaches_its_kind_of_sockets_and_no_files(attack: Attack) -> None:
    outcomes = await attack.run(has_helpers=True)
    done_names = {name for name, outcome in outcomes.items() if outcome == "done"}
    assert done_names == MAY | {
        *("connect by TCP", "send a datagram", "ask a local service", "listen elsewhere"),
        *("change a mode", "change an attribute"),  # its helpers copy files of their own
    }


@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason="another account can run no Python but the system's")
def test_a_confined_engine_cannot_fork_without_end(launcher_copy: Path) -> None:
    """As another account where this is the superuser's, whose processes the kernel does not count."""
    own = launcher_copy / "own"
    own.mkdir()
    own.chmod(0o777)
    environment = {"HOME": str(own), "TMPDIR": str(own), "FORKS": "1", "OPEN_PORT": "1", "OPEN_SOCKET": "/none"}
    rules = ConfinementRules(read=("/proc",), run=("/usr", "/bin", "/lib", "/lib64"), write=(str(own),), tasks=300)
    order = LaunchOrder(
        argv=(SYSTEM_PYTHON, "-c", ENGINE, "0", str(launcher_copy)),
        env={**environment, "OTHER_PROGRAM": "1", "PATH": "/usr/bin:/bin"},
        cwd=str(own),
        confinement=rules,
    )
    (own / "order.json").write_bytes(msgspec.json.encode(order))
    stranger = STRANGER if is_superuser() else None
    with (own / "order.json").open("rb") as source:
        subprocess.run(
            [SYSTEM_PYTHON, "-P", "-m", "app.confinement.launcher", str(source.fileno())],
            check=True,
            env={"PYTHONPATH": str(launcher_copy)},
            pass_fds=(source.fileno(),),
            user=stranger,
            group=stranger,
            extra_groups=None if stranger is None else [],
        )
    outcomes = json.loads((own / "attempts.json").read_text())
    assert 250 < outcomes["forks"] < 10_000


def is_superuser() -> bool:
    if sys.platform == "win32":
        return False
    return os.geteuid() == 0


def make_local_socket() -> socket.socket:
    if sys.platform == "win32":
        return socket.socket()
    return socket.socket(socket.AF_UNIX)
