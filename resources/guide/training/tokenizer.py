"""The Guide's own vocabulary: byte-level BPE, split as GPT-2 splits.

llama.cpp knows this split as pre-tokenizer "gpt-2" and byte-level BPE as tokenizer
model "gpt2", so both libraries give the same ids; any bytes survive a round trip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

if TYPE_CHECKING:
    from collections.abc import Iterable

VOCABULARY_SIZE = 2048  # one token per frequent word of the text; a multiple of 64 for every backend
END_OF_TEXT = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
SPECIAL_TOKENS = (END_OF_TEXT, TURN_START, TURN_END)


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Learn merges from the texts; ids 0, 1 and 2 are the special tokens."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS],
        initial_alphabet=sorted(ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of the text, with special tokens recognised and none added."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids
