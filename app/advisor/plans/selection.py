"""What to run with one engine: the largest quality that fits wholly in fast memory and is fast enough, at what context.

The order of giving way: quality down to four bits, then 8-bit KV, then context, then a part in system memory, and only
then fewer than four bits; whatever was given up is said.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from app.advisor.choosing import hardware
from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.choosing.intents import Workload
from app.advisor.choosing.targets import capability_of
from app.advisor.memory.setting import Setting
from app.advisor.plans.quantisations import balanced, below_usual, usual
from app.advisor.plans.spreading import Spread, spreads, without_model
from app.advisor.plans.trials import Trial, Trials
from app.core.advice import Estimate
from app.core.machine import Gpu, Machine, Pool
from app.core.model_facts import ModelFacts
from engines.api.traits import ADA, EngineAbility, EngineTarget

ROUND = 1024
"""Contexts are said in whole thousands."""
ASKING_SHARE = 4
"""One in so many people waits for an answer at the same moment, at a busy hour; the rest read and type. Assumed."""
SURE_SHARE = 0.8
"""Of a file this much at least has to lie in fast memory: the input embedding may stay outside, and is never more."""


class Fit(StrEnum):
    """How well the best choice of one engine fits; in this order plans are preferred."""

    WHOLE = "whole"
    """Wholly in fast memory, four bits or more; also where memory or model are unknown."""
    SPILLED = "spilled"
    """A part in system memory, and still fast enough."""
    SMALL = "small"
    """Wholly in fast memory, but with fewer than four bits."""
    SLOW = "slow"
    """A part in system memory, and slow."""
    NONE = "none"
    """Nothing fits."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One engine on one machine for one kind of work. `kv_type` is None where the advisor may choose."""

    engine: EngineTraits
    target: EngineTarget
    gpus: list[Gpu]
    machine: Machine
    work: Workload
    kv_type: str | None = None
    trials: Trials
    model: str = "the model"
    """What to call it."""
    is_model_named: bool = True
    """Whether this model was asked for, and does not only take the machine's measure."""

    @property
    def may_offload(self) -> bool:
        """Whether a part may stay in system memory that is not the GPU's own."""
        has_own = any(not hardware.is_shared(gpu) for gpu in self.gpus)
        return self.engine.is_ggml and EngineAbility.HOST_OFFLOAD in self.engine.abilities and has_own


