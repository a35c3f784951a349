"""The hub's token, kept where the system keeps secrets; where there is no such place, in a file only its owner reads.

The file says where the token is, so that a keyring, which may ask a person to unlock it, is opened only by those who
put something into it. The token is read once and then remembered. Blocks; call it from a thread.
"""

import contextlib
import logging
import threading
from pathlib import Path

import msgspec

from app.config.environment import environment_hub_token, hugging_face_token
from app.config.keyring_secrets import SecretStoreError, delete_secret, read_secret, store_secret
from app.config.private_files import save_private
from app.core.errors import BadRequest
from app.core.hub import TokenPlace

log = logging.getLogger(__name__)

_LEAST, _MOST = 8, 512


class _TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says: the token, or that the keyring has it."""

    place: TokenPlace
    token: str = ""


class HubToken:
    """The token in force: of the environment, else the one that was kept, else Hugging Face's own programs'."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._token: str | None = None

    def read_token(self) -> str:
        """Return the token; empty without one."""
        return environment_hub_token() or self._own_token() or hugging_face_token()

    def token_place(self) -> TokenPlace | None:
        """Return where the token in force is from; None without one."""
        if environment_hub_token():
            return TokenPlace.ENVIRONMENT
        if self._own_token():
            record = self._read_record()
            return record.place if record else None
        return TokenPlace.HUGGING_FACE if hugging_face_token() else None

    def store_token(self, token: str) -> None:
        """Keep a token from now on. Raises BadRequest for what is none, StorageFault where it cannot be kept."""
        stripped = token.strip()
        if not (
            _LEAST <= len(stripped) <= _MOST and stripped.isascii() and stripped.isprintable() and " " not in stripped
        ):
            raise BadRequest("This is not a token.", hint="A token looks like hf_…", code="invalid_value")
        with self._lock:
            if store_secret(str(self._file), stripped):
                self._write_record(_TokenRecord(place=TokenPlace.KEYRING))
            else:
                self._write_record(_TokenRecord(place=TokenPlace.FILE, token=stripped))
            self._token = stripped

    def forget_token(self) -> None:
        """Forget the token that was kept."""
        with self._lock:
            record = self._read_record()
            if record is not None and record.place is TokenPlace.KEYRING:
                delete_secret(str(self._file))
            with contextlib.suppress(FileNotFoundError):
                self._file.unlink()
            self._token = ""

    def _own_token(self) -> str:
        with self._lock:
            if self._token is None:
                record = self._read_record()
                is_elsewhere = record is not None and record.place is TokenPlace.KEYRING
                self._token = _read_from_keyring(str(self._file)) if is_elsewhere else record.token if record else ""
            return self._token

    def _read_record(self) -> _TokenRecord | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_TokenRecord)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _write_record(self, record: _TokenRecord) -> None:
        save_private(self._file, msgspec.json.encode(record), "the token")


def _read_from_keyring(name: str) -> str:
    try:
        return read_secret(name)
    except SecretStoreError as error:
        log.warning("The keyring does not give the hub's token (%s).", error)
        return ""
