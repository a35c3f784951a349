"""The store: what it keeps over a restart, what goes, what a bad file, a full disk and a missing keyring come to."""

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import keyring
import pytest
from keyring.backends import fail

from app.core.kept_prompts import SealKeyState
from app.gateway.kept_prompts import store as store_module
from app.gateway.kept_prompts.policy import PromptEntry, PromptPlace, PromptRecord
from app.gateway.kept_prompts.sealing import PromptDamageError
from app.gateway.kept_prompts.store import SUFFIX, PromptLimits, PromptStore
from tests.file_keyring import use_file_keyring
from tests.unit.kept_prompts.records import record_of

PLENTY = 1 << 20


@dataclass
class Shelf:
    """A folder of kept prompts, and stores on it one after the other."""

    folder: Path
    limits: PromptLimits = field(default_factory=lambda: PromptLimits(disk=PLENTY, memory=PLENTY))
    now: float = 1e9

    def open_store(self) -> PromptStore:
        return PromptStore(self.folder / "kept", lambda: self.limits, lambda: self.now)

    def add_prompt(self, store: PromptStore, record: PromptRecord, state: bytes = b"state") -> PromptEntry | None:
        plain = self.folder / "plain"
        plain.write_bytes(state)
        return store.add_prompt(record, plain)

    def files(self) -> list[Path]:
        return sorted((self.folder / "kept").glob(f"*{SUFFIX}"))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    with use_file_keyring(tmp_path / "keyring.json"):
        yield Shelf(tmp_path)


def state_of(store: PromptStore, entry: PromptEntry) -> bytes:
    into = io.BytesIO()
    store.write_state(entry, into)
    return into.getvalue()


