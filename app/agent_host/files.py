"""The files of one folder, for an agent: read and written by their absolute paths, and nothing that leads elsewhere.

A path with `..`, or with a link anywhere below the folder, is refused whatever it leads to: what a person reads in a
request for permission is then the file that is meant.
"""

import os
import shutil
import stat
import tempfile
from pathlib import Path

LARGEST_FILE = 10 * 1024 * 1024


class FileRefused(Exception):
    """A file is not read or written; says why."""


class ProjectFiles:
    """The folder a person chose."""

    def __init__(self, folder: str) -> None:
        self._given_folder, self._real_folder = Path(folder), Path(folder).resolve()

    @property
    def top(self) -> Path:
        """The folder itself, without links."""
        return self._real_folder

    def find_place(self, path: str) -> Path:
        """Return where a path leads. Raises FileRefused for one outside of the folder."""
        plain = Path(path)
        if not plain.is_absolute() or ".." in plain.parts or "\0" in path:
            raise FileRefused(f"{path} is refused: paths are absolute and without '..'.")
        inside = next(
            (plain.relative_to(top) for top in (self._real_folder, self._given_folder) if plain.is_relative_to(top)),
            None,
        )
        if inside is None:
            raise FileRefused(f"{path} is refused: it is outside of the folder of this session.")
        place = self._real_folder / inside
        if place.resolve() != place:
            raise FileRefused(f"{path} is refused: a link leads elsewhere.")
        return place

    def describe_path(self, path: str) -> str:
        """Return a path as a person reads it: within the folder, where it is there."""
        plain = Path(path)
        for top in (self._real_folder, self._given_folder):
            if plain.is_relative_to(top):
                return plain.relative_to(top).as_posix()
        return path

    def read_file(self, path: str) -> str:
        """Return a file's text. Raises FileRefused, or FileNotFoundError."""
        place = self.find_place(path)
        try:
            about = place.lstat()
            if not stat.S_ISREG(about.st_mode):
                raise FileRefused(f"{path} is no file.")
            if about.st_size > LARGEST_FILE:
                raise FileRefused(f"{path} is larger than {LARGEST_FILE // 1024 // 1024} MiB.")
            return place.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            raise FileRefused(f"{path} is no text.") from None
        except FileNotFoundError:
            raise
        except OSError as error:
            raise FileRefused(f"{path} cannot be read: {error.strerror or error}.") from error

    def read_lines(self, path: str, first: int | None, most: int | None) -> str:
        """Return a part of a file's text, from line `first` on, counted from 1."""
        text = self.read_file(path)
        if first is None and most is None:
            return text
        start = max((first or 1) - 1, 0)
        lines = text.splitlines(keepends=True)[start:]
        return "".join(lines if most is None else lines[:most])

    def read_or_nothing(self, path: str) -> str | None:
        """Return a file's text; None where there is none that can be read."""
        try:
            return self.read_file(path)
        except (FileRefused, FileNotFoundError):
            return None

    def write_file(self, path: str, text: str) -> None:
        """Write a file whole, making its folders: it is the old one until the new one is there. Raises FileRefused."""
        place = self.find_place(path)
        if place.exists() and not place.is_file():
            raise FileRefused(f"{path} is no file.")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _replace_file(place, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise FileRefused(f"{path} cannot be written: {error.strerror or error}.") from error


def _replace_file(place: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{place.name[:64]}.", dir=place.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if place.exists():
            shutil.copymode(place, name)
        else:
            mask = os.umask(0)
            os.umask(mask)
            Path(name).chmod(0o666 & ~mask)
        Path(name).replace(place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
