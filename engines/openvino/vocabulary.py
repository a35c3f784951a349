"""Text to tokens and back with OpenVINO's tokeniser, and a fast way for the text of one answer's tokens.

Asking the library for the text of a token runs a graph, 50 to 150 µs each time. Where the vocabulary holds bytes whose
concatenation is the text, as that of a byte-level model does, it is read once and asked instead; whether it does is
tried when the model is loaded.
"""

from collections.abc import Sequence
from typing import Any

from engines.serving.backend import Decoder
from engines.serving.text import BytesDecoder

_TRIAL = "Grüße, 世界! \n\tfn(x) -> 12.5 🚂 it's  two spaces"


class OpenVinoVocabulary:
    """A loaded tokeniser."""

    def __init__(self, genai: Any, tokenizer: Any) -> None:  # noqa: ANN401 -- the wheel's own types
        self._genai = genai
        self._tokenizer = tokenizer
        self._bytes = self._plain_bytes()

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens; special tokens in it count as such."""
        ids = self._tokenizer.encode(text, add_special_tokens=adds_special).input_ids
        return [int(token) for token in ids.data[0]] if text or adds_special else []

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._tokenizer.decode(list(tokens))) if tokens else ""

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""
        known_bytes = self._bytes
        if known_bytes is None:
            return _LibraryDecoder(self._genai, self._tokenizer)
        return BytesDecoder(known_bytes.__getitem__)

    def _plain_bytes(self) -> list[bytes] | None:
        """Return the bytes of every token, none for special ones; None if text is more than bytes in a row."""
        try:
            vocabulary: dict[bytes, int] = self._tokenizer.get_vocab()
            known_tokens = [b""] * (1 + max(vocabulary.values()))
            for text, token in vocabulary.items():
                known_tokens[token] = text
            decoded_texts = self._tokenizer.decode([[token] for token in range(len(known_tokens))])
        except (RuntimeError, ValueError):  # a tokeniser that is no list of texts
            return None
        plain = [text if decoded_text else b"" for text, decoded_text in zip(known_tokens, decoded_texts, strict=True)]
        tokens = self.encode(_TRIAL, adds_special=False)
        return plain if b"".join(plain[token] for token in tokens).decode("utf-8", "replace") == _TRIAL else None


class _LibraryDecoder:
    """`engines.serving.backend.Decoder` as the library streams: all of an answer's last line is decoded anew."""

    def __init__(self, genai: Any, tokenizer: Any) -> None:  # noqa: ANN401 -- the wheel's own types
        self._text: list[str] = []
        self._goes_on = genai.StreamingStatus.RUNNING
        self._streamer = genai.TextStreamer(tokenizer, self._append_text)

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""
        self._streamer.write(token)
        return self._take_text()

    def flush(self) -> str:
        """Return what was kept back."""
        self._streamer.end()
        return self._take_text()

    def _append_text(self, text: str) -> object:
        self._text.append(text)
        return self._goes_on

    def _take_text(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        return text
