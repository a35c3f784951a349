"""Where what an engine needs lies: links of a hub's cache, parts of a model, interpreters and programs."""

import os
import sys
from pathlib import Path

import pytest

from app.confinement.confiner import import_roots, packages_of
from app.confinement.places import describe_machine, model_paths, program_paths
from engines.api import Draft, EngineInstallation, LaunchOptions, ModelFormat, ModelSource, ProcessSpec


def source_of(path: Path) -> ModelSource:
    return ModelSource(name="m", path=path, format=ModelFormat.GGUF)


def test_a_link_counts_as_what_it_leads_to(tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "ab12"
    link = tmp_path / "snapshots" / "1" / "m.gguf"
    for path in (blob, link):
        path.parent.mkdir(parents=True)
    blob.write_bytes(b"GGUF")
    link.symlink_to(blob)
    assert model_paths(source_of(link), LaunchOptions()) == (str(blob),)
    assert set(model_paths(source_of(link.parent), LaunchOptions())) == {str(link.parent), str(blob)}


def test_all_parts_of_a_model_count_and_nothing_beside_them(tmp_path: Path) -> None:
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "other-00001-of-00002.gguf", "m.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    paths = model_paths(source_of(tmp_path / "m-00001-of-00002.gguf"), LaunchOptions())
    assert {Path(path).name for path in paths} == {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}


def test_adapters_drafts_and_files_that_a_person_names_count(tmp_path: Path) -> None:
    names = ("m", "lora", "draft", "eyes", "vector", "grammar")
    files = {name: tmp_path / f"{name}.gguf" for name in names}
    for file in files.values():
        file.write_bytes(b"GGUF")
    options = LaunchOptions(
        lora=(files["lora"],),
        draft=Draft(path=files["draft"]),
        projector=files["eyes"],
        extra_args=("--control-vector", str(files["vector"]), f"--grammar-file={files['grammar']}", "/not/there"),
    )
    assert set(model_paths(source_of(files["m"]), options)) == {str(file) for file in files.values()}


@pytest.mark.skipif(sys.platform == "win32", reason="environments look otherwise there, and nothing is confined")
def test_an_environment_brings_the_interpreter_it_was_made_from(tmp_path: Path) -> None:
    base, environment = tmp_path / "base", tmp_path / "environment"
    for folder in (base, environment):
        (folder / "bin").mkdir(parents=True)
    (base / "bin" / "python3.12").touch()
    (environment / "pyvenv.cfg").touch()
    (environment / "bin" / "python").symlink_to(base / "bin" / "python3.12")
    installation = EngineInstallation(engine="e", version="1", backend="cpu", python=environment / "bin" / "python")
    assert program_paths(installation, {}) == (str(environment), str(base))


def test_a_program_brings_the_libraries_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "engine" / "bin"
    folder.mkdir(parents=True)
    (tmp_path / "engine" / "lib").mkdir()
    program = folder / "llama-server"
    program.touch()
    (folder / "libggml.so.1").touch()
    paths = program_paths(EngineInstallation(engine="e", version="1", backend="cpu", executable=program), {})
    assert set(paths) == {str(program), str(folder), str(folder / "libggml.so.1"), str(tmp_path / "engine" / "lib")}


@pytest.mark.skipif(sys.platform == "win32", reason="folders are separated by semicolons there")
def test_where_the_environment_says_a_devices_libraries_are_counts(tmp_path: Path) -> None:
    installation = EngineInstallation(engine="e", version="1", backend="cuda")
    inherited_environment = {"LD_LIBRARY_PATH": f"{tmp_path}:/not/there:relative", "PATH": str(tmp_path.parent)}
    assert program_paths(installation, inherited_environment) == (str(tmp_path),)


def test_this_machine_is_described() -> None:
    machine = describe_machine()
    assert machine.cores == os.cpu_count()
    assert machine.passing_ports.first < machine.passing_ports.last
    assert all(Path(node).exists() for node in machine.devices)


def test_of_our_packages_it_gets_those_it_is_started_with() -> None:
    worker = ProcessSpec(role="server", argv=("python", "-P", "-m", "engines.mlx_lm.worker"), env={"PYTHONPATH": "/r"})
    other = ProcessSpec(role="other", argv=("python", "-m", "made_up.server"), env={"PYTHONPATH": "/r"})
    program = ProcessSpec(role="program", argv=("/bin/llama-server", "-m"))
    assert import_roots((worker, other, program)) == ("/r",)
    assert packages_of((worker, other, program)) == ("/r/engines", "/r/made_up")


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is confined there")
def test_our_own_interpreter_brings_the_folders_its_packages_lie_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, elsewhere, project = tmp_path / "bin" / "python3", tmp_path / "user" / "site-packages", tmp_path / "project"
    own.parent.mkdir()
    own.touch()
    monkeypatch.setattr(sys, "executable", str(own))
    monkeypatch.setattr(sys, "path", [str(project), str(elsewhere)])
    for python, expected_folders in (
        (own, {str(tmp_path), str(elsewhere)}),
        (tmp_path / "env" / "python3", {str(tmp_path)}),
    ):
        installation = EngineInstallation(engine="e", version="1", backend="cpu", python=python)
        assert set(program_paths(installation, {})) == expected_folders
