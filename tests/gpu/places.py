"""What this computer has: a card, interpreters with PyTorch and an engine, programs. Nothing is fetched."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = ROOT / "shared" / "gpu-wheels"
SITE = ROOT / "build" / "gpu" / "site"
"""Where carried wheels are unpacked to."""
_QUERY = "--query-gpu=name,driver_version,memory.total,compute_cap"
_LOOK = """
import importlib.metadata, importlib.util, json, sys
answer = {}
for name in sys.argv[1:]:
    try:
        if importlib.util.find_spec(name) is not None:
            answer[name] = importlib.metadata.version(name)
    except Exception:
        pass
try:
    import torch
    answer["cuda"] = str(torch.version.cuda or "") if torch.cuda.is_available() else ""
except Exception:
    pass
print(json.dumps(answer))
"""
_LOOK_S = 120
"""Importing PyTorch for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One NVIDIA card, in the words of its driver."""

    name: str
    driver: str
    memory: str
    compute: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """One Python and what can be imported there."""

    path: Path
    packages: Mapping[str, str] = field(default_factory=dict)
    """Name -> version; `cuda` is PyTorch's where it sees a card, else empty."""

    @property
    def sees_card(self) -> bool:
        """Whether PyTorch computes on a card there."""
        return bool(self.packages.get("cuda"))


def read_cards() -> list[Card]:
    """Return the cards that `nvidia-smi` lists; none without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    result = subprocess.run(
        [program, _QUERY, "--format=csv,noheader"], capture_output=True, text=True, check=False, timeout=60
    )
    rows = [line.split(", ") for line in result.stdout.splitlines()] if not result.returncode else []
    columns = 4
    return [
        Card(name=row[0], driver=row[1], memory=row[2], compute=row[3].strip()) for row in rows if len(row) == columns
    ]


def unpack_wheels(environment: Mapping[str, str]) -> str:
    """Install carried wheels into a folder of our own, without a network; return why not, or an empty text."""
    folder = Path(environment.get("ROUNDHOUSE_GPU_WHEELS", str(WHEELS)))
    wheels = sorted(map(str, folder.glob("*.whl")))
    if not wheels:
        return f"no wheels lie in {folder}"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--upgrade", "--target"]
    result = subprocess.run([*command, str(SITE), *wheels], capture_output=True, text=True, check=False)
    return result.stderr.strip().splitlines()[-1] if result.returncode and result.stderr.strip() else ""


def list_interpreters(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the interpreters that may have engines: named ones, this one, PATH's, those that Roundhouse installed."""
    interpreters = environment.get("ROUNDHOUSE_GPU_PYTHON", "")
    yield from (Path(place) for place in interpreters.split(os.pathsep) if place)
    yield Path(sys.executable)
    on_path = shutil.which("python3", path=environment.get("PATH"))
    if on_path is not None:
        yield Path(on_path)
    data = Path(environment.get("ROUNDHOUSE_HOME") or Path.home() / ".local" / "share" / "roundhouse")
    yield from sorted(data.glob("engines/*/*/venv/bin/python"))


def look_into(interpreter: Path, packages: tuple[str, ...]) -> Interpreter:
    """Return what can be imported with an interpreter, carried wheels included."""
    command = [str(interpreter), "-c", _LOOK, *packages]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LOOK_S, env=with_wheels(os.environ)
        )
        answer = json.loads(result.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        answer = {}
    return Interpreter(path=interpreter, packages=answer)


def with_wheels(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which carried wheels can be imported."""
    path = os.pathsep.join(filter(None, (str(SITE), environment.get("PYTHONPATH", ""))))
    return {**environment, "PYTHONPATH": path}
