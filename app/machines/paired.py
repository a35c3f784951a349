"""The machines this one is paired with, in one private file: trusting one and revoking it are each one write.

A second file has the certificates of those that are not trusted any more, or not yet. TLS would end their connections
without a word, from which nothing can be concluded; known by their certificate they are told that they are refused.

Belongs to one owner. Blocks; use a thread.
"""

import base64
from contextlib import suppress
from pathlib import Path

import msgspec

from app.config.private_files import save_private
from app.core.across import HERE
from app.core.errors import BadRequest, EnvironmentFault, NotFound, StorageFault, quote_value
from app.core.machines import Certificate, PairedMachine

MOST_FORMER = 32
"""Certificates of machines that are told that they are refused; the oldest give way."""


class PairedMachines:
    """The list. What a file says that cannot be read is nobody's word: then no machine is trusted, and that is said."""

    def __init__(self, file: Path, own: str) -> None:
        """`own` is this machine's fingerprint: its certificate is nobody else's, whatever the file says."""
        self._file, self._own = file, own
        self._machines = [machine for machine in _read_machines(file) if machine.fingerprint != own]
        self._former_file = file.with_name("machines-former.json")
        self._former = _read_former(self._former_file)

    @property
    def certificates(self) -> list[bytes]:
        """The certificates of all that are told something: those that are trusted, and those that are not any more."""
        trusted_certificates = [machine.certificate for machine in self._machines]
        former = [certificate for certificate in self._former if certificate not in trusted_certificates]
        return [base64.b64decode(certificate) for certificate in (*trusted_certificates, *former)]

    def list_machines(self) -> list[PairedMachine]:
        """Return them by name."""
        return sorted(self._machines, key=lambda machine: machine.name.casefold())

    def find_machine(self, name: str) -> PairedMachine:
        """Return one by its name, id or fingerprint. Raises NotFound."""
        wanted_name = name.casefold()
        for machine in self._machines:
            if wanted_name in {machine.name.casefold(), machine.id, machine.fingerprint}:
                return machine
        raise NotFound(
            f"No machine called {quote_value(name)} is paired with this one.",
            hint="`roundhouse machines list` lists those that are.",
            code="machine_not_found",
        )

    def put_machine(self, machine: PairedMachine) -> PairedMachine:
        """Trust a machine, in place of the entry that has its certificate, under a name no other has.

        Raises BadRequest for this machine itself, StorageFault.
        """
        if machine.fingerprint == self._own:
            raise BadRequest("This is this machine itself.", code="invalid_value")
        others = [known_machine for known_machine in self._machines if known_machine.fingerprint != machine.fingerprint]
        kept_machine = msgspec.structs.replace(machine, name=_free_name(machine.name, others))
        self._write([*others, kept_machine])
        return kept_machine

    def remove_machine(self, machine: PairedMachine) -> None:
        """Trust a machine no longer. Raises StorageFault."""
        self._write(
            [known_machine for known_machine in self._machines if known_machine.fingerprint != machine.fingerprint]
        )
        with suppress(StorageFault):  # it is refused without a word
            self.note_former(machine)

    def note_former(self, machine: PairedMachine) -> None:
        """Have a machine told that it is refused as long as it is not trusted. Raises StorageFault."""
        others = [certificate for certificate in self._former if certificate != machine.certificate]
        former = [*others, machine.certificate][-MOST_FORMER:]
        save_private(self._former_file, msgspec.json.encode(former), "the list of former machines")
        self._former = former

    def _write(self, machines: list[PairedMachine]) -> None:
        save_private(self._file, msgspec.json.encode(machines), "the list of paired machines")
        self._machines = machines


def _free_name(name: str, others: list[PairedMachine]) -> str:
    taken_names = {HERE, *(machine.name.casefold() for machine in others)}
    names = [name, *(f"{name[:60]}-{number}" for number in range(2, len(others) + 4))]  # 63 characters at most
    return next(candidate for candidate in names if candidate.casefold() not in taken_names)


def _read_former(file: Path) -> list[Certificate]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Certificate])
    except (OSError, ValueError):  # they are refused without a word
        return []


def _read_machines(file: Path) -> list[PairedMachine]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[PairedMachine])
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise EnvironmentFault(
            f"The list of paired machines ({file}) cannot be read.",
            hint="Remove the file and pair the machines again.",
            code="machines_unreadable",
        ) from error
