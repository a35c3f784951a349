"""The kept prompts: sealed files on the disk, where the system's keyring has their key, else sealed in memory only.

What does not fit any more goes by `policy.choose_evictions`. A file that cannot be opened is removed. A full disk costs
a prompt its place there, and nothing else. Methods block; call them from threads.
"""

import contextlib
import io
import logging
import os
import secrets
import shutil
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from app.config.keyring_secrets import SecretStoreError, read_secret, store_secret
from app.core.kept_prompts import SealKeyState
from app.gateway.kept_prompts.policy import (
    PromptEntry,
    PromptPlace,
    PromptRecord,
    choose_evictions,
    find_replaced_entries,
)
from app.gateway.kept_prompts.sealing import (
    MASTER_BYTES,
    FileHead,
    PromptDamageError,
    name_tag,
    open_record,
    open_state,
    read_head,
    seal_prompt,
)

log = logging.getLogger(__name__)

SUFFIX = ".prompt"
_DRAFT = ".part"
KEYRING_S = 20.0
"""How long a keyring may take: one that asks a person to unlock it answers when they have, or never."""
RETRY_S = 600.0
"""A keyring that refused is asked again after so long."""
SPARE_BYTES = 1 << 30
"""So much of a disk stays free."""


class PromptLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The most bytes that kept prompts may take."""

    disk: int
    memory: int

    @property
    def any(self) -> int:
        """The size above which a prompt is kept nowhere."""
        return max(self.disk, self.memory)


class SealKey:
    """The key that seals the files, made when it is first needed. Locked by its owner."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name, self._clock = name, clock
        self._key: bytes | None = None
        self._refused_at: float | None = None

    @property
    def state(self) -> SealKeyState:
        """Whether there is one, as far as anybody has looked."""
        if self._key is not None:
            return SealKeyState.HOLDS_KEY
        return SealKeyState.NOT_ASKED if self._refused_at is None else SealKeyState.REFUSED

    def read_key(self) -> bytes | None:
        """Return the key; None where no keyring keeps it. Takes `KEYRING_S` at most."""
        is_early = self._refused_at is not None and self._clock() - self._refused_at < RETRY_S
        if self._key is None and not is_early:
            self._key = _call_in_time(self._find_or_make)
            self._refused_at = self._clock() if self._key is None else None
        return self._key

    def _find_or_make(self) -> bytes | None:
        try:
            stored_secret = read_secret(self._name)
        except SecretStoreError as error:
            log.info("Prompts are not kept on the disk: the keyring refused (%s).", error)
            return None
        with contextlib.suppress(ValueError):
            if len(key := b64decode(stored_secret, validate=True)) == MASTER_BYTES:
                return key
        key = secrets.token_bytes(MASTER_BYTES)
        return key if store_secret(self._name, b64encode(key).decode()) else None


