"""What the page of other computers knows and does: they are paired, woken and trusted no longer through the gateway."""

import math
import time
from collections.abc import Callable

from PySide6.QtCore import QTimer

from app.client.http import quote_segment
from app.core import words
from app.core.errors import ErrorBody
from app.core.machines import (
    ChangeMachine,
    MachineCode,
    MachineList,
    MachineStanding,
    ModelLoad,
    NearbyMachine,
    PairMachine,
    WakeMachine,
)
from app.core.translation import tr
from app.gui.net.managed_list import ManagedStore
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Command, Shell

ENABLED, SHARES = "machines.enabled", "machines.share_files"
_TICK_MS = 1000
_NOTHING = MachineList(name="", fingerprint="", port=0, machines=[])
_SHOWN = 16
"""Digits of a certificate's hash: as on the command line."""


class MachinesModel(ManagedStore[MachineList]):
    """The computers, and the code that this one shows."""

    def __init__(self, stores: Stores, shell: Shell, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stores.machines, shell)
        self._clock, self.preferences = clock, stores.preferences
        self.code = ""
        self.is_pairing = False
        """Whether another computer was asked and has not answered yet."""
        self._code_ends_s = 0.0
        self._known_machines: set[str] = set()
        """Who was paired when the code was shown: another ends it."""
        self._ticks = QTimer(self, interval=_TICK_MS)
        self._ticks.timeout.connect(self._count_down)
        self.preferences.changed.connect(self.changed)
        self.store.changed.connect(self._notice_pairing)

    @property
    def state(self) -> MachineList:
        """How it stands."""
        return self.store.value or _NOTHING

    @property
    def is_on(self) -> bool:
        """Whether paired computers are let in."""
        return self.preferences.get(ENABLED, default=False) is True

    @property
    def shares_files(self) -> bool:
        """Whether paired computers are given files."""
        return self.preferences.get(SHARES, default=False) is True

    def why_fixed(self, setting: str) -> str:
        """Return why a switch cannot be moved; empty where it can."""
        source = next((row.source for row in self.preferences.items if row.name == setting), "")
        variable = f"ROUNDHOUSE_{setting.upper().replace('.', '_')}"
        is_fixed = source == "environment"
        return tr("This is set by the environment variable {variable}.", variable=variable) if is_fixed else ""

    @property
    def seconds_left(self) -> int:
        """For how long the code counts."""
        return max(math.ceil(self._code_ends_s - self._clock()), 0) if self.code else 0

    def set_enabled(self, is_on: bool) -> None:  # noqa: FBT001 -- a slot of a bool signal
        """Let paired computers in, or no longer."""
        self._end_code()
        self.preferences.change_all({ENABLED: is_on}, then=self.finish_change, on_error=self.show_refusal)

    def set_sharing(self, is_on: bool) -> None:  # noqa: FBT001 -- as above
        """Give files to paired computers, or no longer."""
        self.preferences.change_all({SHARES: is_on}, then=self.finish_change, on_error=self.show_refusal)

    def show_code(self) -> None:
        """Have this computer show a code."""
        self.api.post("/machines/code", None, kind=MachineCode, then=self._take_code, on_error=self.show_refusal)

    def hide_code(self) -> None:
        """Let nobody pair by the code any more."""
        self._end_code()
        self.api.delete("/machines/code", self.finish_change, self.show_refusal)

    def pair_machine(self, host: str, code: str) -> None:
        """Pair with the computer that shows a code."""
        self.is_pairing = True
        self.changed.emit()
        self.api.post(
            "/machines",
            PairMachine(host=host, code=code),
            kind=MachineStanding,
            then=self._finish_pairing,
            on_error=self._refuse_pairing,
        )

    def wake_machine(self, name: str) -> None:
        """Send a computer the packet that wakes it."""

        def finish_wake(_nothing: None) -> None:
            self.shell.show_toast(tr("The packet that wakes {name} was sent.", name=name))

        self.api.post(
            "/machines/wake", WakeMachine(name=name), kind=type(None), then=finish_wake, on_error=self.show_refusal
        )

    def lend_memory(self, name: str, *, lends: bool) -> None:
        """Lend a computer this one's memory, or no longer."""
        self.api.patch(
            f"/machines/{quote_segment(name)}",
            ChangeMachine(lends_memory=lends),
            kind=MachineStanding,
            then=lambda _: self.finish_change(),
            on_error=self.show_refusal,
        )

    def revoke_machine(self, name: str) -> None:
        """Trust a computer no longer, once that is confirmed."""

        def finish_revoke() -> None:
            self.finish_change()
            self.shell.show_toast(tr("{name} is no longer paired.", name=name))

        def send_revoke() -> None:
            self.api.delete(f"/machines/{quote_segment(name)}", finish_revoke, self.show_refusal)

        sentence = tr(
            "Its connections end at once, in the middle of an answer too, and its models leave the list. "
            "Revoke this computer there as well."
        )
        title = tr("Trust {name} no longer?", name=name)
        self.shell.confirm(title, sentence, Command(tr("Revoke"), send_revoke, icon="trash-2"))

    def _take_code(self, code: MachineCode) -> None:
        self.code, self._code_ends_s = code.code, self._clock() + code.seconds
        self._known_machines = {machine.fingerprint for machine in self.state.machines}
        self._ticks.start()
        self.finish_change()
        self.changed.emit()

    def _count_down(self) -> None:
        if self.seconds_left:
            self.changed.emit()
        else:
            self._end_code()

    def _notice_pairing(self) -> None:
        if self.code and any(machine.fingerprint not in self._known_machines for machine in self.state.machines):
            self._end_code()

    def _end_code(self) -> None:
        self._ticks.stop()
        self.code = ""
        self.changed.emit()

    def _finish_pairing(self, machine: MachineStanding) -> None:
        self.is_pairing = False
        self.finish_adding()
        self.shell.show_toast(machine.problem or tr("{name} is paired.", name=machine.name))

    def _refuse_pairing(self, error: ErrorBody) -> None:
        self.is_pairing = False
        self.show_refusal(error)


