"""How far ExLlamaV2's attention over pages is from attention written out, in PyTorch on the processor.

Run by an interpreter that has PyTorch; prints as JSON the largest difference over prompts, steps, windows and
soft caps, and how many operations of PyTorch a layer takes.
"""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from engines.exllama.paged_attention import PagedAttention

PAGE, HEADS, WIDTH, SCALE, LAYERS = 16, 2, 8, 0.3, 5
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
            kv_head = head // (heads // HEADS)
            scores = keys[begin:end, kv_head] @ queries[token, head] * SCALE
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            result[token, head] = scores.softmax(0) @ values[begin:end, kv_head]
    return result


def make_table(lengths: Sequence[int], count: int, *, is_mixed: bool) -> Any:  # noqa: ANN401 -- as above
    """Return the pages of requests of such lengths, in any order or one after the other."""
    torch = import_module("torch")
    rows, pages = len(lengths), -(-(max(lengths) + count) // PAGE) + 1
    every = torch.randperm(rows * pages) if is_mixed else torch.arange(rows * pages)
    return every.view(rows, pages).int()


def find_difference(case: tuple[int, int, int, float], lengths: Sequence[int], *, is_mixed: bool) -> float:
    """Return it for two layers of two steps, whose table stays and whose lengths are counted up in place."""
    torch = import_module("torch")
    attention, table = PagedAttention(torch), make_table(lengths, 2 * case[0], is_mixed=is_mixed)
    layers = [[torch.randn(table.numel(), PAGE, HEADS, WIDTH) for _ in range(2)] for _ in range(2)]
    before, largest = torch.tensor(lengths, dtype=torch.int32), 0.0
    for _ in range(2):
        largest = max(largest, *(find_layer_difference(attention, caches, (before, table), case) for caches in layers))
        before += case[0]
    return largest


def find_layer_difference(
    attention: PagedAttention, caches: Sequence[Any], place: tuple[Any, Any], case: tuple[int, int, int, float]
) -> float:
    """Return it for one layer, whose requests are so long and have such pages."""
    torch, (lengths, table), (count, groups, window, softcap) = import_module("torch"), place, case
    queries = torch.randn(len(lengths), count, HEADS * groups, WIDTH)
    fresh = [torch.randn(len(lengths), count, HEADS, WIDTH) for _ in range(2)]
    expected_rows = []
    for row, length in enumerate(lengths.tolist()):
        old_tensors = [cache[table[row].long()].flatten(0, 1)[:length] for cache in caches]
        keys, values = (torch.cat((old, new[row])) for old, new in zip(old_tensors, fresh, strict=True))
        expected_rows.append(attend_plainly(queries[row], keys, values, window, softcap))
    result = attend(attention, [queries, *fresh], caches, place, window=window, softcap=softcap)
    assert result.is_contiguous(), "the library views it otherwise"
    return float((torch.stack(expected_rows) - result).abs().max())


def attend(  # noqa: PLR0913 -- what attention takes
    attention: PagedAttention,
    fresh: Sequence[Any],
    caches: Sequence[Any],
    place: tuple[Any, Any],
    *,
    window: int = -1,
    softcap: float = 0.0,
) -> Any:  # noqa: ANN401 -- as above
    """Return what ours makes of a layer's queries, keys and values."""
    return attention.flash_attn_with_kvcache(
        q=fresh[0],
        k=fresh[1],
        v=fresh[2],
        k_cache=caches[0],
        v_cache=caches[1],
        cache_seqlens=place[0],
        block_table=place[1],
        causal=True,
        softmax_scale=SCALE,
        window_size=(window, window),
        softcap=softcap,
    )


def count_operations(rows: int) -> float:
    """Return PyTorch's operations for each of five layers of a step, of which each request writes a token."""
    torch, dispatch_mode = import_module("torch"), import_module("torch.utils._python_dispatch").TorchDispatchMode
    operations = []

    class Counter(dispatch_mode):  # type: ignore[misc,valid-type]  # PyTorch's, which is not installed where this is checked
        def __torch_dispatch__(self, function: Any, _types: Any, arguments: Any = (), keywords: Any = None) -> Any:  # noqa: ANN401 -- as above
            operations.append(function)
            return function(*arguments, **(keywords or {}))

    lengths = [40 + row for row in range(rows)]
    place = (torch.tensor(lengths, dtype=torch.int32), make_table(lengths, 1, is_mixed=False))
    caches = [torch.randn(place[1].numel(), PAGE, HEADS, WIDTH) for _ in range(2)]
    attention, fresh = PagedAttention(torch), [torch.randn(rows, 1, heads * HEADS, WIDTH) for heads in (2, 1, 1)]
    with torch.inference_mode(), Counter():
        for _ in range(LAYERS):
            attend(attention, fresh, caches, place)
    return len(operations) / LAYERS


def main() -> None:
    """Tell both."""
    import_module("torch").manual_seed(0)
    differences = [
        find_difference(case, lengths, is_mixed=is_mixed)
        for case in CASES
        for lengths in (LENGTHS, LENGTHS[1:2])
        for is_mixed in (True, False)
    ]
    operations = {rows: count_operations(rows) for rows in (1, 8)}
    sys.stdout.write(json.dumps({"difference": max(differences), "operations": operations}))


if __name__ == "__main__":
    main()
