"""One model on one machine with one engine: whether a setting fits, how fast it is, how much context there is room for.

A thin, remembering door to the memory and speed models: choosing a plan and its counterfactuals asks the same things
many times.
"""

from collections.abc import Sequence

import msgspec

from app.advisor.memory import estimate as memory
from app.advisor.memory import placement
from app.advisor.memory import reserved as reserved_memory
from app.advisor.memory.estimate import largest_fit
from app.advisor.memory.kv import CELL_STEP
from app.advisor.memory.setting import HOST, RunSetting
from app.advisor.speed import estimate as speed
from app.advisor.speed import estimate as speed_prefill
from app.core.advice import Calibration, Estimate, Rate, best_calibration
from app.core.machine import Machine
from app.core.model_facts import ModelFacts
from engines.api.traits import ReservedMemory

UNTRAINED_LIMIT = memory.UNTRAINED_LIMIT
HALF_FULL = 2
"""Speeds are told with the context half full: neither the first nor the last answer of a conversation."""


class SettingTrial:
    """Tries settings of one model; `machine` may be one that is only imagined (a second card, another limit)."""

    def __init__(self, facts: ModelFacts, machine: Machine, calibrations: Sequence[Calibration] = ()) -> None:
        self.facts = facts
        self.machine = machine
        self._calibrations = calibrations
        self._fits: dict[RunSetting, bool] = {}
        self._estimates: dict[RunSetting, Estimate] = {}
        self._contexts: dict[RunSetting, int] = {}

    @property
    def longest(self) -> int:
        """Tokens the model was trained for, or the most that is looked for."""
        return self.facts.trained_context or UNTRAINED_LIMIT

    def fits_memory(self, setting: RunSetting) -> bool:
        """Whether the setting fits as it stands: nothing is moved to system memory on its behalf."""
        if setting not in self._fits:
            self._fits[setting] = memory.setting_fits(self.facts, self.machine, setting)
        return self._fits[setting]

    def is_known(self, setting: RunSetting) -> bool:
        """Whether it is known how much memory is free where the setting would lie."""
        if not self.machine.pools:
            return False
        adapted_setting = placement.adapt_setting(setting, self.machine)
        rooms = placement.pool_rooms(self.machine, adapted_setting)
        free = {place: room.free for room in rooms for place in room.places}
        computing_places = range(adapted_setting.gpus) if adapted_setting.uses_gpu else [HOST]
        return all(free.get(place) is not None for place in computing_places)

    def decode_rate(self, setting: RunSetting, depth: int | None = None) -> Rate | None:
        """Return the decoding rate with the context half full; None where nothing is known of the device."""
        at = setting.context // HALF_FULL if depth is None else depth
        return speed.decode_rate(
            self.facts, self.machine, setting, depth=at, calibration=self.find_calibration(setting)
        )

    def tokens_per_second(self, setting: RunSetting) -> float | None:
        """Return the decoding rate in tokens per second."""
        rate = self.decode_rate(setting)
        return rate.tokens_per_second if rate else None

    def full_estimate(self, setting: RunSetting) -> Estimate:
        """Return the whole estimate; llama.cpp may move layers or experts to system memory to make it fit."""
        if setting not in self._estimates:
            speed_model = memory.SpeedModel(rates=self._both_rates, depth=setting.context // HALF_FULL)
            self._estimates[setting] = memory.estimate_memory(self.facts, self.machine, setting, speed=speed_model)
        return self._estimates[setting]

    def _both_rates(self, setting: RunSetting, depth: int) -> memory.Rates:
        calibration = self.find_calibration(setting)
        prompt = speed_prefill.prefill_rate(
            self.facts, self.machine, setting, depth=max(depth, 1), calibration=calibration
        )
        return self.decode_rate(setting, depth), prompt

    def largest_context(self, setting: RunSetting) -> int:
        """Return the longest context per conversation that fits, within what the model was trained for."""

        def fits_context(context: int) -> bool:
            return self.fits_memory(msgspec.structs.replace(setting, context=context))

        key = msgspec.structs.replace(setting, context=0)
        if key not in self._contexts:
            self._contexts[key] = largest_fit(fits_context, most=self.longest, step=CELL_STEP)
        return self._contexts[key]

    def max_conversations(self, setting: RunSetting) -> int:
        """Return how many conversations of the setting's context fit at once."""
        if isinstance(setting.engine.memory, ReservedMemory):
            adapted_setting = placement.adapt_setting(setting, self.machine)
            return int(reserved_memory.cache_capacity(self.facts, adapted_setting).conversations)
        return largest_fit(
            lambda slots: self.fits_memory(msgspec.structs.replace(setting, slots=slots)), most=setting.slots
        )

    def find_calibration(self, setting: RunSetting) -> Calibration | None:
        """Return what this machine showed with the engine and backend, undisturbed, the latest first."""
        return best_calibration(self._calibrations, engine=setting.engine.id, backend=setting.backend)


class SettingTrials:
    """The trials of one advice: each model once, so that nothing is computed twice."""

    def __init__(self, machine: Machine, calibrations: Sequence[Calibration] = ()) -> None:
        self._machine = machine
        self._calibrations = calibrations
        self._trials: dict[int, SettingTrial] = {}

    def trial_of(self, facts: ModelFacts) -> SettingTrial:
        """Return the trial of these facts."""
        if id(facts) not in self._trials:
            self._trials[id(facts)] = self.trial_on(self._machine, facts)
        return self._trials[id(facts)]

    def engine_spread(self, setting: RunSetting) -> float:
        """Return how far the setting's engine may be off by itself, whatever the device."""
        return speed.engine_spread(self._machine, setting)

    def trial_on(self, machine: Machine, facts: ModelFacts) -> SettingTrial:
        """Return a trial on a machine that is only imagined."""
        return SettingTrial(facts, machine, self._calibrations)
