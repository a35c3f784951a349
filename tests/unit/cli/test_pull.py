"""What `roundhouse pull` and `roundhouse downloads` say while bytes come."""

from collections.abc import Iterator
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import pull
from app.core.downloads import Download, DownloadState

BEGUN = Download(id="1", title="o/b", repository="o/b", revision="main", commit="c", files=["x"], total_bytes=10)
RUNNING = msgspec.structs.replace(BEGUN, state=DownloadState.RUNNING, present_bytes=4, bytes_per_s=2e6)
NOTED = msgspec.structs.replace(RUNNING, note="x is downloaded over plain HTTP: Xet storage closed the connection.")
DONE = msgspec.structs.replace(NOTED, state=DownloadState.DONE, present_bytes=10, note="")


@pytest.fixture
def download_states(monkeypatch: pytest.MonkeyPatch) -> list[Download]:
    """What the gateway says of the download each time it is asked, from the last to the first."""
    states = [DONE, NOTED, NOTED, RUNNING]

    def list_downloads(_path: str, _kind: object) -> Iterator[Download]:
        yield states.pop()

    gateway = SimpleNamespace(get=list_downloads, post=lambda *_call, **_more: BEGUN)
    monkeypatch.setattr(pull, "connect_gateway", lambda: gateway)
    monkeypatch.setattr(pull, "_EVERY_S", 0.0)
    return states


def test_a_note_is_said_once_while_it_waits(download_states: list[Download]) -> None:
    result = CliRunner().invoke(pull.pull, ["o/b"])
    assert result.exit_code == 0
    assert result.stderr.splitlines() == ["o/b: 10 B.", NOTED.note]
    assert result.stdout.startswith("o/b was downloaded.")
    assert download_states == []


def test_the_list_has_speed_and_note(download_states: list[Download]) -> None:
    download_states[:] = [NOTED]
    assert f"1.9 MiB/s  {NOTED.note}" in CliRunner().invoke(pull.downloads, []).stdout


def test_it_is_looked_at_often_at_first_and_then_now_and_then(
    download_states: list[Download], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(pull, "_EVERY_S", 0.25)
    monkeypatch.setattr(pull, "time", SimpleNamespace(sleep=pauses.append))
    download_states[:] = [DONE, *[RUNNING] * 20]
    CliRunner().invoke(pull.pull, ["o/b"])
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == max(pauses) == 0.25
