"""One model as a shape: GGUF metadata and tensor table for any quantisation, from a line of figures.

The table of well-known models, `resources/shapes/models.toml`, and how a name finds its row.

Read what people call a model: the quantisation is split off, the rest is cut into words that can be compared.

"bartowski/Qwen2.5-Coder-7B-Instruct-Q4_K_M.gguf" is qwen 2.5 coder 7b instruct, and Q4_K_M.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import cycle, islice

import msgspec

from app.core.identity import IdentityKey
from app.hub.facts.metadata import Value
from app.hub.facts.tensors import TensorInfo
from app.hub.shapes.architectures import SHAPES, TensorOutline, build_outlines, find_architecture, short_keys
from app.hub.shapes.mixes import TypeMix, choose_types

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
    """What `find_shape` compares a name with."""

    def build_metadata(self) -> dict[str, Value]:
        """Return what the header of its GGUF file says, but for the tokeniser."""
        return {"general.architecture": self.architecture, "general.name": self.name, **self.values}

    def list_outlines(self) -> list[TensorOutline]:
        """Return names and shapes of the tensors, in the order of a file."""
        return _outlines_of(IdentityKey(self))

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


@lru_cache(maxsize=16)
def _outlines_of(key: IdentityKey[ModelShape]) -> list[TensorOutline]:
    """Return the tensors of one of the last shapes that were asked for: a plan asks for each quantisation."""
    return build_outlines(key.value.build_metadata(), key.value.has)


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


@cache
def list_shapes() -> list[ModelShape]:
    """Return every model of the table."""
    raw = tomllib.loads((SHAPES / "models.toml").read_text(encoding="utf-8"))
    return [
        shape_from(name, architecture, figures)
        for architecture, models in raw.items()
        for name, figures in models.items()
    ]


@lru_cache(maxsize=1024)
def find_shape(name: str) -> ModelShape | None:
    """Return the model a name means, whatever vendor, quantisation or fine-tune it says besides; None if none does."""
    cut = name_words(split_name(name)[0])
    every, places = list_shapes(), _places_by_word()
    near = sorted({place for word in (*cut, _ANY_WORD) for place in places.get(word, ())})
    best = max((every[place] for place in near), key=lambda shape: _best_match(shape, cut), default=None)
    return best if best is not None and _best_match(best, cut) else None


_ANY_WORD = ""


@cache
def _places_by_word() -> Mapping[str, Sequence[int]]:
    """Return by the first word of a pattern where its shapes stand: names rule most shapes out by that word alone."""
    places: dict[str, list[int]] = {}
    for place, shape in enumerate(list_shapes()):
        for pattern in shape.patterns:
            word = pattern.partition(" ")[0]
            places.setdefault(_ANY_WORD if word.startswith("!") else word, []).append(place)
    return places


def _best_match(shape: ModelShape, cut: list[str]) -> int:
    return max((count_matches(pattern, cut) for pattern in shape.patterns), default=0)


_ENDING = re.compile(r"(?:-\d{5}-of-\d{5})?\.(?:gguf|safetensors|bin)$", re.IGNORECASE)
_QUANTIZATION = re.compile(
    r"(?:^|(?<=[-_.:/ ]))"
    r"(?:i1-)?"
    r"(?P<quantization>(?:UD-)?(?:IQ[1-4]|TQ[12]|Q[1-8])_[A-Z0-9]+(?:_[A-Z0-9]+)*"
    r"|BF16|F16|FP16|F32|FP32|FP8(?:-DYNAMIC)?|MXFP4(?:_MOE)?|NVFP4"
    r"|AWQ|GPTQ|\d(?:\.\d+)?[-_ ]?bpw|\d-?bit(?:-g\d+)?|INT[48]|W[48]A(?:16|8))"
    r"(?=$|[-_.:/ ])",
    re.IGNORECASE,
)
_TRAINED_FOR = re.compile(r"[-_. ](?:QAT|i1)$", re.IGNORECASE)
_SAME = {"FP16": "F16", "FP32": "F32", "FP8-DYNAMIC": "FP8", "MXFP4_MOE": "MXFP4"}
_SIZE = re.compile(r"\d+x\d+(?:\.\d+)?b|[ae]?\d+(?:\.\d+)?[bm]")
"""A word that counts parameters: "8b", "8x7b", "a3b" (of which are active), "e4b" (are effective), "270m"."""
_TOTAL = re.compile(r"\d+x\d+(?:\.\d+)?b|e?\d+(?:\.\d+)?[bm]")
_PIECES = re.compile(r"\d+(?:\.\d+)*|[a-z]+")


def split_name(text: str) -> tuple[str, str]:
    """Return a model's name and its quantisation in capitals ("Q4_K_M", "4BIT-G64", "AWQ"); "" where none is said."""
    name = _ENDING.sub("", text.strip())
    match = _QUANTIZATION.search(name)
    if match is None:
        return name, ""
    quantization = match["quantization"].upper()
    before = name[: match.start()].rstrip("-_.:/ ")
    return _TRAINED_FOR.sub("", before) or name[match.end() :].lstrip("-_.:/ "), _SAME.get(quantization, quantization)


def name_words(name: str) -> list[str]:
    """Return a name's words: "Llama-3.2-1B_Instruct" and "llama3.2:1b-instruct" are the same."""
    last = name.casefold().rstrip("/").rpartition("/")[2]
    joined_name = re.sub(r"(?<=\d)_(?=\d)", ".", last)  # InternLM writes 2_5 for 2.5
    pieces: list[str] = []
    for part in re.split(r"[^a-z0-9.]+", joined_name):
        pieces += [part] if _SIZE.fullmatch(part) else _PIECES.findall(part)
    return pieces


def cut_pattern(pattern: str) -> str:
    """Return a pattern in the form `count_matches` takes: its words cut as a name's are, "!" left in front."""
    return " ".join(f"!{word[1:]}" if word.startswith("!") else " ".join(name_words(word)) for word in pattern.split())


def count_matches(pattern: str, name: Sequence[str]) -> int:
    """Return how well a pattern fits the words of a name: the count of its words, or 0 if it does not.

    A pattern that says no size fits only a name that says none: "llama 3.2" is what a chat program calls its 3B, but
    never an 11B.
    """
    expected_words, excluded_words, says_size = _split_pattern(pattern)
    if not excluded_words.isdisjoint(name) or not _occur_in_order(expected_words, name):
        return 0
    if not says_size and any(map(_TOTAL.fullmatch, name)):
        return 0
    return len(expected_words)


@cache
def _split_pattern(pattern: str) -> tuple[Sequence[str], frozenset[str], bool]:
    """Return a pattern's words, those that must not occur, and whether it says a size: each name meets all patterns."""
    words = pattern.split()
    expected_words = [word for word in words if not word.startswith("!")]
    excluded_words = frozenset(word[1:] for word in words if word.startswith("!"))
    return expected_words, excluded_words, any(map(_TOTAL.fullmatch, expected_words))


def _occur_in_order(expected_words: Sequence[str], name: Sequence[str]) -> bool:
    rest = iter(name)
    return all(word in rest for word in expected_words)