def test_a_prompt_is_there_again_after_a_restart(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    store = shelf.open_store()
    (entry,) = store.entries_of("programs", "identity of m")
    assert entry.place is PromptPlace.DISK
    assert state_of(store, entry) == b"state"
    assert store.seal_key_state is SealKeyState.HOLDS_KEY


def test_nobody_else_gets_it(shelf: Shelf) -> None:
    store = shelf.open_store()
    shelf.add_prompt(store, record_of(owner="key 1.0 mine"))
    assert not store.entries_of("key 2.0 mine", "identity of m")
    assert not store.entries_of("programs", "identity of m")
    assert not store.entries_of("key 1.0 mine", "identity of another build")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_files_are_for_this_account_only(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    assert stat.S_IMODE(shelf.files()[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(shelf.files()[0].parent.stat().st_mode) == 0o700


def test_without_a_keyring_it_is_kept_in_memory_and_gone_with_the_process(shelf: Shelf) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call] # keyring has no types there
    try:
        store = shelf.open_store()
        entry = shelf.add_prompt(store, record_of())
        assert entry is not None
        assert entry.place is PromptPlace.MEMORY
        assert state_of(store, entry) == b"state"
        assert store.seal_key_state is SealKeyState.REFUSED
        assert not shelf.files()
        assert not shelf.open_store().list_entries()
    finally:
        keyring.set_keyring(before)


def test_a_locked_keyring_leaves_the_files_for_later(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    before = keyring.get_keyring()
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call] # keyring has no types there
    store = shelf.open_store()
    assert store.list_entries() == []
    keyring.set_keyring(before)
    assert store.list_entries() == [], "it is not asked again at once"
    shelf.now += store_module.RETRY_S
    assert len(store.list_entries()) == 1


def test_a_keyring_that_never_answers_holds_nobody_up(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_call_in_time", lambda _function: None)
    entry = shelf.add_prompt(shelf.open_store(), record_of())
    assert entry is not None
    assert entry.place is PromptPlace.MEMORY


def test_the_keyring_is_not_opened_while_there_is_nothing(shelf: Shelf) -> None:
    store = shelf.open_store()
    store.sweep_prompts(["programs"], ["m"])
    assert store.list_entries() == []
    assert store.seal_key_state is SealKeyState.NOT_ASKED
    assert not store.may_have_entries


def test_a_lost_key_costs_the_files(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    (shelf.folder / "keyring.json").unlink()
    assert shelf.open_store().list_entries() == []
    assert not shelf.files()


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "foreign"])
def test_a_damaged_file_is_refused_and_removed(shelf: Shelf, damage: str) -> None:
    store = shelf.open_store()
    entry = shelf.add_prompt(store, record_of(), b"state" * 100)
    assert entry is not None
    (file,) = shelf.files()
    content = file.read_bytes()
    flipped_content = content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]
    file.write_bytes({"cut": content[:-5], "flipped": flipped_content, "emptied": b"", "foreign": b"GGUF" * 99}[damage])
    with pytest.raises(PromptDamageError):
        state_of(store, entry)
    assert not shelf.files()
    assert not store.list_entries()


def test_what_is_no_prompt_is_removed_at_the_start(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    folder = shelf.files()[0].parent
    (folder / f"noise{SUFFIX}").write_bytes(os.urandom(300))
    (folder / "half.part").write_bytes(b"half")
    assert len(shelf.open_store().list_entries()) == 1
    assert len(shelf.files()) == 1
    assert not list(folder.glob("*.part"))


def test_a_file_that_somebody_removed_is_no_error_of_ours(shelf: Shelf) -> None:
    store = shelf.open_store()
    entry = shelf.add_prompt(store, record_of())
    assert entry is not None
    shelf.files()[0].unlink()
    with pytest.raises(PromptDamageError):
        state_of(store, entry)
    assert not store.list_entries()


def test_a_full_disk_has_it_kept_in_memory(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = shelf.open_store()
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "seal_prompt", refuse)
        assert shelf.add_prompt(store, record_of()) is None
    assert not list((shelf.folder / "kept").iterdir())
    monkeypatch.setattr(store_module, "SPARE_BYTES", 1 << 60)
    entry = shelf.add_prompt(store, record_of())
    assert entry is not None
    assert entry.place is PromptPlace.MEMORY


def test_no_more_is_kept_than_may_be(shelf: Shelf) -> None:
    store = shelf.open_store()
    for number in range(4):
        shelf.now += 1
        shelf.add_prompt(store, record_of(f"{number} " * 4000, state_bytes=4000), bytes(4000))
    each = shelf.files()[0].stat().st_size
    shelf.limits = PromptLimits(disk=3 * each, memory=0)
    store.apply_limits()
    assert len(shelf.files()) == len(store.list_entries()) == 3
    shelf.limits = PromptLimits(disk=0, memory=0)
    store.apply_limits()
    assert not shelf.files()
    assert not store.has_room_for(1)


def test_switched_off_files_of_an_earlier_time_go_without_the_keyring(shelf: Shelf) -> None:
    shelf.add_prompt(shelf.open_store(), record_of())
    shelf.limits = PromptLimits(disk=0, memory=PLENTY)
    store = shelf.open_store()
    store.apply_limits()
    assert not shelf.files()
    assert store.seal_key_state is SealKeyState.NOT_ASKED


def test_a_longer_conversation_takes_the_place_of_its_beginning(shelf: Shelf) -> None:
    store = shelf.open_store()
    first = record_of("x" * 8000)
    shelf.add_prompt(store, first)
    shelf.add_prompt(store, first, b"the same again")
    (entry,) = store.list_entries()
    assert state_of(store, entry) == b"the same again"


@pytest.mark.parametrize("is_open", [True, False])
def test_what_belongs_to_nobody_any_more_is_removed_without_the_key(shelf: Shelf, *, is_open: bool) -> None:
    store = shelf.open_store()
    for owner, model in (("programs", "m"), ("key 1.0 gone", "m"), ("programs", "removed")):
        shelf.add_prompt(store, record_of(owner=owner, model=model))
    store = store if is_open else shelf.open_store()
    assert store.sweep_prompts(["programs", "chats"], ["m"]) == 2
    assert len(shelf.files()) == 1
    (entry,) = store.list_entries()
    assert (entry.record.owner, entry.record.model) == ("programs", "m")


def test_a_person_removes_single_ones_those_of_a_model_or_all(shelf: Shelf) -> None:
    store = shelf.open_store()
    one, _, _ = (shelf.add_prompt(store, record_of(model=model)) for model in ("a", "b", "c"))
    assert one is not None
    assert store.remove_prompt(one.id)
    assert not store.remove_prompt(one.id)
    assert store.remove_where(lambda entry: entry.record.model == "b") == 1
    assert shelf.open_store().remove_all() == 1
    assert not shelf.files()


def test_a_use_is_remembered_over_a_restart(shelf: Shelf) -> None:
    store = shelf.open_store()
    entry = shelf.add_prompt(store, record_of())
    assert entry is not None
    shelf.now += 1000
    state_of(store, entry)
    assert store.list_entries()[0].used_at == shelf.now
    assert shelf.open_store().list_entries()[0].used_at == pytest.approx(shelf.now)
