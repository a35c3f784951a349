"""The functions of exllamav3 1.6.5's extension that a model with 16-bit weights needs, in plain PyTorch.

Every other refuses to be called, by its name.
"""

import ctypes
import itertools
from pathlib import Path
from typing import Any

import torch

Tensor = torch.Tensor
FUSED_SAMPLER_MAX_BLOCKS = FUSED_SAMPLER_HIST_STRIDE = 1
HAS_DFLASH2 = HAS_GR_MIX_TILED = HAS_DET_GEMM = False
_NEOX = 2
_OTHER_TYPE = 1 | 2
"""Flags of a load that changes the type: from bfloat16, from float32."""
_GREEDY, _TOP_K, _TOP_P, _MIN_P = 0, 1, 2, 4


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    class Refusing:
        def __init__(self, *_: object, **__: object) -> None:
            raise NotImplementedError(f"{name} is not in this stand-in for exllamav3_ext")

    return Refusing


class BC_LinearFP16:
    """A layer that nothing asks to compute: `hgemm` does."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight, self.bias = weight, bias


def stloader_open_file(name: str) -> list[Any]:
    return [Path(name).open("rb")]


def stloader_close_file(handles: list[Any]) -> None:
    handles[0].close()


def stloader_read(handles: list[Any], offset: int, size: int, target: Tensor) -> None:
    _read(handles[0], offset, target.data_ptr(), size)


def stloader_deferred_batch(files: list[list[Any]], loads: Tensor, _chunk: int) -> None:
    """Fill tensors from files, by rows of (file, offset, bytes, address, room, flags, device)."""
    for index, offset, size, address, room, flags, _device in loads.tolist():
        assert size <= room, "a tensor is larger than what it is read into"
        _read(files[index][0], offset, address, size)
        if flags & _OTHER_TYPE == 1:
            raw = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.bfloat16)
            raw.view(torch.half).copy_(raw.clone().half())
        assert flags & _OTHER_TYPE in {0, 1}, "no model here has weights of 32 bits"


def _read(file: Any, offset: int, address: int, size: int) -> None:
    file.seek(offset)
    ctypes.memmove(address, file.read(size), size)


def hgemm(x: Tensor, weight: Tensor, out: Tensor) -> None:
    out.copy_(x.float() @ weight.float())


def rms_norm(
    x: Tensor,
    weight: Tensor | None,
    out: Tensor,
    epsilon: float,
    bias: float,
    scale: float,
    span_heads: bool = False,
    adds: bool = False,
    groups: int = 1,
) -> None:
    assert not span_heads
    assert groups == 1
    wide = x.float()
    normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * scale
    normal = normal if weight is None else normal * (weight.float() + bias)
    out.copy_(out + normal if adds else normal)


def rms_norm_res_in(
    x: Tensor, weight: Tensor | None, out: Tensor, residual: Tensor, epsilon: float, bias: float, scale: float
) -> None:
    residual += x
    rms_norm(residual, weight, out, epsilon, bias, scale)


def silu_mul(gate: Tensor, up: Tensor, out: Tensor, limit: float) -> None:
    assert not limit
    out.copy_(torch.nn.functional.silu(gate.float()) * up.float())


def rope(
    q: Tensor,
    out_q: Tensor,
    k: Tensor | None,
    out_k: Tensor | None,
    frequencies: Tensor,
    position: int,
    positions: Tensor | None,
    position_ids: Tensor | None,
    style: int,
    factor: float,
    q_norm: Tensor | None,
    *_others: object,
) -> None:
    """Turn queries and keys of (batch, token, head, width) by their places, in halves of each head."""
    assert style == _NEOX
    assert q_norm is None
    places = torch.arange(q.shape[1])[None] + position
    if positions is not None:
        places = places - position + positions[:, None]
    places = places if position_ids is None else position_ids.view(q.shape[0], -1)
    angles = (places[:, :, None].float() * frequencies)[:, :, None]
    cos, sin = angles.cos() * factor, angles.sin() * factor
    for source, out in ((q, out_q), (k, out_k)):
        if source is not None and out is not None:
            first, second = source.float().chunk(2, -1)
            out.copy_(torch.cat((first * cos - second * sin, second * cos + first * sin), -1))


def count_match_tensor(a: Tensor, b: Tensor, most: int) -> int:
    pairs = zip(a.flatten().tolist()[:most], b.flatten().tolist(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def generator_stage_decode(
    arena: Tensor,
    width: int,
    pages: list[Tensor],
    lengths: list[int],
    rope_offsets: list[int],
    batch_ids: Tensor | None,
    ids: list[Tensor],
    page_sequences: list[Tensor],
    page_offsets: list[int],
) -> None:
    """Lay out the tables of a step, and take each request's last token from its sequence into its page."""
    rows = len(pages)
    arena.zero_()
    for row, (table, length) in enumerate(zip(pages, lengths, strict=True)):
        page_numbers = table.flatten()[:width]
        arena[row * width : row * width + len(page_numbers)] = page_numbers
        arena[rows * width + row] = length
        if rope_offsets:
            arena[rows * (width + 1) + row] = length + rope_offsets[row]
    for row, (sequence, page, offset) in enumerate(zip(ids, page_sequences, page_offsets, strict=True)):
        assert batch_ids is not None
        batch_ids[row, 0] = page.view(-1)[offset] = sequence.view(-1)[lengths[row]]


def cuda_memcpy_async(target: int, source: int, size: int, _kind: int) -> None:
    ctypes.memmove(target, source, size)


def fused_sampler(
    logits: Tensor,
    mask: Tensor | None,
    bits: Tensor | None,
    sample: Tensor,
    _workspace: Tensor,
    width: int,
    inverse_temperature: float,
    min_p_log: float,
    seed: int,
    mode: int,
    filters: int,
    top_k: int,
    top_p: float,
    inverse_filter_temperature: float,
    _histogram: Tensor | None,
) -> None:
    """Draw a token of each row: of what the masks allow, and of what top-k, top-p and min-p leave."""
    row = logits[:, :width].float()
    row = row if mask is None else row + mask[:, :width]
    row = row if bits is None else row.masked_fill(~_allowed_tokens(bits, width), float("-inf"))
    if mode != _GREEDY:
        filter_scores = row * inverse_filter_temperature
        least = filter_scores.max(-1, keepdim=True).values + min_p_log if mode == 2 or filters & _MIN_P else None
        row = row if least is None else row.masked_fill(filter_scores < least, float("-inf"))
        if filters & _TOP_K:
            row = row.masked_fill(row < row.topk(top_k).values[:, -1:], float("-inf"))
        row = _keep_mass(row, inverse_filter_temperature, top_p) if filters & _TOP_P else row
        noise = torch.rand(row.shape, generator=torch.Generator().manual_seed(seed)).clamp_min(1e-20)
        row = row * inverse_temperature - (-noise.log()).log()
    sample.copy_(row.argmax(-1).view(sample.shape))


def _allowed_tokens(bits: Tensor, width: int) -> Tensor:
    places = torch.arange(width)
    return (bits.view(1, -1)[:, places // 32] >> (places % 32) & 1).bool()


def _keep_mass(row: Tensor, inverse_temperature: float, top_p: float) -> Tensor:
    ordered_shares, places = (row * inverse_temperature).softmax(-1).sort(-1, descending=True)
    beyond = ordered_shares.cumsum(-1) - ordered_shares >= top_p
    return row.masked_fill(torch.zeros_like(beyond).scatter(-1, places, beyond), float("-inf"))


def apply_rep_pens(logits: Tensor, out: Tensor, past: Tensor, penalty: float, *_ranges: int) -> None:
    ids = past.flatten().unique()
    out.copy_(logits)
    scores = out[:, ids]
    out[:, ids] = torch.where(scores > 0, scores / penalty, scores * penalty)


def apply_pres_freq_pens(
    logits: Tensor, out: Tensor, past: Tensor, presence: float, frequency: float, *_ranges: int
) -> None:
    ids, counts = past.flatten().unique(return_counts=True)
    out.copy_(logits)
    out[:, ids] -= presence + frequency * counts


def quant_cache_paged(
    keys: Tensor,
    key_words: Tensor,
    key_scales: Tensor,
    values: Tensor,
    value_words: Tensor,
    value_scales: Tensor,
    lengths: Tensor,
    block_table: Tensor,
    page_size: int,
    count: int,
    _compand: float,
    are_rows: bool,
) -> None:
    """Round what each request has got anew, from rows or from a cache of 16 bits, into the cache."""
    places = lengths.view(-1, 1).long() + torch.arange(count)
    at = (block_table.long().gather(1, places // page_size), places % page_size)
    for source, words, scales in ((keys, key_words, key_scales), (values, value_words, value_scales)):
        fresh = (source if are_rows else source[at]).flatten(-2)
        words[at], scales[at] = _pack_numbers(fresh, words.shape[-1] // scales.shape[-1])


def dequant_cache_paged(
    key_words: Tensor,
    key_scales: Tensor,
    keys: Tensor,
    value_words: Tensor,
    value_scales: Tensor,
    values: Tensor,
    *_pages: object,
) -> None:
    keys.copy_(_unpack_numbers(key_words, key_scales).view(keys.shape))
    values.copy_(_unpack_numbers(value_words, value_scales).view(values.shape))


def _pack_numbers(numbers: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return groups of 32 numbers as words, one for each bit, and each group's scale."""
    groups = numbers.float().unflatten(-1, (-1, 32))
    scales = groups.abs().amax(-1).clamp_min(1e-4)
    levels = ((groups / scales[..., None] + 1) / 2 * (2**bits - 1)).round().long()
    planes = levels[..., None, :] >> torch.arange(bits)[:, None] & 1
    return (planes << torch.arange(32)).sum(-1).flatten(-2).int(), scales.half()


def _unpack_numbers(words: Tensor, scales: Tensor) -> Tensor:
    bits = words.shape[-1] // scales.shape[-1]
    planes = words.long().unflatten(-1, (-1, bits))[..., None] >> torch.arange(32) & 1
    levels = (planes << torch.arange(bits)[:, None]).sum(-2)
    return ((levels / (2**bits - 1) * 2 - 1) * scales.float()[..., None]).flatten(-2)