def _call_in_time(function: Callable[[], bytes | None]) -> bytes | None:
    """Return what a function returns, None if it takes too long. Its thread ends with the process."""
    results: list[bytes | None] = []
    thread = threading.Thread(target=lambda: results.append(function()), name="keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_S)
    return results[0] if results else None


class PromptStore:
    """All kept prompts of this gateway. `clock` returns Unix seconds."""

    def __init__(
        self, folder: Path, limits: Callable[[], PromptLimits], clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._limits, self._clock = folder, limits, clock
        self._lock = threading.RLock()
        self._keyring = SealKey(str(folder), clock)
        self._memory_key = secrets.token_bytes(MASTER_BYTES)
        self._in_memory: dict[str, bytes] = {}
        self._entries: dict[str, PromptEntry] = {}
        self._has_looked = False

    @property
    def seal_key_state(self) -> SealKeyState:
        """Whether the keyring has the key of the files."""
        return self._keyring.state

    def list_entries(self) -> list[PromptEntry]:
        """Return every prompt that can be opened, opening the keyring if files are there. What is damaged goes."""
        with self._lock:
            self._look()
            return list(self._entries.values())

    def entries_of(self, owner: str, identity: str) -> list[PromptEntry]:
        """Return the prompts of one owner that fit a state."""
        return [
            entry for entry in self.list_entries() if (entry.record.owner, entry.record.identity) == (owner, identity)
        ]

    @property
    def may_have_entries(self) -> bool:
        """Whether there may be anything, told at once: nobody waits for the disk or the keyring."""
        return bool(self._entries) or not self._has_looked

    def has_room_for(self, state_bytes: int) -> bool:
        """Tell whether a state of this size could be kept at all."""
        return 0 < state_bytes <= self._limits().any

    def add_prompt(self, record: PromptRecord, state: Path) -> PromptEntry | None:
        """Seal and keep the state in a file; return None where there is no room for it. The file stays as it is."""
        with self._lock:
            self._look()
            key = self._keyring.read_key() if record.state_bytes <= self._limits().disk else None
        entry = (key and self._add_to_disk(key, record, state)) or self._add_to_memory(record, state)
        if entry is None:
            return None
        with self._lock:
            for needless in find_replaced_entries(self._entries.values(), record):
                self._drop(needless.id)
            self._entries[entry.id] = entry
            self._evict(entry.place)
            return self._entries.get(entry.id)

    def write_state(self, entry: PromptEntry, into: BinaryIO) -> None:
        """Write a prompt's state as its engine had it, and note the use.

        Raises PromptDamageError, after the prompt was removed, or OSError.
        """
        with self._lock:
            key = self._memory_key if entry.place is PromptPlace.MEMORY else self._keyring.read_key()
        try:
            with self._open(entry) as file:
                open_state(key or b"", file, entry.record.owner, into)
        except (PromptDamageError, FileNotFoundError) as error:
            self.remove_prompt(entry.id)
            raise PromptDamageError from error
        self._note_use(entry)

    def remove_prompt(self, prompt: str) -> bool:
        """Remove one; return whether it was there."""
        with self._lock:
            was_there = prompt in self._entries
            self._drop(prompt)
            return was_there

    def remove_where(self, is_unwanted: Callable[[PromptEntry], bool]) -> int:
        """Remove those a person wants gone; return how many that were."""
        unwanted_ids = [entry.id for entry in self.list_entries() if is_unwanted(entry)]
        return sum(map(self.remove_prompt, unwanted_ids))

    def remove_all(self) -> int:
        """Remove everything, what cannot be opened too, without opening the keyring; return how many that were."""
        with self._lock:
            names = {file.stem for file in self._files()} | set(self._in_memory)
            for name in names:
                self._drop(name)
            return len(names)

    def sweep_prompts(self, owners: Iterable[str], models: Iterable[str]) -> int:
        """Remove what belongs to no owner or model that there still is, without opening it; return how many."""
        owner_tags, model_tags = set(map(name_tag, owners)), set(map(name_tag, models))
        with self._lock:
            stale = [
                name
                for name, head in self._heads()
                if head is None or head.owner_tag not in owner_tags or head.model_tag not in model_tags
            ]
            for name in stale:
                self._drop(name)
            self._has_looked = self._has_looked or not any(self._files())
        return len(stale)

    def apply_limits(self) -> None:
        """Have no more than may be."""
        with self._lock:
            if not self._limits().disk and not self._has_looked:  # no keyring is opened for what goes anyway
                for file in list(self._files()):
                    self._drop(file.stem)
            if self._entries or any(self._files()):
                self._look()
                for place in PromptPlace:
                    self._evict(place)

    def _look(self) -> None:
        """Read what the files say of themselves, once; those that say nothing are removed."""
        if self._has_looked:
            return
        for draft in self._folder.glob(f"*{_DRAFT}"):
            draft.unlink(missing_ok=True)
        files = list(self._files())
        key = self._keyring.read_key() if files else None
        if files and key is None:  # locked, for now
            return
        self._has_looked = True
        for file in files:
            assert key is not None  # noqa: S101 -- there are files
            if (entry := _read_entry(file, key)) is None:
                _remove_file(file)
            else:
                self._entries[entry.id] = entry

    def _add_to_disk(self, key: bytes, record: PromptRecord, state: Path) -> PromptEntry | None:
        name = secrets.token_hex(16)
        draft, file = self._folder / f"{name}{_DRAFT}", self._folder / f"{name}{SUFFIX}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(self._folder).free - record.state_bytes < SPARE_BYTES:
                return None
            with state.open("rb") as source, open_new(draft) as sealed_file:
                seal_prompt(key, record, source, sealed_file)
            draft.replace(file)
            return _entry(name, record, PromptPlace.DISK, file.stat().st_size, self._clock())
        except OSError as error:
            log.warning("A prompt could not be kept on the disk: %s", error)
            _remove_file(file)
            return None
        finally:
            _remove_file(draft)

    def _add_to_memory(self, record: PromptRecord, state: Path) -> PromptEntry | None:
        if record.state_bytes > self._limits().memory:
            return None
        sealed_file = io.BytesIO()
        try:
            with state.open("rb") as source:
                seal_prompt(self._memory_key, record, source, sealed_file)
        except (OSError, MemoryError) as error:
            log.warning("A prompt could not be kept in memory: %s", error)
            return None
        name = secrets.token_hex(16)
        self._in_memory[name] = sealed_file.getvalue()
        return _entry(name, record, PromptPlace.MEMORY, len(self._in_memory[name]), self._clock())

    def _evict(self, place: PromptPlace) -> None:
        limits = self._limits()
        limit = limits.disk if place is PromptPlace.DISK else limits.memory
        here = [entry for entry in self._entries.values() if entry.place is place]
        for entry in choose_evictions(here, limit, self._clock()):
            self._drop(entry.id)

    def _note_use(self, entry: PromptEntry) -> None:
        now = self._clock()
        with self._lock:
            if entry.id in self._entries:
                self._entries[entry.id] = msgspec.structs.replace(entry, used_at=now)
        if entry.place is PromptPlace.DISK:
            with contextlib.suppress(OSError):
                os.utime(self._folder / f"{entry.id}{SUFFIX}", (now, now))

    def _drop(self, name: str) -> None:
        self._entries.pop(name, None)
        self._in_memory.pop(name, None)
        _remove_file(self._folder / f"{name}{SUFFIX}")

    @contextlib.contextmanager
    def _open(self, entry: PromptEntry) -> Iterator[BinaryIO]:
        if entry.place is PromptPlace.MEMORY:
            yield io.BytesIO(self._in_memory.get(entry.id, b""))
            return
        with (self._folder / f"{entry.id}{SUFFIX}").open("rb") as file:
            yield file

    def _heads(self) -> Iterator[tuple[str, FileHead | None]]:
        """Yield what every prompt says without a key; None for what is none."""
        for file in list(self._files()):
            try:
                with file.open("rb") as source:
                    yield file.stem, read_head(source)
            except (OSError, PromptDamageError):
                yield file.stem, None
        for name, sealed_file in list(self._in_memory.items()):
            yield name, read_head(io.BytesIO(sealed_file))

    def _files(self) -> Iterator[Path]:
        return self._folder.glob(f"*{SUFFIX}")


def _entry(name: str, record: PromptRecord, place: PromptPlace, size_bytes: int, used_at: float) -> PromptEntry:
    return PromptEntry(id=name, record=record, place=place, size_bytes=size_bytes, used_at=used_at)


def _read_entry(file: Path, key: bytes) -> PromptEntry | None:
    """Return what a file holds; None for one that is damaged or of another key."""
    try:
        with file.open("rb") as source:
            record, stat = open_record(key, source), os.fstat(source.fileno())
    except (OSError, PromptDamageError):
        log.info("A kept prompt could not be read and is removed.")
        return None
    return _entry(file.stem, record, PromptPlace.DISK, stat.st_size, stat.st_mtime)


def open_new(file: Path) -> BinaryIO:
    """Return a new file for this account only. Raises OSError, also where one of that name is there."""
    return os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")


def _remove_file(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)
