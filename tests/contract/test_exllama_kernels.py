"""How ExLlama's kernels come to be compiled. No compiler runs here."""

import importlib
import importlib.machinery
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engines.exllama import kernel_build as kernels
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
PLAN = """
rule compile
build one.o: compile /src/one.cpp
build two.cuda.o: cuda_compile /src/two.cu
build exllamav2_ext.so: link one.o two.cuda.o
"""


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """Return NVIDIA's wheels as they lie in an environment."""
    folder = tmp_path / "packages" / "nvidia" / "cu13"
    for name in ("bin/nvcc", "lib/libcudart.so.13"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
    return folder


def test_the_environment_s_own_compiler_counts_more_than_the_computer_s(toolkit: Path, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin", "CUDA_HOME": "/usr/local/cuda-12.4"}
    kernels.find_compilers(environment, tmp_path / "packages", tmp_path / "links")
    assert environment["CUDA_HOME"] == str(toolkit)
    assert environment["PATH"].endswith(os.pathsep + "/usr/bin")
    link = Path(environment["LIBRARY_PATH"]) / "libcudart.so"
    assert link.resolve() == toolkit / "lib" / "libcudart.so.13", "the wheels have no name that a linker looks for"
    kernels.find_compilers({}, tmp_path / "packages", tmp_path / "links")


def test_without_one_the_computer_s_is_left_alone(tmp_path: Path) -> None:
    environment = {"CUDA_HOME": "/usr/local/cuda-13", "MAX_JOBS": "3"}
    kernels.find_compilers(environment, tmp_path, tmp_path / "links")
    assert environment["CUDA_HOME"] == "/usr/local/cuda-13"
    assert environment["MAX_JOBS"] == "3"
    assert "LIBRARY_PATH" not in environment


def ignore_stage(stage: str, fraction: float | None = None) -> None:
    """Take what is told of a build that is none."""


def test_kernels_that_came_compiled_need_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    environment = {"PATH": "", "TORCH_EXTENSIONS_DIR": str(tmp_path / "kernels")}
    with (
        pytest.raises(RuntimeError, match=r"no C\+\+ compiler"),
        kernels.watch_kernel_build("prebuilt", "8.6", dict(environment), ignore_stage),
    ):
        pytest.fail("it was to be compiled")
    (tmp_path / f"prebuilt_ext{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    importlib.invalidate_caches()
    before = dict(environment)
    with kernels.watch_kernel_build("prebuilt", "8.6", environment, ignore_stage):
        assert environment == before


WORKER = """
import subprocess, sys
from pathlib import Path
from engines.exllama.kernel_build import write_ninja_wrapper
subprocess.run([write_ninja_wrapper(sys.argv[1], Path(sys.argv[2])) / "ninja", "-v"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends it")
def test_a_worker_that_is_killed_takes_its_compilers_along(tmp_path: Path) -> None:
    ninja = tmp_path / "a ninja"
    ninja.write_text('#!/bin/sh\necho "running $1"\nexec sleep 600\n', encoding="utf-8")
    ninja.chmod(0o755)
    argv = [sys.executable, "-c", WORKER, str(ninja), str(tmp_path / "links")]
    with subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"running -v\n"
        worker.kill()
        assert worker.stdout.read() == b"", "its end is told once nobody holds the pipe any more"


def test_as_many_compile_at_once_as_memory_has_room_for() -> None:
    assert kernels.compiler_count(0) == 1
    assert kernels.compiler_count(kernels.JOB_BYTES) == 1
    assert 1 <= kernels.compiler_count(1 << 50) <= (os.cpu_count() or 1)


def test_it_is_told_how_many_files_are_compiled(tmp_path: Path) -> None:
    assert kernels.build_progress(tmp_path) == (0, 0)
    (tmp_path / "build.ninja").write_text(PLAN, encoding="utf-8")
    (tmp_path / "one.o").touch()
    assert kernels.build_progress(tmp_path) == (1, 2)
    (tmp_path / "exllamav2_ext.so").touch()
    assert kernels.build_progress(tmp_path) == (0, 0), "nothing is compiled any more"


def test_what_was_compiled_for_another_plan_does_not_count(tmp_path: Path) -> None:
    for name in ("one.o", "exllamav2_ext.so"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    (tmp_path / "build.ninja").write_text(PLAN, encoding="utf-8")
    assert kernels.build_progress(tmp_path) == (0, 2)


class Cards:
    """As much of PyTorch as tells which cards there are."""

    def __init__(self, *capabilities: tuple[int, int]) -> None:
        self.cuda = self
        self.device_count = lambda: len(capabilities)
        self.get_device_capability = lambda index: capabilities[index]


def test_kernels_are_kept_for_each_kind_of_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.visible_cards(Cards((8, 6), (12, 0), (8, 6))) == "8.6-12.0"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    environment = {"PATH": os.environ["PATH"], "CXX": "true"}
    with kernels.watch_kernel_build("exllamav2", "8.6-12.0", environment, deaf):
        assert environment["TORCH_EXTENSIONS_DIR"] == str(tmp_path / "kernels" / "8.6-12.0")


def test_a_compiler_that_is_silent_is_spoken_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "TELL_EVERY_S", 0.001)
    stages, twice = [], threading.Event()

    def tell(stage: str, fraction: float | None = None) -> None:
        stages.append((stage, fraction))
        if len(stages) > 1:
            twice.set()

    with kernels.watch_kernel_build("exllamav2", "8.6", here(tmp_path), tell):
        (tmp_path / "exllamav2_ext").mkdir()
        (tmp_path / "exllamav2_ext" / "build.ninja").write_text(PLAN, encoding="utf-8")
        assert twice.wait(PATIENCE_S)
    assert set(stages) == {(kernels.STAGE, 0.0)}


def deaf(stage: str, fraction: float | None = None) -> None:
    assert stage or fraction is None


def here(folder: Path) -> dict[str, str]:
    return {**os.environ, "TORCH_EXTENSIONS_DIR": str(folder), "CXX": "true"}


def test_without_a_cpp_compiler_it_says_so_unless_all_is_compiled(tmp_path: Path) -> None:
    environment = {**here(tmp_path), "CXX": "no-such-compiler"}
    with (
        pytest.raises(RuntimeError, match=r"no C\+\+ compiler"),
        kernels.watch_kernel_build("exllamav2", "8.6", environment, deaf),
    ):
        pass
    (tmp_path / "exllamav2_ext").mkdir()
    (tmp_path / "exllamav2_ext" / "exllamav2_ext.so").touch()
    with kernels.watch_kernel_build("exllamav2", "8.6", environment, deaf):
        pass


FAILED = """Error building extension 'exllamav2_ext': [1/48] c++ -MMD -c /src/one.cpp -o one.o
[2/48] /env/nvidia/cu13/bin/nvcc -c /src/two.cu
/src/two.cu(3): warning #177-D: variable "x" was declared but never referenced
FAILED: [code=1] exllamav2_ext.so
c++ one.o two.cuda.o -shared -lcudart -o exllamav2_ext.so
/usr/bin/ld: cannot find -lcudart: No such file or directory
collect2: error: ld returned 1 exit status
ninja: build stopped: subcommand failed.
"""


def test_what_the_compiler_said_comes_before_what_it_was_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RuntimeError) as error, kernels.watch_kernel_build("exllamav2", "8.6", here(tmp_path), deaf):
        raise RuntimeError(FAILED)
    assert str(error.value) == (
        "the kernels could not be compiled: /usr/bin/ld: cannot find -lcudart: No such file or directory"
    )
    log = capsys.readouterr().err
    assert "warning #177-D" in log
    assert "-lcudart -o" not in log, "the commands fill pages"


def test_another_mistake_is_left_as_it_is(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="something else"),
        kernels.watch_kernel_build("exllamav2", "8.6", here(tmp_path), deaf),
    ):
        raise RuntimeError("something else")
