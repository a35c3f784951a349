"""The list that the tunnel between machines once had of its own, `tunnel.toml`: what of it becomes paired machines.

Its machines could use memory and nothing else, and that is all they may as paired ones, until they are paired by a
code. Blocks; use a thread.
"""

import base64
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.core.machines import PairedMachine
from app.machines.names import machine_name

_USUAL_PORT = 11643
"""Where paired machines listen; the tunnel's own port is no more."""


class _OlderMachine(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    address: str = ""
    certificate: str


class _OlderList(msgspec.Struct, frozen=True, kw_only=True):
    member: list[_OlderMachine] = []


def read_older_list(file: Path) -> list[PairedMachine]:
    """Return the machines that the file names; those whose certificate is none are left out.

    Raises ValueError for a file that makes no sense, OSError.
    """
    try:
        older = msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), _OlderList)
    except FileNotFoundError:
        return []
    return list(_convert_machines(older))


def _convert_machines(older: _OlderList) -> Iterator[PairedMachine]:
    for machine in older.member:
        try:
            certificate = ssl.PEM_cert_to_DER_cert(machine.certificate.strip())
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
        except (ValueError, ssl.SSLError):
            continue
        yield PairedMachine(
            name=machine_name(machine.name),
            certificate=base64.b64encode(certificate).decode(),
            host=machine.address.rpartition(":")[0].strip("[]"),
            port=_USUAL_PORT,
            is_memory_only=True,
        )
