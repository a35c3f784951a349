"""Memory in words: the sum in one sentence, and what a reader should know besides."""

from collections.abc import Iterator, Sequence

from app.advisor.memory import kv
from app.advisor.memory.setting import MemoryComponents, RunSetting
from app.core import words
from app.core.advice import PoolUse
from app.core.model_facts import ModelFacts

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
    return "; ".join(_pool_sentence(pool) for pool in sorted(pools, key=lambda pool: -pool.bytes))


def _pool_sentence(pool: PoolUse) -> str:
    large = {name: size / GIB for name, size in pool.parts.items() if size / GIB >= _SMALL}
    small = sum(size / GIB for name, size in pool.parts.items() if name not in large)
    terms = [f"{size:.1f} {_NAMES[name]}" for name, size in large.items()]
    if small and terms:
        terms.append(f"{small:.1f} other" if small >= _SMALL else "a little more")
    free = f"of {pool.free / GIB:.1f} GiB free" if pool.free is not None else "GiB, out of an unknown amount,"
    total = f"{pool.bytes / GIB:.1f}" if pool.bytes / GIB >= _SMALL else words.format_bytes(pool.bytes)
    return f"{' + '.join(terms)} = {total} {free} in {pool.name}" if terms else f"{total} {free} in {pool.name}"


def memory_notes(facts: ModelFacts, setting: RunSetting, total: MemoryComponents) -> Iterator[str]:
    """Yield what the sum does not show."""
    if kv.is_quantised(setting.value_type or setting.kv_type) and not setting.flash_attention:
        yield "A quantised KV cache needs flash attention."
    copied = sum(part.reclaimable for part in total.parts)
    if copied:
        yield (
            f"{words.format_bytes(copied)} of the weights are held twice: mapped from the file and in the processor's own "
            "layout. The system drops the mapped ones when it needs the memory."
        )
    if setting.engine.is_ggml:
        yield from _checkpoint_notes(facts, setting)


def _checkpoint_notes(facts: ModelFacts, setting: RunSetting) -> Iterator[str]:
    """Yield what a long conversation adds in system memory where the past cannot be cut at any token."""
    layers = kv.decode_layers(facts)
    state_bytes = sum(kv.layer_state(layer, setting) for layer in layers) // setting.slots
    count = min(_CHECKPOINTS, setting.context // _CHECKPOINT_TOKENS)
    if state_bytes and count:
        yield (
            f"Each {words.format_tokens(_CHECKPOINT_TOKENS)} tokens of a conversation add a checkpoint of {words.format_bytes(state_bytes)} "
            f"in system memory, up to {words.format_bytes(state_bytes * count)} per conversation."
        )
