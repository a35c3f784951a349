"""Text to tokens and back with ExLlama's tokenisers, which take and give tensors, and decode whole sequences only."""

from collections.abc import Callable, Sequence
from typing import Any

BROKEN = "�"
"""What stands for bytes that are no character yet."""


class ExllamaVocabulary:
    """A loaded tokeniser. `begins` tells whether its model wants a token in front of a text."""

    def __init__(self, torch: Any, tokenizer: Any, *, begins: bool) -> None:  # noqa: ANN401 -- the libraries' own types
        self._torch = torch
        self._tokenizer = tokenizer
        self._begins = begins

    def to_tensor(self, tokens: Sequence[int]) -> Any:  # noqa: ANN401 -- as above
        """Return tokens as the libraries take them: one row, on the CPU."""
        return self._torch.tensor([list(tokens)], dtype=self._torch.long)

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens; special tokens in it count as such."""
        add_bos = adds_special and self._begins
        if not text and not add_bos:
            return []
        encoded = self._tokenizer.encode(text, add_bos=add_bos, encode_special_tokens=True)
        return [int(token) for token in encoded.tolist()[0]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._tokenizer.decode(self.to_tensor(tokens))[0]) if tokens else ""

    def make_decoder(self) -> "WindowDecoder":
        """Return what turns the tokens of one answer into text."""
        return WindowDecoder(self.decode)


class WindowDecoder:
    """`engines.serving.backend.Decoder`: decodes the last tokens anew with each one, and shows what was added.

    A token alone decodes otherwise than after its neighbours (spaces, characters in pieces), so two windows of the
    same beginning are compared.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._shown = 0

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""
        self._window.append(token)
        before = self._decode(self._window[: self._shown])
        whole = self._decode(self._window)
        if whole.endswith(BROKEN):
            return ""
        self._window, self._shown = self._window[self._shown :], len(self._window) - self._shown
        return whole[len(before) :]

    def flush(self) -> str:
        """Return what was kept back."""
        return self._decode(self._window)[len(self._decode(self._window[: self._shown])) :]
