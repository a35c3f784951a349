"""The tunnel between machines: TLS, both sides known by a certificate that a person carried over, and nobody else.

llama.cpp's RPC has no authentication: whoever reaches it reads and writes memory. So it listens on loopback, and other
machines reach it through here. A connection begins with one line of JSON that says what it is for, and is answered by
another; what follows depends on that.
"""

import asyncio
import ssl
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import tomlkit

from app.config.private_files import write_private
from app.core.across import HERE, TunnelMember
from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, NotFound, Unavailable, quote_value
from app.machines.identity import load_identity
from app.network.egress import egress_gate
from app.network.pinned_tls import TlsIdentity, make_client_context, make_server_context, trust_peer

LINE_BYTES = 4096
ANSWER_S = 10.0
"""For a handshake, or the first line of an answer: what takes longer counts as not there."""
START_S = 120.0
"""For the other machine to start its worker."""
_PIECE = 256 * 1024
_MOST_MEMBERS = 16
"""`GGML_RPC_MAX_SERVERS` of llama.cpp."""
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


L = TypeVar("L", bound=msgspec.Struct)


class TunnelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a connection is for: "state", "hold" (a worker, with heartbeats), "layers" (to it), or "receive" (bytes)."""

    ask: str
    session: str = ""
    count: int = 0
    """Bytes: that the layers take ("hold"), or that are to be sent back ("receive")."""


class TunnelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an answer."""

    problem: str = ""
    free_bytes: int = 0
    bandwidth_gb_s: float | None = None
    version: str = ""


class _MemberFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    member: list[TunnelMember] = []


class TunnelIdentity:
    """This machine's certificate, which paired machines know too, and those of the machines it knows for the tunnel."""

    def __init__(self, own: Path, members: Path) -> None:
        """`own` as `load_identity` takes it; `members` is a file of TOML, read for every use, since it is small."""
        self._own, self._members = own, members
        self._loaded: TlsIdentity | None = None

    def certificate(self) -> str:
        """Return this machine's certificate in PEM; it is made when first needed. Touches the disk, and the keyring."""
        return ssl.DER_cert_to_PEM_cert(self._load().certificate)

    def list_members(self) -> list[TunnelMember]:
        """Return the machines that are known. Raises BadRequest where the file makes no sense. Touches the disk."""
        try:
            return msgspec.convert(tomllib.loads(self._members.read_text(encoding="utf-8")), _MemberFile).member
        except FileNotFoundError:
            return []
        except (ValueError, msgspec.ValidationError) as error:
            raise BadRequest(f"{self._members} cannot be read: {error}", code="invalid_value") from None

    def find_member(self, name: str) -> TunnelMember:
        """Return the machine of that name. Raises NotFound."""
        members = self.list_members()
        member = next((member for member in members if member.name == name), None)
        if member is None:
            names = ", ".join(member.name for member in members) or "none"
            raise NotFound(
                f"There is no machine {quote_value(name)}.",
                hint=f"Known are {names}. `roundhouse tunnel add` adds another.",
                code="machine_not_found",
            )
        return member

    def add_member(self, member: TunnelMember) -> None:
        """Know a machine, in place of the one of that name. Raises BadRequest for what is no machine."""
        _check_member(member)
        others = [other for other in self.list_members() if other.name != member.name]
        if len(others) >= _MOST_MEMBERS:
            raise BadRequest(f"At most {_MOST_MEMBERS} machines can be known.", code="invalid_value")
        self._write_members([*others, member])

    def remove_member(self, name: str) -> None:
        """Forget a machine. Raises NotFound."""
        gone = self.find_member(name)
        self._write_members([member for member in self.list_members() if member != gone])

    def server_context(self) -> ssl.SSLContext:
        """Return what lets in the machines that are known, and nobody else."""
        return make_server_context(self._load(), map(_certificate_of, self.list_members()))

    def client_context(self, member: TunnelMember) -> ssl.SSLContext:
        """Return what believes this machine alone."""
        return make_client_context(self._load(), _certificate_of(member))

    def _load(self) -> TlsIdentity:
        """Return the certificate and its key, kept once read: contexts are made while others connect."""
        self._loaded = self._loaded or load_identity(self._own)
        return self._loaded

    def _write_members(self, members: list[TunnelMember]) -> None:
        write_private(self._members, tomlkit.dumps(msgspec.to_builtins(_MemberFile(member=members))).encode())


