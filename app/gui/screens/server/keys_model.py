"""State of who may use the endpoint: the keys, the one just made, and whether other computers are let in."""

import time

from PySide6.QtCore import QObject, Signal

from app.client.http import quote_segment
from app.config.checks import LOOPBACK
from app.core.api import SettingInfo, Status
from app.core.errors import ErrorBody
from app.core.keys import KeyInfo, KeyWithSecret, NewKey, Scope
from app.core.translation import tr, tr_list_or
from app.gui.net.remote import RemoteList
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

HOST = "gateway.host"
EVERYWHERE = "0.0.0.0"  # noqa: S104 -- what the switch is for; the gateway refuses it while there is no key


class KeysModel(QObject):
    """Keys and the switch for other computers."""

    changed = Signal()
    toast_requested = Signal(str, object)
    failed = Signal(object)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self._api, self._preferences, self._gateway = stores.api, stores.preferences, stores.status
        self._keys = RemoteList(stores.api, shell, "/keys", list[KeyInfo])
        self.new_key: KeyWithSecret | None = None
        """The key that was just made, until the person has put it away: nobody can show it again."""
        for store in (self._keys, self._preferences, self._gateway):
            store.changed.connect(self.changed)

    @property
    def items(self) -> list[KeyInfo]:
        """Every key, oldest first."""
        return self._keys.items

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
            failed=self._report_error,
        )

    def put_away(self) -> None:
        """Forget the key that was just made."""
        self.new_key = None
        self.changed.emit()

    def revoke(self, name: str) -> None:
        """Revoke a key at once; Undo brings it back."""

        def finish_revoke() -> None:
            if self.new_key is not None and self.new_key.name == name:
                self.new_key = None
            self._keys.read()
            self.toast_requested.emit(tr("The key {name} was revoked.", name=name), lambda: self.restore(name))

        self._api.delete(f"/keys/{quote_segment(name)}", finish_revoke, self._report_error)

    def restore(self, name: str) -> None:
        """Bring a revoked key back."""
        path = f"/keys/{quote_segment(name)}/restore"
        self._api.post(path, None, kind=KeyInfo, then=lambda _: self._keys.read(), failed=self._report_error)

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


def key_facts(key: KeyInfo) -> str:
    """Return what is told of a key in one quiet line."""
    may = tr("may manage Roundhouse") if Scope.MANAGE in key.scopes else tr("may use models")
    used = tr("last used {time}", time=_format_time(key.last_used_at)) if key.last_used_at else tr("never used")
    end = (
        ""
        if key.expires_at is None
        else tr("expired")
        if has_expired(key)
        else tr("until {time}", time=_format_time(key.expires_at))
    )
    return " · ".join(part for part in (may, used, end) if part)


def _format_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
