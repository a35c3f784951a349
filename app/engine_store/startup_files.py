"""What an environment's interpreter runs before anything that was asked of it, and that no lock names.

A line of a `.pth` file that begins with `import`, and the modules `sitecustomize` and `usercustomize`, run whenever
Python starts, also when an engine is only asked for its version. They are accepted only as files of a package that the
environment's lock names, unchanged since it was installed.
"""

import base64
import csv
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from app.engine_store.lock_text import read_pins

_SEPARATORS = re.compile(r"[-_.]+")
_PACKAGES = ("lib*/python*/site-packages", "Lib/site-packages")
_CUSTOM = ("sitecustomize*", "usercustomize*")
_MAKERS = ("_virtualenv.pth", "_virtualenv.py")
"""What some versions of uv put into every environment, for a tool that is not used here."""


def remove_makers_files(environment: Path) -> None:
    """Remove what the maker of a new environment had run at every start."""
    for folder in _package_folders(environment):
        for name in _MAKERS:
            (folder / name).unlink(missing_ok=True)


def find_foreign_startup_file(environment: Path, lock: str) -> Path | None:
    """Return a file that runs at every start and comes from no package of the lock; None where there is none."""
    locked_names = {_plain_name(name) for name in read_pins(lock)}
    for folder in _package_folders(environment):
        for file in _startup_files(folder):
            if not any(_is_recorded(file, folder, record) for record in _records_of(folder, locked_names)):
                return file
    return None


def _package_folders(environment: Path) -> Iterator[Path]:
    for pattern in _PACKAGES:
        yield from environment.glob(pattern)


def _startup_files(folder: Path) -> Iterator[Path]:
    yield from (file for file in sorted(folder.glob("*.pth")) if _is_executable(file))
    for pattern in _CUSTOM:
        yield from sorted(folder.glob(pattern))


def _is_executable(file: Path) -> bool:
    """Tell whether Python runs a line of it, as `site` decides. What cannot be read is taken to be so."""
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        return True
    return any(line.startswith(("import ", "import\t")) for line in lines)


def _records_of(folder: Path, locked_names: set[str]) -> Iterator[Path]:
    for record in folder.glob("*.dist-info/RECORD"):
        if _plain_name(record.parent.name.partition("-")[0]) in locked_names:
            yield record


def _is_recorded(file: Path, folder: Path, record: Path) -> bool:
    name = file.relative_to(folder).as_posix()
    try:
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines())
        digest = next((row[1] for row in rows if len(row) > 1 and row[0] == name), "")
        return bool(digest) and digest == _digest_of(file.read_bytes())
    except (OSError, ValueError, csv.Error):
        return False


def _digest_of(content: bytes) -> str:
    """Return a file's hash as records of installed packages write it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")


def _plain_name(name: str) -> str:
    return _SEPARATORS.sub("-", name).casefold()
