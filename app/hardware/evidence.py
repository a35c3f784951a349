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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import msgspec

# A Path that remembers what was read through it, so that readers of files need not know they are being recorded.
#
# It keeps text that was read, links that were followed, and what was only seen to be there (an empty file stands for
# it). Binary files are not kept: they can hold serial numbers nobody looked at.

if sys.platform == "win32":
    from pathlib import WindowsPath as SystemPath
else:
    from pathlib import PosixPath as SystemPath

_TEXT_MAX = 1 << 20
"""Longer files are cut in the record; what readers look at in /proc and /sys is far shorter."""


class PathRecord(msgspec.Struct, kw_only=True):
    """What was read below a root, by path without the leading "/": `[files]` and `[links]` of a fixture."""

    files: dict[str, str] = {}
    links: dict[str, str] = {}

    def without_folders(self) -> "PathRecord":
        """Return the same without the folders of other entries: those are there by themselves."""
        parents = {str(parent) for name in [*self.files, *self.links] for parent in Path(name).parents}
        files = {
            name: text for name, text in sorted(self.files.items()) if text or name not in parents | set(self.links)
        }
        return PathRecord(files=files, links=dict(sorted(self.links.items())))


def record_below(root: Path) -> tuple[Path, PathRecord]:
    """Return `root` as a Path that records, for itself and every path made from it, into the Seen beside it."""
    record = PathRecord()
    kind: type[RecordedPath] = type("RecordedPath", (RecordedPath,), {"top": root, "seen": record})
    return kind(root), record


class RecordedPath(SystemPath):
    """Behaves as Path; `record_below` derives one class per recording, since paths make paths of their own class."""

    top: ClassVar[Path]
    seen: ClassVar[PathRecord]

    def read_text(self, *arguments: Any, **options: Any) -> str:  # noqa: ANN401 -- Path's signature differs by version
        """Read, and remember the text."""
        text: str = super().read_text(*arguments, **options)
        self.seen.files[self._below_top()] = text[:_TEXT_MAX]
        return text

    def exists(self, **options: Any) -> bool:  # noqa: ANN401 -- as above
        """Tell, and remember that something is there."""
        return super().exists(**options) and self._note()

    def is_dir(self, **options: Any) -> bool:  # noqa: ANN401 -- as above
        """Tell, and remember that something is there."""
        return super().is_dir(**options) and self._note()

    def glob(self, *arguments: Any, **options: Any) -> Generator[Self, None, None]:  # noqa: ANN401 -- as above
        """List, and remember that each is there."""
        for path in super().glob(*arguments, **options):
            path._note()  # noqa: SLF001 -- another of our own class
            yield path

    def iterdir(self) -> Generator[Self, None, None]:
        """List, and remember that each is there."""
        for path in super().iterdir():
            path._note()  # noqa: SLF001 -- as above
            yield path

    def resolve(self, *arguments: Any, **options: Any) -> Self:  # noqa: ANN401 -- as above
        """Follow links, and remember where they led, relative to the link's own folder."""
        target = super().resolve(*arguments, **options)
        if target != self and self.is_relative_to(self.top):
            self.seen.links[self._below_top()] = os.path.relpath(target, self.parent)
        return target

    def _note(self) -> bool:
        self.seen.files.setdefault(self._below_top(), "")
        return True

    def _below_top(self) -> str:
        return self.relative_to(self.top).as_posix()


T = TypeVar("T")
Raw = dict[str, Any]

THIS_SYSTEM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
_COMMAND_TIMEOUT_S = 6.0
_NO_ANSWER = "unanswered"
_MERGED_TABLES = ("files", "links", "commands")
"""Tables each family adds its own entries to."""


class NoAnswer(Exception):
    """A question had no answer; the message says why."""


