"""A keyring in a file, also for gateways that a test starts as programs (`keyring_environment`).

Nothing in it is protected; it stands where a desktop has its own.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import keyring
from keyring.backend import KeyringBackend

VARIABLE = "TEST_KEYRING_FILE"
_ROOT = Path(__file__).resolve().parents[1]


class FileKeyring(KeyringBackend):
    """Keeps what it is given in the file that the environment names."""

    priority = 1

    def get_password(self, service: str, username: str) -> str | None:
        return self._read().get(f"{service} {username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        _file().write_text(json.dumps({**self._read(), f"{service} {username}": password}), encoding="utf-8")

    def delete_password(self, service: str, username: str) -> None:
        passwords = self._read()
        del passwords[f"{service} {username}"]
        _file().write_text(json.dumps(passwords), encoding="utf-8")

    def _read(self) -> dict[str, str]:
        try:
            passwords: dict[str, str] = json.loads(_file().read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return passwords


def _file() -> Path:
    return Path(os.environ[VARIABLE])


@contextmanager
def use_file_keyring(file: Path) -> Iterator[None]:
    """Have this process's keyring in a file while the block runs."""
    before, file_before = keyring.get_keyring(), os.environ.get(VARIABLE)
    keyring.set_keyring(FileKeyring())  # type: ignore[no-untyped-call] # keyring has no types there
    os.environ[VARIABLE] = str(file)
    try:
        yield
    finally:
        keyring.set_keyring(before)
        if file_before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = file_before


def keyring_environment(file: Path) -> Mapping[str, str]:
    """Return what a gateway is started with so that its keyring is in a file."""
    return {
        "PYTHON_KEYRING_BACKEND": "tests.file_keyring.FileKeyring",
        "PYTHONPATH": str(_ROOT),
        VARIABLE: str(file),
    }
