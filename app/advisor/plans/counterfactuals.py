"""What one change would bring, computed by really trying it: another KV type, size, number of slots, card or limit.

Each is kept only when it gains a tenth of something (speed, context, bits, memory) or changes whether the model fits
wholly, and says the figure before and after.
"""

from collections.abc import Iterator, Sequence

import msgspec

from app.advisor.choosing import hardware
from app.advisor.memory.estimate import sum_components
from app.advisor.memory.setting import RunSetting
from app.advisor.plans.quantisations import FULL, nominal_bits
from app.advisor.plans.selection import NOTICEABLE, EngineQuery, FitQuality, PlanPick, apply_offload
from app.advisor.plans.trials import SettingTrial
from app.advisor.plans.wording import short_name
from app.core import words
from app.core.advice import Counterfactual, Estimate
from app.core.machine import Confidence, Fact, Machine
from app.core.model_facts import ModelFacts, WeightKind
from engines.api.traits import EngineAbility

MAC_RESERVE = 8 << 30
"""Left to macOS and its programs when the wired limit is raised; below that it has been seen to kill programs."""
_MIB = 1 << 20


def find_counterfactuals(
    ask: EngineQuery, pick: PlanPick, current: Estimate, others: Sequence[ModelFacts]
) -> list[Counterfactual]:
    """Return what other settings would bring; `others` are the files the same engine loads, the best first."""
    if pick.facts is None or not pick.is_known:
        return []
    plan_trial = _PlanTrial(ask=ask, chosen=pick, estimate=current, trial=ask.trials.trial_of(pick.facts))
    return [
        *_try_smaller_file(plan_trial, others),
        *_try_larger_file(plan_trial, others),
        *_try_kv_type(plan_trial),
        *_try_single_slot(plan_trial),
        *_try_experts_on_host(plan_trial),
        *_try_wired_limit(plan_trial),
        *_try_second_gpu(plan_trial),
        *_try_longer_context(plan_trial),
    ]