class Evidence:
    """The readers' one door to the machine. `system` is "linux", "macos" or "windows"."""

    def __init__(self, root: Path, *, tables: Mapping[str, Any], path_record: PathRecord | None = None) -> None:
        self.root = root
        self.system = str(tables["system"])
        self._tables: Raw = dict(tables)
        self._path_record = path_record

    def read_table(self, table: str, kind: type[T], reader: Callable[[], T]) -> T:
        """Return what `reader` returns, now or when this was recorded. Raises NoAnswer.

        `kind` is what the recorded JSON is turned back into. Live, a reader may raise OSError, ValueError,
        AttributeError (a library without that entry point) or Unanswered: each is no answer, and is remembered.
        """
        if self._path_record is not None and table not in self._tables:
            self._tables[table] = _record_answer(reader)
        return _convert_answer(table, self._tables.get(table, {_NO_ANSWER: "It was not asked."}), kind)

    def run_command(self, argv: Sequence[str]) -> str:
        """Return a program's standard output, or "" when it is missing, fails or takes too long."""
        name = " ".join([argv[0].rsplit("/", 1)[-1], *argv[1:]])
        outputs: dict[str, str] = self._tables.setdefault("commands", {})
        if self._path_record is not None and name not in outputs:
            outputs[name] = _command_output(argv)
        return outputs.get(name, "")

    def export_raw(self) -> Raw:
        """Return everything that was seen, as the module docstring describes."""
        if self._path_record is None:
            return dict(self._tables)
        entries: Raw = msgspec.to_builtins(self._path_record.without_folders())
        return self._tables | entries


def live_evidence() -> Evidence:
    """Return evidence that reads this machine and remembers."""
    root, path_record = record_below(Path("/"))
    return Evidence(root, tables={"system": THIS_SYSTEM}, path_record=path_record)


def merge_records(records: Sequence[Raw]) -> Raw:
    """Return one record of what several families saw. Where two asked the same, the first answer counts."""
    whole: Raw = {}
    for record in records:
        for table, value in record.items():
            present: Any = whole.get(table)
            if present is None:
                whole[table] = value
            elif table in _MERGED_TABLES:
                whole[table] = {**value, **present}
    return whole


@contextmanager
def replay_evidence(raw: Mapping[str, Any]) -> Iterator[Evidence]:
    """Yield evidence that answers from `raw`. Its files lie in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="roundhouse-replay-") as folder:
        root = Path(folder).resolve()
        unpack_record(raw, root)
        yield Evidence(root, tables=raw)


def unpack_record(raw: Mapping[str, Any], root: Path) -> None:
    """Write the files and links of `raw` below `root`. Raises ValueError for a name that leads out of it."""
    files: Mapping[str, str] = raw.get("files", {})
    for name, target in raw.get("links", {}).items():  # links first: files are then written through them
        _make_link(root, name, target, is_file=_link_target(root, name, target) in files)
    for name, text in files.items():
        path = _path_inside(root, name)
        if text or not path.exists():
            path.write_text(text, encoding="utf-8")


def _make_link(root: Path, name: str, target: str, *, is_file: bool) -> None:
    link = _path_inside(root, name)
    if not is_file:
        _path_inside(root, _link_target(root, name, target)).mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to(target)


def _link_target(root: Path, name: str, target: str) -> str:
    return os.path.relpath((root / name).parent.resolve() / target, root)


def _path_inside(root: Path, name: str) -> Path:
    path = root / name
    if not path.resolve().is_relative_to(root):
        raise ValueError(f"{name} points outside the record.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _record_answer(reader: Callable[[], object]) -> Any:  # noqa: ANN401 -- JSON of any shape
    try:
        return msgspec.to_builtins(reader())
    except (OSError, ValueError, AttributeError, NoAnswer) as error:
        return {_NO_ANSWER: f"{type(error).__name__}: {error}"}


def _convert_answer(table: str, value: Any, kind: type[T]) -> T:  # noqa: ANN401 -- as above
    if isinstance(value, dict) and set(value) == {_NO_ANSWER}:
        raise NoAnswer(str(value[_NO_ANSWER]))
    try:
        return msgspec.convert(value, type=kind)
    except msgspec.ValidationError as error:
        raise NoAnswer(f"{table}: {error}") from error


def _command_output(argv: Sequence[str]) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, timeout=_COMMAND_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.decode("utf-8", "replace")
