"""The hub's token: which one counts, where it is kept, and that it is kept from others."""

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null

from app.config.hub_token import HubToken
from app.core.errors import BadRequest, StorageFault
from app.core.hub import TokenPlace

TOKEN = "hf_abcdefgh"


class Ring(KeyringBackend):
    """A keyring of the test's own; `is_locked` makes it refuse."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # keyring has no types there
        self.passwords: dict[tuple[str, str], str] = {}
        self.reads = 0
        self.is_locked = False

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def get_password(self, service: str, username: str) -> str | None:
        self.reads += 1
        if self.is_locked:
            raise keyring.errors.KeyringLocked
        return self.passwords.get((service, username))

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where Hugging Face's own programs would keep a token."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "theirs"))
    return tmp_path / "theirs"


@pytest.fixture
def ring() -> Iterator[Ring]:
    before, fake_ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(fake_ring)
    yield fake_ring
    keyring.set_keyring(before)


@pytest.fixture(params=[fail.Keyring, null.Keyring])
def no_ring(request: pytest.FixtureRequest) -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(request.param())
    yield
    keyring.set_keyring(before)


def test_the_keyring_has_it_and_the_file_does_not(tmp_path: Path, ring: Ring) -> None:
    file = tmp_path / "config" / "token.json"
    HubToken(file).store_token(f" {TOKEN}\n")
    assert TOKEN not in file.read_text()
    assert list(ring.passwords.values()) == [TOKEN]
    again = HubToken(file)
    assert (again.read_token(), again.token_place()) == (TOKEN, TokenPlace.KEYRING)


def test_without_a_keyring_only_its_owner_can_read_the_file(tmp_path: Path, no_ring: None) -> None:
    file = tmp_path / "token.json"
    HubToken(file).store_token(TOKEN)
    assert (HubToken(file).read_token(), HubToken(file).token_place()) == (TOKEN, TokenPlace.FILE)
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_keyring_is_opened_once_and_only_by_who_uses_it(tmp_path: Path, ring: Ring) -> None:
    file = tmp_path / "token.json"
    assert HubToken(file).read_token() == ""
    assert ring.reads == 0
    HubToken(file).store_token(TOKEN)
    ring.reads = 0
    token = HubToken(file)
    for _ in range(3):
        token.read_token()
    assert ring.reads == 1


def test_a_locked_keyring_is_as_none(tmp_path: Path, ring: Ring) -> None:
    file = tmp_path / "token.json"
    HubToken(file).store_token(TOKEN)
    ring.is_locked = True
    assert (HubToken(file).read_token(), HubToken(file).token_place()) == ("", None)


def test_the_environment_goes_first_and_their_own_last(
    tmp_path: Path, ring: Ring, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere.write_text("hf_theirs\n")
    token = HubToken(tmp_path / "token.json")
    assert (token.read_token(), token.token_place()) == ("hf_theirs", TokenPlace.HUGGING_FACE)
    token.store_token(TOKEN)
    assert token.read_token() == TOKEN
    monkeypatch.setenv("HF_TOKEN", " hf_exported ")
    assert (token.read_token(), token.token_place()) == ("hf_exported", TokenPlace.ENVIRONMENT)


def test_forgotten_is_gone_everywhere(tmp_path: Path, ring: Ring) -> None:
    file = tmp_path / "token.json"
    token = HubToken(file)
    token.store_token(TOKEN)
    token.forget_token()
    token.forget_token()
    assert (token.read_token(), token.token_place(), ring.passwords, file.exists()) == ("", None, {}, False)


@pytest.mark.parametrize("text", ["", "short", "two words", "hf_\nbroken", "hf_ümlaut___", "x" * 600])
def test_what_is_no_token_is_refused(tmp_path: Path, ring: Ring, text: str) -> None:
    with pytest.raises(BadRequest):
        HubToken(tmp_path / "token.json").store_token(text)
    assert ring.passwords == {}


def test_a_disk_that_refuses_is_said(tmp_path: Path, no_ring: None) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFault):
        HubToken(tmp_path / "file" / "token.json").store_token(TOKEN)
