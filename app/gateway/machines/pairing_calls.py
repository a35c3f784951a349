"""The side where a code is typed: its two messages to the machine that shows it, and what that one's replies mean."""

import asyncio
import socket
from typing import TypeVar

import aiohttp
import msgspec

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import BadRequest, ErrorBody, RoundhouseError, Unavailable
from app.core.machines import MachineCard, PairedMachine
from app.gateway.machines.listener import OPEN, PROVE, MachineNotPaired
from app.machines.pairing import LONGEST_MESSAGE, PairInitiator, PairReply, PairVerdict
from app.network.connector import OutboundRequest
from app.network.pinned_tls import make_stranger_context

T = TypeVar("T")
DEFAULT_PORT = 11643
_PAIR_S = 20.0


async def exchange_code(http: aiohttp.ClientSession, place: tuple[str, int], initiator: PairInitiator) -> MachineCard:
    """Return the card of the machine at host and port that has the same code. Raises BadRequest, Unavailable, Offline.

    That machine knows nothing of its being trusted before it is asked something with this machine's certificate.
    """
    host, port = place
    base = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    reply = await _send_message(http, base + OPEN, initiator.make_opening(), PairReply)
    proof = await asyncio.to_thread(initiator.answer_reply, reply)
    return initiator.check_verdict(await _send_message(http, base + PROVE, proof, PairVerdict))


async def _send_message(http: aiohttp.ClientSession, url: str, message: msgspec.Struct, kind: type[T]) -> T:
    try:
        with OutboundRequest(Purpose(why=ConnectionReason.MACHINES)).as_current():
            async with asyncio.timeout(_PAIR_S):
                async with http.post(
                    url, data=msgspec.json.encode(message), ssl=make_stranger_context(), allow_redirects=False
                ) as reply:
                    return decode_reply(reply.status, await reply.content.read(LONGEST_MESSAGE), kind)
    except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
        raise Unavailable(
            "The other machine does not answer there, so nothing was paired.",
            hint="Look at its name or address, and that `machines.enabled` is on there; then have it show a new code.",
            code="machine_unreachable",
        ) from error


def is_refusal(error: Exception) -> bool:
    """Tell whether a machine, whose certificate was checked, says that it does not trust this one."""
    return isinstance(error, RoundhouseError) and error.code == MachineNotPaired.default_code


def describe_miss(machine: PairedMachine, error: Exception) -> str:
    """Return why a machine did not answer, and what to do, in sentences."""
    if is_refusal(error):
        return str(MachineNotPaired())
    sentence = str(error) or "It did not answer in time."
    if machine.is_confirmed:
        return sentence
    return (
        f"The pairing is not finished: {machine.name} has not answered since. It is finished when it answers; "
        f"revoke it and pair again if it does not. ({sentence})"
    )


def split_host(text: str) -> tuple[str, int]:
    """Return host and port of what a person types. Raises BadRequest."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = text.strip(), str(DEFAULT_PORT)
    host = host.strip("[]")
    is_host = host and all(character.isalnum() or character in ".-:_%" for character in host)
    if not is_host or not port.isdecimal() or not 0 < int(port) <= 65535:  # noqa: PLR2004 -- the last port there is
        raise BadRequest("Give a name or an address, as in desk.local or 192.168.1.7:11643.", code="invalid_value")
    return host, int(port)


def address_towards(host: str, port: int) -> str:
    """Return the address of ours that packets to a host would leave from; empty where none would. Sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def decode_reply(status: int, body: bytes, kind: type[T]) -> T:
    """Return what a machine replied. Raises its refusal as BadRequest, or Unavailable for what makes no sense."""
    if status == 200:  # noqa: PLR2004 -- HTTP's OK
        try:
            return msgspec.json.decode(body, type=kind)
        except (ValueError, RecursionError):
            raise Unavailable("What answers there is no Roundhouse.", code="machine_unreachable") from None
    raise _refusal_of(body)


class _RefusalReply(msgspec.Struct, frozen=True):
    error: ErrorBody


def _refusal_of(body: bytes) -> RoundhouseError:
    try:
        error = msgspec.json.decode(body, type=_RefusalReply).error
    except (ValueError, RecursionError):
        return Unavailable("What answers there is no Roundhouse.", code="machine_unreachable")
    return BadRequest(error.sentence, hint=error.hint, code=error.code)
