"""One model on one machine with one engine: whether a setting fits, how fast it is, how much context there is room for.

A thin, remembering door to the memory and speed models: choosing a plan and its counterfactuals asks the same things
many times.
"""

from collections.abc import Sequence

import msgspec

from app.advisor.memory import estimate as memory
from app.advisor.memory import placement
from app.advisor.memory import reserved as reserved_memory
from app.advisor.memory.kv import CELL_STEP
from app.advisor.memory.search import largest
from app.advisor.memory.setting import HOST, Setting
from app.advisor.speed import estimate as speed
from app.advisor.speed import prefill as speed_prefill
from app.core.advice import Calibration, Estimate, Rate
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from engines.api.traits import ReservedMemory

UNTRAINED_LIMIT = memory.UNTRAINED_LIMIT
HALF_FULL = 2
"""Speeds are told with the context half full: neither the first nor the last answer of a conversation."""


class Trial:
    """Tries settings of one model; `machine` may be one that is only imagined (a second card, another limit)."""

    def __init__(self, facts: ModelFacts, machine: Machine, calibrations: Sequence[Calibration] = ()) -> None:
        self.facts = facts
        self.machine = machine
        self._calibrations = calibrations
        self._fits: dict[Setting, bool] = {}
        self._estimates: dict[Setting, Estimate] = {}
        self._contexts: dict[Setting, int] = {}

    @property
    def longest(self) -> int:
        """Tokens the model was trained for, or the most that is looked for."""
        return self.facts.trained_context or UNTRAINED_LIMIT

    def fits(self, setting: Setting) -> bool:
        """Whether the setting fits as it stands: nothing is moved to system memory on its behalf."""
        if setting not in self._fits:
            self._fits[setting] = memory.fits(self.facts, self.machine, setting)
        return self._fits[setting]

    def is_known(self, setting: Setting) -> bool:
        """Whether it is known how much memory is free where the setting would lie."""
        if not self.machine.pools:
            return False
        adapted = placement.adapted(setting, self.machine)
        rooms = placement.rooms(self.machine, adapted)
        free = {place: room.free for room in rooms for place in room.places}
        computing = range(adapted.gpus) if adapted.uses_gpu else [HOST]
        return all(free.get(place) is not None for place in computing)

    def decode(self, setting: Setting, depth: int | None = None) -> Rate | None:
        """Return the decoding rate with the context half full; None where nothing is known of the device."""
        at = setting.context // HALF_FULL if depth is None else depth
        return speed.decode(self.facts, self.machine, setting, depth=at, calibration=self.calibration(setting))

    def rate(self, setting: Setting) -> float | None:
        """Return the decoding rate in tokens per second."""
        found = self.decode(setting)
        return found.tokens_per_second if found else None

    def estimate(self, setting: Setting) -> Estimate:
        """Return the whole estimate; llama.cpp may move layers or experts to system memory to make it fit."""
        if setting not in self._estimates:
            asked = memory.Speed(rates=self._rates, depth=setting.context // HALF_FULL)
            self._estimates[setting] = memory.estimate(self.facts, self.machine, setting, speed=asked)
        return self._estimates[setting]

    def _rates(self, setting: Setting, depth: int) -> memory.Rates:
        calibration = self.calibration(setting)
        prompt = speed_prefill.prefill(self.facts, self.machine, setting, depth=max(depth, 1), calibration=calibration)
        return self.decode(setting, depth), prompt

    def largest_context(self, setting: Setting) -> int:
        """Return the longest context per conversation that fits, within what the model was trained for."""

        def serves(context: int) -> bool:
            return self.fits(msgspec.structs.replace(setting, context=context))

        key = msgspec.structs.replace(setting, context=0)
        if key not in self._contexts:
            self._contexts[key] = largest(serves, most=self.longest, step=CELL_STEP)
        return self._contexts[key]

    def conversations(self, setting: Setting) -> int:
        """Return how many conversations of the setting's context fit at once."""
        if isinstance(setting.engine.memory, ReservedMemory):
            adapted = placement.adapted(setting, self.machine)
            return int(reserved_memory.capacity(self.facts, adapted).conversations)
        return largest(lambda slots: self.fits(msgspec.structs.replace(setting, slots=slots)), most=setting.slots)

    def calibration(self, setting: Setting) -> Calibration | None:
        """Return what this machine showed with the engine and backend, the latest first."""
        mine = [
            found
            for found in self._calibrations
            if (found.engine, found.backend) == (setting.engine.id, setting.backend)
        ]
        return max(mine, key=lambda found: found.measured_at, default=None)


class Trials:
    """The trials of one advice: each model once, so that nothing is computed twice."""

    def __init__(self, machine: Machine, calibrations: Sequence[Calibration] = ()) -> None:
        self._machine = machine
        self._calibrations = calibrations
        self._known: dict[int, Trial] = {}

    def of(self, facts: ModelFacts) -> Trial:
        """Return the trial of these facts."""
        if id(facts) not in self._known:
            self._known[id(facts)] = self.on(self._machine, facts)
        return self._known[id(facts)]

    def on(self, machine: Machine, facts: ModelFacts) -> Trial:
        """Return a trial on a machine that is only imagined."""
        return Trial(facts, machine, self._calibrations)
