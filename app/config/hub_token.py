"""The hub's token, kept where the system keeps secrets; where there is no such place, in a file only its owner reads.

The file says where the token is, so that a keyring, which may ask a person to unlock it, is opened only by those who
put something into it. The token is read once and then remembered. Blocks; call it from a thread.
"""

import contextlib
import logging
import os
import tempfile
import threading
from pathlib import Path

import msgspec

from app.config.environment import exported_hub_token, hugging_face_token
from app.core.errors import BadRequest, StorageFault
from app.core.hub import TokenPlace

log = logging.getLogger(__name__)

SERVICE = "roundhouse"
_LEAST, _MOST = 8, 512


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says: the token, or that the keyring has it."""

    place: TokenPlace
    token: str = ""


class HubToken:
    """The token in force: of the environment, else the one that was kept, else Hugging Face's own programs'."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._remembered: str | None = None

    def read(self) -> str:
        """Return the token; empty without one."""
        return exported_hub_token() or self._own() or hugging_face_token()

    def place(self) -> TokenPlace | None:
        """Return where the token in force is from; None without one."""
        if exported_hub_token():
            return TokenPlace.ENVIRONMENT
        if self._own():
            kept = self._said()
            return kept.place if kept else None
        return TokenPlace.HUGGING_FACE if hugging_face_token() else None

    def keep(self, token: str) -> None:
        """Keep a token from now on. Raises BadRequest for what is none, StorageFault where it cannot be kept."""
        wanted = token.strip()
        if not (_LEAST <= len(wanted) <= _MOST and wanted.isascii() and wanted.isprintable() and " " not in wanted):
            raise BadRequest("This is not a token.", hint="A token looks like hf_…", code="invalid_value")
        with self._lock:
            if _into_keyring(str(self._file), wanted):
                self._write(_Kept(place=TokenPlace.KEYRING))
            else:
                self._write(_Kept(place=TokenPlace.FILE, token=wanted))
            self._remembered = wanted

    def forget(self) -> None:
        """Forget the token that was kept."""
        with self._lock:
            kept = self._said()
            if kept is not None and kept.place is TokenPlace.KEYRING:
                _out_of_keyring(str(self._file))
            with contextlib.suppress(FileNotFoundError):
                self._file.unlink()
            self._remembered = ""

    def _own(self) -> str:
        with self._lock:
            if self._remembered is None:
                kept = self._said()
                is_elsewhere = kept is not None and kept.place is TokenPlace.KEYRING
                self._remembered = _from_keyring(str(self._file)) if is_elsewhere else kept.token if kept else ""
            return self._remembered

    def _said(self) -> _Kept | None:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _write(self, kept: _Kept) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, staged = tempfile.mkstemp(dir=self._file.parent, prefix=self._file.name)  # mode 0600
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.json.encode(kept))
            Path(staged).replace(self._file)
        except OSError as error:
            raise StorageFault(f"The token could not be saved: {error.strerror or error}.") from error


def _into_keyring(name: str, token: str) -> bool:
    """Put a token into the system's keyring, and look whether it is there: some take everything and keep nothing."""
    import keyring  # noqa: PLC0415 -- finds its backends when imported, which takes a while
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    try:
        keyring.set_password(SERVICE, name, token)
        return keyring.get_password(SERVICE, name) == token
    except (KeyringError, RuntimeError, OSError) as error:
        log.info("The token goes into a file: the keyring refused (%s).", type(error).__name__)
        return False


def _from_keyring(name: str) -> str:
    import keyring  # noqa: PLC0415 -- as above
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    try:
        return keyring.get_password(SERVICE, name) or ""
    except (KeyringError, RuntimeError, OSError) as error:
        log.warning("The keyring does not give the hub's token (%s).", type(error).__name__)
        return ""


def _out_of_keyring(name: str) -> None:
    import keyring  # noqa: PLC0415 -- as above
    from keyring.errors import KeyringError  # noqa: PLC0415 -- as above

    with contextlib.suppress(KeyringError, RuntimeError, OSError):
        keyring.delete_password(SERVICE, name)
