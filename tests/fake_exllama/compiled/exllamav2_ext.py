"""The functions of exllamav2 0.3.2's extension that a model with 16-bit weights needs, in plain PyTorch.

Every other refuses to be called, by its name.
"""

import ctypes
import itertools
from pathlib import Path
from typing import Any

import torch

Tensor = torch.Tensor
_RANDOM_BITS = 1e-7
"""A number that is drawn lies below 1."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError(f"{name} is not in this stand-in for exllamav2_ext")

    return refuse


def stloader_read(name: str, offset: int, size: int, target: Tensor) -> None:
    with Path(name).open("rb") as file:
        file.seek(offset)
        ctypes.memmove(target.data_ptr(), file.read(size), size)


def rms_norm(x: Tensor, weight: Tensor, out: Tensor, epsilon: float) -> None:
    wide = x.float()
    out.copy_(wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon) * weight.float())


def rope_(
    x: Tensor, sin: Tensor, cos: Tensor, past: int, _heads: int, _width: int, offsets: Tensor, neox: bool
) -> None:
    """Turn vectors of (batch, token, head, width) by their places, in halves of each head."""
    assert neox
    first_places = torch.full((x.shape[0],), past) if offsets.is_meta else offsets + past
    places = first_places.view(-1, 1) + torch.arange(x.shape[1])
    half = x.shape[-1] // 2
    sines, cosines = (table.view(-1, table.shape[-1])[places][:, :, None, :half].float() for table in (sin, cos))
    first, second = x.float().chunk(2, -1)
    x.copy_(torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1))


def count_match(a: Tensor, b: Tensor, most: int) -> int:
    pairs = zip(a.flatten().tolist()[:most], b.flatten().tolist(), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def fast_fill_cpu_ones_bool(mask: Tensor) -> None:
    mask.fill_(True)


def apply_rep_penalty(
    past: Tensor, penalty: float, _range: int, _decay: int, frequency: float, presence: float, logits: Tensor
) -> None:
    ids, counts = past.flatten().unique(return_counts=True)
    scores = logits[:, :, ids]
    logits[:, :, ids] = torch.where(scores > 0, scores / penalty, scores * penalty) - frequency * counts - presence


def sample_basic(
    logits: Tensor,
    temperature: float,
    top_k: int,
    top_p: float,
    top_a: float,
    min_p: float,
    tfs: float,
    typical: float,
    random: float,
    tokens: Tensor,
    probabilities: Tensor,
    k_probabilities: Tensor,
    k_tokens: Tensor,
    logit_filter: Tensor,
    mirostat: bool,
    *_others: object,
) -> list[float]:
    """Draw a token of each row by one random number, of what top-k, top-p and min-p leave."""
    assert not any((top_a, tfs, typical, mirostat)), "nobody asks for these"
    for row in range(logits.shape[0]):
        scores = logits[row, -1].float()
        scores = scores if logit_filter.is_meta else scores.masked_fill(~logit_filter[row], float("-inf"))
        ordered_shares, places = (scores / (temperature or 1.0)).softmax(-1).sort(-1, descending=True)
        kept_shares = ordered_shares[: top_k or None]
        kept_shares = kept_shares[kept_shares >= min_p * kept_shares[0]] if min_p else kept_shares
        kept_shares = kept_shares[: int((kept_shares.cumsum(-1) < top_p).sum()) + 1] if 0 < top_p < 1 else kept_shares
        share = kept_shares / kept_shares.sum()
        choice = min(int((share.cumsum(-1) <= random - _RANDOM_BITS).sum()), len(share) - 1)
        tokens[row, 0], probabilities[row, 0] = places[choice], share[choice]
        if not k_tokens.is_meta:
            count = k_tokens.shape[-1]
            k_tokens[row, 0], k_probabilities[row, 0] = places[:count], ordered_shares[:count]
    return []
