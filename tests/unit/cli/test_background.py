"""`roundhouse service`, with a keeper that only writes and removes its file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli.main import roundhouse
from app.config import service_unit
from app.config.service_unit import ServiceUnit


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path.parent / f"{tmp_path.name}-person"))
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path / "home"))
    file = tmp_path / "units/roundhouse.service"
    unit = ServiceUnit(file=file, data=b"unit", start_commands=(), stop_commands=(), query_command=("true",))
    monkeypatch.setattr(service_unit, "build_service_unit", lambda *_args, **_kwargs: unit)
    return file


def is_service_kept(*arguments: str) -> bool:
    result = CliRunner().invoke(roundhouse, ["service", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    is_kept = json.loads(result.stdout)["service"]["kept"]
    assert isinstance(is_kept, bool)
    return is_kept


def test_installed_asked_and_removed(file: Path) -> None:
    assert [is_service_kept("status"), is_service_kept("install"), is_service_kept("status")] == [False, True, True]
    assert file.read_bytes() == b"unit"
    assert [is_service_kept("remove"), is_service_kept("status")] == [False, False]
    assert not file.exists()


def test_uninstalling_lists_it_and_takes_it_back(file: Path) -> None:
    is_service_kept("install")
    stdout = CliRunner().invoke(roundhouse, ["uninstall", "--dry-run"]).stdout
    assert str(file) in stdout
    assert CliRunner().invoke(roundhouse, ["uninstall", "--yes"]).exit_code == 0
    assert not file.exists()
