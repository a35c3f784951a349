"""Watch, while training, how many questions get their answer word for word.

One pass suffices: greedy decoding writes the answer exactly when every one of its
tokens is the likeliest after the true ones before it. Nothing is learnt from this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from corpus import IGNORED, Conversation, pad
from tokenizer import TURN_END, TURN_START, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from model import Guide
    from tokenizers import Tokenizer

ROWS = 64  # conversations per pass; bounds the memory the scores take


def exact_share(guide: Guide, tokenizer: Tokenizer, pairs: Sequence[tuple[str, str]]) -> float:
    """Return the share of (question, answer) pairs the model answers word for word."""
    talks = sorted((_talk(tokenizer, *pair) for pair in pairs), key=lambda talk: len(talk.ids))
    was_training = guide.training
    guide.eval()
    right = sum(_count_right(guide, talks[at : at + ROWS]) for at in range(0, len(talks), ROWS))
    guide.train(was_training)
    return right / max(1, len(talks))


def _talk(tokenizer: Tokenizer, question: str, answer: str) -> Conversation:
    talk = Conversation()
    talk.add(encode(tokenizer, f"{TURN_START}user\n{question.lower()}{TURN_END}\n{TURN_START}assistant\n"))
    talk.add(encode(tokenizer, answer + TURN_END), is_target=True)
    return talk


@torch.no_grad()
def _count_right(guide: Guide, talks: list[Conversation]) -> int:
    batch = pad(talks)
    with torch.autocast("cpu", torch.bfloat16):
        likeliest = guide.logits(guide(batch.ids, batch.positions)).argmax(-1)
    is_fine = (likeliest == batch.targets) | (batch.targets == IGNORED)
    return int(is_fine.all(dim=1).sum())