class _PlanTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The plan as it stands, and the door to try others."""

    ask: EngineQuery
    chosen: PlanPick
    estimate: Estimate
    trial: SettingTrial

    @property
    def setting(self) -> RunSetting:
        return self.chosen.setting

    @property
    def is_whole(self) -> bool:
        return self.chosen.fit in {FitQuality.WHOLE, FitQuality.SMALL, FitQuality.POOR}

    @property
    def rate(self) -> float | None:
        return self.estimate.decode.tokens_per_second if self.estimate.decode else None

    def is_faster(self, rate: float | None) -> bool:
        return rate is not None and self.rate is not None and rate >= self.rate * NOTICEABLE

    def with_facts(self, facts: ModelFacts) -> SettingTrial:
        return self.ask.trials.trial_of(facts)

    def on_machine(self, machine: Machine) -> SettingTrial:
        return self.ask.trials.trial_on(machine, self.trial.facts)


def _try_smaller_file(plan_trial: _PlanTrial, others: Sequence[ModelFacts]) -> Iterator[Counterfactual]:
    """Where a part is in system memory: the largest file that would not need it; else one size down."""
    facts = plan_trial.trial.facts
    below = sorted((other for other in others if other.file_bytes < facts.file_bytes), key=_file_size, reverse=True)
    whole = msgspec.structs.replace(plan_trial.setting, gpu_layers=None, cpu_moe_layers=0)
    fitting_files = (other for other in below if plan_trial.is_whole or plan_trial.with_facts(other).fits_memory(whole))
    other = next(fitting_files, None)
    if other is None or not plan_trial.with_facts(other).fits_memory(whole):
        return
    trial = plan_trial.with_facts(other)
    rate = trial.tokens_per_second(whole)
    if plan_trial.is_whole and not plan_trial.is_faster(rate):
        return
    where = "fits" if plan_trial.is_whole or not plan_trial.ask.gpus else "fits wholly in GPU memory"
    size = "One size lower" if other is below[0] else "A smaller file"
    yield Counterfactual(
        text=f"{size}, {other.quantization}, {where}: {_compare_rates(rate, plan_trial.rate)}.",
        change={"quantization": other.quantization},
        tokens_per_second=rate,
        context=whole.context,
    )


def _try_larger_file(plan_trial: _PlanTrial, others: Sequence[ModelFacts]) -> Iterator[Counterfactual]:
    """One size up, if it can be run at all."""
    facts = plan_trial.trial.facts
    least = min(nominal_bits(facts) * NOTICEABLE, FULL)
    larger = (other for other in others if other.file_bytes > facts.file_bytes and nominal_bits(other) >= least)
    above = min(larger, key=_file_size, default=None)
    if above is None or not plan_trial.is_whole or nominal_bits(facts) >= FULL:
        return
    trial = plan_trial.with_facts(above)
    name, fits = above.quantization, trial.fits_memory(plan_trial.setting)
    if not fits and not plan_trial.ask.can_part(above):
        room = trial.largest_context(plan_trial.setting)
        if room:
            text = f"One size higher, {name}, leaves room for {words.format_tokens(room)} of context."
            yield Counterfactual(text=text, change={"quantization": name}, context=room)
        return
    setting = plan_trial.setting if fits else apply_offload(plan_trial.setting, trial.full_estimate(plan_trial.setting))
    rate = trial.tokens_per_second(setting)
    where = "fits too" if fits else "needs system memory as well"
    text = f"One size higher, {name}, {where}: {_compare_rates(rate, plan_trial.rate)}."
    yield Counterfactual(text=text, change={"quantization": name}, tokens_per_second=rate, context=setting.context)


def _file_size(facts: ModelFacts) -> int:
    return facts.file_bytes


def _try_kv_type(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """Try the other KV type: 8 bits for more context, or 16 for what they cost."""
    if EngineAbility.KV_QUANT not in plan_trial.ask.engine.abilities:
        return
    eight = "fp8" if EngineAbility.RESERVES in plan_trial.ask.engine.abilities else "q8_0"
    other = eight if plan_trial.setting.kv_type == "f16" else "f16"
    room = plan_trial.trial.largest_context(msgspec.structs.replace(plan_trial.setting, kv_type=other))
    now = plan_trial.estimate.largest_context
    grows = room > now * NOTICEABLE
    if room and (grows or room * NOTICEABLE < now):
        verb = "grows" if grows else "shrinks"
        text = f"With {other} KV the context {verb} to {words.format_tokens(room)}, from {words.format_tokens(now)}."
        yield Counterfactual(text=text, change={"kv_type": other}, context=room)


def _try_single_slot(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """Tell what one conversation at a time frees: each slot has its own KV cache, windows and states."""
    facts, setting = plan_trial.trial.facts, plan_trial.setting
    if not setting.engine.is_ggml or setting.slots == 1:
        return
    single = msgspec.structs.replace(setting, slots=1)
    total = sum_components(facts, setting).total.bytes
    freed_bytes = total - sum_components(facts, single).total.bytes
    if freed_bytes * NOTICEABLE < total * (NOTICEABLE - 1):
        return
    text = f"One conversation at a time frees {words.format_bytes(freed_bytes)} against {setting.slots} at once."
    yield Counterfactual(text=text, change={"slots": 1}, context=setting.context)


def _try_experts_on_host(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """All experts in system memory: room on the card for speed."""
    layers = [group.layer for group in plan_trial.trial.facts.weights if group.kind is WeightKind.EXPERTS]
    count = max((layer for layer in layers if layer is not None), default=-1) + 1
    is_cut = plan_trial.chosen.spread.tensor > 1 and not plan_trial.ask.engine.is_ggml
    if (
        not count
        or is_cut
        or not plan_trial.ask.can_part(plan_trial.trial.facts)
        or plan_trial.setting.cpu_moe_layers == count
    ):
        return
    setting = msgspec.structs.replace(plan_trial.setting, cpu_moe_layers=count, gpu_layers=None)
    if not plan_trial.trial.fits_memory(setting):
        return
    room, rate = plan_trial.trial.largest_context(setting), plan_trial.trial.tokens_per_second(setting)
    has_room = room >= plan_trial.estimate.largest_context * NOTICEABLE
    if not has_room and (plan_trial.is_whole or not plan_trial.is_faster(rate)):
        return
    text = (
        f"With all experts in system memory there is room for {words.format_tokens(room)} of context, at "
        f"{_compare_rates(rate, plan_trial.rate)}."
    )
    yield Counterfactual(text=text, change={"cpu_moe_layers": count}, context=room, tokens_per_second=rate)


def _try_wired_limit(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """On a Mac whose limit, not whose memory, is in the way: the exact command, and its risk."""
    machine = plan_trial.ask.machine
    total = machine.memory.total.value
    if not hardware.is_apple_silicon(machine) or not total or total <= 2 * MAC_RESERVE:
        return
    limit = (total - MAC_RESERVE) // _MIB
    now = max((pool.addressable.value or 0 for pool in machine.pools), default=0)
    room = plan_trial.on_machine(_with_wired_limit(machine, limit * _MIB)).largest_context(plan_trial.setting)
    before = plan_trial.estimate.largest_context if plan_trial.chosen.fit is not FitQuality.NONE else 0
    if limit * _MIB <= now or room <= before * NOTICEABLE or room < plan_trial.setting.context:
        return
    text = (
        f"`sudo sysctl iogpu.wired_limit_mb={limit}` lets the GPU hold {words.format_bytes(limit * _MIB)}, so "
        f"{'' if before else 'the model fits with '}{words.format_tokens(room)} of context{' fit' if before else ''}. "
        f"The risk: macOS keeps {words.format_bytes(MAC_RESERVE)} and may stall or end programs; a restart undoes it."
    )
    yield Counterfactual(text=text, change={"iogpu.wired_limit_mb": limit}, context=room)


def _with_wired_limit(machine: Machine, limit: int) -> Machine:
    """Return the Mac with another wired limit; what is free is then bound by what other programs hold alone."""
    fact = Fact(value=limit, unit="B", source="iogpu.wired_limit_mb", confidence=Confidence.DERIVED)
    free = machine.memory.available
    pools = [msgspec.structs.replace(pool, addressable=fact, free=free) for pool in machine.pools]
    gpus = [msgspec.structs.replace(gpu, memory_total=fact, addressable={}) for gpu in machine.gpus]
    return msgspec.structs.replace(machine, pools=pools, gpus=gpus)


def _try_second_gpu(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """Try a second card of the same kind, where one is short."""
    gpus = plan_trial.ask.gpus
    has_short_one = len(gpus) == 1 and not hardware.is_shared(gpus[0]) and not gpus[0].partition_of
    if not has_short_one or plan_trial.is_whole or EngineAbility.PIPELINE not in plan_trial.ask.engine.abilities:
        return
    trial = plan_trial.on_machine(_with_twin_gpu(plan_trial.ask.machine, gpus[0].id))
    setting = msgspec.structs.replace(plan_trial.setting, gpus=2, gpu_layers=None, cpu_moe_layers=0)
    if not trial.fits_memory(setting):
        return
    rate = trial.tokens_per_second(setting)
    text = f"With a second {short_name(gpus[0])} it fits wholly: {_compare_rates(rate, plan_trial.rate)}."
    yield Counterfactual(text=text, change={"gpus": 2}, tokens_per_second=rate, context=setting.context)


def _with_twin_gpu(machine: Machine, gpu_id: str) -> Machine:
    """Return the machine with another card like this one, in a slot of its own."""
    twin_id = f"{gpu_id} twin"
    gpu = next(gpu for gpu in machine.gpus if gpu.id == gpu_id)
    twin = msgspec.structs.replace(gpu, id=twin_id, uuid="", pool=twin_id)
    pools = [msgspec.structs.replace(pool, id=twin_id, gpus=[twin_id]) for pool in machine.pools if pool.id == gpu.pool]
    return msgspec.structs.replace(machine, gpus=[*machine.gpus, twin], pools=[*machine.pools, *pools])


def _try_longer_context(plan_trial: _PlanTrial) -> Iterator[Counterfactual]:
    """Twice the context, where it fits: what it takes."""
    setting = plan_trial.setting
    doubled_context = min(2 * setting.context, plan_trial.trial.longest)
    if (
        doubled_context <= setting.context
        or not plan_trial.estimate.fits
        or EngineAbility.RESERVES in plan_trial.ask.engine.abilities
    ):
        return
    longer = msgspec.structs.replace(setting, context=doubled_context)
    if doubled_context < setting.context * NOTICEABLE or not plan_trial.trial.fits_memory(longer):
        return
    more = (
        sum_components(plan_trial.trial.facts, longer).total.bytes
        - sum_components(plan_trial.trial.facts, setting).total.bytes
    )
    longer_by = f"{words.format_tokens(doubled_context)} of context instead of {words.format_tokens(setting.context)}"
    text = f"{longer_by} take {words.format_bytes(more)} more, and fit."
    yield Counterfactual(text=text, change={"context": doubled_context}, context=doubled_context)


def _compare_rates(rate: float | None, now: float | None) -> str:
    """Return "74 instead of 11 tok/s"."""
    if rate is None or now is None:
        return "how fast is unknown"
    digits = 1 if min(rate, now) < 10 else 0  # noqa: PLR2004 -- as `words.format_rate` does
    return f"{rate:.{digits}f} instead of {now:.{digits}f} tok/s"
