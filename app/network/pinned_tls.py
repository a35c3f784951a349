"""TLS between paired machines: both sides show a certificate, and only the very certificates that were paired count.

No authority vouches for anybody. A peer's self-signed certificate is the only anchor its connection is verified with,
which proves that the peer has its private key; `check_peer` then compares the certificate byte for byte (by SHA-256),
which also refuses a peer that was revoked after a context was made. Names and dates in certificates mean nothing.
"""

import hashlib
import ssl
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

HANDSHAKE_S = 10.0
"""A peer on the same network takes milliseconds; one that says nothing keeps no connection for longer."""


class UnpinnedPeerError(ssl.SSLError):
    """The other side is none of the machines that are expected: a stranger, or one that was revoked."""


class TlsIdentity(NamedTuple):
    """What this machine shows: a PEM file of its certificate and encrypted private key, and what opens the key."""

    file: Path
    passphrase: str
    certificate: bytes
    """In DER."""

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate, in hex."""
        return fingerprint_of(self.certificate)


class MachineAddress(NamedTuple):
    """One paired machine: its address, and the context and certificate (by SHA-256) it is called with."""

    name: str
    """What people call it."""
    address: str
    port: int
    context: ssl.SSLContext
    fingerprint: str


def fingerprint_of(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER, in hex."""
    return hashlib.sha256(certificate).hexdigest()


def make_server_context(
    identity: TlsIdentity, peers: Iterable[bytes], *, lets_pair: bool = False, protocols: Sequence[str] = ()
) -> ssl.SSLContext:
    """Return what a server for paired machines listens with; `peers` are their certificates in DER. Reads a file.

    A client without a paired certificate is refused in the handshake. With `lets_pair` a client may show none, so that
    it can be paired; whoever serves then has to look with `check_peer` before anything else is answered. `check_peer`
    is needed without it too, where a peer may be revoked while the context is in use. `protocols` are those that a
    client may ask for in the handshake (ALPN); one that asks for none gets none.
    """
    context = _make_context(ssl.PROTOCOL_TLS_SERVER, identity)
    context.verify_mode = ssl.CERT_OPTIONAL if lets_pair else ssl.CERT_REQUIRED
    for certificate in peers:
        trust_peer(context, certificate)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    context.num_tickets = 0  # a resumed session would show no certificate, and outlive a revocation
    return context


def make_client_context(identity: TlsIdentity, peer: bytes, *, protocol: str = "") -> ssl.SSLContext:
    """Return what connects to one paired machine, whose certificate in DER `peer` is. Reads a file.

    `server_hostname` may be anything. Call `check_peer` with the peer's fingerprint once connected. `protocol` is asked
    for in the handshake (ALPN).
    """
    context = _make_context(ssl.PROTOCOL_TLS_CLIENT, identity)
    context.verify_mode = ssl.CERT_REQUIRED
    trust_peer(context, peer)
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def make_stranger_context() -> ssl.SSLContext:
    """Return what connects to a machine that is not paired yet: it trusts nobody and shows nothing.

    Only for the exchange of a code, which itself proves whose certificate this is.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def trust_peer(context: ssl.SSLContext, certificate: bytes) -> None:
    """Accept one more peer with a context that is in use. It cannot be taken back there: see `check_peer`."""
    context.load_verify_locations(cadata=certificate)


def peer_certificate(tls: ssl.SSLObject | ssl.SSLSocket | None) -> bytes:
    """Return the certificate in DER that the other side showed; empty where it showed none."""
    return (tls.getpeercert(binary_form=True) if tls is not None else None) or b""


def check_peer(tls: ssl.SSLObject | ssl.SSLSocket | None, fingerprints: Collection[str]) -> str:
    """Return the fingerprint of the other side of a connection, one of `fingerprints`. Raises UnpinnedPeerError."""
    fingerprint = fingerprint_of(peer_certificate(tls))
    if fingerprint not in fingerprints:
        raise UnpinnedPeerError("the other side is not a machine paired with this one")
    return fingerprint


def _make_context(protocol: int, identity: TlsIdentity) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is compared
    context.load_cert_chain(identity.file, password=identity.passphrase)
    return context
