"""Attention over pages by PyTorch, in place of flash-attn, which PyPI has only as sources: for ExLlamaV2 alone.

ExLlamaV2 answers several requests at once only where it finds the package `flash_attn`. Without it, it is given these
functions under that name. They gather a request's pages and leave the computation to `scaled_dot_product_attention`,
which every card has kernels for, older ones than flash-attn's too. Long contexts cost a copy of the pages per step.
"""

import importlib.machinery
import importlib.util
import os
import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

SWITCH = "EXLLAMA_NO_FLASH_ATTN"
"""The library's own variable: with it, requests are answered one at a time."""
_VERSION = "2.5.7"
"""The least that it takes for paged."""
_QUERIES = 256
"""Of a prompt so many are looked at together: their mask is all that grows with prompt and context."""

Tensor = Any
"""PyTorch's, which is not installed where this is checked."""
Window = tuple[int, int]
_EVERYTHING: Window = (-1, -1)


def provide_paged_attention(torch: Tensor) -> bool:
    """Put ours in the place of flash-attn if that is not there; tell whether that was done."""
    if SWITCH in os.environ or importlib.util.find_spec("flash_attn") is not None:
        return False
    attention = PagedAttention(torch)
    _add_module(
        "flash_attn",
        __version__=_VERSION,
        flash_attn_func=attention.flash_attn_func,
        flash_attn_varlen_func=attention.flash_attn_varlen_func,
        flash_attn_with_kvcache=attention.flash_attn_with_kvcache,
    )
    _add_module("flash_attn_2_cuda", fwd_kvcache=attention.fwd_kvcache)
    return True


def _add_module(name: str, **members: object) -> None:
    module = ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    vars(module).update(members)
    sys.modules[name] = module


