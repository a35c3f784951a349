"""A secret of the person's, kept where the system keeps secrets; where there is no such place, in a file of its own.

The file says where the secret is, so that a keyring, which may ask a person to unlock it, is opened only by those who
put something into it. The secret is read once and then remembered. Blocks; call it from a thread.
"""

import contextlib
import logging
import threading
from enum import StrEnum
from pathlib import Path

import msgspec

from app.config.keyring_secrets import SecretStoreError, delete_secret, read_secret, store_secret
from app.config.private_files import save_private

log = logging.getLogger(__name__)


class SecretPlace(StrEnum):
    """Where a secret is kept."""

    KEYRING = "keyring"
    FILE = "file"
    """Of our own, where the system has no keyring."""


class _SecretRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says: the secret, or that the keyring has it."""

    place: SecretPlace
    token: str = ""


class KeptSecret:
    """A secret in one file, or where that says. `what` is its name in messages."""

    def __init__(self, file: Path, what: str) -> None:
        self._file, self._what = file, what
        self._lock = threading.Lock()
        self._secret: str | None = None

    def read_secret(self) -> str:
        """Return the secret; empty without one."""
        with self._lock:
            if self._secret is None:
                record = self._read_record()
                is_elsewhere = record is not None and record.place is SecretPlace.KEYRING
                self._secret = self._read_from_keyring() if is_elsewhere else record.token if record else ""
            return self._secret

    def secret_place(self) -> SecretPlace | None:
        """Return where it is kept; None without one that can be read."""
        record = self._read_record() if self.read_secret() else None
        return None if record is None else record.place

    def store_secret(self, secret: str) -> None:
        """Keep a secret from now on. Raises StorageFault where it cannot be kept."""
        with self._lock:
            if store_secret(str(self._file), secret):
                self._write_record(_SecretRecord(place=SecretPlace.KEYRING))
            else:
                self._write_record(_SecretRecord(place=SecretPlace.FILE, token=secret))
            self._secret = secret

    def forget_secret(self) -> None:
        """Forget the secret that was kept."""
        with self._lock:
            record = self._read_record()
            if record is not None and record.place is SecretPlace.KEYRING:
                delete_secret(str(self._file))
            with contextlib.suppress(FileNotFoundError):
                self._file.unlink()
            self._secret = ""

    def _read_from_keyring(self) -> str:
        try:
            return read_secret(str(self._file))
        except SecretStoreError as error:
            log.warning("The keyring does not give %s (%s).", self._what, error)
            return ""

    def _read_record(self) -> _SecretRecord | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_SecretRecord)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _write_record(self, record: _SecretRecord) -> None:
        save_private(self._file, msgspec.json.encode(record), self._what)
