"""What exllamav3 1.6.5 compiles with Triton for attention over pages, by our own paged attention in PyTorch."""

from typing import Any

import torch

_qc_staging = 2
"""Has a quantised cache be read by the extension's own functions, which put it back into 16 bits."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def decline(*_: object) -> None:
        """Say that this is no case for it, as the library's own do."""

    return decline


def fn_triton_paged_attn_decode(args: Any) -> torch.Tensor | None:
    """Attend to the cache, with the new keys and values written into it."""
    from engines.exllama.paged_attention import PagedAttention  # noqa: PLC0415 -- beside the worker, not beside this

    if not args.has_kv_cache() or args.non_causal_spans or args.sinks is not None:
        return None
    attention: torch.Tensor = PagedAttention(torch).flash_attn_with_kvcache(
        q=args.q,
        k_cache=args.k_cache,
        v_cache=args.v_cache,
        k=args.k,
        v=args.v,
        cache_seqlens=args.cache_seqlens,
        block_table=args.block_table,
        causal=args.causal,
        softmax_scale=args.sm_scale,
        window_size=args.get_window_size(),
        softcap=args.softcap,
    )
    return attention
