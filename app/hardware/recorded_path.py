"""A Path that remembers what was read through it, so that readers of files need not know they are being recorded.

It keeps text that was read, links that were followed, and what was only seen to be there (an empty file stands for
it). Binary files are not kept: they can hold serial numbers nobody looked at.
"""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec

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
