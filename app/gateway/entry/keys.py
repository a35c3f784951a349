"""The keys that open the endpoint: made here, shown once, and kept as hashes in a file only their owner may read.

A file of their own, not the database of conversations: that one is begun anew when it is damaged, and an endpoint that
forgets its keys on such a day would lock everybody out or let everybody in. This file is read before anything listens;
if it cannot be, nothing does.

A plain SHA-256 is enough for what is hashed: 256 random bits, which no list of likely passwords holds. A slow hash
protects guessable secrets; here it would only let strangers keep the processor busy.
"""

import hashlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from app.config.private_files import save_private
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault, quote_value
from app.core.keys import NO_LIMITS, KeyInfo, KeyLimits, KeyTokens, KeyWithSecret, NewKey, Scope
from app.gateway.entry.key_limits import KeyUse

log = logging.getLogger(__name__)

PREFIX = "rh-"
"""Lets a person, and a scanner for leaked secrets, see what it is."""
_RANDOM_BYTES = 32
_ID_BYTES = 6
MAX_KEYS = 256
"""Every key is compared with on every request: 256 take about 50 µs."""
_KEPT_REVOKED = 16
"""Revoked keys that can be brought back while this process lives."""
_USE_SAVED_S = 60.0
"""A use is written to the disk at most this often."""


class ForwardClock:
    """The time of day, which no setting of the clock takes back: a key that has expired stays so until a restart."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._latest, self._at = wall(), steady()

    def __call__(self) -> float:
        """Return Unix seconds."""
        at = self._steady()
        self._latest, self._at = max(self._wall(), self._latest + at - self._at), at
        return self._latest


class _StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it lies in the file."""

    name: str
    id: str = ""
    """Empty in files from before there were ids, where it is the name."""
    sha256: str
    scopes: list[Scope]
    created_at: float
    expires_at: float | None = None
    last_used_at: float | None = None
    limits: KeyLimits | None = None

    @property
    def describe(self) -> KeyInfo:
        """What may be told."""
        return KeyInfo(
            name=self.name,
            id=self.id,
            scopes=self.scopes,
            created_at=self.created_at,
            expires_at=self.expires_at,
            last_used_at=self.last_used_at,
            limits=self.limits,
        )


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    keys: list[_StoredKey]


