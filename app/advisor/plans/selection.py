"""What to run with one engine: the largest quality that fits wholly in fast memory and is fast enough, at what context.

The order of giving way: quality down to four bits, then 8-bit KV, then context, then a part in system memory, and only
then fewer than four bits; whatever was given up is said. A part in system memory that is slow, or several times slower
than three bits (or half the context) wholly on the GPU, comes after those; two bits come last.

How a model spreads over several GPUs: one card if it fits there, then by what joins the cards.

Cutting each matrix (tensor parallel) pays where cards have NVLink or the like and the heads divide evenly. Over PCIe
each card gets layers of its own first (pipeline). Partitions of one card never work together.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from app.advisor.choosing import hardware
from app.advisor.choosing.engine_table import EngineTraits
from app.advisor.choosing.intents import Workload
from app.advisor.choosing.targets import capability_of
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.quantisations import bearable_files, below_usual, pick_balanced, usual_files
from app.advisor.plans.trials import SettingTrial, SettingTrials
from app.core.advice import Estimate
from app.core.machine import Gpu, Machine, Pool
from app.core.model_facts import ModelFacts, WeightKind
from engines.api.traits import ADA, EngineAbility, EngineTarget

MOST_CARDS = 64
"""More cards than any one model is spread over inside one computer or rack; further ones hold replicas."""
_USUAL_NODE = 8


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One way to use cards: `cards` for one copy of the model, `replicas` copies beside each other."""

    mode: str = "single"
    cards: int = 1
    replicas: int = 1
    why: str = ""
    warning: str = ""

    @property
    def tensor(self) -> int:
        """Cards each matrix is cut over."""
        return self.cards if self.mode in {"tensor", "expert"} else 1

    @property
    def pipeline(self) -> int:
        """Cards that have layers of their own."""
        return self.cards if self.mode == "pipeline" else 1


def possible_spreads(
    engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None, *, serves: bool
) -> list[Spread]:
    """Return the ways an engine can spread a model, the one with the fewest cards first."""
    count = len(gpus)
    if count < 2:  # noqa: PLR2004 -- one card or none
        return [Spread()]
    if any(gpu.partition_of for gpu in gpus):
        return [_with_replicas(Spread(why="Parts of one GPU cannot work together."), count, serves=serves)]
    several = _tensor_spreads(engine, gpus, facts) or _pipeline_spreads(engine, gpus, facts)
    return [_with_replicas(spread, count, serves=serves) for spread in (Spread(), *several)]


def spread_without_model(engine: EngineTraits, gpus: Sequence[Gpu], *, serves: bool) -> Spread:
    """Return the spread to state where no model is known: over all cards of one computer."""
    usual = [spread for spread in possible_spreads(engine, gpus, None, serves=serves) if spread.cards <= _USUAL_NODE]
    return usual[-1]


def _with_replicas(spread: Spread, count: int, *, serves: bool) -> Spread:
    replicas = count // spread.cards if serves else 1
    mode = "data" if replicas > 1 and spread.mode == "single" else spread.mode
    return msgspec.structs.replace(spread, replicas=replicas, mode=mode)


def _tensor_spreads(engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None) -> list[Spread]:
    """Return the powers of two the heads divide by; none where only slow links join the cards and there is a choice."""
    has_links = hardware.has_fast_links(gpus)
    if EngineAbility.TENSOR not in engine.abilities or not (
        has_links or EngineAbility.PIPELINE not in engine.abilities
    ):
        return []
    if facts is not None and facts.architecture in engine.uncut:
        return []
    mode = "expert" if _is_moe(facts) and EngineAbility.EXPERT in engine.abilities else "tensor"
    link = "NVLink" if gpus[0].vendor == "nvidia" else "Infinity Fabric"
    why = f"{link} joins the cards, so each matrix is cut over them." if has_links else ""
    warning = "" if has_links else "The cards are connected by PCIe only, which slows tensor parallelism down."
    return [
        Spread(mode=mode, cards=cards, why=why, warning=warning)
        for cards in _powers_of_two(len(gpus))
        if _heads_divide(facts, cards)
    ]


