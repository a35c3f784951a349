"""One model as a shape: GGUF metadata and tensor table for any quantisation, from a line of figures."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice

import msgspec

from app.hub.facts.metadata import Value
from app.hub.facts.tensors import TensorInfo
from app.hub.shapes.architectures import TensorOutline, build_outlines, find_architecture, short_keys
from app.hub.shapes.mixes import TypeMix, choose_types
from app.hub.shapes.names import cut_pattern

_GENERAL = ("tokenizer.", "xielu.")
"""Keys that llama.cpp reads without an architecture in front."""
ATTENDS = "a*"
"""Letters of `pattern` for layers with attention."""
FEED_FORWARD_ONLY = "-E"
"""Letters for layers that are a feed-forward part only (Nemotron-H)."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A model without its weights. `values` are GGUF metadata, `has` the options of its tensor template."""

    name: str
    architecture: str
    values: dict[str, Value]
    has: frozenset[str]
    parameters: int
    """As published; 0 where nobody says."""
    patterns: tuple[str, ...] = ()
    """What `find` compares a name with."""

    def build_metadata(self) -> dict[str, Value]:
        """Return what the header of its GGUF file says, but for the tokeniser."""
        return {"general.architecture": self.architecture, "general.name": self.name, **self.values}

    def list_outlines(self) -> list[TensorOutline]:
        """Return names and shapes of the tensors, in the order of a file."""
        return build_outlines(self.build_metadata(), self.has)

    def build_tensors(self, quantization: str) -> list[TensorInfo]:
        """Return the tensor table as llama.cpp quantises. Raises BadRequest for a name that is no GGUF quantisation."""
        tensor_outlines = self.list_outlines()
        types = choose_types(quantization, tensor_outlines, self.build_metadata()).types
        return [
            TensorInfo(outline.name, outline.shape, kind) for outline, kind in zip(tensor_outlines, types, strict=True)
        ]

    def mix_types(self, quantization: str) -> TypeMix:
        """Return the types alone, and whether they follow llama.cpp's rules exactly."""
        return choose_types(quantization, self.list_outlines(), self.build_metadata())


def shape_from(name: str, architecture_name: str, figures: Mapping[str, object]) -> ModelShape:
    """Return a shape from a line of the model table: short words or GGUF keys without the architecture.

    Besides: `names`, `parameters`, `has`; `head` sets key and value width; `pattern` says layer by layer what a hybrid
    does, `sliding` which layers slide ("sssssf", repeated), `kv_full` the key-value heads of those that do not.
    """
    line = dict(figures)
    names, parameters, has = line.pop("names", []), line.pop("parameters", 0), line.pop("has", [])
    keys = {**find_architecture(architecture_name).keys, **dict(_spread_words(_apply_hybrid(_apply_sliding(line))))}
    values = {key: _to_value(raw) for key, raw in keys.items()}
    _default_rope(values)
    return ModelShape(
        name=name,
        architecture=architecture_name,
        values={_whole_key(architecture_name, key): value for key, value in values.items()},
        has=msgspec.convert(has, frozenset[str]),
        parameters=round(msgspec.convert(parameters, float)),
        patterns=tuple(cut_pattern(pattern) for pattern in [name, *msgspec.convert(names, list[str])]),
    )


def _whole_key(architecture_name: str, key: str) -> str:
    return key if key.startswith(_GENERAL) else f"{architecture_name}.{key}"


def _spread_words(line: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    keys = short_keys()
    for word, value in line.items():
        if word == "head":
            yield "attention.key_length", value
            yield "attention.value_length", value
        else:
            yield keys.get(word, word), value


def _repeat_pattern(pattern: object, line: Mapping[str, object]) -> list[str]:
    return list(islice(cycle(str(pattern)), msgspec.convert(line["layers"], int)))


def _apply_hybrid(line: dict[str, object]) -> dict[str, object]:
    """Turn `pattern` into heads and feed-forward widths per layer, as Jamba's and Nemotron-H's files state them."""
    if "pattern" not in line:
        return line
    letters = _repeat_pattern(line.pop("pattern"), line)
    per_layer: dict[str, object] = {"kv": [line["kv"] if letter in ATTENDS else 0 for letter in letters]}
    if set(letters) & set(FEED_FORWARD_ONLY):
        per_layer["ff"] = [line["ff"] if letter in FEED_FORWARD_ONLY else 0 for letter in letters]
    return line | per_layer


def _apply_sliding(line: dict[str, object]) -> dict[str, object]:
    if "sliding" not in line:
        return line
    slides = [letter == "s" for letter in _repeat_pattern(line.pop("sliding"), line)]
    per_layer: dict[str, object] = {"attention.sliding_window_pattern": slides}
    if "kv_full" in line:
        full = line.pop("kv_full")
        per_layer["kv"] = [line["kv"] if slide else full for slide in slides]
    return line | per_layer


def _to_value(raw: object) -> Value:
    """Return what TOML held as metadata. Raises msgspec.ValidationError for anything else."""
    if isinstance(raw, str | int | float | bool):
        return raw
    for kind in (bool, int, float):
        if isinstance(raw, list) and all(isinstance(item, kind) for item in raw):
            return raw
    return msgspec.convert(raw, list[str])


def _default_rope(values: dict[str, Value]) -> None:
    """State the rotated part of a head where the table does not: all of it."""
    heads, width = values.get("attention.head_count"), values.get("embedding_length")
    count = max(heads) if isinstance(heads, Sequence) and not isinstance(heads, str) else heads
    whole = width // count if isinstance(width, int) and isinstance(count, int) and count else 0
    values.setdefault("rope.dimension_count", values.get("attention.key_length", whole))