class PagedAttention:
    """Those of flash-attn's functions that ExLlamaV2 calls. Tensors are (batch, token, head, width)."""

    def __init__(self, torch: Tensor) -> None:
        self._torch = torch

    def flash_attn_func(  # noqa: PLR0913 -- flash-attn's own arguments
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool = False,
        softmax_scale: float | None = None,
        window_size: Window = _EVERYTHING,
        softcap: float = 0.0,
    ) -> Tensor:
        """Return the attention of queries to all keys; the last query sees the last key."""
        ends = self._torch.full((q.shape[0],), k.shape[1], dtype=self._torch.long, device=q.device)
        return self._attend((q, k, v), ends, softmax_scale, window=(*window_size, causal), softcap=softcap)

    def flash_attn_varlen_func(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_k: Tensor,
        *_longest: int,
    ) -> Tensor:
        """Return the attention within each of several sequences that lie one behind the other."""
        pieces = zip(
            _pairs(cu_seqlens_q.tolist()),
            _pairs(cu_seqlens_k.tolist()),
            strict=True,
        )
        return self._torch.cat(
            [
                self.flash_attn_func(q[a:b].unsqueeze(0), k[c:d].unsqueeze(0), v[c:d].unsqueeze(0)).squeeze(0)
                for (a, b), (c, d) in pieces
            ]
        )

    def flash_attn_with_kvcache(  # noqa: PLR0913 -- as above
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        k: Tensor = None,
        v: Tensor = None,
        *,
        cache_seqlens: Tensor,
        block_table: Tensor = None,
        causal: bool = True,
        softmax_scale: float | None = None,
        window_size: Window = _EVERYTHING,
        softcap: float = 0.0,
    ) -> Tensor:
        """Write new keys and values behind those in the cache, and return the attention to all of them.

        `cache_seqlens` is how many there were. With a `block_table` the cache is pages, and each row of the table lists
        those of one request; without, it has a row for each request.
        """
        torch = self._torch
        starts = torch.as_tensor(cache_seqlens, device=q.device).to(torch.long).reshape(-1).expand(q.shape[0])
        added = 0 if k is None else k.shape[1]
        if block_table is None:
            block_table = torch.arange(q.shape[0], device=q.device).unsqueeze(1)
        table = block_table.to(torch.long)
        if added:
            self._write(k_cache, v_cache, (k, v), starts, table)
        keys, values = (cache[table].flatten(1, 2) for cache in (k_cache, v_cache))
        return self._attend(
            (q, keys, values), starts + added, softmax_scale, window=(*window_size, causal), softcap=softcap
        )

    def fwd_kvcache(self, *arguments: Tensor) -> None:
        """Do the same as ExLlamaV2's tensor parallelism calls it, from C++ and by position; fills the output."""
        q, k_cache, v_cache, k, v, lengths, _, _, _, _, table, _, out, scale, causal, left, right, cap, *_ = arguments
        window = _EVERYTHING if left >= k_cache.shape[0] * k_cache.shape[1] else (left, right)
        out.copy_(
            self.flash_attn_with_kvcache(
                q,
                k_cache,
                v_cache,
                k,
                v,
                cache_seqlens=lengths,
                block_table=table,
                causal=causal,
                softmax_scale=scale,
                window_size=window,
                softcap=cap,
            )
        )

    def _write(
        self, k_cache: Tensor, v_cache: Tensor, new: tuple[Tensor, Tensor], starts: Tensor, table: Tensor
    ) -> None:
        size, count = k_cache.shape[1], new[0].shape[1]
        places = starts.unsqueeze(1) + self._torch.arange(count, device=starts.device)
        pages = self._torch.gather(table, 1, places // size)
        for cache, added in ((k_cache, new[0]), (v_cache, new[1])):
            cache[pages, places % size] = added.to(cache.dtype)

    def _attend(
        self,
        qkv: tuple[Tensor, Tensor, Tensor],
        ends: Tensor,
        scale: float | None,
        *,
        window: tuple[int, int, bool],
        softcap: float,
    ) -> Tensor:
        """Return the attention of `q` to the first `ends` keys of each row; the last query stands at the last."""
        torch = self._torch
        q, k, v = qkv
        rows, count, heads, width = q.shape
        groups = heads // k.shape[2]
        keys, values = k.transpose(1, 2), v.transpose(1, 2)
        scale = width**-0.5 if scale is None else scale
        firsts = ends - count  # where the first query stands
        out = torch.empty_like(q)
        for begin in range(0, count, _QUERIES):
            part = q[:, begin : begin + _QUERIES]
            queries = part.shape[1]
            mask = self._mask(firsts + begin, ends, (queries, k.shape[1]), window)
            # Heads that share keys are asked as further queries of these keys, so that keys need not be repeated.
            folded = part.reshape(rows, queries, k.shape[2], groups, width).permute(0, 2, 3, 1, 4).flatten(2, 3)
            attended = self._compute((folded, keys, values), mask.repeat(1, 1, groups, 1), scale, softcap)
            shaped = attended.reshape(rows, k.shape[2], groups, queries, width).permute(0, 3, 1, 2, 4)
            out[:, begin : begin + queries] = shaped.reshape(rows, queries, heads, width)
        return out

    def _mask(self, firsts: Tensor, ends: Tensor, shape: tuple[int, int], window: tuple[int, int, bool]) -> Tensor:
        """Return which of the keys each query may see, (row, 1, query, key)."""
        torch = self._torch
        left, right, causal = window
        keys = torch.arange(shape[1], device=ends.device)
        stands = (firsts.unsqueeze(1) + torch.arange(shape[0], device=ends.device)).unsqueeze(2)
        seen = keys < ends[:, None, None]
        if causal:
            seen = seen & (keys <= stands)
        if left >= 0:
            seen = seen & (keys >= stands - left)
        if right >= 0 and not causal:
            seen = seen & (keys <= stands + right)
        return seen.expand(-1, shape[0], -1).unsqueeze(1)

    def _compute(self, qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor, scale: float, softcap: float) -> Tensor:
        torch = self._torch
        q, k, v = qkv
        if not softcap:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        scores = softcap * torch.tanh(torch.matmul(q, k.transpose(-1, -2)).float() * scale / softcap)
        return torch.matmul(scores.masked_fill(~mask, float("-inf")).softmax(-1).to(v.dtype), v)


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(edges))
