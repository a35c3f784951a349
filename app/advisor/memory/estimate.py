"""What a model takes on a machine, whether that fits, and the most context that does: the memory half of the advisor.

`components` sums what an engine allocates by its own rules; `estimate` lays that against the machine's pools. Pure and
fast: no file is read, nothing is asked.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from app.advisor.memory import kv, placement
from app.advisor.memory import libraries as library_memory
from app.advisor.memory import reserved as reserved_memory
from app.advisor.memory import wording as memory_wording
from app.advisor.memory.llama_cpp import buffers as llama_cpp_memory
from app.advisor.memory.search import largest, smallest
from app.advisor.memory.setting import HOST, Component, Components, Part, Setting, assemble
from app.core.advice import Estimate, Offload, Rate
from app.core.machine import Machine
from app.core.model_facts import ModelFacts, WeightKind
from engines.api.traits import GgmlMemory, ReservedMemory

__all__ = ["HOST", "Component", "Components", "Setting", "Speed", "components", "estimate", "fits"]

UNTRAINED_LIMIT = 1 << 20
"""The longest context looked for where the model does not say what it was trained for."""


Rates = tuple[Rate | None, Rate | None]
"""Decode and prefill; None where nothing is known of the device."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a setting is: `rates(setting, depth)`, asked at `depth` tokens in the context.

    With `floor`, the largest context is one at which decoding is no slower than so many tokens per second.
    """

    rates: Callable[[Setting, int], Rates]
    depth: int = 0
    floor: float | None = None


def components(facts: ModelFacts, setting: Setting) -> Components:
    """Return what running the model takes, by component and place. Raises KeyError for a KV type we do not know."""
    return assemble(_parts(facts, setting))


def fits(facts: ModelFacts, machine: Machine, setting: Setting) -> bool:
    """Say whether the setting fits as it stands, nothing moved to make it so: the quick question of a search.

    Raises KeyError for a KV type we do not know.
    """
    adapted = placement.adapted(setting, machine)
    return _Fitting(facts, machine, adapted).holds(adapted)


def estimate(facts: ModelFacts, machine: Machine, setting: Setting, *, speed: Speed | None = None) -> Estimate:
    """Return the estimate of running `facts` as `setting` says on `machine`.

    Where the whole does not fit on the GPU, llama.cpp keeps experts or layers in system memory: the most that fits on
    the GPU is chosen and said. Raises KeyError for a KV type we do not know.
    """
    fitting = _Fitting(facts, machine, placement.adapted(setting, machine))
    chosen = fitting.offloaded()
    found = components(facts, chosen)
    pools = placement.uses(found, fitting.rooms)
    decode, prefill = speed.rates(chosen, speed.depth) if speed else (None, None)
    is_fitting = fitting.holds(chosen)
    return Estimate(
        model=facts.name,
        engine=chosen.engine.id,
        backend=chosen.backend,
        context=chosen.context,
        slots=chosen.slots,
        kv_type=chosen.kv_type,
        weights=found.weights,
        kv=found.kv,
        state=found.state,
        compute=found.compute,
        output=found.output,
        runtime=found.runtime,
        total=found.total,
        projector=found.projector,
        draft=found.draft,
        pools=pools,
        fits=is_fitting,
        largest_context=fitting.largest_context(chosen, _floor(speed)),
        decode=decode,
        prefill=prefill,
        offload=_offload(facts, chosen),
        sentence=memory_wording.sentence(pools),
        notes=[*fitting.notes(chosen, is_fitting=is_fitting), *memory_wording.notes(facts, chosen, found)],
        depth=speed.depth if speed else 0,
    )


def taken(facts: ModelFacts, machine: Machine, setting: Setting) -> dict[str, int]:
    """Return the bytes that running `facts` takes of each pool, with layers or experts moved as `estimate` moves them.

    Caches the system may drop are not counted. Raises KeyError for a KV type we do not know.
    """
    fitting = _Fitting(facts, machine, placement.adapted(setting, machine))
    parts = components(facts, fitting.offloaded()).parts
    held = {room.pool.id: [part for part in parts if part.place in room.places] for room in fitting.rooms}
    return {pool: sum(part.bytes - part.reclaimable for part in mine) for pool, mine in held.items() if mine}


def _parts(facts: ModelFacts, setting: Setting) -> list[Part]:
    match setting.engine.memory:
        case GgmlMemory():
            return llama_cpp_memory.parts(facts, setting)
        case ReservedMemory():
            return reserved_memory.parts(facts, setting)
        case _:
            return library_memory.parts(facts, setting)


def reported(found: Components) -> int:
    """Return how many of the bytes an engine will itself say it allocated: all but what the process is made of."""
    return found.total.bytes - found.runtime.bytes


class _Fitting:
    """One model on one machine: what fits there."""

    def __init__(self, facts: ModelFacts, machine: Machine, setting: Setting) -> None:
        self.facts = facts
        self.setting = setting
        self.rooms: Sequence[placement.Room] = placement.rooms(machine, setting)

    def holds(self, setting: Setting, *, fixed: Sequence[Part] | None = None) -> bool:
        """Whether a setting fits. `fixed`: what does not depend on the context, if that is at hand."""
        if isinstance(setting.engine.memory, ReservedMemory):
            return self._reserves(setting)
        if fixed is not None:
            return placement.fits([*fixed, *llama_cpp_memory.context_parts(self.facts, setting)], self.rooms)
        return placement.fits(_parts(self.facts, setting), self.rooms)

    def offloaded(self) -> Setting:
        """Return the setting, with experts or layers moved to system memory if that makes it fit."""
        whole = self.setting
        is_asked = whole.gpu_layers is not None or whole.cpu_moe_layers > 0
        can_move = whole.engine.is_ggml and whole.uses_gpu
        if is_asked or not can_move or self.holds(whole):
            return whole
        moved = (tried for tried in (self._experts_aside(), self._layers_aside()) if tried is not None)
        return next(filter(self.holds, moved), whole)

    def largest_context(self, setting: Setting, is_fast: Callable[[Setting], bool]) -> int:
        """Return the longest context, per conversation, that fits and is fast enough."""
        fixed = llama_cpp_memory.fixed_parts(self.facts, setting) if setting.engine.is_ggml else None

        def serves(context: int) -> bool:
            tried = msgspec.structs.replace(setting, context=context, cache_tokens=None)
            return self.holds(tried, fixed=fixed) and is_fast(tried)

        return largest(serves, most=self.facts.trained_context or UNTRAINED_LIMIT, step=kv.CELL_STEP)

    def notes(self, setting: Setting, *, is_fitting: bool) -> Iterator[str]:
        """Yield what the machine adds."""
        if not is_fitting and any(room.free is None for room in self.rooms):
            yield "How much memory is free is unknown, so there is no guarantee that anything fits."
        if isinstance(setting.engine.memory, ReservedMemory):
            yield from reserved_memory.notes(self.facts, setting)

    def _reserves(self, setting: Setting) -> bool:
        """Whether what is reserved is free, and one conversation per slot fits into the cache."""
        room = reserved_memory.capacity(self.facts, setting).bytes
        if room <= 0 or room < reserved_memory.wanted_cache(self.facts, setting):
            return False
        return placement.fits(_parts(self.facts, setting), self.rooms, margin=0)

    def _experts_aside(self) -> Setting | None:
        layers = [group.layer for group in self.facts.weights if group.kind is WeightKind.EXPERTS]
        most = max((layer for layer in layers if layer is not None), default=-1) + 1
        count = smallest(lambda tried: self._gpus_hold(self._moved(cpu_moe_layers=tried)), most=most) if most else None
        return self._moved(cpu_moe_layers=count) if count is not None else None

    def _layers_aside(self) -> Setting:
        count = largest(lambda tried: self._gpus_hold(self._moved(gpu_layers=tried)), most=len(self.facts.layers))
        return self._moved(gpu_layers=count)

    def _gpus_hold(self, setting: Setting) -> bool:
        """Whether the GPUs' part fits. Looked for alone, since whatever leaves them fills system memory."""
        on_gpus = [room for room in self.rooms if any(place != HOST for place in room.places)]
        return placement.fits(_parts(self.facts, setting), on_gpus)

    def _moved(self, **changes: int) -> Setting:
        return msgspec.structs.replace(self.setting, **changes)


def _floor(speed: Speed | None) -> Callable[[Setting], bool]:
    """Return the test a context must pass: decoding with it full is no slower than the floor."""
    if speed is None or speed.floor is None:
        return lambda _: True
    asked, floor = speed.rates, speed.floor

    def is_fast(setting: Setting) -> bool:
        decode, _ = asked(setting, setting.context)
        return decode is not None and decode.tokens_per_second >= floor

    return is_fast


def _offload(facts: ModelFacts, setting: Setting) -> Offload:
    every = len(kv.cached_layers(facts))
    on_gpu = every if setting.gpu_layers is None else min(every, setting.gpu_layers)
    return Offload(layers=every, gpu_layers=on_gpu if setting.uses_gpu else 0, cpu_moe_layers=setting.cpu_moe_layers)
