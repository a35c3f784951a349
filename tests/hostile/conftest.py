"""A gateway on a real socket, in front of an engine that the test plays itself: those of `tests/gateway`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.conftest import (  # noqa: F401 -- fixtures
    environ,
    gateway,
    gateways_released,
    limits,
    paths,
    services,
    unreachable_hub,
    upstream,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def launcher_copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The launcher where every account may read it."""
    folder = Path("/tmp") / tmp_path_factory.mktemp("launcher").name  # noqa: S108 -- made below; pytest's own are closed
    (folder / "app").mkdir(parents=True)
    shutil.copy(ROOT / "app" / "__init__.py", folder / "app")
    shutil.copytree(ROOT / "app" / "confinement", folder / "app" / "confinement")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    yield folder
    shutil.rmtree(folder)
