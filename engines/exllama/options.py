"""Options that both ExLlamas take alike, as their worker is told them."""

from collections.abc import Mapping

from engines.api import Draft, LaunchOptions

HONOURED = frozenset({"device_ids", "device_bytes", "tensor_parallel", "pipeline_parallel", "lora"})
"""What both libraries have, and most of those behind our server have not."""


def shared_config(library: str, options: LaunchOptions, kv_bits: Mapping[str, tuple[int, int]]) -> dict[str, object]:
    """Return what the worker of either library is told. Raises ValueError with a sentence for what it cannot do."""
    if options.kv_type not in {None, *kv_bits}:
        plain = ", ".join(name for name in kv_bits if "/" not in name)
        raise ValueError(f"{library} keeps its KV cache as one of {plain}.")
    if options.tensor_parallel > 1 and options.lora:
        raise ValueError(f"{library} applies no LoRA adapters where a model's matrices are cut over several cards.")
    if options.tensor_parallel > 1 and options.device_ids and len(options.device_ids) != options.tensor_parallel:
        raise ValueError(f"{library} cuts matrices over all cards it is given: name {options.tensor_parallel} or none.")
    return {
        "library": library.lower(),
        "kv_bits": list(kv_bits[options.kv_type or "f16"]),
        "devices": list(options.device_ids),
        "card_bytes": list(options.device_bytes),
        "cuts_matrices": options.tensor_parallel > 1,
        "loras": [str(path) for path in options.lora],
        "draft": draft_config(options.draft),
    }


def draft_config(draft: Draft | None) -> dict[str, object] | None:
    """Return what drafts, as JSON."""
    if draft is None:
        return None
    return {"kind": draft.kind, "path": "" if draft.path is None else str(draft.path), "tokens": draft.tokens}
