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
_FEW = 16
"""Queries of a request at a step that writes, drafts among them: their mask is kept for all layers."""

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
        self._steps: dict[object, _Step] = {}
        """The latest of each card."""

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
        block_table: Tensor,
        causal: bool = True,
        softmax_scale: float | None = None,
        window_size: Window = _EVERYTHING,
        softcap: float = 0.0,
    ) -> Tensor:
        """Write new keys and values behind those in the cache, and return the attention to all of them.

        `cache_seqlens` is how many there were. The cache is pages, and each row of the table lists those of a request.
        """
        step = self._find_step(cache_seqlens, block_table, (0 if k is None else k.shape[1], k_cache.shape[1]))
        if k is not None:
            step.write(k_cache, k)
            step.write(v_cache, v)
        shape, window = (q.shape[1], q.shape[2] // k_cache.shape[2]), (*window_size, causal)
        keys, values = step.gather(k_cache), step.gather(v_cache)
        if q.shape[1] > _FEW:
            return self._attend((q, keys, values), step.ends, softmax_scale, window=window, softcap=softcap)
        mask = self._find_mask(step, shape, window, q.dtype)
        scale = q.shape[3] ** -0.5 if softmax_scale is None else softmax_scale
        return self._attend_part((q, keys, values), mask, scale, softcap)

    def _find_step(self, lengths: Tensor, table: Tensor, sizes: tuple[int, int]) -> "_Step":
        """Return what the layers of a step share: it is made for the first of them."""
        step = self._steps.get(table.device)
        if step is None or not step.is_of(lengths, table, sizes):
            step = self._steps[table.device] = _Step(self._torch, lengths, table, sizes)
        return step

    def _find_mask(self, step: "_Step", shape: tuple[int, int], window: tuple[int, int, bool], dtype: Tensor) -> Tensor:
        """Return what is added to the scores of so many queries and heads that share keys; None if that is nothing."""
        key = (*shape, window, dtype)
        if key not in step.masks:
            step.masks[key] = self._make_mask(step, shape, window, dtype)
        return step.masks[key]

    def _make_mask(self, step: "_Step", shape: tuple[int, int], window: tuple[int, int, bool], dtype: Tensor) -> Tensor:
        count, groups = shape
        if count == len(step.counts) == 1 and not 0 <= window[0] < step.counts[0] - 1:
            return None  # the keys were cut to those that the query may see
        seen_keys = self._mask(step.ends - count, step.ends, (count, step.keys), window)
        added_mask = self._torch.zeros(seen_keys.shape, dtype=dtype, device=seen_keys.device).masked_fill_(
            ~seen_keys, float("-inf")
        )
        return added_mask if count == 1 else added_mask.repeat(1, 1, groups, 1)

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
        q, k, v = qkv
        scale = q.shape[3] ** -0.5 if scale is None else scale
        firsts = ends - q.shape[1]  # where the first query stands
        parts = []
        for begin in range(0, q.shape[1], _QUERIES):
            part = q[:, begin : begin + _QUERIES]
            mask = self._mask(firsts + begin, ends, (part.shape[1], k.shape[1]), window)
            mask = mask.repeat(1, 1, q.shape[2] // k.shape[2], 1)
            parts.append(self._attend_part((part, k, v), mask, scale, softcap))
        return self._torch.cat(parts, 1)

    def _attend_part(self, qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor, scale: float, softcap: float) -> Tensor:
        """Return the attention of queries to the keys that `mask` lets them see, in one piece of memory.

        Heads that share keys are asked as further queries of these keys, so that keys need not be repeated.
        """
        q, k, v = qkv
        rows, count, heads, width = q.shape
        shared_heads = k.shape[2]
        keys, values = k.transpose(1, 2), v.transpose(1, 2)
        if count == 1:
            folded_queries = q.reshape(rows, shared_heads, heads // shared_heads, width)
            return self._compute((folded_queries, keys, values), mask, scale, softcap).reshape(q.shape).contiguous()
        groups = q.reshape(rows, count, shared_heads, heads // shared_heads, width)
        attended_values = self._compute(
            (groups.permute(0, 2, 3, 1, 4).flatten(2, 3), keys, values), mask, scale, softcap
        )
        return attended_values.unflatten(2, (-1, count)).permute(0, 3, 1, 2, 4).reshape(q.shape).contiguous()

    def _mask(self, firsts: Tensor, ends: Tensor, shape: tuple[int, int], window: tuple[int, int, bool]) -> Tensor:
        """Return which of the keys each query may see, (row, 1, query, key)."""
        torch = self._torch
        left, right, causal = window
        keys = torch.arange(shape[1], device=ends.device)
        stands = (firsts.unsqueeze(1) + torch.arange(shape[0], device=ends.device)).unsqueeze(2)
        seen_keys = keys < ends[:, None, None]
        if causal:
            seen_keys = seen_keys & (keys <= stands)
        if left >= 0:
            seen_keys = seen_keys & (keys >= stands - left)
        if right >= 0 and not causal:
            seen_keys = seen_keys & (keys <= stands + right)
        return seen_keys.expand(-1, shape[0], -1).unsqueeze(1)

    def _compute(self, qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor, scale: float, softcap: float) -> Tensor:
        torch = self._torch
        q, k, v = qkv
        if not softcap:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        scores = softcap * torch.tanh(torch.matmul(q, k.transpose(-1, -2)).float() * scale / softcap)
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        return torch.matmul(scores.softmax(-1).to(v.dtype), v)


class _Step:
    """Where the requests of one step lie in the cache: the same for every layer.

    Its keys are as many pages as the longest request has, and of a single request no more than it has. That takes
    the lengths on the host, for which a card is waited for once in a step.
    """

    def __init__(self, torch: Tensor, lengths: Tensor, table: Tensor, sizes: tuple[int, int]) -> None:
        """`sizes`: how many keys are added to each request, and how many a page has."""
        self.masks: dict[object, Tensor] = {}
        self._source, self._sizes = (lengths, table), sizes
        self._lengths = lengths.tolist()
        added_tokens, size = sizes
        self.counts = [length + added_tokens for length in self._lengths]
        pages = -(-max(self.counts) // size)
        starts = lengths.to(torch.long)
        self.ends = starts + added_tokens
        self.keys = self.counts[0] if len(self.counts) == 1 else pages * size
        self._first_page = _first_of_row(table[0, :pages].tolist()) if len(self.counts) == 1 else None
        wide = table.to(torch.long)
        self._pages = wide[:, :pages].flatten()
        if added_tokens:
            places = starts.unsqueeze(1) + torch.arange(added_tokens, device=starts.device)
            self._places = (torch.gather(wide, 1, places // size) * size + places % size).flatten()

    def is_of(self, lengths: Tensor, table: Tensor, sizes: tuple[int, int]) -> bool:
        """Tell whether these are its own: a card is given new ones for each step, a processor one that counts up."""
        is_same = self._source[0] is lengths and self._source[1] is table and self._sizes == sizes
        return is_same and (lengths.is_cuda or self._lengths == lengths.tolist())

    def write(self, cache: Tensor, added_tokens: Tensor) -> None:
        """Put what is new of each request behind what it had."""
        fresh = added_tokens if added_tokens.dtype == cache.dtype else added_tokens.to(cache.dtype)
        cache.view(-1, *cache.shape[2:]).index_copy_(0, self._places, fresh.flatten(0, 1))

    def gather(self, cache: Tensor) -> Tensor:
        """Return what is in the cache of each request, (request, token, head, width); what lies in a row, in place."""
        if self._first_page is not None:
            begin = self._first_page * self._sizes[1]
            return cache.view(1, -1, *cache.shape[2:]).narrow(1, begin, self.keys)
        kept_pages = cache.index_select(0, self._pages).view(len(self.counts), -1, *cache.shape[2:])
        return kept_pages if kept_pages.shape[1] == self.keys else kept_pages.narrow(1, 0, self.keys)


def _first_of_row(pages: list[int]) -> int | None:
    """Return the first of pages that follow one another, None where they do not."""
    return pages[0] if all(after == before + 1 for before, after in pairwise(pages)) else None


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(edges))
