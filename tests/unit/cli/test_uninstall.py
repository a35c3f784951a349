"""Saying goodbye: listed first, asked, and no more removed than was said."""

import json
import sys
from pathlib import Path

import keyring
import pytest
from click.testing import CliRunner, Result

from app.cli import uninstall
from app.cli.main import roundhouse
from app.config import service_unit
from app.config.keyring_secrets import has_secret, store_secret
from app.config.paths import Paths, default_paths, this_home
from tests.file_keyring import FileKeyring, use_file_keyring


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    for name in ("HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path.parent / f"{tmp_path.name}-person"))
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(tmp_path))
    paths = default_paths()
    paths.create_folders()
    for file in (paths.settings_file, paths.database, paths.logs / "gateway.jsonl", paths.models / "big.gguf"):
        file.write_bytes(bytes(10))
    return paths


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(roundhouse, ["uninstall", *arguments], input=stdin)


def files(paths: Paths) -> set[str]:
    return {path.name for path in paths.config.parent.rglob("*") if path.is_file() and path != paths.marker_file}


ALL = {"settings.toml", "roundhouse.db", "gateway.jsonl", "big.gguf"}


def test_a_dry_run_lists_every_path_and_removes_nothing(paths: Paths) -> None:
    rows = json.loads(run("--purge", "--dry-run", "--json").stdout)["goodbye"]["owned"]
    leaving_paths = {row["path"] for row in rows if row["leaves"]}
    assert {str(paths.config), str(paths.state), str(paths.logs), str(paths.database)} <= leaving_paths
    assert next(row for row in rows if row["path"] == str(paths.models))["leaves"] is False
    assert files(paths) == ALL


@pytest.mark.parametrize(
    ("options", "expected_files"),
    [
        ((), {"settings.toml", "roundhouse.db", "big.gguf"}),
        (("--purge",), {"big.gguf"}),
        (("--purge", "--models"), set()),
    ],
)
def test_no_more_leaves_than_was_said(paths: Paths, options: tuple[str, ...], expected_files: set[str]) -> None:
    assert run("--yes", *options).exit_code == 0
    assert files(paths) == expected_files


def write_sealed(paths: Paths) -> tuple[str, str]:
    paths.machine_identity_file.write_bytes(b"sealed")
    paths.warm_prompts.mkdir()
    names = str(paths.machine_identity_file), str(paths.warm_prompts)
    assert all(store_secret(name, "passphrase") for name in names)
    return names


@pytest.mark.parametrize(("options", "expected_secrets"), [((), [True, False]), (("--purge",), [False, False])])
def test_what_opens_removed_files_leaves_the_keyring(
    paths: Paths, tmp_path: Path, options: tuple[str, ...], expected_secrets: list[bool]
) -> None:
    with use_file_keyring(tmp_path.parent / f"{tmp_path.name}-keyring.json"):
        names = write_sealed(paths)
        assert run("--yes", *options).exit_code == 0
        assert [has_secret(name) for name in names] == expected_secrets


def test_a_keyring_that_forgets_nothing_is_named(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_names: str) -> None:
        raise keyring.errors.KeyringLocked

    with use_file_keyring(tmp_path.parent / f"{tmp_path.name}-keyring.json"):
        write_sealed(paths)
        monkeypatch.setattr(FileKeyring, "delete_password", refuse)
        assert "remove its entries" in run("--yes", "--purge").stderr


def test_after_a_purge_with_models_nothing_is_there_to_list(paths: Paths) -> None:
    run("--yes", "--purge", "--models")
    assert list(paths.config.parent.iterdir()) == []
    assert "nothing of Roundhouse's on this computer" in run("--dry-run").stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_where_nobody_can_be_asked_nothing_is_removed(paths: Paths, options: tuple[str, ...]) -> None:
    result = run("--purge", *options)
    assert (result.exit_code, files(paths)) == (2, ALL)
    assert "--yes" in result.stderr


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uninstall, "_can_ask", lambda: True)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("answers", "expected_files"),
    [("n\ny\n", {"big.gguf"}), ("y\ny\n", set()), ("y\nn\n", ALL), ("", ALL)],
    ids=["keep models", "models too", "changed mind", "no answer"],
)
def test_models_are_asked_for_separately_and_no_means_no(paths: Paths, answers: str, expected_files: set[str]) -> None:
    result = run("--purge", stdin=answers)
    assert files(paths) == expected_files
    assert str(paths.models) in result.stderr


def test_what_cannot_be_removed_is_named(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_one: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(uninstall, "remove_owned_path", refuses)
    result = run("--yes")
    assert result.exit_code == 1
    assert f"{paths.logs}: Permission denied" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a value in its registry")
def test_what_opens_the_window_at_log_in_is_listed_and_leaves() -> None:
    service_unit.set_autostart(this_home(), is_enabled=True)
    file = service_unit.autostart_file(this_home())
    assert file is not None
    assert str(file) in run("--dry-run").stdout
    run("--yes")
    assert not file.exists()


def test_where_roundhouse_never_ran_nothing_is_removed(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    home = paths.config.parent.with_name("somebody")
    for name in ("logs/build.log", "state/save.dat", "data/thesis.tex"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("mine")
    monkeypatch.setenv("ROUNDHOUSE_HOME", str(home))
    result = run("--yes", "--purge", "--models")
    assert result.exit_code == 2
    assert "never ran" in result.stderr
    assert "thesis.tex" in result.stderr
    assert {path.name for path in home.rglob("*") if path.is_file()} == {"build.log", "save.dat", "thesis.tex"}


def test_what_is_not_ours_stays_and_is_named(paths: Paths) -> None:
    (paths.logs / "build.log").write_text("mine")
    (paths.data / "thesis.tex").write_text("mine")
    result = run("--yes", "--purge", "--models")
    assert result.exit_code == 0
    assert files(paths) == {"build.log", "thesis.tex"}
    assert f"Left: {paths.data / 'thesis.tex'} (not Roundhouse's)" in result.stdout
