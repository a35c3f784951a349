"""What a model takes on a machine, whether that fits, and the most context that does: the memory half of the advisor.

`sum_components` sums what an engine allocates by its own rules; `estimate_memory` lays that against the machine's
pools. Pure and fast: no file is read, nothing is asked.

The largest that still fits: contexts, layers on the GPU, experts off it. All by bisection over the real sums.

More context takes more memory and more layers on the GPU take more of the GPU's, so what fits is a range with one end.

Memory in words: the sum in one sentence, and what a reader should know besides.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from app.advisor.memory import kv, placement
from app.advisor.memory import libraries as library_memory
from app.advisor.memory import reserved as reserved_memory
from app.advisor.memory.llama_cpp import buffers as llama_cpp_memory
from app.advisor.memory.llama_cpp.weights import TABLES_MAPPED
from app.advisor.memory.setting import HOST, MemoryComponent, MemoryComponents, MemoryPart, RunSetting, assemble_parts
from app.core import words
from app.core.advice import Estimate, Offload, PoolUse, Rate
from app.core.machine import Confidence, Machine
from app.core.model_facts import ModelFacts, WeightKind
from engines.api.traits import GgmlMemory, ReservedMemory

__all__ = [
    "HOST",
    "MemoryComponent",
    "MemoryComponents",
    "RunSetting",
    "SpeedModel",
    "estimate_memory",
    "setting_fits",
    "sum_components",
]

UNTRAINED_LIMIT = 1 << 20
"""The longest context looked for where the model does not say what it was trained for."""


Rates = tuple[Rate | None, Rate | None]
"""Decode and prefill; None where nothing is known of the device."""


class SpeedModel(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a setting is: `rates(setting, depth)`, asked at `depth` tokens in the context.

    With `floor`, the largest context is one at which decoding is no slower than so many tokens per second.
    """

    rates: Callable[[RunSetting, int], Rates]
    depth: int = 0
    floor: float | None = None


def sum_components(facts: ModelFacts, setting: RunSetting) -> MemoryComponents:
    """Return what running the model takes, by component and place. Raises KeyError for a KV type we do not know."""
    return assemble_parts(_parts(facts, setting))


def setting_fits(facts: ModelFacts, machine: Machine, setting: RunSetting) -> bool:
    """Say whether the setting fits as it stands, nothing moved to make it so: the quick question of a search.

    Raises KeyError for a KV type we do not know.
    """
    adapted_setting = placement.adapt_setting(setting, machine)
    return _FitCheck(facts, machine, adapted_setting).fits_setting(adapted_setting)


def estimate_memory(
    facts: ModelFacts, machine: Machine, setting: RunSetting, *, speed: SpeedModel | None = None
) -> Estimate:
    """Return the estimate of running `facts` as `setting` says on `machine`.

    Where the whole does not fit on the GPU, llama.cpp keeps experts or layers in system memory: the most that fits on
    the GPU is chosen and said. Raises KeyError for a KV type we do not know.
    """
    fit_check = _FitCheck(facts, machine, placement.adapt_setting(setting, machine))
    offloaded = fit_check.with_offload()
    total = sum_components(facts, offloaded)
    pools = placement.pool_uses(total, fit_check.rooms)
    decode, prefill = speed.rates(offloaded, speed.depth) if speed else (None, None)
    is_fitting = fit_check.fits_setting(offloaded)
    return Estimate(
        model=facts.name,
        engine=offloaded.engine.id,
        backend=offloaded.backend,
        context=offloaded.context,
        slots=offloaded.slots,
        kv_type=offloaded.kv_type,
        weights=total.weights,
        kv=total.kv,
        state=total.state,
        compute=total.compute,
        output=total.output,
        runtime=total.runtime,
        total=total.total,
        projector=total.projector,
        draft=total.draft,
        pools=pools,
        fits=is_fitting,
        largest_context=fit_check.largest_context(offloaded, _floor_test(speed)),
        decode=decode,
        prefill=prefill,
        offload=_summarize_offload(facts, offloaded),
        sentence=memory_sentence(pools),
        notes=[
            *fit_check.machine_notes(offloaded, is_fitting=is_fitting),
            *memory_notes(facts, offloaded, total),
        ],
        depth=speed.depth if speed else 0,
    )


