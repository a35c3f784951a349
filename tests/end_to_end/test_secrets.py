"""The token of the gateway and the key of an engine are where they are needed, and nowhere else."""

from pathlib import Path

import psutil
import pytest

from app.client.http import GatewayClient
from app.config.paths import Paths
from app.core.engines import EngineStatus
from app.core.errors import RoundhouseError
from app.core.events import LogLine
from app.core.models import LoadModel, RegisterModel
from engines.worker_base import KEY_VARIABLE
from tests.end_to_end.conftest import Roundhouse
from tests.written import contents_below

pytestmark = pytest.mark.real_engine


@pytest.fixture
def key(client: GatewayClient) -> str:
    """The key of the Guide's engine, from the one place that has it: what its process was started with."""
    status = client.post("/load", LoadModel(model="guide"), EngineStatus)
    assert status.pid is not None
    api_key = psutil.Process(status.pid).environ()[KEY_VARIABLE]
    assert len(api_key) >= 32
    return api_key


def test_no_argument_of_any_process_holds_a_secret(client: GatewayClient, key: str) -> None:
    everybody = [psutil.Process(client.gateway.pid), *psutil.Process(client.gateway.pid).children(recursive=True)]
    assert len(everybody) > 1
    command_lines = " ".join(argument for process in everybody for argument in _command_line(process))
    assert key not in command_lines
    assert client.gateway.token not in command_lines


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # one of those that only looked at something
        return []


def test_no_file_but_the_port_file_holds_a_secret(
    client: GatewayClient, key: str, home: Paths, roundhouse: Roundhouse
) -> None:
    roundhouse("run", "guide", "--temperature", "0", "hello")
    written_files = {
        file: content for file, content in contents_below(home.data.parent).items() if file != home.port_file
    }
    assert any("engine" in file.name for file in written_files)
    for file, content in written_files.items():
        assert key.encode() not in content, file
        assert client.gateway.token.encode() not in content, file


def test_what_an_engine_wrote_is_told_without_a_secret(client: GatewayClient, key: str, broken_gguf: Path) -> None:
    lines = client.get("/logs?tail=2000", list[LogLine])
    assert lines
    assert not [line for line in lines if key in line.text or client.gateway.token in line.text]
    with pytest.raises(RoundhouseError) as error:
        client.post("/models", RegisterModel(path=str(broken_gguf)), object)
    assert key not in str(error.value.body)
