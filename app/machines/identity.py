"""Who this machine is to others: a key pair and a self-signed certificate, made once, with no name or address in them.

The private key lies in a file of its owner's (mode 0600), encrypted with a passphrase that the system's keyring keeps;
where there is none the passphrase lies beside it. TLS takes keys from files only, so the key itself cannot be in the
keyring. Blocks; use a thread.
"""

import datetime as dt
import secrets
import ssl
from pathlib import Path

import msgspec

from app.config.keyring_secrets import SecretStoreError, read_secret, store_secret
from app.config.private_files import save_private
from app.core.errors import EnvironmentFault
from app.network.pinned_tls import TlsIdentity

_PASSPHRASE_BYTES = 32
_FROM = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
"""Before any clock of a machine that could be paired."""
_UNTIL = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
"""RFC 5280's date for a certificate that does not expire: what ends it is revoking."""


class _IdentityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the record says: the passphrase, or, where it is empty, that the keyring has it."""

    passphrase: str = ""


def load_identity(file: Path) -> TlsIdentity:
    """Return the identity that `file` keeps, made now if there is none. Raises EnvironmentFault, StorageFault."""
    return _read_identity(file) if file.exists() else _make_identity(file)


def _make_identity(file: Path) -> TlsIdentity:
    passphrase = secrets.token_urlsafe(_PASSPHRASE_BYTES)
    is_in_keyring = store_secret(str(file), passphrase)
    record = _IdentityRecord(passphrase="" if is_in_keyring else passphrase)
    save_private(_record_file(file), msgspec.json.encode(record), "this machine's identity")
    save_private(file, make_identity_pem(passphrase), "this machine's identity")
    return _read_identity(file)


def make_identity_pem(passphrase: str) -> bytes:
    """Return a new certificate and its private key, encrypted, as one PEM text."""
    from cryptography import x509  # noqa: PLC0415 -- 20 ms that starting can do without
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 -- as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- as above
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 -- as above
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 -- as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Roundhouse machine")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        # A peer's certificate is an anchor of ours: it must vouch for nobody else.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode()))
    return certificate.public_bytes(Encoding.PEM) + secret


def _read_identity(file: Path) -> TlsIdentity:
    from cryptography import x509  # noqa: PLC0415 -- as above
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 -- as above

    try:
        record = msgspec.json.decode(_record_file(file).read_bytes(), type=_IdentityRecord)
        passphrase = record.passphrase or read_secret(str(file))
        certificate = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes(Encoding.DER)
        identity = TlsIdentity(file, passphrase, certificate)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(file, password=passphrase)
    except (OSError, ValueError, msgspec.MsgspecError, SecretStoreError) as error:
        raise EnvironmentFault(
            "This machine's key cannot be read, so paired machines cannot be reached.",
            hint=f"Unlock the keyring. If it was lost, remove {file}, and pair your computers again.",
            code="identity_unreadable",
        ) from error
    return identity


def _record_file(file: Path) -> Path:
    return file.with_suffix(".json")
