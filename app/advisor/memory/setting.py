"""How a model is to be run, and what that takes by component and place: the values the memory estimate works on.

A place is where bytes lie: system memory (`HOST`) or one of the GPUs used, counted from 0. What a place is on a given
machine (a pool of its own, or the same one) is decided later, in `placement`.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from app.advisor.choosing.engine_table import EngineTraits
from app.core.advice import Amount, EstimateConfidence
from app.core.model_facts import ModelFacts

HOST = -1
"""System memory; GPUs are 0, 1, ..."""
SHIPPED_BUILD = 11549
"""llama.cpp as the pinned xllamacpp brings it: 2026.10.11549."""


_DRAFT_NAMES = "weights, KV, state and compute of the draft"


class MemoryComponent(StrEnum):
    """What memory is taken for; the names are those of `core.advice.Estimate`."""

    WEIGHTS = "weights"
    KV = "kv"
    STATE = "state"
    COMPUTE = "compute"
    OUTPUT = "output"
    RUNTIME = "runtime"
    PROJECTOR = "projector"
    DRAFT = "draft"


class RunSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a model. What is left at its default is as Roundhouse launches the engine."""

    engine: EngineTraits
    backend: str = "cpu"
    context: int = 4096
    """Tokens per conversation; the engine is given `context` x `slots`."""
    slots: int = 1
    kv_type: str = "f16"
    value_type: str = ""
    """Type of the values, where it is not that of the keys."""
    batch: int = 512
    """Tokens computed at once (llama.cpp: n_ubatch; else the prefill chunk)."""
    flash_attention: bool = True
    """llama.cpp switches it on wherever it can."""
    task: str = "chat"
    """"chat", "embed" or "rerank"."""
    gpu_layers: int | None = None
    """Layers on the GPUs, counted from the last; the output counts as one more. None: all, if the backend has GPUs."""
    cpu_moe_layers: int = 0
    """Of so many layers, from the first, the routed experts stay in system memory."""
    gpus: int = 1
    """GPUs used; the CPU backend uses none."""
    split: tuple[float, ...] = ()
    """Share of each GPU; empty: equal."""
    gpu_memory: tuple[int, ...] = ()
    """Bytes each GPU has, where known: reserving engines take a share, and larger GPUs need a larger context."""
    prefills: bool = True
    """Whether prompts are computed; backends that convert weights for them then need a buffer more."""
    is_kv_unified: bool = False
    """All conversations share one cache of `context` x `slots` tokens (llama-server's default; not ours)."""
    is_swa_full: bool = False
    """Sliding layers keep every token."""
    rollback_copies: int = 0
    """Further copies of the recurrent state that speculation asks for."""
    limits_outputs: bool = True
    """Only the last token's logits are computed (servers do; llama-bench and older builds do not)."""
    build: int = SHIPPED_BUILD
    """llama.cpp's build number: compute buffers change with it."""
    repacks: bool = True
    """Whether weights may be copied into the layout the processor reads best."""
    isa: tuple[str, ...] = ()
    """Vector extensions of the processor: they decide what is repacked."""
    memory_fraction: float | None = None
    """Share of a GPU that a reserving engine takes; None: its default."""
    cache_tokens: int | None = None
    """Tokens of the cache where the user sets them (ExLlama); None: `context` x `slots`."""
    projector: ModelFacts | None = None
    draft: ModelFacts | None = None
    has_own_draft: bool = False
    """The model's head for multi-token prediction drafts for it: its weights, cache and graph are loaded too."""
    runtime_shift: int | None = None
    """By how much the process itself turned out larger here than the figures say; None: nothing was loaded yet."""

    @property
    def total_context(self) -> int:
        """Tokens of all conversations together."""
        return self.context * self.slots

    @property
    def uses_gpu(self) -> bool:
        """Whether any GPU holds anything."""
        return self.backend != "cpu" and self.gpus > 0 and self.gpu_layers != 0


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one component in one place. `reclaimable` ones are a cache the system may drop without harm."""

    place: int
    component: MemoryComponent
    bytes: int
    confidence: EstimateConfidence = EstimateConfidence.EXACT
    arithmetic: str = ""
    reclaimable: int = 0


class MemoryComponents(msgspec.Struct, frozen=True, kw_only=True):
    """What a model takes: each component summed over the places, and the parts by place."""

    weights: Amount
    kv: Amount
    state: Amount
    compute: Amount
    output: Amount
    runtime: Amount
    total: Amount
    projector: Amount | None = None
    draft: Amount | None = None
    parts: list[MemoryPart] = []

    @property
    def places(self) -> list[int]:
        """The places used, system memory first."""
        return sorted({part.place for part in self.parts})


def by_component(parts: Iterable[MemoryPart], *, is_needed: bool = False) -> dict[str, int]:
    """Sum parts by component, leaving out what is nothing; with `is_needed` also what the system may drop."""
    sums: dict[str, int] = {}
    for part in parts:
        size = part.bytes - part.reclaimable if is_needed else part.bytes
        if size:
            sums[part.component.value] = sums.get(part.component.value, 0) + size
    return sums


def assemble_parts(parts: Iterable[MemoryPart]) -> MemoryComponents:
    """Sum parts into components."""
    nonempty_parts = [part for part in parts if part.bytes or part.arithmetic]
    amounts = {component: _sum_amount(nonempty_parts, component) for component in MemoryComponent}
    total = sum(amount.bytes for amount in amounts.values())
    return MemoryComponents(
        weights=amounts[MemoryComponent.WEIGHTS],
        kv=amounts[MemoryComponent.KV],
        state=amounts[MemoryComponent.STATE],
        compute=amounts[MemoryComponent.COMPUTE],
        output=amounts[MemoryComponent.OUTPUT],
        runtime=amounts[MemoryComponent.RUNTIME],
        projector=_optional_amount(amounts, MemoryComponent.PROJECTOR),
        draft=_optional_amount(amounts, MemoryComponent.DRAFT),
        total=Amount(
            bytes=total, confidence=_least_confidence(part.confidence for part in nonempty_parts if part.bytes)
        ),
        parts=nonempty_parts,
    )


def as_draft(parts: Iterable[MemoryPart]) -> Iterator[MemoryPart]:
    """Yield what a draft takes as one component: it has weights, a cache and a working set of its own."""
    for part in parts:
        yield msgspec.structs.replace(part, component=MemoryComponent.DRAFT, arithmetic=_DRAFT_NAMES)


def _optional_amount(amounts: Mapping[MemoryComponent, Amount], component: MemoryComponent) -> Amount | None:
    return amounts[component] if amounts[component].bytes else None


def _sum_amount(parts: Iterable[MemoryPart], component: MemoryComponent) -> Amount:
    mine = [part for part in parts if part.component is component]
    sums = list(dict.fromkeys(part.arithmetic for part in mine if part.arithmetic))
    return Amount(
        bytes=sum(part.bytes for part in mine),
        confidence=_least_confidence(part.confidence for part in mine),
        arithmetic=" + ".join(sums),
    )


def _least_confidence(confidences: Iterable[EstimateConfidence]) -> EstimateConfidence:
    """Return the weakest: a sum is as sure as its least sure term."""
    order = list(EstimateConfidence)
    return max(confidences, key=order.index, default=EstimateConfidence.EXACT)