def _pipeline_spreads(engine: EngineTraits, gpus: Sequence[Gpu], facts: ModelFacts | None) -> list[Spread]:
    if EngineAbility.PIPELINE not in engine.abilities:
        return []
    if facts is not None and facts.architecture in engine.uncut:
        why = f"{engine.name} cannot cut this architecture's matrices yet, so each card gets its own layers."
    elif hardware.has_fast_links(gpus):
        why = "Its attention heads do not divide evenly by the number of cards, so each card gets its own layers."
    else:
        why = "The cards are connected by PCIe, so each gets its own layers (pipeline)."
    if EngineAbility.TENSOR not in engine.abilities:
        why = f"{engine.name} gives each card its own layers."
    offers_both = EngineAbility.TENSOR in engine.abilities
    warning = (
        "Measure tensor parallelism too: which is faster depends on the PCIe lanes of the slots." if offers_both else ""
    )
    layers = len(facts.layers) if facts else MOST_CARDS
    most = min(len(gpus), MOST_CARDS, max(layers, 1))
    counts = range(2, most + 1) if most <= _USUAL_NODE else _powers_of_two(most)
    return [Spread(mode="pipeline", cards=cards, why=why, warning=warning) for cards in counts]


def _powers_of_two(most: int) -> list[int]:
    powers, cards = [], 2
    while cards <= min(most, MOST_CARDS):
        powers.append(cards)
        cards *= 2
    return powers


def _heads_divide(facts: ModelFacts | None, cards: int) -> bool:
    """Whether every layer's heads can be dealt out evenly."""
    return facts is None or all(layer.heads % cards == 0 for layer in facts.layers if layer.heads)


def _is_moe(facts: ModelFacts | None) -> bool:
    return facts is not None and any(layer.experts for layer in facts.layers)


ROUND = 1024
"""Contexts are said in whole thousands."""
ASKING_SHARE = 4
"""One in so many people waits for an answer at the same moment, at a busy hour; the rest read and type. Assumed."""
NOTICEABLE = 1.1
"""A gain of less than a tenth is worth neither another card nor a line."""
MUCH_FASTER = 3
"""From so many times the speed on, fewer bits or half the context are worth more than a part in system memory."""
TIGHT_SHARE = 2
"""What is given up of the context that is useful before a model is left to be slow."""
SURE_SHARE = 0.8
"""Of a file this much at least has to lie in fast memory: the input embedding may stay outside, and is never more."""


class FitQuality(StrEnum):
    """How well the best choice of one engine fits; in this order plans are preferred."""

    WHOLE = "whole"
    """Wholly in fast memory, four bits or more; also where memory or model are unknown."""
    SPILLED = "spilled"
    """A part in system memory, and still fast enough."""
    SMALL = "small"
    """Wholly in fast memory, but with fewer than four bits."""
    SLOW = "slow"
    """A part in system memory, and slow; or with an engine that nobody here has seen keep one there."""
    POOR = "poor"
    """Wholly in fast memory, with so few bits that answers suffer badly."""
    NONE = "none"
    """Nothing fits."""


class EngineQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One engine on one machine for one kind of work. `kv_type` is None where the advisor may choose."""

    engine: EngineTraits
    target: EngineTarget
    gpus: list[Gpu]
    machine: Machine
    work: Workload
    kv_type: str | None = None
    trials: SettingTrials
    template: RunSetting | None = None
    """What every setting begins as: with a draft, a projector, or layers that a person chose."""
    model: str = "the model"
    """What to call it."""
    is_model_named: bool = True
    """Whether this model was asked for, and does not only take the machine's measure."""

    @property
    def may_offload(self) -> bool:
        """Whether a part may stay in system memory that is not the GPU's own."""
        has_own = any(not hardware.is_shared(gpu) for gpu in self.gpus)
        return EngineAbility.HOST_OFFLOAD in self.engine.abilities and has_own

    def can_part(self, facts: ModelFacts) -> bool:
        """Whether a part of this model may stay there: with most engines only its experts."""
        has_experts = any(group.kind is WeightKind.EXPERTS for group in facts.weights)
        return self.may_offload and (self.engine.is_ggml or has_experts)