def _certificate_of(member: TunnelMember) -> bytes:
    """Return a machine's certificate in DER. Raises ValueError for text that is none."""
    return ssl.PEM_cert_to_DER_cert(member.certificate.strip())


def _check_member(member: TunnelMember) -> None:
    host, _, port = member.address.rpartition(":")
    if not member.name.isprintable() or not member.name.strip() or "," in member.name or member.name == HERE:
        raise BadRequest(f"A machine cannot be called {quote_value(member.name)}.", code="invalid_value")
    if member.address and not (host and port.isdigit() and 0 < int(port) < 1 << 16):
        raise BadRequest(
            f"The address {quote_value(member.address)} has no host and port.",
            hint="It looks like 10.0.0.2:7437.",
            code="invalid_value",
        )
    try:
        trust_peer(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), _certificate_of(member))
    except (ValueError, ssl.SSLError):
        raise BadRequest(
            "That is not a certificate.",
            hint="`roundhouse tunnel` on the other machine shows it.",
            code="invalid_value",
        ) from None


async def call_member(
    identity: TunnelIdentity, member: TunnelMember, request: TunnelRequest, *, within_s: float = ANSWER_S
) -> tuple[TunnelReply, Pipe]:
    """Connect to a machine and ask for something. Raises Unavailable with why not, or Offline."""
    host, _, port = member.address.rpartition(":")
    if not host:
        raise Unavailable(f"The machine {member.name} has no address.", code="unreachable")
    call = egress_gate.note_call(host, int(port), Purpose(why=ConnectionReason.MACHINES, about=member.name))
    try:
        async with asyncio.timeout(within_s):
            context = await asyncio.to_thread(identity.client_context, member)
            pipe = await asyncio.open_connection(
                host.strip("[]"), int(port), ssl=context, server_hostname=member.name, limit=_PIECE
            )
            try:
                await send_line(pipe[1], request)
                return await read_line(pipe[0], TunnelReply), pipe
            except BaseException:
                pipe[1].close()
                raise
    except ssl.SSLCertVerificationError:
        call.note_failure()
        raise Unavailable(
            f"The machine at {member.address} is not {member.name}: its certificate is another.",
            hint="If it was set up anew, `roundhouse tunnel add` it again with its new certificate.",
            code="unreachable",
        ) from None
    except (OSError, TimeoutError, ValueError) as error:
        call.note_failure()
        raise Unavailable(
            f"The machine {member.name} ({member.address}) does not answer: {_failure_reason(error)}",
            hint="Check that Roundhouse runs there, lends its memory, and knows this machine's certificate.",
            code="unreachable",
        ) from None


def _failure_reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {ANSWER_S:.0f} s."
    if isinstance(error, ValueError | ssl.SSLError | ConnectionResetError):
        return "it closed the connection."
    return f"{getattr(error, 'strerror', None) or error}."


async def send_line(writer: asyncio.StreamWriter, value: msgspec.Struct) -> None:
    """Write a value as one line."""
    writer.write(msgspec.json.encode(value) + b"\n")
    await writer.drain()


async def read_line(reader: asyncio.StreamReader, kind: type[L]) -> L:
    """Read one line as a value. Raises ValueError for anything else, or OSError."""
    try:
        line = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise ValueError("the connection ended") from None
    if len(line) > LINE_BYTES:
        raise ValueError("the line is too long")
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


async def join_pipes(one: Pipe, other: Pipe) -> None:
    """Carry bytes both ways until either side ends, then close both."""
    tasks = [
        asyncio.ensure_future(_carry_bytes(one[0], other[1])),
        asyncio.ensure_future(_carry_bytes(other[0], one[1])),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        one[1].close()
        other[1].close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _carry_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