class KeyStore:
    """The keys of one installation. One owner: the gateway. Raises StorageFault when the file cannot be understood."""

    def __init__(self, file: Path, clock: Callable[[], float] | None = None) -> None:
        self._file, self._clock = file, clock or ForwardClock()
        self._keys_file = _read_file(file)
        self._revoked_keys: OrderedDict[str, _StoredKey] = OrderedDict()
        self._lent_keys: dict[str, _StoredKey] = {}
        self._uses: dict[str, KeyUse] = {}
        """What keys are used for, by their ids, as the others; those of keys that can be brought back too."""
        self._saved_at = self._clock()
        self.on_revoke: Callable[[], None] = lambda: None
        """Called after a key was revoked."""

    def __len__(self) -> int:
        """Return how many keys open something now."""
        return sum(not self._has_expired(key) for key in self._keys_file.values())

    def list_keys(self) -> list[KeyInfo]:
        """Return every key, expired ones too, oldest first."""
        return [self._describe_use(key) for key in self._keys_file.values()]

    def read_creation(self, key_id: str) -> float | None:
        """Return when a key was made, in Unix seconds; None without one."""
        stored_key = self._keys_file.get(key_id)
        return None if stored_key is None else stored_key.created_at

    def resume_uses(self, earlier: Iterable[KeyTokens]) -> None:
        """Begin with what keys were used for before this process, oldest first; of others than these nothing counts."""
        now = self._clock()
        for tokens in earlier:
            if (stored_key := self._keys_file.get(tokens.key_id)) is not None:
                self._use_of(stored_key).note_tokens(tokens.tokens, min(tokens.at, now))

    def make_key(self, new: NewKey) -> KeyWithSecret:
        """Make a key and return it, the only time it is told. Raises Conflict for a name that is taken, BadRequest."""
        self._check_name(new.name)
        if len(self._keys_file) >= MAX_KEYS:
            raise Conflict(f"There are {MAX_KEYS} keys.", hint="Revoke one that is no longer used.")
        now = self._clock()
        if new.expires_at is not None and new.expires_at <= now:
            raise BadRequest("The key would have expired already.", code="invalid_value")
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        new_key = _StoredKey(
            name=new.name,
            id=secrets.token_hex(_ID_BYTES),
            sha256=_hash_key(key),
            scopes=sorted(set(new.scopes)),
            created_at=now,
            expires_at=new.expires_at,
            limits=_effective_limits(new.limits, new.scopes),
        )
        self._save({**self._keys_file, new_key.id: new_key})
        return KeyWithSecret(**msgspec.structs.asdict(self._describe_use(new_key)), key=key)

    def limit_key(self, name: str, limits: KeyLimits) -> KeyInfo:
        """Have these limits count for a key, and no others, from the next request on. Raises NotFound, BadRequest."""
        stored_key = self._find_stored(name)
        limited_key = msgspec.structs.replace(stored_key, limits=_effective_limits(limits, stored_key.scopes))
        self._save({**self._keys_file, stored_key.id: limited_key})
        self._use_of(limited_key).limits = limited_key.limits or NO_LIMITS
        return self._describe_use(limited_key)

    def rename_key(self, name: str, new_name: str) -> KeyInfo:
        """Call a key otherwise; nothing else about it changes. Raises NotFound, or Conflict when the name is taken."""
        stored_key = self._find_stored(name)
        if new_name != name:
            self._check_name(new_name)
            stored_key = msgspec.structs.replace(stored_key, name=new_name)
            self._save({**self._keys_file, stored_key.id: stored_key})
        return self._describe_use(stored_key)

    def use_of(self, key_id: str) -> KeyUse | None:
        """Return what a key is used for; None for one that is lent, which has no limits."""
        stored_key = self._keys_file.get(key_id)
        return None if stored_key is None else self._use_of(stored_key)

    def revoke_key(self, name: str) -> None:
        """End a key: from the next request on it opens nothing. Raises NotFound."""
        stored_key = self._find_stored(name)
        self._save({other: value for other, value in self._keys_file.items() if other != stored_key.id})
        self._revoked_keys.pop(name, None)
        self._revoked_keys[name] = stored_key
        while len(self._revoked_keys) > _KEPT_REVOKED:
            self._revoked_keys.popitem(last=False)
        listed_ids = self._keys_file.keys() | {revoked_key.id for revoked_key in self._revoked_keys.values()}
        self._uses = {key_id: use for key_id, use in self._uses.items() if key_id in listed_ids}
        self.on_revoke()

    def restore_key(self, name: str) -> KeyInfo:
        """Bring back a key that this process revoked. Raises NotFound, or Conflict when its name is taken again."""
        self._check_name(name)
        revoked_key = self._revoked_keys.get(name)
        if revoked_key is None:
            raise NotFound(
                f"No key called {quote_value(name)} was revoked since the service started.",
                hint="Create a new one instead.",
            )
        self._save({**self._keys_file, revoked_key.id: revoked_key})
        del self._revoked_keys[name]
        return self._describe_use(revoked_key)

    def lend_key(self, name: str) -> str:
        """Return a key that may ask models, for a program of ours. It is on no disk, and ends with this process.

        `name` holds a slash: no key that a person makes is called so.
        """
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        self._lent_keys[name] = _StoredKey(
            name=name, id=name, sha256=_hash_key(key), scopes=[Scope.INFERENCE], created_at=self._clock()
        )
        return key

    def end_loan(self, name: str) -> None:
        """End a key that was lent: from the next request on it opens nothing."""
        if self._lent_keys.pop(name, None) is not None:
            self.on_revoke()

    def find_key(self, key: str) -> KeyInfo | None:
        """Return what the key `shown` is, if it is one and has not expired, and note that it was used.

        Hashes are compared in constant time and all of them, so that the time taken says nothing about any.
        """
        digest, match = _hash_key(key), None
        for stored_key in (*self._keys_file.values(), *self._lent_keys.values()):
            if secrets.compare_digest(stored_key.sha256, digest):
                match = stored_key
        if match is None or self._has_expired(match):
            return None
        self._note_use(match)
        return match.describe

    def seconds_left(self, key_id: str) -> float:
        """Return for how long a key still opens something: infinity without an end, less than 0 if it does not."""
        stored_key = self._keys_file.get(key_id) or self._lent_keys.get(key_id)
        if stored_key is None or self._has_expired(stored_key):
            return -math.inf
        return math.inf if stored_key.expires_at is None else stored_key.expires_at - self._clock()

    def close(self) -> None:
        """Write down when keys were last used. What the disk refuses then is lost, and only that."""
        try:
            if self._keys_file != _read_file(self._file):
                self._save(self._keys_file)
        except StorageFault as error:
            log.warning(str(error), extra={"code": error.code})

    def _describe_use(self, stored_key: _StoredKey) -> KeyInfo:
        return msgspec.structs.replace(stored_key.describe, usage=self._use_of(stored_key).usage())

    def _use_of(self, stored_key: _StoredKey) -> KeyUse:
        use = self._uses.get(stored_key.id)
        if use is None:
            use = self._uses[stored_key.id] = KeyUse(stored_key.limits or NO_LIMITS, self._clock)
        return use

    def _find_stored(self, name: str) -> _StoredKey:
        stored_key = next((key for key in self._keys_file.values() if key.name == name), None)
        if stored_key is None:
            raise NotFound(f"There is no key called {quote_value(name)}.", hint="`roundhouse keys` lists them.")
        return stored_key

    def _check_name(self, name: str) -> None:
        """Raise Conflict for a name that is taken."""
        if any(key.name == name for key in self._keys_file.values()):
            raise Conflict(
                f"There is a key called {quote_value(name)}.", hint="Choose another name, or revoke that one."
            )

    def _note_use(self, stored_key: _StoredKey) -> None:
        if stored_key.id in self._lent_keys:
            return
        now = self._clock()
        self._keys_file[stored_key.id] = msgspec.structs.replace(stored_key, last_used_at=now)
        if now - self._saved_at >= _USE_SAVED_S:
            self._saved_at = now
            try:
                self._save(self._keys_file)
            except StorageFault as error:  # the request is right all the same
                log.warning(str(error), extra={"code": error.code})

    def _has_expired(self, stored_key: _StoredKey) -> bool:
        return stored_key.expires_at is not None and stored_key.expires_at <= self._clock()

    def _save(self, stored_keys: dict[str, _StoredKey]) -> None:
        """Write the file, then take `kept` as what there is: what is not on the disk does not count."""
        content = msgspec.json.format(msgspec.json.encode(_KeyFile(keys=list(stored_keys.values()))))
        save_private(self._file, content, "the keys")
        self._keys_file = stored_keys


def _effective_limits(limits: KeyLimits, scopes: Iterable[Scope]) -> KeyLimits | None:
    """Return the limits, None where there are none. Raises BadRequest for a key that could lift them itself."""
    if limits == NO_LIMITS:
        return None
    if Scope.MANAGE in scopes:
        raise BadRequest(
            "A key that may manage Roundhouse can change the limits of keys, so none would hold for it.",
            hint="Give limits to keys with the scope inference alone.",
            code="limits_need_inference",
        )
    return limits


def _hash_key(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


def _read_file(file: Path) -> dict[str, _StoredKey]:
    """Return the keys by their ids. Raises StorageFault."""
    try:
        keys = msgspec.json.decode(file.read_bytes(), type=_KeyFile).keys
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageFault(
            f"The file with the access keys cannot be read: {error}.",
            hint=f"Repair {file}, or delete it and create new keys. Until then the endpoint stays closed.",
            code="keys_unreadable",
        ) from error
    return {key_id: msgspec.structs.replace(key, id=key_id) for key in keys for key_id in (key.id or key.name,)}