def describe_own(listing: MachineList) -> str:
    """Say what this computer is called, and what its certificate begins with; empty where it has none yet."""
    if not listing.fingerprint:
        return ""
    certificate = listing.fingerprint[:_SHOWN]
    return tr("This computer is {name}. Certificate {certificate}.", name=listing.name, certificate=certificate)


def describe_state(machine: MachineStanding) -> str:
    """Say whether a computer answers, in a word or two."""
    if machine.is_reachable is None:
        return tr("Not asked yet")
    return tr("Answers") if machine.is_reachable else tr("Does not answer")


def describe_place(machine: MachineStanding | NearbyMachine) -> str:
    """Return where a computer is, and what its certificate begins with."""
    certificate = tr("certificate {certificate}", certificate=machine.fingerprint[:_SHOWN])
    gives = [tr("gives files")] if isinstance(machine, MachineStanding) and machine.shares_files else []
    return " · ".join([f"{machine.host}:{machine.port}", certificate, *gives])


def describe_loan(machine: MachineStanding) -> str:
    """Say what lending this computer's memory means as it stands."""
    if machine.lends_memory:
        return tr(
            "A model too large for {name} alone can be split: a part of it is held in this computer's memory, "
            "and computed here.",
            name=machine.name,
        )
    return tr(
        "Off: nothing of {name} is held in this computer's memory. On, a model too large for {name} alone can be "
        "split between the two computers.",
        name=machine.name,
    )


def describe_rights(machine: MachineStanding) -> str:
    """Say what else is known of a computer's memory and of what it may; empty for the usual."""
    facts = [tr("It lends memory to this computer.")] if machine.is_lender else []
    if machine.is_memory_only:
        facts.append(
            tr("It may be lent memory and use nothing else. Pair the two by a code so that it can use models too.")
        )
    return " ".join(facts)


def describe_load(load: ModelLoad) -> str:
    """Say how a model of another computer stands: loaded, how busy, how fast."""
    facts = [tr("loaded") if load.is_loaded else tr("not loaded")]
    facts += [tr("{count} requests", count=load.in_flight)] if load.in_flight else []
    facts += [words.format_rate(load.tokens_per_s)] if load.tokens_per_s is not None else []
    return " · ".join(facts)
