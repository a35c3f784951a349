"""Mutual TLS between paired machines: the pinned certificate with its key is let in, and nothing that resembles it."""

import datetime as dt
import ssl
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.core.errors import EnvironmentFault
from app.machines import identity as identity_module
from app.machines.identity import load_identity, make_identity_pem
from app.network.pinned_tls import (
    TlsIdentity,
    UnpinnedPeerError,
    check_peer,
    make_client_context,
    make_server_context,
    make_stranger_context,
    peer_certificate,
)

_STEPS = 6
"""A handshake of TLS 1.3 takes three flights; the server's verdict on a client's certificate comes after them."""


def make_identity(folder: Path) -> TlsIdentity:
    folder.mkdir(exist_ok=True)
    file = folder / "identity.pem"
    file.write_bytes(make_identity_pem("word"))
    der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
    return TlsIdentity(file, "word", der)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> TlsIdentity:
    return make_identity(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
def lap(tmp_path_factory: pytest.TempPathFactory) -> TlsIdentity:
    return make_identity(tmp_path_factory.mktemp("lap"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> TlsIdentity:
    return make_identity(tmp_path_factory.mktemp("stranger"))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Have two contexts talk in memory until a byte has gone both ways; return the server's side and the client's."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_server = server.wrap_bio(up, down, server_side=True)
    at_client = client.wrap_bio(down, up, server_hostname="machine")
    for _ in range(_STEPS):
        for step in (at_client.do_handshake, at_server.do_handshake):
            attempt(step)
    at_client.write(b"?")
    at_server.read(1)
    at_server.write(b"!")
    at_client.read(1)
    return at_server, at_client


def attempt(step: Callable[[], None]) -> None:
    try:
        step()
    except ssl.SSLWantReadError:
        return


def test_paired_machines_know_each_other(desk: TlsIdentity, lap: TlsIdentity) -> None:
    at_server, at_client = shake_hands(
        make_server_context(desk, [lap.certificate]), make_client_context(lap, desk.certificate)
    )
    assert check_peer(at_server, {lap.fingerprint}) == lap.fingerprint
    assert check_peer(at_client, {desk.fingerprint}) == desk.fingerprint
    assert at_client.version() == "TLSv1.3"


def test_a_stranger_is_let_in_by_neither_side(desk: TlsIdentity, lap: TlsIdentity, stranger: TlsIdentity) -> None:
    with pytest.raises(ssl.SSLError):
        shake_hands(make_server_context(desk, [lap.certificate]), make_client_context(stranger, desk.certificate))
    with pytest.raises(ssl.SSLError):
        shake_hands(make_server_context(stranger, [lap.certificate]), make_client_context(lap, desk.certificate))


def test_a_copied_certificate_is_worth_nothing_without_its_key(
    desk: TlsIdentity, lap: TlsIdentity, stranger: TlsIdentity, tmp_path: Path
) -> None:
    """The certificate is no secret: whoever has it may show it, but cannot sign for it."""
    clone = tmp_path / "clone.pem"
    _, mark, key = stranger.file.read_bytes().partition(b"-----BEGIN ENCRYPTED")
    clone.write_bytes(lap.file.read_bytes().partition(mark)[0] + mark + key)
    with pytest.raises(ssl.SSLError):
        make_client_context(stranger._replace(file=clone), desk.certificate)


def test_a_certificate_that_a_paired_machine_signed_is_a_strangers(
    desk: TlsIdentity, lap: TlsIdentity, tmp_path: Path
) -> None:
    issued_certificate = issue_certificate(lap, tmp_path / "issued.pem")
    with pytest.raises(ssl.SSLError):
        shake_hands(
            make_server_context(desk, [lap.certificate]), make_client_context(issued_certificate, desk.certificate)
        )


def issue_certificate(issuer: TlsIdentity, file: Path) -> TlsIdentity:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415 -- only here

    signer = load_pem_private_key(issuer.file.read_bytes(), issuer.passphrase.encode())
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    parent = x509.load_der_x509_certificate(issuer.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(parent.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2999, 1, 1, tzinfo=dt.UTC))
        .sign(signer, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = issuer.file.read_bytes().partition(b"-----BEGIN ENCRYPTED")[0]
    file.write_bytes(certificate.public_bytes(Encoding.PEM) + chain + secret)
    return TlsIdentity(file, "", certificate.public_bytes(Encoding.DER))


def test_a_revoked_machine_is_refused_by_a_context_that_still_trusts_it(desk: TlsIdentity, lap: TlsIdentity) -> None:
    at_server, _ = shake_hands(make_server_context(desk, [lap.certificate]), make_client_context(lap, desk.certificate))
    with pytest.raises(UnpinnedPeerError):
        check_peer(at_server, set())


def test_who_shows_nothing_gets_in_only_to_pair(desk: TlsIdentity, lap: TlsIdentity) -> None:
    with pytest.raises(ssl.SSLError):
        shake_hands(make_server_context(desk, [lap.certificate]), make_stranger_context())
    at_server, at_client = shake_hands(
        make_server_context(desk, [lap.certificate], lets_pair=True), make_stranger_context()
    )
    assert peer_certificate(at_client) == desk.certificate
    with pytest.raises(UnpinnedPeerError):
        check_peer(at_server, {lap.fingerprint})


def test_an_older_tls_is_refused(desk: TlsIdentity, lap: TlsIdentity) -> None:
    client = make_client_context(lap, desk.certificate)
    client.minimum_version, client.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake_hands(make_server_context(desk, [lap.certificate]), client)


@pytest.mark.parametrize("has_keyring", [True, False])
def test_an_identity_stays_the_same_and_its_key_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_keyring: bool
) -> None:
    kept_secrets: dict[str, str] = {}

    def store(name: str, secret: str) -> bool:
        if has_keyring:
            kept_secrets[name] = secret
        return has_keyring

    monkeypatch.setattr(identity_module, "store_secret", store)
    monkeypatch.setattr(identity_module, "read_secret", lambda name: kept_secrets.get(name, ""))
    file = tmp_path / "machine-identity.pem"
    new_identity = load_identity(file)
    assert load_identity(file) == new_identity
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in file.read_bytes()
    assert (new_identity.passphrase in file.with_suffix(".json").read_text("utf-8")) is not has_keyring
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR
    file.unlink()
    assert load_identity(file).fingerprint != new_identity.fingerprint


def test_a_key_that_nothing_opens_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_module, "store_secret", lambda _name, _secret: True)
    monkeypatch.setattr(identity_module, "read_secret", lambda _name: "another word")
    with pytest.raises(EnvironmentFault) as error:
        load_identity(tmp_path / "machine-identity.pem")
    assert error.value.code == "identity_unreadable"