class PlanPick(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. `facts` is None where no model is known; `fit` says how well it does."""

    setting: RunSetting
    spread: Spread
    fit: FitQuality = FitQuality.WHOLE
    facts: ModelFacts | None = None
    is_known: bool = False
    """Whether what is free is known, so that fitting is more than hope."""
    estimate: Estimate | None = None
    """The estimate of exactly this, where choosing took one."""


def kv_types(ask: EngineQuery) -> tuple[str, ...]:
    """Return the KV types to try, the better first: 16 bits, then the engine's own 8 bits; or the one asked for."""
    has_eight = EngineAbility.KV_QUANT in ask.engine.abilities
    if EngineAbility.RESERVES in ask.engine.abilities:
        on_nvidia = ask.target.backend == "cuda"
        has_eight = not on_nvidia or capability_of(ask.gpus) >= ADA
        requested_type = "fp8" if ask.kv_type not in {None, "f16", "f32", "bf16"} else ask.kv_type
    else:
        requested_type = ask.kv_type
    eight = "fp8" if EngineAbility.RESERVES in ask.engine.abilities else "q8_0"
    if requested_type is None:
        return ("f16", eight) if has_eight else ("f16",)
    return (requested_type,) if has_eight or requested_type == "f16" else ("f16",)


def pick_without_model(ask: EngineQuery, *, trained_context: int | None = None) -> PlanPick:
    """Return the setting to state where nothing can be computed: the use's own context, all cards."""
    work = ask.work
    spread = spread_without_model(ask.engine, ask.gpus, serves=work.serves_several)
    context = min(work.target_context, trained_context or work.target_context)
    setting = _build_setting(ask, spread, kv_type=kv_types(ask)[0], context=context)
    return PlanPick(setting=setting, spread=spread)


def pick_best(ask: EngineQuery, candidates: Sequence[ModelFacts]) -> PlanPick:
    """Return the best of the candidates (best quality first, never empty) and how it is to be run."""
    return _PickSearch(ask, candidates).run_search()


class _PickSearch:
    """The candidates of one engine, tried in the order in which things are given up."""

    def __init__(self, ask: EngineQuery, candidates: Sequence[ModelFacts]) -> None:
        self._ask = ask
        self._candidates = candidates
        self._kv_types = kv_types(ask)

    def run_search(self) -> PlanPick:
        first = self._ask.trials.trial_of(self._candidates[0])
        if not first.is_known(self._base_setting(self._possible_spreads(first.facts)[0], self._kv_types[0], first)):
            return self._pick_unknown()
        good, low = usual_files(self._candidates), below_usual(self._candidates)
        balanced_files = [facts for facts in good if facts.file_bytes >= pick_balanced(good).file_bytes]
        return self._with_slots(
            self._pick_whole(balanced_files)
            or self._pick_whole(good)
            or self._pick_shorter(good, self._least_context)
            or self._pick_parted(good, low)
            or self._pick_spilled(low)
            or self._pick_nearest()
        )

    def _pick_parted(self, good: Sequence[ModelFacts], low: Sequence[ModelFacts]) -> PlanPick | None:
        """Return four bits with a part in system memory, or what fits whole where that is slow; two bits come last.

        With other engines than llama.cpp, which were never seen to do so, a part stays there only if nothing fits.
        """
        bearable = bearable_files(low)
        whole = self._pick_small(bearable)
        if not self._ask.engine.is_ggml:
            return whole or self._pick_poor(low) or self._pick_spilled(good)
        spill_pick = self._pick_spilled(good)
        if spill_pick is None:
            return whole or self._pick_poor(low)
        whole = whole or self._pick_tight([*good, *bearable])
        if whole is None:
            return spill_pick
        is_fast = spill_pick.fit is FitQuality.SPILLED and not self._is_much_faster(whole, spill_pick)
        return spill_pick if is_fast else whole

    def _pick_tight(self, candidates: Sequence[ModelFacts]) -> PlanPick | None:
        """Return the best that fits with half of the context that is useful: a short conversation."""
        choice = self._pick_shorter(candidates, lambda trial: self._least_context(trial) // TIGHT_SHARE)
        return choice and msgspec.structs.replace(choice, fit=self._fit_of(choice))

    def _pick_poor(self, candidates: Sequence[ModelFacts]) -> PlanPick | None:
        choice = self._pick_small(candidates)
        return choice and msgspec.structs.replace(choice, fit=FitQuality.POOR)

    def _fit_of(self, choice: PlanPick) -> FitQuality:
        return FitQuality.WHOLE if usual_files([choice.facts] if choice.facts else []) else FitQuality.SMALL

    def _is_much_faster(self, choice: PlanPick, other: PlanPick) -> bool:
        rates = [
            self._ask.trials.trial_of(pick.facts).tokens_per_second(pick.setting)
            for pick in (choice, other)
            if pick.facts is not None
        ]
        return len(rates) == 2 and None not in rates and (rates[0] or 0) >= MUCH_FASTER * (rates[1] or 0)  # noqa: PLR2004 -- both

    def _pick_whole(self, candidates: Sequence[ModelFacts]) -> PlanPick | None:
        """Return the first that fits with the whole context and is fast enough; else the fastest that fits."""
        for kv_type in self._kv_types:
            slowest_first: list[PlanPick] = []
            for facts in candidates:
                choice = self._first_fit(facts, kv_type)
                if choice is not None and self._is_fast(facts, choice.setting):
                    return choice
                slowest_first += [choice] if choice else []
            if slowest_first:
                return slowest_first[-1]
        return None

    def _first_fit(self, facts: ModelFacts, kv_type: str) -> PlanPick | None:
        """Return the spread with the fewest cards that fits; for one person a wider one that is clearly faster."""
        best: PlanPick | None = None
        for spread in self._possible_spreads(facts):
            if best is not None and (spread.tensor == 1 or self._ask.work.serves_several):
                break
            wider = self._fit_spread(facts, spread, kv_type)
            if wider is not None and (best is None or self._gains_speed(facts, best.setting, wider.setting)):
                best = wider
        return best

    def _fit_spread(self, facts: ModelFacts, spread: Spread, kv_type: str) -> PlanPick | None:
        trial = self._ask.trials.trial_of(facts)
        setting = self._base_setting(spread, kv_type, trial)
        if self._might_fit(facts, spread) and trial.fits_memory(setting):
            return PlanPick(setting=setting, spread=spread, facts=facts, is_known=True)
        return None

    def _gains_speed(self, facts: ModelFacts, narrow: RunSetting, wide: RunSetting) -> bool:
        trial = self._ask.trials.trial_of(facts)
        before, after = trial.tokens_per_second(narrow), trial.tokens_per_second(wide)
        return before is not None and after is not None and after >= before * NOTICEABLE

    def _pick_shorter(
        self, candidates: Sequence[ModelFacts], least_context: Callable[[SettingTrial], int]
    ) -> PlanPick | None:
        """Return the usual balance, else the largest below it, with as much context as there is room for."""
        if not candidates:
            return None
        balanced_file = pick_balanced(candidates)
        smaller = [facts for facts in candidates if facts.file_bytes < balanced_file.file_bytes]
        return next(filter(None, (self._shorten(facts, least_context) for facts in (balanced_file, *smaller))), None)

    def _shorten(self, facts: ModelFacts, least_context: Callable[[SettingTrial], int]) -> PlanPick | None:
        """Return one file with as much context as there is room for, if that is enough to be useful."""
        trial, kv_type = self._ask.trials.trial_of(facts), self._kv_types[-1]
        for slots in dict.fromkeys((self._least_slots(Spread()), 1)):
            for spread in self._possible_spreads(facts):
                base, least = self._base_setting(spread, kv_type, trial), least_context(trial)
                setting = msgspec.structs.replace(base, slots=slots, context=least)
                if self._might_fit(facts, spread) and trial.fits_memory(setting):
                    room = self._round_context(trial.largest_context(setting), trial)
                    setting = msgspec.structs.replace(setting, context=room)
                    return PlanPick(setting=setting, spread=spread, facts=facts, is_known=True)
        return None

    def _pick_spilled(self, candidates: Sequence[ModelFacts]) -> PlanPick | None:
        """Return the usual balance with experts or layers in system memory, where the engine can do that."""
        facts = pick_balanced(candidates) if candidates else None
        if facts is None or not self._ask.can_part(facts) or not self._might_spill(facts):
            return None
        trial, spread = self._ask.trials.trial_of(facts), self._spread_to_part(facts)
        for kv_type, context in self._ways_to_spill(trial):
            setting = self._base_setting(spread, kv_type, trial)
            spill_estimate = trial.full_estimate(msgspec.structs.replace(setting, context=context))
            if spill_estimate.fits:
                setting = apply_offload(msgspec.structs.replace(setting, context=context), spill_estimate)
                spill_pick = PlanPick(
                    setting=setting, spread=spread, facts=facts, is_known=True, estimate=spill_estimate
                )
                is_proven = self._ask.engine.is_ggml and self._is_fast(facts, setting)
                fit = FitQuality.SPILLED if is_proven else FitQuality.SLOW
                return msgspec.structs.replace(spill_pick, fit=fit)
        return None

    def _spread_to_part(self, facts: ModelFacts) -> Spread:
        """Return the widest spread with which a part can be set aside: matrices that are cut leave no room for that."""
        possible = self._possible_spreads(facts)
        plain = [spread for spread in possible if spread.tensor == 1 or self._ask.engine.is_ggml]
        return (plain or possible)[-1]

    def _ways_to_spill(self, trial: SettingTrial) -> Iterator[tuple[str, int]]:
        yield self._kv_types[0], self._target_context(trial)
        yield self._kv_types[-1], self._least_context(trial)

    def _pick_small(self, candidates: Sequence[ModelFacts]) -> PlanPick | None:
        choice = self._pick_whole(candidates) or self._pick_shorter(candidates, self._least_context)
        return msgspec.structs.replace(choice, fit=FitQuality.SMALL) if choice else None

    def _pick_nearest(self) -> PlanPick:
        facts = min(self._candidates, key=lambda candidate: candidate.file_bytes)
        trial, spread = self._ask.trials.trial_of(facts), self._possible_spreads(facts)[-1]
        setting = self._base_setting(spread, self._kv_types[-1], trial)
        setting = msgspec.structs.replace(setting, context=self._least_context(trial), slots=1)
        return PlanPick(setting=setting, spread=spread, facts=facts, fit=FitQuality.NONE, is_known=True)

    def _pick_unknown(self) -> PlanPick:
        facts = pick_balanced(self._candidates)
        spread = self._possible_spreads(facts)[0]
        setting = self._base_setting(spread, self._kv_types[0], self._ask.trials.trial_of(facts))
        return PlanPick(setting=setting, spread=spread, facts=facts)

    def _with_slots(self, choice: PlanPick) -> PlanPick:
        """Return the choice with as many conversations at once as people ask for and memory allows."""
        target = self._target_slots(choice.spread)
        if choice.facts is None or choice.fit is FitQuality.NONE or target <= choice.setting.slots:
            return choice
        trial = self._ask.trials.trial_of(choice.facts)
        most = trial.max_conversations(msgspec.structs.replace(choice.setting, slots=target))
        slots = max(choice.setting.slots, min(target, most))
        if slots == choice.setting.slots:
            return choice
        return msgspec.structs.replace(
            choice, setting=msgspec.structs.replace(choice.setting, slots=slots), estimate=None
        )

    def _possible_spreads(self, facts: ModelFacts) -> list[Spread]:
        return possible_spreads(self._ask.engine, self._ask.gpus, facts, serves=self._ask.work.serves_several)

    def _base_setting(self, spread: Spread, kv_type: str, trial: SettingTrial) -> RunSetting:
        setting = _build_setting(self._ask, spread, kv_type=kv_type, context=self._target_context(trial))
        return msgspec.structs.replace(setting, slots=self._least_slots(spread))

    def _target_context(self, trial: SettingTrial) -> int:
        return min(self._ask.work.target_context, trial.longest)

    def _least_context(self, trial: SettingTrial) -> int:
        work, target = self._ask.work, self._target_context(trial)
        return target if work.is_fixed else min(work.needs.least_context, target)

    def _round_context(self, room: int, trial: SettingTrial) -> int:
        most = min(room, self._target_context(trial))
        return most // ROUND * ROUND if most > ROUND else most

    def _target_slots(self, spread: Spread) -> int:
        work, engine = self._ask.work, self._ask.engine
        return max(work.slots, min(-(-work.users // spread.replicas), engine.most_slots))

    def _least_slots(self, spread: Spread) -> int:
        target = self._target_slots(spread)
        return target if self._ask.work.is_fixed else -(-target // ASKING_SHARE)

    def _is_fast(self, facts: ModelFacts, setting: RunSetting) -> bool:
        """Whether it decodes fast enough; where nothing is known of the device, it is taken to."""
        rate = self._ask.trials.trial_of(facts).tokens_per_second(setting)
        return rate is None or rate >= self._ask.work.needs.floor

    def _might_fit(self, facts: ModelFacts, spread: Spread) -> bool:
        """Rule out quickly what is larger than all the memory of the cards."""
        return self._is_within(facts, self._home_pools(spread) or self._ask.machine.pools[:1])

    def _might_spill(self, facts: ModelFacts) -> bool:
        """Rule out quickly what is larger than all the memory there is."""
        return self._is_within(facts, self._ask.machine.pools)

    def _home_pools(self, spread: Spread) -> list[Pool]:
        pools = {pool.id: pool for pool in self._ask.machine.pools}
        return [pools[gpu.pool] for gpu in self._ask.gpus[: spread.cards] if gpu.pool in pools]

    @staticmethod
    def _is_within(facts: ModelFacts, pools: Sequence[Pool]) -> bool:
        sizes = [pool.physical.value for pool in pools]
        return None in sizes or facts.file_bytes * SURE_SHARE <= sum(size or 0 for size in sizes)


def apply_offload(setting: RunSetting, spill_estimate: Estimate) -> RunSetting:
    """Return the setting with what an estimate moved to system memory."""
    offload = spill_estimate.offload
    if offload.cpu_moe_layers:
        return msgspec.structs.replace(setting, cpu_moe_layers=offload.cpu_moe_layers)
    if offload.gpu_layers < offload.layers:
        return msgspec.structs.replace(setting, gpu_layers=offload.gpu_layers)
    return setting


def _build_setting(ask: EngineQuery, spread: Spread, *, kv_type: str, context: int) -> RunSetting:
    return msgspec.structs.replace(
        ask.template or RunSetting(engine=ask.engine),
        engine=ask.engine,
        backend=ask.target.backend,
        context=context,
        kv_type=kv_type,
        gpus=max(1, spread.cards if ask.gpus else 1),
        split=_card_shares(ask.gpus[: spread.cards]),
    )


def _card_shares(gpus: Sequence[Gpu]) -> tuple[float, ...]:
    """Return each card's share by its memory, where they differ; empty: equal shares."""
    sizes = [gpu.memory_total.value or 0 for gpu in gpus]
    if len(set(sizes)) < 2 or not all(sizes):  # noqa: PLR2004 -- all the same
        return ()
    sorted_sizes = sorted(sizes, reverse=True)  # engines are given the largest first
    return tuple(size / sum(sizes) for size in sorted_sizes)