def memory_by_pool(facts: ModelFacts, machine: Machine, setting: RunSetting) -> dict[str, int]:
    """Return the bytes that running `facts` takes of each pool.

    Layers and experts are moved as `estimate_memory` moves them. Caches the system may drop are
    not counted. Raises KeyError for a KV type we do not know.
    """
    fit_check = _FitCheck(facts, machine, placement.adapt_setting(setting, machine))
    parts = sum_components(facts, fit_check.with_offload()).parts
    by_pool = {room.pool.id: [part for part in parts if part.place in room.places] for room in fit_check.rooms}
    return {pool: sum(part.bytes - part.reclaimable for part in mine) for pool, mine in by_pool.items() if mine}


def _parts(facts: ModelFacts, setting: RunSetting) -> list[MemoryPart]:
    match setting.engine.memory:
        case GgmlMemory():
            return llama_cpp_memory.llama_parts(facts, setting)
        case ReservedMemory():
            return reserved_memory.reserve_parts(facts, setting)
        case _:
            return library_memory.library_parts(facts, setting)


def engine_reported_bytes(total: MemoryComponents) -> int:
    """Return how many of the bytes an engine will itself say it allocated: all but what the process is made of."""
    return total.total.bytes - total.runtime.bytes


class _FitCheck:
    """One model on one machine: what fits there."""

    def __init__(self, facts: ModelFacts, machine: Machine, setting: RunSetting) -> None:
        self.facts = facts
        self.setting = setting
        self.rooms: Sequence[placement.PoolRoom] = placement.pool_rooms(machine, setting)

    def fits_setting(self, setting: RunSetting, *, fixed_parts: Sequence[MemoryPart] | None = None) -> bool:
        """Whether a setting fits. `fixed`: what does not depend on the context, if that is at hand."""
        if isinstance(setting.engine.memory, ReservedMemory):
            return self._reservation_fits(setting)
        if fixed_parts is not None:
            return placement.parts_fit([*fixed_parts, *llama_cpp_memory.context_parts(self.facts, setting)], self.rooms)
        return placement.parts_fit(self._count_parts(setting), self.rooms)

    def with_offload(self) -> RunSetting:
        """Return the setting, with experts or layers moved to system memory if that makes it fit."""
        whole = self.setting
        is_asked = whole.gpu_layers is not None or whole.cpu_moe_layers > 0
        can_move = whole.engine.keeps_experts_aside and whole.uses_gpu
        if is_asked or not can_move or self.fits_setting(whole):
            return whole
        return next(filter(self.fits_setting, self._ways_to_move()), whole)

    def largest_context(self, setting: RunSetting, is_fast: Callable[[RunSetting], bool]) -> int:
        """Return the longest context, per conversation, that fits and is fast enough."""
        fixed_parts = llama_cpp_memory.fixed_parts(self.facts, setting) if setting.engine.is_ggml else None

        def is_usable(context: int) -> bool:
            trial_setting = msgspec.structs.replace(setting, context=context, cache_tokens=None)
            return self.fits_setting(trial_setting, fixed_parts=fixed_parts) and is_fast(trial_setting)

        return largest_fit(is_usable, most=self.facts.trained_context or UNTRAINED_LIMIT, step=kv.CELL_STEP)

    def machine_notes(self, setting: RunSetting, *, is_fitting: bool) -> Iterator[str]:
        """Yield what the machine adds."""
        if not is_fitting and any(room.free is None for room in self.rooms):
            yield "How much memory is free is unknown, so there is no guarantee that anything fits."
        if isinstance(setting.engine.memory, ReservedMemory):
            yield from reserved_memory.reserve_notes(self.facts, setting)

    def _reservation_fits(self, setting: RunSetting) -> bool:
        """Whether what is reserved is free, and one conversation per slot fits into the cache."""
        room = reserved_memory.cache_capacity(self.facts, setting).bytes
        if room <= 0 or room < reserved_memory.cache_demand(self.facts, setting):
            return False
        return placement.parts_fit(_parts(self.facts, setting), self.rooms, margin=0)

    def _ways_to_move(self) -> Iterator[RunSetting]:
        """Yield what can be moved, the better first: experts, and with llama.cpp whole layers."""
        is_ggml = self.setting.engine.is_ggml
        can_move = is_ggml or library_memory.can_set_experts_aside(self.facts, self.setting)
        experts = self._experts_aside() if can_move else None
        if experts is not None:
            yield experts
        if is_ggml:
            yield self._layers_aside()

    def _experts_aside(self) -> RunSetting | None:
        layers = [group.layer for group in self.facts.weights if group.kind is WeightKind.EXPERTS]
        most = max((layer for layer in layers if layer is not None), default=-1) + 1
        count = (
            smallest_fit(lambda aside_count: self._gpus_hold(self._with_changes(cpu_moe_layers=aside_count)), most=most)
            if most
            else None
        )
        return self._with_changes(cpu_moe_layers=count) if count is not None else None

    def _layers_aside(self) -> RunSetting:
        count = largest_fit(
            lambda aside_count: self._gpus_hold(self._with_changes(gpu_layers=aside_count)), most=len(self.facts.layers)
        )
        return self._with_changes(gpu_layers=count)

    def _gpus_hold(self, setting: RunSetting) -> bool:
        """Whether the GPUs' part fits. Looked for alone, since whatever leaves them fills system memory."""
        on_gpus = [room for room in self.rooms if any(place != HOST for place in room.places)]
        return placement.parts_fit(self._count_parts(setting), on_gpus)

    def _count_parts(self, setting: RunSetting) -> list[MemoryPart]:
        """Return what a setting takes without the sums in words, which take longer to write than to add up."""
        if setting.engine.is_ggml:
            return llama_cpp_memory.count_parts(self.facts, setting)
        return _parts(self.facts, setting)

    def _with_changes(self, **changes: int) -> RunSetting:
        return msgspec.structs.replace(self.setting, **changes)


