"""State of who may use the endpoint: the keys, the one just made, and whether other computers are let in."""

import time
from collections.abc import Callable

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.client.http import quote_segment
from app.config.checks import LOOPBACK
from app.core.api import SettingInfo, Status
from app.core.errors import ErrorBody
from app.core.keys import MAX_NAME, NO_LIMITS, KeyInfo, KeyLimits, KeyName, KeyRename, KeyWithSecret, NewKey, Scope
from app.core.translation import tr, tr_list_or
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

HOST = "gateway.host"
_LOOK_EVERY_MS = 2000
"""What keys are used for now is read so often, while somebody can see it."""
EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what the switch is for; the gateway refuses it while there is no key


class KeysModel(QObject):
    """Keys and the switch for other computers."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)
    keys_changed = Signal()
    """A key is called otherwise, or is there no more or again."""

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._preferences, self._gateway = stores.api, stores.preferences, stores.status
        self._library = stores.library
        self._keys = RemoteList(stores.api, shell, "/keys", list[KeyInfo])
        self.new_key: KeyWithSecret | None = None
        """The key that was just made, until the person has put it away: nobody can show it again."""
        self._looks = QTimer(self, interval=_LOOK_EVERY_MS)
        self._looks.timeout.connect(self._keys.read)
        for store in (self._keys, self._preferences, self._gateway):
            store.changed.connect(self.changed)

    @property
    def items(self) -> list[KeyInfo]:
        """Every key, oldest first."""
        return self._keys.items

    @property
    def model_names(self) -> list[str]:
        """Every model that a key may be limited to."""
        return [model.name for model in self._library.items if not model.problem]

    @property
    def is_known(self) -> bool:
        """Whether keys and settings have been read."""
        return self._keys.is_known and self._preferences.is_known

    @property
    def is_open(self) -> bool:
        """Whether the settings let other computers in."""
        return self._preferences.get(HOST, LOOPBACK[0]) not in LOOPBACK

    @property
    def why_fixed(self) -> str:
        """Why the switch cannot be moved; empty when it can."""
        if not self.is_known:
            return tr("Roundhouse's service has not reported its settings yet.")
        host = self._host_setting()
        if host is not None and host.source == "environment":
            return tr("The address is set by an environment variable, so it cannot be changed here.")
        if not self.is_open and not any(not has_expired(key) for key in self.items):
            return tr("Create a key first: without one, anyone on your network could use your models.")
        return ""

    @property
    def waits_for_restart(self) -> bool:
        """Whether the service still listens as it did before the switch was moved."""
        return self.is_known and self._status is not None and self.is_open != bool(self._status.reachable_at)

    @property
    def consequence(self) -> str:
        """What the switch does, or has done: what becomes reachable, by whom, and where."""
        where = tr_list_or([f"{url}/v1" for url in self._status.reachable_at]) if self._status else ""
        if self.is_open and where:
            return tr(
                "Other computers on your network reach it at {where}. Anyone with a key can use your "
                "models; a key that may manage can also read conversations and change settings. Programs "
                "on this computer need a key too. Traffic is not encrypted: use this only on networks you "
                "trust.",
                where=where,
            )
        if self.is_open:
            return tr("Other computers can reach it once the service has restarted. Every program then needs a key.")
        return tr(
            "Only programs on this computer can reach the endpoint. When this is on, every computer on your network "
            "can, at this computer's address, and every program needs a key, also on this computer."
        )

    def make(self, name: str, *, may_manage: bool) -> None:
        """Make a key; `new_key` holds it then."""
        scopes = [Scope.INFERENCE, Scope.MANAGE] if may_manage else [Scope.INFERENCE]
        self._api.post(
            "/keys",
            NewKey(name=name.strip(), scopes=scopes),
            kind=KeyWithSecret,
            then=self._store_key,
            on_error=self._report_error,
        )

    def watch_use(self, is_seen: bool) -> None:  # noqa: FBT001 -- whether the list can be seen
        """Keep up with what keys are used for, or no longer."""
        if is_seen and not self._looks.isActive():
            self._looks.start()
            if self.is_known:
                self._keys.refresh()
        elif not is_seen:
            self._looks.stop()

    def change_key(self, key: KeyInfo, name: str, limits: KeyLimits, then: Callable[[], object]) -> None:
        """Give a key another name and other limits; Undo gives it back what it had. `then` once that is done."""

        def finish_change(changed_key: KeyInfo) -> None:
            then()
            if (changed_key.name, changed_key.limits) != (key.name, key.limits):
                before = key.limits or NO_LIMITS
                undo = lambda: self._send_change(changed_key, key.name, before, lambda _key: self._read_again())  # noqa: E731 -- of this change
                self.toast_requested.emit(tr("The key {name} was changed.", name=changed_key.name), undo)
            self._read_again()

        self._send_change(key, name, limits, finish_change)

    def _send_change(self, key: KeyInfo, name: str, limits: KeyLimits, then: Callable[[KeyInfo], object]) -> None:
        """Rename a key if its name is another, then limit it if its limits are others."""

        def send_limits(renamed_key: KeyInfo) -> None:
            if limits == (key.limits or NO_LIMITS):
                then(renamed_key)
            else:
                self._post(f"/keys/{quote_segment(renamed_key.name)}/limits", limits, then)

        if name == key.name:
            send_limits(key)
        else:
            self._post(f"/keys/{quote_segment(key.name)}/rename", KeyRename(name=name), send_limits)

    def _post(self, path: str, body: KeyLimits | KeyRename, then: Callable[[KeyInfo], object]) -> None:
        self._api.post(path, body, kind=KeyInfo, then=then, on_error=self._report_error)

    def _read_again(self) -> None:
        self._keys.read()
        self.keys_changed.emit()

    def put_away(self) -> None:
        """Forget the key that was just made."""
        self.new_key = None
        self.changed.emit()

    def revoke(self, name: str) -> None:
        """Revoke a key at once; Undo brings it back."""

        def finish_revoke() -> None:
            if self.new_key is not None and self.new_key.name == name:
                self.new_key = None
            self._read_again()
            self.toast_requested.emit(tr("The key {name} was revoked.", name=name), lambda: self.restore(name))

        self._api.delete(f"/keys/{quote_segment(name)}", finish_revoke, self._report_error)

    def restore(self, name: str) -> None:
        """Bring a revoked key back."""
        path = f"/keys/{quote_segment(name)}/restore"
        self._api.post(path, None, kind=KeyInfo, then=lambda _: self._read_again(), on_error=self._report_error)

    def open_to_others(self, is_open: bool) -> None:  # noqa: FBT001 -- the state of a switch
        """Allow other computers from the next start on, or keep them out."""
        if is_open != self.is_open:
            self._preferences.change(HOST, EVERYWHERE if is_open else None, self._report_error)

    def _host_setting(self) -> SettingInfo | None:
        return next((info for info in self._preferences.items if info.name == HOST), None)

    def _store_key(self, key: KeyWithSecret) -> None:
        self.new_key = key
        self._keys.read()
        self.changed.emit()

    @property
    def _status(self) -> Status | None:
        return self._gateway.value

    def _report_error(self, error: ErrorBody) -> None:
        self.failed.emit(error)
        self.changed.emit()


def has_expired(key: KeyInfo) -> bool:
    """Tell whether a key's time is over."""
    return key.expires_at is not None and key.expires_at <= time.time()


def name_problem(name: str) -> str:
    """Return what is wrong with a name for a key, in a sentence; empty for one that can be given."""
    try:
        msgspec.convert(name.strip(), KeyName)
    except msgspec.ValidationError:
        return tr(
            "A name has 1 to {most} characters, without slashes, and without spaces at either end.", most=MAX_NAME
        )
    return ""


def key_facts(key: KeyInfo) -> str:
    """Return what is told of a key in one quiet line."""
    may = tr("may manage Roundhouse") if Scope.MANAGE in key.scopes else tr("may use models")
    use_words = tr("last used {time}", time=_format_time(key.last_used_at)) if key.last_used_at else tr("never used")
    end = (
        ""
        if key.expires_at is None
        else tr("expired")
        if has_expired(key)
        else tr("until {time}", time=_format_time(key.expires_at))
    )
    return " · ".join(part for part in (may, use_words, end) if part)


def _format_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