class Pick(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. `facts` is None where no model is known; `fit` says how well it does."""

    setting: Setting
    spread: Spread
    fit: Fit = Fit.WHOLE
    facts: ModelFacts | None = None
    is_known: bool = False
    """Whether what is free is known, so that fitting is more than hope."""
    found: Estimate | None = None
    """The estimate of exactly this, where choosing took one."""


def kv_types(ask: Ask) -> tuple[str, ...]:
    """Return the KV types to try, the better first: 16 bits, then the engine's own 8 bits; or the one asked for."""
    has_eight = EngineAbility.KV_QUANT in ask.engine.abilities
    if EngineAbility.RESERVES in ask.engine.abilities:
        on_nvidia = ask.target.backend == "cuda"
        has_eight = not on_nvidia or capability_of(ask.gpus) >= ADA
        wanted = "fp8" if ask.kv_type not in {None, "f16", "f32", "bf16"} else ask.kv_type
    else:
        wanted = ask.kv_type
    eight = "fp8" if EngineAbility.RESERVES in ask.engine.abilities else "q8_0"
    if wanted is None:
        return ("f16", eight) if has_eight else ("f16",)
    return (wanted,) if has_eight or wanted == "f16" else ("f16",)


def pick_without_model(ask: Ask, *, trained: int | None = None) -> Pick:
    """Return the setting to state where nothing can be computed: the use's own context, all cards."""
    work = ask.work
    spread = without_model(ask.engine, ask.gpus, serves=work.serves_several)
    context = min(work.wanted_context, trained or work.wanted_context)
    setting = _setting(ask, spread, kv_type=kv_types(ask)[0], context=context)
    return Pick(setting=setting, spread=spread)


def pick(ask: Ask, candidates: Sequence[ModelFacts]) -> Pick:
    """Return the best of the candidates (best quality first, never empty) and how it is to be run."""
    return _Search(ask, candidates).pick()


class _Search:
    """The candidates of one engine, tried in the order in which things are given up."""

    def __init__(self, ask: Ask, candidates: Sequence[ModelFacts]) -> None:
        self._ask = ask
        self._candidates = candidates
        self._kv_types = kv_types(ask)

    def pick(self) -> Pick:
        first = self._ask.trials.of(self._candidates[0])
        if not first.is_known(self._base(self._spreads(first.facts)[0], self._kv_types[0], first)):
            return self._unknown()
        good, low = usual(self._candidates), below_usual(self._candidates)
        found = self._whole(good) or self._shorter(good) or self._spilled(good) or self._small(low)
        return self._with_slots(found or self._spilled(low) or self._nothing())

    def _whole(self, candidates: Sequence[ModelFacts]) -> Pick | None:
        """Return the first that fits with the whole context and is fast enough; else the fastest that fits."""
        for kv_type in self._kv_types:
            slowest_first: list[Pick] = []
            for facts in candidates:
                found = self._first_fit(facts, kv_type)
                if found is not None and self._is_fast(facts, found.setting):
                    return found
                slowest_first += [found] if found else []
            if slowest_first:
                return slowest_first[-1]
        return None

    def _first_fit(self, facts: ModelFacts, kv_type: str) -> Pick | None:
        trial = self._ask.trials.of(facts)
        for spread in self._spreads(facts):
            setting = self._base(spread, kv_type, trial)
            if self._might_fit(facts, spread) and trial.fits(setting):
                return Pick(setting=setting, spread=spread, facts=facts, is_known=True)
        return None

    def _shorter(self, candidates: Sequence[ModelFacts]) -> Pick | None:
        """Return the usual balance with as much context as there is room for, if that is enough to be useful."""
        if not candidates:
            return None
        facts = balanced(candidates)
        trial, kv_type = self._ask.trials.of(facts), self._kv_types[-1]
        for slots in dict.fromkeys((self._least_slots(Spread()), 1)):
            for spread in self._spreads(facts):
                base, least = self._base(spread, kv_type, trial), self._least_context(trial)
                setting = msgspec.structs.replace(base, slots=slots, context=least)
                if self._might_fit(facts, spread) and trial.fits(setting):
                    room = self._rounded(trial.largest_context(setting), trial)
                    setting = msgspec.structs.replace(setting, context=room)
                    return Pick(setting=setting, spread=spread, facts=facts, is_known=True)
        return None

    def _spilled(self, candidates: Sequence[ModelFacts]) -> Pick | None:
        """Return the usual balance with experts or layers in system memory, where the engine can do that."""
        if not candidates or not self._ask.may_offload or not self._might_spill(balanced(candidates)):
            return None
        facts = balanced(candidates)
        trial, spread = self._ask.trials.of(facts), self._spreads(facts)[-1]
        for kv_type, context in self._ways_to_spill(trial):
            setting = self._base(spread, kv_type, trial)
            found = trial.estimate(msgspec.structs.replace(setting, context=context))
            if found.fits:
                setting = moved(msgspec.structs.replace(setting, context=context), found)
                spilled = Pick(setting=setting, spread=spread, facts=facts, is_known=True, found=found)
                fit = Fit.SPILLED if self._is_fast(facts, setting) else Fit.SLOW
                return msgspec.structs.replace(spilled, fit=fit)
        return None

    def _ways_to_spill(self, trial: Trial) -> Iterator[tuple[str, int]]:
        yield self._kv_types[0], self._wanted_context(trial)
        yield self._kv_types[-1], self._least_context(trial)

    def _small(self, candidates: Sequence[ModelFacts]) -> Pick | None:
        found = self._whole(candidates) or self._shorter(candidates)
        return msgspec.structs.replace(found, fit=Fit.SMALL) if found else None

    def _nothing(self) -> Pick:
        facts = min(self._candidates, key=lambda one: one.file_bytes)
        trial, spread = self._ask.trials.of(facts), self._spreads(facts)[-1]
        setting = self._base(spread, self._kv_types[-1], trial)
        setting = msgspec.structs.replace(setting, context=self._least_context(trial), slots=1)
        return Pick(setting=setting, spread=spread, facts=facts, fit=Fit.NONE, is_known=True)

    def _unknown(self) -> Pick:
        facts = balanced(self._candidates)
        spread = self._spreads(facts)[0]
        setting = self._base(spread, self._kv_types[0], self._ask.trials.of(facts))
        return Pick(setting=setting, spread=spread, facts=facts)

    def _with_slots(self, found: Pick) -> Pick:
        """Return the choice with as many conversations at once as people ask for and memory allows."""
        wanted = self._wanted_slots(found.spread)
        if found.facts is None or found.fit is Fit.NONE or wanted <= found.setting.slots:
            return found
        trial = self._ask.trials.of(found.facts)
        most = trial.conversations(msgspec.structs.replace(found.setting, slots=wanted))
        slots = max(found.setting.slots, min(wanted, most))
        if slots == found.setting.slots:
            return found
        return msgspec.structs.replace(found, setting=msgspec.structs.replace(found.setting, slots=slots), found=None)

    def _spreads(self, facts: ModelFacts) -> list[Spread]:
        return spreads(self._ask.engine, self._ask.gpus, facts, serves=self._ask.work.serves_several)

    def _base(self, spread: Spread, kv_type: str, trial: Trial) -> Setting:
        setting = _setting(self._ask, spread, kv_type=kv_type, context=self._wanted_context(trial))
        return msgspec.structs.replace(setting, slots=self._least_slots(spread))

    def _wanted_context(self, trial: Trial) -> int:
        return min(self._ask.work.wanted_context, trial.longest)

    def _least_context(self, trial: Trial) -> int:
        return min(self._ask.work.needs.least_context, self._wanted_context(trial))

    def _rounded(self, room: int, trial: Trial) -> int:
        most = min(room, self._wanted_context(trial))
        return most // ROUND * ROUND if most > ROUND else most

    def _wanted_slots(self, spread: Spread) -> int:
        return min(-(-self._ask.work.users // spread.replicas), self._ask.engine.most_slots)

    def _least_slots(self, spread: Spread) -> int:
        return -(-self._wanted_slots(spread) // ASKING_SHARE)

    def _is_fast(self, facts: ModelFacts, setting: Setting) -> bool:
        """Whether it decodes fast enough; where nothing is known of the device, it is taken to."""
        rate = self._ask.trials.of(facts).rate(setting)
        return rate is None or rate >= self._ask.work.needs.floor

    def _might_fit(self, facts: ModelFacts, spread: Spread) -> bool:
        """Rule out quickly what is larger than all the memory of the cards."""
        return self._is_within(facts, self._homes(spread) or self._ask.machine.pools[:1])

    def _might_spill(self, facts: ModelFacts) -> bool:
        """Rule out quickly what is larger than all the memory there is."""
        return self._is_within(facts, self._ask.machine.pools)

    def _homes(self, spread: Spread) -> list[Pool]:
        pools = {pool.id: pool for pool in self._ask.machine.pools}
        return [pools[gpu.pool] for gpu in self._ask.gpus[: spread.cards] if gpu.pool in pools]

    @staticmethod
    def _is_within(facts: ModelFacts, pools: Sequence[Pool]) -> bool:
        sizes = [pool.physical.value for pool in pools]
        return None in sizes or facts.file_bytes * SURE_SHARE <= sum(size or 0 for size in sizes)


def moved(setting: Setting, found: Estimate) -> Setting:
    """Return the setting with what an estimate moved to system memory."""
    offload = found.offload
    if offload.cpu_moe_layers:
        return msgspec.structs.replace(setting, cpu_moe_layers=offload.cpu_moe_layers)
    if offload.gpu_layers < offload.layers:
        return msgspec.structs.replace(setting, gpu_layers=offload.gpu_layers)
    return setting


def _setting(ask: Ask, spread: Spread, *, kv_type: str, context: int) -> Setting:
    return Setting(
        engine=ask.engine,
        backend=ask.target.backend,
        context=context,
        kv_type=kv_type,
        gpus=max(1, spread.cards if ask.gpus else 1),
        split=_shares(ask.gpus[: spread.cards]),
    )


def _shares(gpus: Sequence[Gpu]) -> tuple[float, ...]:
    """Return each card's share by its memory, where they differ; empty: equal shares."""
    sizes = [gpu.memory_total.value or 0 for gpu in gpus]
    if len(set(sizes)) < 2 or not all(sizes):  # noqa: PLR2004 -- all the same
        return ()
    ordered = sorted(sizes, reverse=True)  # engines are given the largest first
    return tuple(size / sum(sizes) for size in ordered)