def _floor_test(speed: SpeedModel | None) -> Callable[[RunSetting], bool]:
    """Return the test a context must pass: decoding with it full is no slower than the floor."""
    if speed is None or speed.floor is None:
        return lambda _: True
    rates, floor = speed.rates, speed.floor

    def is_fast(setting: RunSetting) -> bool:
        decode, _ = rates(setting, setting.context)
        return decode is not None and decode.tokens_per_second >= floor

    return is_fast


def _summarize_offload(facts: ModelFacts, setting: RunSetting) -> Offload:
    every = len(kv.decode_layers(facts))
    on_gpu = every if setting.gpu_layers is None else min(every, setting.gpu_layers)
    return Offload(layers=every, gpu_layers=on_gpu if setting.uses_gpu else 0, cpu_moe_layers=setting.cpu_moe_layers)


def largest_fit(fits: Callable[[int], bool], *, most: int, step: int = 1) -> int:
    """Return the largest multiple of `step` up to `most` (or `most` itself) that fits; 0 for none."""
    if most <= 0:
        return 0
    if fits(most):
        return most
    low, high = 0, -(-most // step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle)
    return low * step


def smallest_fit(fits: Callable[[int], bool], *, most: int) -> int | None:
    """Return the smallest number from 0 to `most` that fits, or None."""
    if not fits(most):
        return None
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


GIB = 1024**3
_NAMES = {
    "weights": "weights",
    "kv": "KV",
    "state": "state",
    "compute": "compute",
    "output": "output",
    "runtime": "runtime",
    "projector": "projector",
    "draft": "draft",
}
_SMALL = 0.05
"""Terms below this many GiB are said together."""
_CHECKPOINT_TOKENS = 8192
"""llama.cpp keeps a copy of state or window every so many tokens of a conversation (`checkpoint_min_step`)."""
_CHECKPOINTS = 32
"""At most so many per slot (`n_ctx_checkpoints`)."""


def memory_sentence(pools: Sequence[PoolUse]) -> str:
    """Return the sums, the fullest pool first: "16.0 weights + 4.2 KV = 20.2 of 29.6 GiB free in RTX 5090"."""
    return "; ".join(_pool_sentence(pool) for pool in sorted(pools, key=lambda pool: -pool.needed_bytes))


def _pool_sentence(pool: PoolUse) -> str:
    large = {name: size / GIB for name, size in pool.parts.items() if size / GIB >= _SMALL}
    small = sum(size / GIB for name, size in pool.parts.items() if name not in large)
    terms = [f"{size:.1f} {_NAMES[name]}" for name, size in large.items()]
    if small and terms:
        terms.append(f"{small:.1f} other" if small >= _SMALL else "a little more")
    free = f"of {pool.free / GIB:.1f} GiB free" if pool.free is not None else "GiB, out of an unknown amount,"
    total = (
        f"{pool.needed_bytes / GIB:.1f}" if pool.needed_bytes / GIB >= _SMALL else words.format_bytes(pool.needed_bytes)
    )
    return f"{' + '.join(terms)} = {total} {free} in {pool.name}" if terms else f"{total} {free} in {pool.name}"


def memory_notes(facts: ModelFacts, setting: RunSetting, total: MemoryComponents) -> Iterator[str]:
    """Yield what the sum does not show."""
    if kv.is_quantised(setting.value_type or setting.kv_type) and not setting.flash_attention:
        yield "A quantised KV cache needs flash attention."
    tables = sum(part.reclaimable for part in total.parts if part.arithmetic == TABLES_MAPPED)
    copied_bytes = sum(part.reclaimable for part in total.parts) - tables
    if tables:
        yield (
            f"{words.format_bytes(tables)} of lookup tables stay in system memory or on the disk: they are mapped from "
            "the file, and a token reads a few rows of them."
        )
    if copied_bytes:
        yield (
            f"{words.format_bytes(copied_bytes)} of the weights are held twice: in the processor's layout, and mapped "
            "from the file. The mapped ones are not counted: the system drops them when it needs the memory."
        )
    yield from expert_notes(facts, setting)
    if setting.engine.is_ggml:
        yield from _checkpoint_notes(facts, setting)


def expert_notes(facts: ModelFacts, setting: RunSetting) -> Iterator[str]:
    """Yield what is not known of experts that another engine than llama.cpp computes on the processor."""
    name = setting.engine.name
    if not setting.cpu_moe_layers or not setting.uses_gpu or setting.engine.is_ggml:
        return
    yield f"{name} was never run here with experts on the processor: their speed is arithmetic from the memory's alone."
    if facts.confidence is not Confidence.MEASURED:
        yield (
            f"{name} keeps experts in system memory only if they were quantised with the codebook mul1, its "
            "converter's usual one, which is not known before the files are here; it loads others onto the card."
        )


def _checkpoint_notes(facts: ModelFacts, setting: RunSetting) -> Iterator[str]:
    """Yield what a long conversation adds in system memory where the past cannot be cut at any token."""
    layers = kv.decode_layers(facts)
    state_bytes = sum(kv.layer_state(layer, setting) for layer in layers) // setting.slots
    count = min(_CHECKPOINTS, setting.context // _CHECKPOINT_TOKENS)
    if state_bytes and count:
        yield (
            f"Each {words.format_tokens(_CHECKPOINT_TOKENS)} tokens of a conversation add a checkpoint of "
            f"{words.format_bytes(state_bytes)} in system memory, "
            f"up to {words.format_bytes(state_bytes * count)} per conversation."
        )
