"""The chat template that a GGUF file holds, and the special tokens it may name.

mistral.rs reads these files itself, and tells neither. Only what stands before the tensors is looked at; a length that
the file has no room for ends the reading.
"""

import struct
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""GGUF's numbers of types of fixed size -> bytes."""
_U32, _U64, _STRING, _ARRAY = 4, 10, 8, 9
_TEMPLATE = "tokenizer.chat_template"
_TOKENS = "tokenizer.ggml.tokens"
_SPECIALS = {"tokenizer.ggml.bos_token_id": "bos_token", "tokenizer.ggml.eos_token_id": "eos_token"}


def read_gguf_template(path: Path) -> tuple[str | None, dict[str, str]]:
    """Return the chat template and the special tokens by name. Raises RuntimeError for a file that ends too early."""
    with path.open("rb") as file:
        reader = _GgufReader(file, path.stat().st_size)
        if reader.take_bytes(4) != _MAGIC:
            raise RuntimeError(f"{path} has no GGUF magic")
        reader.take_number(_U32)
        reader.take_number(_U64)
        fields = reader.take_fields(reader.take_number(_U64))
    template, tokens = fields.get(_TEMPLATE), fields.get(_TOKENS)
    specials = {
        name: tokens[number]
        for key, name in _SPECIALS.items()
        if isinstance(tokens, list) and isinstance(number := fields.get(key), int) and number < len(tokens)
    }
    return (template if isinstance(template, str) else None), specials


class _GgufReader:
    """A position in a GGUF header."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._remaining_bytes = size

    def take_bytes(self, count: int) -> bytes:
        self._remaining_bytes -= count
        if self._remaining_bytes < 0:
            raise RuntimeError("GGUF file is shorter than its header says")
        return self._file.read(count)

    def take_number(self, kind: int) -> int:
        return int(struct.unpack({_U32: "<I", _U64: "<Q"}[kind], self.take_bytes(_SIZES[kind]))[0])

    def take_text(self) -> str:
        return self.take_bytes(self.take_number(_U64)).decode("utf-8", "replace")

    def take_fields(self, count: int) -> dict[str, str | int | list[str]]:
        """Return the fields that are looked for, and step over the others."""
        fields: dict[str, str | int | list[str]] = {}
        for _ in range(count):
            name, kind = self.take_text(), self.take_number(_U32)
            value = self._take_value(kind, keeps=name == _TOKENS)
            if value is not None and (name in {_TEMPLATE, _TOKENS} or name in _SPECIALS):
                fields[name] = value
        return fields

    def _take_value(self, kind: int, *, keeps: bool) -> str | int | list[str] | None:
        if kind == _STRING:
            return self.take_text()
        if kind == _ARRAY:
            return self._take_array(keeps=keeps)
        if kind not in _SIZES:
            raise RuntimeError(f"GGUF value of an unknown type {kind}")
        if kind in {_U32, _U64}:
            return self.take_number(kind)
        self._skip(_SIZES[kind])
        return None

    def _take_array(self, *, keeps: bool) -> list[str] | None:
        kind, count = self.take_number(_U32), self.take_number(_U64)
        if kind == _STRING:
            texts = (self.take_text() for _ in range(count))
            if keeps:
                return list(texts)
            for _ in texts:  # stepped over
                pass
            return None
        if kind not in _SIZES:
            raise RuntimeError(f"GGUF array of an unknown type {kind}")
        self._skip(count * _SIZES[kind])
        return None

    def _skip(self, count: int) -> None:
        self._remaining_bytes -= count
        if self._remaining_bytes < 0:
            raise RuntimeError("GGUF file is shorter than its header says")
        self._file.seek(count, 1)
