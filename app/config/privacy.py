"""Our folders and files belong to one account alone: whoever else can write in them could plant links and read keys.

What is there already is checked and tightened when the service starts: a folder from before, one that a backup brought
back, or one that somebody made by hand is readable by whomever the system's usual mode lets.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from app.config.paths import Paths
from app.core.errors import EnvironmentFault

OWN_MASK = 0o077
"""What files and folders are made without: anything for others."""


def secure_folders(paths: Paths) -> None:
    """Make our folders and the files in them ours alone. Raises EnvironmentFault for those of another account.

    Models stay as they are: they are no secret, and may be meant for others. On Windows a person's folders are theirs.
    """
    if sys.platform == "win32":
        return
    os.umask(OWN_MASK)
    for folder in (paths.config, paths.data, paths.state, paths.logs, paths.engine_records):
        _secure_folder(folder)
        for file in _plain_files(folder):
            _tighten(file)


def check_owner(paths: Paths) -> None:
    """Raise EnvironmentFault if folders of ours that are there already belong to another account; change nothing."""
    for folder in (paths.config, paths.data, paths.state, paths.logs):
        _check_owner(folder)


def _check_owner(folder: Path) -> None:
    try:
        owner: int | None = folder.stat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:  # it is in a folder that we may not even look into
        owner = None
    # In a container, root is given folders of any account.
    if sys.platform != "win32" and os.geteuid() not in {0, owner}:
        raise EnvironmentFault(
            f"The folder {folder} belongs to another account, which could read the keys in it.",
            hint="Give it to your own account with `chown`, or name another folder in ROUNDHOUSE_HOME.",
            code="home_not_ours",
        )


def _secure_folder(folder: Path) -> None:
    _check_owner(folder)
    _tighten(folder)


def _plain_files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder; what was planted as a link with one of our names is removed instead."""
    for entry in folder.iterdir():
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode) and entry.name in _NEVER_LINKS:
            entry.unlink()
        elif stat.S_ISREG(mode):
            yield entry


_NEVER_LINKS = frozenset({"gateway.json", "gateway.json.part", "gateway.lock", "keys.json", "keys.json.part"})
"""Nobody has a reason to keep these elsewhere, unlike settings, which people share between computers."""


def _tighten(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OWN_MASK:
        path.chmod(mode & ~OWN_MASK)


def is_own(path: Path) -> bool:
    """Whether a file is this account's own, and no link. Root is told what any account wrote. Raises OSError."""
    if sys.platform == "win32" or os.geteuid() == 0:
        return True
    status = path.lstat()
    return status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode)
