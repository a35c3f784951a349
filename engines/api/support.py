"""Which models a version of an engine loads: where its files say so, and what they were found to say.

A model is known to its engine by names: llama.cpp's of an architecture and of a tokenizer, the `model_type` or the
class of a Hugging Face configuration, a method of quantisation. The names are read from the version's own files;
nothing of it is imported or run.
"""

from enum import StrEnum

import msgspec


class NameKind(StrEnum):
    """What a name is of."""

    GGUF = "gguf"
    """Architectures, tokenizers and types of tensors as GGUF files name them: all strings of a library are taken."""
    MODEL_TYPE = "model_type"
    CLASS = "class"
    QUANTIZATION = "quantization"
    """As `quant_method` in a configuration."""


class NameSource(msgspec.Struct, frozen=True, kw_only=True):
    """Files that hold names. `files` is a glob below the package's folder; without a pattern their stems are the names.

    With `region` only what matches it is searched for `pattern`, whose first group is a name. Of a library, the strings
    around each of `anchors` are taken.
    """

    kind: NameKind
    package: str
    files: str
    pattern: str = ""
    region: str = ""
    anchors: tuple[str, ...] = ()


class EngineSupport(msgspec.Struct, frozen=True, kw_only=True):
    """What one version loads, by kind of name. An empty set: nobody can tell."""

    version: str
    gguf: frozenset[str] = frozenset()
    model_types: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    quantizations: frozenset[str] = frozenset()

    def has_gguf_name(self, name: str) -> bool:
        """Whether a library has a string. Linkers let short ones be the ends of longer ones."""
        return name in self.gguf or any(known_name.endswith(name) for known_name in self.gguf)

    def has_model_type(self, name: str) -> bool:
        """Whether a `model_type` has a module or folder of its own, or stands for one that has."""
        return name.casefold().replace("-", "_") in self.model_types
