"""Which machine answers a request that names a model but no machine: the one that will answer first, by what is known.

A model that is here means the one here, unless `machines.balance` is on. One that is on paired machines only means the
machine whose answer is expected first; one that was lost a moment ago is passed over. Decides, and does nothing.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from app.hub.library.naming import fold_name

HERE = ""
AWAY_S = 30.0
"""A machine that could not be reached is asked again after this; meanwhile the looks at it may find it back."""
_TOKENS = 256
"""Of an answer, for comparing machines: what chats usually come to."""
_SPEED_UNKNOWN = 10.0
"""Tokens per second of a model that was never measured: little, so that one that was is preferred."""
_LOAD_S = 20.0
"""Of a load that was never timed."""


class MachineModel(NamedTuple):
    """A model of one machine, as it was looked at last. `name` is what asks for it here."""

    name: str
    machine: str
    is_loaded: bool = False
    in_flight: int = 0
    slots: int = 1
    load_s: float | None = None
    tokens_per_s: float | None = None


def expected_s(model: MachineModel, sent_from_here: int = 0) -> float:
    """Return the seconds until an answer is over: loading, those before it, and writing it.

    `sent_from_here`: requests of ours that it has now, which it may not have counted yet when it was looked at.
    """
    answer_s = _TOKENS / (model.tokens_per_s or _SPEED_UNKNOWN)
    waiting_rounds = max(model.in_flight, sent_from_here) // max(model.slots, 1)
    load_s = 0.0 if model.is_loaded else _LOAD_S if model.load_s is None else model.load_s
    return load_s + (waiting_rounds + 1) * answer_s


async def _wake_nobody(_machine: str) -> None:
    """Stand for waking while no machine is paired."""


class MachineRoutes:
    """What is known, and the choice. Belongs to the event loop's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._models: dict[str, list[MachineModel]] = {}
        self.has_models = False
        """Whether there is anything to choose."""
        self._here: set[str] = set()
        """The shared names of what is on this machine."""
        self.asleep: frozenset[str] = frozenset()
        """The machines that do not answer and may be woken for a request."""
        self.wake: Callable[[str], Awaitable[None]] = _wake_nobody
        """Wakes a machine and waits until it answers, or until that takes too long."""
        self._away: dict[str, float] = {}
        self._places: dict[str, tuple[str, str]] = {}
        """Every model of a machine that was ever listed, also of one that is gone: its shared name, and the machine."""

    def put_models(self, models: Iterable[tuple[str, MachineModel]]) -> None:
        """Take what the machines have now, each with the name that means it on any machine."""
        by_name: dict[str, list[MachineModel]] = {}
        here: set[str] = set()
        for name, model in models:
            by_name.setdefault(fold_name(name), []).append(model)
            if model.machine == HERE:
                here.add(fold_name(name))
            else:
                self._places[model.name] = fold_name(name), model.machine
        self._models = {name: models for name, models in by_name.items() if any(model.machine for model in models)}
        self._here = here
        self.has_models = bool(self._models)

    def put_sleeping(self, machine: str, models: Mapping[str, str]) -> None:
        """Take which models a machine had that does not answer: what each is called there, by its name here."""
        for name, shared_name in models.items():
            self._places[name] = fold_name(shared_name), machine
        self.asleep |= {machine}

    def find_sleeping(self, name: str) -> str:
        """Return the machine that has to be woken for a model; empty where one answers, or none has it."""
        folded_name = fold_name(name)
        if folded_name in self._here or folded_name in self._models:
            return ""
        machines = (
            machine
            for known_name, (shared_name, machine) in self._places.items()
            if machine in self.asleep and folded_name in {shared_name, fold_name(known_name)}
        )
        return next(machines, "")

    async def wake_for(self, name: str) -> None:
        """Have the machine awake that a model needs, if one sleeps."""
        machine = self.find_sleeping(name)
        if machine:
            await self.wake(machine)

    def choose_name(self, name: str, in_flight: Mapping[str, int], *, balances: bool) -> str:
        """Return the name of the model that a request for `name` goes to; the same where nothing else is to be had."""
        models = self._models.get(fold_name(name), ())
        if not models or (not balances and any(model.machine == HERE for model in models)):
            return name
        now_s = self._clock()
        present = [model for model in models if self._away.get(model.machine, now_s) <= now_s] or models
        best = min(present, key=lambda model: (expected_s(model, in_flight.get(model.name, 0)), model.machine))
        return best.name

    def note_loss(self, name: str) -> bool:
        """Note that a model could not be reached, and return whether another machine has it that was not lost."""
        if name not in self._places:
            return False
        shared_name, machine = self._places[name]
        now_s = self._clock()
        self._away[machine] = now_s + AWAY_S
        return any(self._away.get(model.machine, now_s) <= now_s for model in self._models.get(shared_name, ()))

    def note_return(self, machine: str) -> None:
        """Note that a machine answers."""
        self._away.pop(machine, None)
        self.asleep -= {machine}

    def forget_sleeping(self, machine: str) -> None:
        """Wake a machine no more: it was revoked, or it is not to be."""
        self.asleep -= {machine}
