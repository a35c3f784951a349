"""Keys as they are kept: shown once, stored as hashes, compared whole, gone at once when revoked."""

import hashlib
import json
import stat
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.config import private_files
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault
from app.core.keys import MAX_NAME, NewKey, Scope
from app.gateway.entry import keys as keys_module
from app.gateway.entry.access import ALLOWED, MAX_PEERS, WINDOW_S, Attempts
from app.gateway.entry.keys import KeyStore


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config" / "keys.json"


@pytest.fixture
def keys(file: Path, clock: Clock) -> KeyStore:
    return KeyStore(file, clock)


def test_a_key_is_random_and_opens_what_it_says(keys: KeyStore) -> None:
    first, two = keys.make_key(NewKey(name="one")), keys.make_key(NewKey(name="two", scopes=[Scope.MANAGE]))
    assert first.key.startswith("rh-")
    assert len(first.key) >= 43  # 256 bits in base64
    assert first.key != two.key
    key = keys.find_key(two.key)
    assert key is not None
    assert (key.name, key.scopes) == ("two", [Scope.MANAGE])


def test_the_file_holds_hashes_only_and_is_its_owners(keys: KeyStore, file: Path) -> None:
    new_key = keys.make_key(NewKey(name="one"))
    written_text = file.read_text("utf-8")
    assert new_key.key not in written_text
    assert new_key.key.removeprefix("rh-") not in written_text
    assert hashlib.sha256(new_key.key.encode()).hexdigest() in written_text
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_told_about_a_key_does_not_hold_it(keys: KeyStore) -> None:
    new_key = keys.make_key(NewKey(name="one"))
    assert new_key.key.encode() not in msgspec.json.encode(keys.list_keys())
    assert not hasattr(keys.find_key(new_key.key), "key")


def test_keys_are_there_after_a_restart_with_their_last_use(keys: KeyStore, file: Path, clock: Clock) -> None:
    new_key = keys.make_key(NewKey(name="one"))
    clock.now += 5
    assert keys.find_key(new_key.key)
    keys.close()
    again = KeyStore(file, clock)
    assert [(key.name, key.last_used_at) for key in again.list_keys()] == [("one", clock.now)]
    assert again.find_key(new_key.key)


def test_uses_reach_the_disk_once_a_minute_not_on_every_request(keys: KeyStore, file: Path, clock: Clock) -> None:
    new_key = keys.make_key(NewKey(name="one"))
    before = file.read_bytes()
    for _ in range(50):
        clock.now += 1
        keys.find_key(new_key.key)
    assert file.read_bytes() == before
    clock.now += 20
    keys.find_key(new_key.key)
    assert json.loads(file.read_bytes())["keys"][0]["last_used_at"] == clock.now


def test_a_revoked_key_opens_nothing_and_can_be_brought_back(keys: KeyStore, file: Path, clock: Clock) -> None:
    new_key = keys.make_key(NewKey(name="one"))
    keys.revoke_key("one")
    assert keys.find_key(new_key.key) is None
    assert KeyStore(file, clock).find_key(new_key.key) is None
    assert keys.restore_key("one").name == "one"
    assert keys.find_key(new_key.key)
    with pytest.raises(Conflict):
        keys.restore_key("one")


def test_what_was_revoked_before_a_restart_stays_revoked(keys: KeyStore, file: Path, clock: Clock) -> None:
    keys.make_key(NewKey(name="one"))
    keys.revoke_key("one")
    with pytest.raises(NotFound):
        KeyStore(file, clock).restore_key("one")
    with pytest.raises(NotFound):
        keys.revoke_key("one")


def test_an_expired_key_opens_nothing_and_does_not_count(keys: KeyStore, clock: Clock) -> None:
    new_key = keys.make_key(NewKey(name="one", expires_at=clock.now + 10))
    assert (bool(keys.find_key(new_key.key)), len(keys)) == (True, 1)
    clock.now += 10
    assert (keys.find_key(new_key.key), len(keys)) == (None, 0)
    assert [key.name for key in keys.list_keys()] == ["one"]
    with pytest.raises(BadRequest):
        keys.make_key(NewKey(name="two", expires_at=clock.now))


def test_names_are_taken_once_and_keys_are_bounded(keys: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "MAX_KEYS", 2)
    keys.make_key(NewKey(name="one"))
    with pytest.raises(Conflict):
        keys.make_key(NewKey(name="one"))
    keys.make_key(NewKey(name="two"))
    with pytest.raises(Conflict):
        keys.make_key(NewKey(name="three"))


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a\nb", "a\x00", "x" * (MAX_NAME + 1), "\x7f"])
def test_names_that_would_not_stand_in_a_table_are_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": name}, NewKey)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"keys":[{"name":1}]}', b"\xff\xfe"])
def test_a_damaged_file_closes_the_endpoint_instead_of_opening_it(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(StorageFault) as fault:
        KeyStore(file)
    assert fault.value.code == "keys_unreadable"
    assert file.read_bytes() == content


def test_a_key_that_could_not_be_saved_is_none(keys: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    new_key = keys.make_key(NewKey(name="one"))

    def full(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private_files, "write_private", full)
    with pytest.raises(StorageFault):
        keys.make_key(NewKey(name="two"))
    with pytest.raises(StorageFault):
        keys.revoke_key("one")
    assert [key.name for key in keys.list_keys()] == ["one"]
    assert keys.find_key(new_key.key)


@given(secret=st.text(max_size=80))
def test_nothing_else_is_a_key(tmp_path_factory: pytest.TempPathFactory, secret: str) -> None:
    keys = KeyStore(tmp_path_factory.mktemp("keys") / "keys.json")
    new_key = keys.make_key(NewKey(name="one"))
    assert keys.find_key(secret) is None
    assert (keys.find_key(new_key.key + secret) is None) == bool(secret)


def test_wrong_keys_make_a_peer_wait_and_only_that_one() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert [attempts.note_wrong_key("10.0.0.1") for _ in range(ALLOWED)] == [0.0] * ALLOWED
    assert attempts.note_wrong_key("10.0.0.1") == WINDOW_S
    assert attempts.note_wrong_key("::ffff:10.0.0.1") == WINDOW_S
    assert attempts.note_wrong_key("10.0.0.2") == 0.0
    clock.now += WINDOW_S
    assert attempts.note_wrong_key("10.0.0.1") == 0.0


def test_a_household_of_ipv6_addresses_is_one_peer() -> None:
    attempts = Attempts(Clock())
    assert any(attempts.note_wrong_key(f"2001:db8::{number:x}") for number in range(ALLOWED + 1))
    assert attempts.note_wrong_key("2001:db8:0:1::1") == 0.0
    assert attempts.note_wrong_key("fe80::1%eth0") == 0.0
    assert attempts.note_wrong_key("") == 0.0


def test_peers_are_remembered_in_bounded_memory() -> None:
    attempts = Attempts(Clock())
    for number in range(MAX_PEERS + 100):
        attempts.note_wrong_key(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(attempts) == MAX_PEERS
