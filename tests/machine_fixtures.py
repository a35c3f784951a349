"""Machines as files: each TOML in tests/fixtures/machines is one computer as its system describes it.

Keys: `system` ("linux", "windows", "macos"), `lesson` (what goes wrong for those who do not know), then tables of raw
evidence, and `[expected]`. Raw tables any system may use: `[files]` (path below the root -> text), `[links]`,
`[environment]`, `[uname]`, `[commands]` ("sysctl -n hw.memsize" -> output), `[nvml]`, `[[vulkan]]`; a system's readers
may define their own (`[registry]`, `[dxgi]`). `[engines]` has the lines in which an engine lists its devices.
A file name starts with its system: `linux-gb10-....toml`.

In `[files]`, `cpu[0-7]` in a path writes eight files; `{repeat = 8, text = "..."}` repeats a block; `{n}` is the
number of the copy and `{n/2}` its half. In `[expected]`, keys are dotted paths into the Machine, a Fact standing for
its value: `"gpus.0.memory_total" = "24 GiB"`, `"gpus.count" = 1`, `"pools.system.free"` (pools by id where it has no
dot), "unknown" for a Fact without value, "nothing" for what is not there at all; of a list of Facts (`limits`) each
entry must contain its expected text.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from app.core.machine import Machine
from app.hardware.assemble import examine_evidence
from app.hardware.engine_devices import with_engine_devices
from app.hardware.evidence import replay_evidence

FOLDER = Path(__file__).parent / "fixtures" / "machines"
UNKNOWN, NOTHING = "unknown", "nothing"
_SIZE = re.compile(r"([\d.]+) (KiB|MiB|GiB|TiB)")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")


@dataclass(frozen=True)
class MachineFixture:
    """One recorded machine. `raw` holds every table as it stands in the file."""

    name: str
    system: str
    lesson: str
    raw: Mapping[str, Any]

    @property
    def expected_facts(self) -> Mapping[str, Any]:
        """What must be found, by dotted path."""
        return self.table("expected")

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table of raw evidence; empty when the file has none."""
        entry: Mapping[str, Any] = self.raw.get(name, {})
        return entry

    def evidence(self) -> dict[str, Any]:
        """Return the raw tables as `app.hardware.evidence.replay_evidence` takes them."""
        about = {"lesson", "expected", "engines"}
        tables = {name: value for name, value in self.raw.items() if name not in about}
        return tables | {"files": dict(_expand_files(self.table("files")))}

    def machine(self) -> Machine:
        """Return what detection makes of it."""
        with replay_evidence(self.evidence()) as evidence:
            machine = examine_evidence(evidence)
        for engine, lines in self.table("engines").items():
            machine = with_engine_devices(machine, engine, lines)
        return machine


def load(path: Path) -> MachineFixture:
    """Read one fixture. Raises KeyError when it does not say its system, its lesson or what to expect."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    if not raw["expected"]:
        raise KeyError(f"{path.name} expects nothing")
    return MachineFixture(name=path.stem, system=raw["system"], lesson=raw["lesson"], raw=raw)


def fixtures(system: str) -> list[MachineFixture]:
    """Return the fixtures of "linux", "windows" or "macos", by name."""
    return [load(path) for path in sorted(FOLDER.glob(f"{system}-*.toml"))]


def differences(machine: Machine, expectations: Mapping[str, Any]) -> list[str]:
    """Return one line for each expectation that `machine` does not meet; empty when all is as it should be."""
    tree = msgspec.to_builtins(machine)
    values = {key: _at(tree, key.split(".")) for key in expectations}
    return [
        f"{key}: expected {want!r}, found {values[key]!r}"
        for key, want in expectations.items()
        if not _meets(values[key], want)
    ]


def _expand_files(files: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path, content in files.items():
        text = content if isinstance(content, str) else _repeat_text(content)
        numbers = _RANGE.search(path)
        if not numbers:
            yield path, text
            continue
        for n in range(int(numbers[1]), int(numbers[2]) + 1):
            yield path.replace(numbers[0], str(n)), _number_text(text, n)


def _repeat_text(content: Mapping[str, Any]) -> str:
    return "\n".join(_number_text(content["text"], n) for n in range(content["repeat"]))


def _number_text(text: str, n: int) -> str:
    return text.replace("{n/2}", str(n // 2)).replace("{n}", str(n))


def _at(tree: object, path: list[str]) -> object:
    for name in path:
        tree = _child(tree, name)
    if isinstance(tree, dict) and "confidence" in tree:
        return UNKNOWN if tree["value"] is None else tree["value"]
    return NOTHING if tree is None else tree


def _child(tree: object, name: str) -> object:
    if isinstance(tree, list):
        if name == "count":
            return len(tree)
        by_id = {entry["id"]: entry for entry in tree if isinstance(entry, dict) and "id" in entry}
        return by_id[name] if name in by_id else tree[int(name)] if name.isdigit() and int(name) < len(tree) else None
    return tree.get(name) if isinstance(tree, dict) else None


def _meets(actual: object, want: object) -> bool:
    if isinstance(want, list) and isinstance(actual, list) and actual and isinstance(actual[0], dict):
        texts = [_at(entry, []) for entry in actual]
        return len(texts) == len(want) and all(str(part) in str(text) for part, text in zip(want, texts, strict=True))
    size = _SIZE.fullmatch(want) if isinstance(want, str) else None
    if size and isinstance(actual, int):
        return actual == round(float(size[1]) * _UNITS[size[2]])
    if isinstance(want, float) and isinstance(actual, float):
        return abs(actual - want) <= abs(want) * 1e-3
    return bool(actual == want)
