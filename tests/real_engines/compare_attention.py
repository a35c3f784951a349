"""How far ExLlamaV2's attention over pages is from attention written out, in PyTorch on the processor.

Run by an interpreter that has PyTorch; prints the largest difference over prompts, steps, windows and soft caps.
"""

import sys
from importlib import import_module
from typing import Any

from engines.exllama.paged_attention import PagedAttention

PAGE, HEADS, WIDTH, SCALE = 16, 2, 8, 0.3
LENGTHS = (0, 37, 90)
"""What the cache holds of each request; none is a whole number of pages."""
CASES = ((1, 1, -1, 0.0), (1, 4, -1, 0.0), (3, 2, -1, 0.0), (300, 2, -1, 0.0), (5, 4, 7, 0.0), (260, 1, 40, 20.0))
"""Tokens asked at once, query heads to a key's, window, and soft cap."""


def attend_plainly(queries: Any, keys: Any, values: Any, window: int, softcap: float) -> Any:  # noqa: ANN401 -- tensors
    """Return what the last tokens read, one query and one head at a time."""
    torch = import_module("torch")
    count, heads, _ = queries.shape
    result = torch.empty_like(queries)
    for token in range(count):
        end = keys.shape[0] - count + token + 1
        begin = max(0, end - 1 - window) if window >= 0 else 0
        for head in range(heads):
            shared = head // (heads // HEADS)
            scores = keys[begin:end, shared] @ queries[token, head] * SCALE
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            result[token, head] = scores.softmax(0) @ values[begin:end, shared]
    return result


def find_difference(count: int, groups: int, window: int, softcap: float) -> float:
    """Return it for one case, over requests whose pages lie in any order."""
    torch = import_module("torch")
    rows = len(LENGTHS)
    pages = -(-(max(LENGTHS) + count) // PAGE)
    caches = [torch.randn(rows * pages, PAGE, HEADS, WIDTH) for _ in range(2)]
    table = torch.randperm(rows * pages).view(rows, pages).int()
    queries = torch.randn(rows, count, HEADS * groups, WIDTH)
    fresh = [torch.randn(rows, count, HEADS, WIDTH) for _ in range(2)]
    expected = []
    for row, length in enumerate(LENGTHS):
        kept = [cache[table[row].long()].flatten(0, 1)[:length] for cache in caches]
        keys, values = (torch.cat((old, new[row])) for old, new in zip(kept, fresh, strict=True))
        expected.append(attend_plainly(queries[row], keys, values, window, softcap))
    result = PagedAttention(torch).flash_attn_with_kvcache(
        q=queries,
        k=fresh[0],
        v=fresh[1],
        k_cache=caches[0],
        v_cache=caches[1],
        cache_seqlens=torch.tensor(LENGTHS, dtype=torch.int32),
        block_table=table,
        causal=True,
        softmax_scale=SCALE,
        window_size=(window, window),
        softcap=softcap,
    )
    return float((torch.stack(expected) - result).abs().max())


if __name__ == "__main__":
    import_module("torch").manual_seed(0)
    sys.stdout.write(str(max(find_difference(*case) for case in CASES)))
