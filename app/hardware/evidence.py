"""What the readers looked at, so that a machine can be examined again elsewhere.

Every probe family takes one `Evidence` and looks through it only: at files below `evidence.root` (a Path, used as
ever), at programs' output by `evidence.run(argv)`, at everything else by `evidence.ask(table, kind, reader)`. There
`reader` returns a plain value (a Struct, a list, a number); all judgement happens afterwards, in pure functions.
A live Evidence remembers what it saw; a replaying one answers from that, on any operating system.

`raw()` is the record: the raw tables of a fixture in tests/fixtures/machines and of a doctor report alike. "system",
"files" (path without leading "/" -> text; an empty text also stands for a folder or device), "links", "commands"
("sysctl -n hw.memsize" -> output), and one table for each question asked ("nvml", "dxgi", "registry").
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.hardware.recorded_path import Seen, recorded_below

T = TypeVar("T")
Raw = dict[str, Any]

THIS_SYSTEM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
_COMMAND_TIMEOUT_S = 6.0
_UNANSWERED = "unanswered"
_GROWING = ("files", "links", "commands")
"""Tables each family adds its own entries to."""


class Unanswered(Exception):
    """A question had no answer; the message says why."""


class Evidence:
    """The readers' one door to the machine. `system` is "linux", "macos" or "windows"."""

    def __init__(self, root: Path, *, tables: Mapping[str, Any], seen: Seen | None = None) -> None:
        self.root = root
        self.system = str(tables["system"])
        self._tables: Raw = dict(tables)
        self._seen = seen

    def ask(self, table: str, kind: type[T], reader: Callable[[], T]) -> T:
        """Return what `reader` returns, now or when this was recorded. Raises Unanswered.

        `kind` is what the recorded JSON is turned back into. Live, a reader may raise OSError, ValueError,
        AttributeError (a library without that entry point) or Unanswered: each is no answer, and is remembered.
        """
        if self._seen is not None and table not in self._tables:
            self._tables[table] = _answer(reader)
        return _converted(table, self._tables.get(table, {_UNANSWERED: "It was not asked."}), kind)

    def run(self, argv: Sequence[str]) -> str:
        """Return a program's standard output, or "" when it is missing, fails or takes too long."""
        name = " ".join([argv[0].rsplit("/", 1)[-1], *argv[1:]])
        outputs: dict[str, str] = self._tables.setdefault("commands", {})
        if self._seen is not None and name not in outputs:
            outputs[name] = _output(argv)
        return outputs.get(name, "")

    def raw(self) -> Raw:
        """Return everything that was seen, as the module docstring describes."""
        if self._seen is None:
            return dict(self._tables)
        found: Raw = msgspec.to_builtins(self._seen.trimmed())
        return self._tables | found


def live() -> Evidence:
    """Return evidence that reads this machine and remembers."""
    root, seen = recorded_below(Path("/"))
    return Evidence(root, tables={"system": THIS_SYSTEM}, seen=seen)


def joined(records: Sequence[Raw]) -> Raw:
    """Return one record of what several families saw. Where two asked the same, the first answer counts."""
    whole: Raw = {}
    for record in records:
        for table, value in record.items():
            known: Any = whole.get(table)
            if known is None:
                whole[table] = value
            elif table in _GROWING:
                whole[table] = {**value, **known}
    return whole


@contextmanager
def replaying(raw: Mapping[str, Any]) -> Iterator[Evidence]:
    """Yield evidence that answers from `raw`. Its files lie in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="roundhouse-replay-") as folder:
        root = Path(folder).resolve()
        unpack(raw, root)
        yield Evidence(root, tables=raw)


def unpack(raw: Mapping[str, Any], root: Path) -> None:
    """Write the files and links of `raw` below `root`. Raises ValueError for a name that leads out of it."""
    files: Mapping[str, str] = raw.get("files", {})
    for name, target in raw.get("links", {}).items():  # links first: files are then written through them
        _link(root, name, target, is_file=_below(root, name, target) in files)
    for name, text in files.items():
        path = _inside(root, name)
        if text or not path.exists():
            path.write_text(text, encoding="utf-8")


def _link(root: Path, name: str, target: str, *, is_file: bool) -> None:
    link = _inside(root, name)
    if not is_file:
        _inside(root, _below(root, name, target)).mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to(target)


def _below(root: Path, name: str, target: str) -> str:
    return os.path.relpath((root / name).parent.resolve() / target, root)


def _inside(root: Path, name: str) -> Path:
    path = root / name
    if not path.resolve().is_relative_to(root):
        raise ValueError(f"{name} points outside the record.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _answer(reader: Callable[[], object]) -> Any:  # noqa: ANN401 -- JSON of any shape
    try:
        return msgspec.to_builtins(reader())
    except (OSError, ValueError, AttributeError, Unanswered) as error:
        return {_UNANSWERED: f"{type(error).__name__}: {error}"}


def _converted(table: str, value: Any, kind: type[T]) -> T:  # noqa: ANN401 -- as above
    if isinstance(value, dict) and set(value) == {_UNANSWERED}:
        raise Unanswered(str(value[_UNANSWERED]))
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise Unanswered(f"{table}: {error}") from error


def _output(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")
