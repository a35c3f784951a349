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
        self._kept = _read_file(file)
        self._revoked: OrderedDict[str, _StoredKey] = OrderedDict()
        self._lent: dict[str, _StoredKey] = {}
        self._uses: dict[str, KeyUse] = {}
        """What keys are used for, by their ids, as the others; those of keys that can be brought back too."""
        self._saved_at = self._clock()
        self.on_revoke: Callable[[], None] = lambda: None
        """Called after a key was revoked."""

    def __len__(self) -> int:
        """Return how many keys open something now."""
        return sum(not self._has_expired(kept) for kept in self._kept.values())

    def list_keys(self) -> list[KeyInfo]:
        """Return every key, expired ones too, oldest first."""
        return [self._describe_use(kept) for kept in self._kept.values()]

    def read_creation(self, key_id: str) -> float | None:
        """Return when a key was made, in Unix seconds; None without one."""
        stored = self._kept.get(key_id)
        return None if stored is None else stored.created_at

    def resume_uses(self, earlier: Iterable[KeyTokens]) -> None:
        """Begin with what keys were used for before this process, oldest first; of others than these nothing counts."""
        now = self._clock()
        for tokens in earlier:
            if (stored := self._kept.get(tokens.key_id)) is not None:
                self._use_of(stored).note_tokens(tokens.tokens, min(tokens.at, now))

    def make_key(self, new: NewKey) -> KeyWithSecret:
        """Make a key and return it, the only time it is told. Raises Conflict for a name that is taken, BadRequest."""
        self._check_name(new.name)
        if len(self._kept) >= MAX_KEYS:
            raise Conflict(f"There are {MAX_KEYS} keys.", hint="Revoke one that is no longer used.")
        now = self._clock()
        if new.expires_at is not None and new.expires_at <= now:
            raise BadRequest("The key would have expired already.", code="invalid_value")
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        kept = _StoredKey(
            name=new.name,
            id=secrets.token_hex(_ID_BYTES),
            sha256=_hash_key(key),
            scopes=sorted(set(new.scopes)),
            created_at=now,
            expires_at=new.expires_at,
            limits=_effective_limits(new.limits, new.scopes),
        )
        self._save({**self._kept, kept.id: kept})
        return KeyWithSecret(**msgspec.structs.asdict(self._describe_use(kept)), key=key)

    def limit_key(self, name: str, limits: KeyLimits) -> KeyInfo:
        """Have these limits count for a key, and no others, from the next request on. Raises NotFound, BadRequest."""
        kept = self._find_stored(name)
        limited = msgspec.structs.replace(kept, limits=_effective_limits(limits, kept.scopes))
        self._save({**self._kept, kept.id: limited})
        self._use_of(limited).limits = limited.limits or NO_LIMITS
        return self._describe_use(limited)

    def rename_key(self, name: str, new_name: str) -> KeyInfo:
        """Call a key otherwise; nothing else about it changes. Raises NotFound, or Conflict when the name is taken."""
        kept = self._find_stored(name)
        if new_name != name:
            self._check_name(new_name)
            kept = msgspec.structs.replace(kept, name=new_name)
            self._save({**self._kept, kept.id: kept})
        return self._describe_use(kept)

    def use_of(self, key_id: str) -> KeyUse | None:
        """Return what a key is used for; None for one that is lent, which has no limits."""
        stored = self._kept.get(key_id)
        return None if stored is None else self._use_of(stored)

    def revoke_key(self, name: str) -> None:
        """End a key: from the next request on it opens nothing. Raises NotFound."""
        kept = self._find_stored(name)
        self._save({other: value for other, value in self._kept.items() if other != kept.id})
        self._revoked.pop(name, None)
        self._revoked[name] = kept
        while len(self._revoked) > _KEPT_REVOKED:
            self._revoked.popitem(last=False)
        listed = self._kept.keys() | {revoked.id for revoked in self._revoked.values()}
        self._uses = {key_id: use for key_id, use in self._uses.items() if key_id in listed}
        self.on_revoke()

    def restore_key(self, name: str) -> KeyInfo:
        """Bring back a key that this process revoked. Raises NotFound, or Conflict when its name is taken again."""
        self._check_name(name)
        kept = self._revoked.get(name)
        if kept is None:
            raise NotFound(
                f"No key called {quote_value(name)} was revoked since the service started.",
                hint="Create a new one instead.",
            )
        self._save({**self._kept, kept.id: kept})
        del self._revoked[name]
        return self._describe_use(kept)

    def lend_key(self, name: str) -> str:
        """Return a key that may ask models, for a program of ours. It is on no disk, and ends with this process.

        `name` holds a slash: no key that a person makes is called so.
        """
        key = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        self._lent[name] = _StoredKey(
            name=name, id=name, sha256=_hash_key(key), scopes=[Scope.INFERENCE], created_at=self._clock()
        )
        return key

    def end_loan(self, name: str) -> None:
        """End a key that was lent: from the next request on it opens nothing."""
        if self._lent.pop(name, None) is not None:
            self.on_revoke()

    def find_key(self, key: str) -> KeyInfo | None:
        """Return what the key `shown` is, if it is one and has not expired, and note that it was used.

        Hashes are compared in constant time and all of them, so that the time taken says nothing about any.
        """
        digest, match = _hash_key(key), None
        for kept in (*self._kept.values(), *self._lent.values()):
            if secrets.compare_digest(kept.sha256, digest):
                match = kept
        if match is None or self._has_expired(match):
            return None
        self._note_use(match)
        return match.describe

    def seconds_left(self, key_id: str) -> float:
        """Return for how long a key still opens something: infinity without an end, less than 0 if it does not."""
        kept = self._kept.get(key_id) or self._lent.get(key_id)
        if kept is None or self._has_expired(kept):
            return -math.inf
        return math.inf if kept.expires_at is None else kept.expires_at - self._clock()

    def close(self) -> None:
        """Write down when keys were last used. What the disk refuses then is lost, and only that."""
        try:
            if self._kept != _read_file(self._file):
                self._save(self._kept)
        except StorageFault as error:
            log.warning(str(error), extra={"code": error.code})

    def _describe_use(self, kept: _StoredKey) -> KeyInfo:
        return msgspec.structs.replace(kept.describe, usage=self._use_of(kept).usage())

    def _use_of(self, kept: _StoredKey) -> KeyUse:
        use = self._uses.get(kept.id)
        if use is None:
            use = self._uses[kept.id] = KeyUse(kept.limits or NO_LIMITS, self._clock)
        return use

    def _find_stored(self, name: str) -> _StoredKey:
        stored = next((kept for kept in self._kept.values() if kept.name == name), None)
        if stored is None:
            raise NotFound(f"There is no key called {quote_value(name)}.", hint="`roundhouse keys` lists them.")
        return stored

    def _check_name(self, name: str) -> None:
        """Raise Conflict for a name that is taken."""
        if any(kept.name == name for kept in self._kept.values()):
            raise Conflict(
                f"There is a key called {quote_value(name)}.", hint="Choose another name, or revoke that one."
            )

    def _note_use(self, kept: _StoredKey) -> None:
        if kept.id in self._lent:
            return
        now = self._clock()
        self._kept[kept.id] = msgspec.structs.replace(kept, last_used_at=now)
        if now - self._saved_at >= _USE_SAVED_S:
            self._saved_at = now
            try:
                self._save(self._kept)
            except StorageFault as error:  # the request is right all the same
                log.warning(str(error), extra={"code": error.code})

    def _has_expired(self, kept: _StoredKey) -> bool:
        return kept.expires_at is not None and kept.expires_at <= self._clock()

    def _save(self, kept: dict[str, _StoredKey]) -> None:
        """Write the file, then take `kept` as what there is: what is not on the disk does not count."""
        content = msgspec.json.format(msgspec.json.encode(_KeyFile(keys=list(kept.values()))))
        save_private(self._file, content, "the keys")
        self._kept = kept


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
