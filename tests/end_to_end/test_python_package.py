"""What `make wheel` makes, installed where another project's `app` and `engines` lie: it and they work side by side."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from app import __version__
from app.config.programs import uv_program
from app.engine_store.version_store import interpreter_in
from tests.engine_environments import NO_NETWORK

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ("app", "engines")
pytestmark = [pytest.mark.slow, pytest.mark.own_gateway]  # the package's
WITHIN_S = 110


class PythonEnvironment:
    """An environment of Python with a package of another project's in it, and a folder with more of that name."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", symlinks=sys.platform != "win32")
        self.python = interpreter_in(folder / "venv")
        self.packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
        (self.packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        self.project = folder / "project"
        self.added_names: set[str] = set()
        for name in OTHERS:
            for place, content in ((self.packages, f"WHOSE = 'the other {name}'"), (self.project, "raise SystemExit")):
                (place / name).mkdir(parents=True)
                (place / name / "__init__.py").write_text(content)

    def install(self, package: Path) -> None:
        """Install a package, its dependencies apart, and note the names it adds."""
        before = set(self.packages.iterdir())
        process = run_uv("pip", "install", "--quiet", "--no-deps", "--python", str(self.python), str(package))
        assert process.returncode == 0, process.stderr
        self.added_names = {path.name for path in set(self.packages.iterdir()) - before}

    def run(self, *argv: str, env: Mapping[str, str] = MappingProxyType({})) -> "subprocess.CompletedProcess[str]":
        """Run a program in the project's folder."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            argv,
            cwd=self.project,
            env={**clean, "PYTHONUTF8": "1", **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_S,
        )

    def run_command(self, *arguments: str) -> str:
        """Return what the command says where whoever types it has all in the way that can be."""
        command = str(self.python.with_name("roundhouse" + self.python.suffix))
        process = self.run(command, *arguments, env={"PYTHONPATH": str(self.project)})
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout


def run_uv(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run uv; skips where it, or what it fetches to build a package, cannot be had."""
    program = uv_program()
    if program is None:
        pytest.skip("uv is missing")
    process = subprocess.run(
        [str(program), *arguments], capture_output=True, text=True, check=False, timeout=WITHIN_S, cwd=ROOT
    )
    if process.returncode and any(words in process.stderr.lower() for words in NO_NETWORK):
        pytest.skip(f"What builds a package cannot be fetched: {process.stderr}")
    return process


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution and the wheel, which is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    process = run_uv("build", "--quiet", "--python", sys.executable, "--out-dir", str(folder))
    assert process.returncode == 0, process.stderr
    return folder


# An installer of the source distribution makes the same wheel once more, so one of the two is enough for every day.
@pytest.fixture(scope="module", params=["whl", pytest.param("tar.gz", marks=pytest.mark.engines)])
def environment(
    request: pytest.FixtureRequest, distributions: Path, tmp_path_factory: pytest.TempPathFactory
) -> PythonEnvironment:
    """An environment in which one of the two is installed."""
    (package,) = distributions.glob(f"*.{request.param}")
    environment = PythonEnvironment(tmp_path_factory.mktemp("environment"))
    environment.install(package)
    return environment


def test_nothing_but_names_of_its_own_is_put_among_the_packages(environment: PythonEnvironment) -> None:
    assert environment.added_names == {"roundhouse_ai", f"roundhouse_ai-{__version__}.dist-info"}


def test_the_other_project_keeps_its_packages_and_sees_none_of_ours(environment: PythonEnvironment) -> None:
    code = f"import {', '.join(OTHERS)}; print({', '.join(f'{name}.WHOSE' for name in OTHERS)}); import app.gateway"
    process = environment.run(str(environment.python), "-P", "-c", code)
    assert process.stdout == "the other app the other engines\n"
    assert "No module named 'app.gateway'" in process.stderr


def test_the_command_runs_from_a_folder_that_has_an_app_too(environment: PythonEnvironment) -> None:
    assert __version__ in environment.run_command("--version")


def test_the_package_can_be_run_as_a_module(environment: PythonEnvironment) -> None:
    process = environment.run(str(environment.python), "-m", "roundhouse_ai", "--version")
    assert __version__ in process.stdout, process.stderr


@pytest.mark.real_engine
@pytest.mark.usefixtures("home")
def test_the_guide_answers_and_every_child_finds_what_it_runs(environment: PythonEnvironment) -> None:
    try:
        assert environment.run_command("run", "guide", "What is Roundhouse?").strip()
        machine = json.loads(environment.run_command("machine", "--json"))["machine"]
        assert "crashed" not in {probe["outcome"] for probe in machine["probes"]}
        assert machine["engine_devices"], "the engine was not found where it was asked for its devices"
    finally:
        environment.run_command("down")
