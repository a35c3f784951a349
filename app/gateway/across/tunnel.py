"""The tunnel between paired machines, over the TLS and the port at which they ask each other's models.

What engines say to each other has no authentication: whoever reaches llama.cpp's RPC reads and writes memory, and
whoever reaches vLLM's ports runs code. So they are reached through here alone. A connection begins with one line of
JSON that says what it is for, and is answered by another; what follows depends on that.
"""

import asyncio
import ssl
from contextlib import suppress
from typing import Annotated, TypeVar

import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Unavailable
from app.core.machines import PairedMachine
from app.gateway.machines.trust import TUNNEL, TrustedMachines
from app.network.egress import egress_gate
from app.network.pinned_tls import check_peer, make_client_context

LINE_BYTES = 4096
MOST_NODES = 17
"""Computers that one model lies over: this one and 16 others, as `GGML_RPC_MAX_SERVERS` of llama.cpp."""
ANSWER_S = 10.0
"""For a handshake, or the first line of an answer: what takes longer counts as not there."""
START_S = 120.0
"""For the other machine to start its worker."""
_PIECE = 256 * 1024
UNREACHABLE, NOT_PAIRED = "machine_unreachable", "machine_not_paired"
_NO_TUNNEL = "it knows no tunnel"
_PAIR_AGAIN = "Pair the two computers again."
FAREWELL = b"!"
"""Comes in place of an echo, before a line that says why the memory is lent no longer."""
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]

L = TypeVar("L", bound=msgspec.Struct)


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A process of an engine, with a part of a model, that another computer would have here. `layers` is by rank."""

    engine: Annotated[str, msgspec.Meta(max_length=64)]
    model: Annotated[str, msgspec.Meta(max_length=255)]
    digest: Annotated[str, msgspec.Meta(max_length=64)]
    """Of its files' names, sizes and configuration: both must have the same."""
    rank: Annotated[int, msgspec.Meta(ge=0, le=MOST_NODES - 1)] = 0
    layers: Annotated[list[Annotated[int, msgspec.Meta(ge=1, le=10_000)]], msgspec.Meta(max_length=MOST_NODES)] = []
    context: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    slots: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    kv_type: Annotated[str, msgspec.Meta(max_length=16)] | None = None
    batch_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None


class TunnelRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a connection is for: "state", "hold" (a worker, with heartbeats), "layers" (to it), or "receive" (bytes)."""

    ask: str
    session: str = ""
    count: int = 0
    """Bytes: that the layers take ("hold"), or that are to be sent back ("receive")."""
    node: NodeOrder | None = None
    """What is to be held, or asked the state for; without one, layers for llama.cpp."""


class TunnelReply(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an answer."""

    problem: str = ""
    hint: str = ""
    """What helps there; older machines say none."""
    free_bytes: int = 0
    bandwidth_gb_s: float | None = None
    version: str = ""
    """Of the engine that was asked for."""
    backend: str = ""
    """What it computes with."""


async def call_machine(
    trusted_machines: TrustedMachines, machine: PairedMachine, request: TunnelRequest, *, within_s: float = ANSWER_S
) -> tuple[TunnelReply, Pipe]:
    """Connect to a paired machine and ask for something. Raises Unavailable with why not, or Offline."""
    call = egress_gate.note_call(machine.host, machine.port, Purpose(why=ConnectionReason.MACHINES, about=machine.name))
    try:
        async with asyncio.timeout(within_s):
            pipe = await _open_pipe(trusted_machines, machine)
            try:
                await send_line(pipe[1], request)
                return await read_line(pipe[0], TunnelReply), pipe
            except BaseException:
                pipe[1].close()
                raise
    except (OSError, TimeoutError, ValueError) as error:
        call.note_failure()
        raise _failure_of(machine, error) from None


def refusal_of(machine: PairedMachine, reply: TunnelReply) -> Unavailable:
    """Return why a machine holds no layers, by what it answered."""
    sentence = f"{machine.name} can hold no layers: {reply.problem}"
    return Unavailable(sentence, hint=reply.hint, code="machine_refuses")


async def _open_pipe(trusted_machines: TrustedMachines, machine: PairedMachine) -> Pipe:
    """Return a connection to a machine whose certificate is the paired one. Raises OSError, ValueError."""
    context = await asyncio.to_thread(
        make_client_context, trusted_machines.own, machine.certificate_der, protocol=TUNNEL
    )
    reader, writer = await asyncio.open_connection(
        machine.host, machine.port, ssl=context, server_hostname=machine.id, limit=_PIECE
    )
    try:
        _check_machine(trusted_machines, machine, writer)
    except BaseException:
        writer.close()
        raise
    trusted_machines.tunnels.add_transport(machine.fingerprint, writer.transport)
    return reader, writer


def _check_machine(trusted_machines: TrustedMachines, machine: PairedMachine, writer: asyncio.StreamWriter) -> None:
    """Raise UnpinnedPeerError, Unavailable for one that was revoked meanwhile, ValueError for one without a tunnel."""
    tls = writer.get_extra_info("ssl_object")
    check_peer(tls, {machine.fingerprint})
    if not trusted_machines.has_machine(machine):
        raise Unavailable(f"{machine.name} is not paired with this computer any more.", code=NOT_PAIRED)
    if tls.selected_alpn_protocol() != TUNNEL:
        raise ValueError(_NO_TUNNEL)


def _failure_of(machine: PairedMachine, error: Exception) -> Unavailable:
    """Return why a machine could not be asked, in a sentence, and what helps."""
    address = f"{machine.host}:{machine.port}"
    place = f"{machine.name} ({address})"
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unavailable(f"What answers at {address} is not {machine.name}.", hint=_PAIR_AGAIN, code=NOT_PAIRED)
    if str(error) == _NO_TUNNEL:
        sentence = f"{place} has an older Roundhouse, which lends no memory."
        return Unavailable(sentence, hint="Update it there.", code="machine_outdated")
    if isinstance(error, ssl.SSLError | ValueError):  # a certificate that is unknown there: it ends the connection
        sentence = f"{place} closed the connection: it does not trust this computer, or not any more."
        return Unavailable(sentence, hint=_PAIR_AGAIN, code=NOT_PAIRED)
    if isinstance(error, TimeoutError):
        wake = f" `roundhouse machines wake {machine.name}` wakes it." if machine.mac else ""
        sentence, hint = f"{place} does not answer.", f"It may be asleep or switched off.{wake}"
        return Unavailable(sentence, hint=hint, code=UNREACHABLE)
    hint = "Check that it is awake, and that Roundhouse runs there with `machines.enabled` on."
    reason = getattr(error, "strerror", "") or error
    return Unavailable(f"{place} cannot be reached: {reason}.", hint=hint, code=UNREACHABLE)


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
