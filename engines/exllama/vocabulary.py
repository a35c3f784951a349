"""Text to tokens and back with ExLlama's tokenisers, which take and give tensors, and decode whole sequences only.

Which tokens end an answer and begin a text, by the files of a model.

ExLlamaV2 reads one end, the first of `config.json`, where Llama 3 has its chats end with the last of three; both
libraries put a token in front of a text whenever they are asked to, also for models that were trained without one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from engines.serving.templates import object_in

BROKEN = "�"
"""What stands for bytes that are no character yet."""
_WINDOW = 16
"""Tokens that are decoded anew with each one, at most."""
_TRIAL = "Grüße , 世界! \n\tfn(x) -> 12.5 . it's  two spaces, isn 't it ?"


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
        encoded_text = self._tokenizer.encode(text, add_bos=add_bos, encode_special_tokens=True)
        return [int(token) for token in encoded_text.tolist()[0]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._tokenizer.decode(self.to_tensor(tokens))[0]) if tokens else ""

    def make_decoder(self) -> "WindowDecoder":
        """Return what turns the tokens of one answer into text."""
        return WindowDecoder(self.decode, self._texts)

    @cached_property
    def _texts(self) -> dict[int, str] | None:
        """Texts of single tokens, noted as they come; None where the text of several is more than these in a row."""
        tokens = self.encode(_TRIAL, adds_special=False)
        decoder = WindowDecoder(self.decode, {})
        text = "".join([*map(decoder.feed, tokens), decoder.flush()])
        return {} if text == self.decode(tokens) else None


class WindowDecoder:
    """`engines.serving.backend.Decoder`: decodes the last tokens anew with each one, and shows what was added.

    A token alone decodes otherwise than after its neighbours (spaces, characters in pieces), so the text of the same
    tokens is compared with and without it. Where only characters in pieces do, `texts` keeps what each comes to alone.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], texts: dict[int, str] | None = None) -> None:
        self._decode = decode
        self._texts = texts
        self._window: list[int] = []
        self._shown_tokens = 0
        self._text = ""
        """What the tokens shown come to."""

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""
        if self._texts is not None and self._shown_tokens == len(self._window):
            text = self._text_alone(token, self._texts)
            if BROKEN not in text:
                return text
            self._window, self._shown_tokens, self._text = [], 0, ""
        self._window.append(token)
        whole = self._decode(self._window)
        if whole.endswith(BROKEN):
            return ""
        piece = whole[len(self._text) :]
        self._show(whole)
        return piece

    def _text_alone(self, token: int, texts: dict[int, str]) -> str:
        text = texts.get(token)
        if text is None:
            text = texts[token] = self._decode([token])
        return text

    def _show(self, whole: str) -> None:
        """Note what was shown; of a window that has become long, only the last tokens stay."""
        if len(self._window) > _WINDOW:
            self._window = self._window[self._shown_tokens :]
            whole = self._decode(self._window)
        self._shown_tokens, self._text = len(self._window), whole

    def flush(self) -> str:
        """Return what was kept back."""
        return self._decode(self._window)[len(self._text) :]


def read_end_tokens(folder: Path) -> frozenset[int]:
    """Return the tokens that end an answer, as `config.json` and `generation_config.json` have them."""
    end_tokens = [object_in(folder / name).get("eos_token_id") for name in ("config.json", "generation_config.json")]
    lists = [tokens if isinstance(tokens, list) else [tokens] for tokens in end_tokens]
    return frozenset(token for tokens in lists for token in tokens if isinstance(token, int))


def reads_begin_token(folder: Path) -> bool:
    """Tell whether the model's tokeniser puts a token in front of a text."""
    adds_begin_token = object_in(folder / "tokenizer_config.json").get("add_bos_token")
    if isinstance(adds_begin_token, bool):
        return adds_begin_token
    return any(map(_adds_begin_token, _processor_steps(object_in(folder / "tokenizer.json").get("post_processor"))))


def _processor_steps(processor: object) -> Iterator[Mapping[str, object]]:
    """Go through what a tokeniser does last, which may be several things in a row."""
    if isinstance(processor, dict):
        yield processor
        for step in processor.get("processors", []):
            yield from _processor_steps(step)


def _adds_begin_token(step: Mapping[str, object]) -> bool:
    parts = step.get("single")
    return isinstance(parts, list) and bool(parts) and "SpecialToken" in parts[0]
