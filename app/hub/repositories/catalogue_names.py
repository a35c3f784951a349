"""What people call the models of the catalogue: Ollama's names and tags, and titles and repositories written any way.

"qwen3:8b", "library/Qwen3:8B", "qwen3-8b", "qwen3:8b-q8_0" and "Qwen3-8B-GGUF" mean one model. A name that could mean
two means none: what is downloaded under a name must be what it says. What is unknown is answered with near names.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from app.core.model_facts import bit_rate_name
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.shapes.shape import name_words, split_name

_NEAREST = 3
_LONGEST = 200
"""No name is longer, and to compare longer ones takes time."""
_USUAL_TAGS = frozenset({"", "latest"})
_EMPTY_WORDS = frozenset({"instruct", "it", "chat", "latest"})
"""Words that the catalogue's models have or lack without being others: all of them follow instructions."""
_FORMAT_WORDS = ("gguf", "mlx", "exl3", "exl2", "awq", "gptq", "fp8", "nvfp4", "openvino", "onnx")
_INTEGER = re.compile(r"INT\d|W\dA\d+")
_RATE = re.compile(r"(\d+(?:\.\d+)?)[-_ ]?BPW")
_BITS = re.compile(r"(\d)-?BIT.*")


class CatalogueMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was named, and what the name says of its weights: "q8_0" a quantisation, "mlx" a format."""

    entry: CatalogueEntry
    format: str = ""
    quantization: str = ""
    """As `find_variant` takes it: "Q8_0", "4.0bpw"."""
    bits: str = ""
    """"4bit": what the name of an MLX repository says, which has no other variants."""

    def list_repositories(self, model_format: str) -> list[str]:
        """Return the repositories of a format in the order in which the hub is asked for them."""
        names = self.entry.repositories.get(model_format, [])
        return [name for name in names if self.bits in name.casefold()]


class _WeightWords(NamedTuple):
    """A name without what it says of its weights, and that."""

    name: str
    format: str = ""
    quantization: str = ""
    bits: str = ""


class NameIndex:
    """All names of one list, made once for it."""

    def __init__(self, entries: Sequence[CatalogueEntry]) -> None:
        self._entries = entries
        self._by_name = {name: entry for entry in entries for name in entry.names}
        self._by_words = _index_words(entries, skip=frozenset())
        self._by_few_words = _index_words(entries, skip=_EMPTY_WORDS)
        self._by_head: dict[str, list[CatalogueEntry]] = defaultdict(list)
        for entry in entries:
            for head in dict.fromkeys(name.partition(":")[0] for name in entry.names):
                self._by_head[head].append(entry)

    def find_match(self, typed_name: str) -> CatalogueMatch | None:
        """Return the model that a name means; None where it means none, or might mean several."""
        text = typed_name.strip().casefold()
        if len(text) > _LONGEST:
            return None
        entry = self._find_name(text)
        if entry is not None:
            return CatalogueMatch(entry=entry)
        weights = _split_weights(text)
        if weights is None:
            return None
        entry = self._find_name(weights.name) or self._find_words(weights.name)
        if entry is None:
            return None
        match = CatalogueMatch(entry=entry, format=weights.format, quantization=weights.quantization, bits=weights.bits)
        return match if not match.format or match.list_repositories(match.format) else None

    def list_nearest(self, typed_name: str) -> list[str]:
        """Return the names of the three models that are written most like this."""
        text = typed_name.strip().casefold()[:_LONGEST]
        likeness = {
            entry.name: max(difflib.SequenceMatcher(None, text, name).ratio() for name in entry.names)
            for entry in self._entries
        }
        return sorted(likeness, key=lambda name: -likeness[name])[:_NEAREST]

    def _find_name(self, text: str) -> CatalogueEntry | None:
        head, _, tag = text.partition(":")
        entry = self._by_name.get(head if tag in _USUAL_TAGS else text)
        if entry is not None or tag not in _USUAL_TAGS:
            return entry
        sizes = self._by_head.get(head, [])
        return sizes[0] if len(sizes) == 1 else None

    def _find_words(self, name: str) -> CatalogueEntry | None:
        words = name_words(name)
        entry = self._by_words.get(tuple(words)) or self._by_few_words.get(_without(words, _EMPTY_WORDS))
        return entry or self._find_tag(name)

    def _find_tag(self, name: str) -> CatalogueEntry | None:
        """Return the size whose names say all that a tag says: "14b-qwen-distill", "30b-a3b-instruct-2507"."""
        head, _, tag = name.partition(":")
        words = name_words(tag)
        fitting_entries = {
            entry.name: (sum(word in name_tokens for word in words), entry)
            for entry in self._by_head.get(head, [])
            if (name_tokens := _words_of(entry)).issuperset(set(words) - _EMPTY_WORDS)
        }
        most = max((score for score, _ in fitting_entries.values()), default=0)
        best = [entry for score, entry in fitting_entries.values() if score == most and most]
        usual = self._by_name.get(f"{head}:{words[0]}") if words else None
        return best[0] if len(best) == 1 else next((entry for entry in best if entry is usual), None)


def _index_words(entries: Iterable[CatalogueEntry], *, skip: frozenset[str]) -> dict[tuple[str, ...], CatalogueEntry]:
    """Return the entries by the words of their names; where these are none's, by those of titles and repositories."""
    by_words: dict[tuple[str, ...], CatalogueEntry] = {}
    for spellings in (lambda entry: entry.names, lambda entry: [entry.title], lambda entry: [entry.base]):
        level: dict[tuple[str, ...], set[str]] = defaultdict(set)
        entry_by_words: dict[tuple[str, ...], CatalogueEntry] = {}
        for entry in entries:
            for name_spelling in spellings(entry):
                key = _without(name_words(name_spelling), skip)
                level[key].add(entry.name)
                entry_by_words[key] = entry
        for key, owners in level.items():
            if len(owners) == 1:
                by_words.setdefault(key, entry_by_words[key])
    return by_words


def _words_of(entry: CatalogueEntry) -> set[str]:
    return {word for text in (*entry.names, entry.title, entry.base) for word in name_words(text)}


def _without(words: Iterable[str], skip: frozenset[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word not in skip)


def _split_weights(text: str) -> _WeightWords | None:
    """Return a name and what it says of the weights; None for weights that are nobody's or trained anew (QAT)."""
    name, label = split_name(text)
    parts = re.split(r"(?<=[-_.:])|(?=[-_.:])", name)
    words = [part for part in parts if part in _FORMAT_WORDS]
    if "qat" in re.split(r"[-_.:]", text) or len(words) > 1:
        return None
    kept_name = re.sub(r"[-_.:]+$", "", re.sub(r"([-_.:])[-_.]+", r"\1", "".join(p for p in parts if p not in words)))
    weights = _weights_of(kept_name, label)
    first_word = words[0] if words else ""
    if not first_word or weights.format in {"", first_word}:
        return weights._replace(format=weights.format or first_word)
    return None if weights.format != "gguf" else weights._replace(format=first_word)


def _weights_of(name: str, label: str) -> _WeightWords:
    if not label:
        return _WeightWords(name)
    if label in {"AWQ", "GPTQ", "FP8", "NVFP4"}:
        return _WeightWords(name, label.casefold())
    if _INTEGER.fullmatch(label):
        return _WeightWords(name, "compressed-tensors")
    if rate := _RATE.fullmatch(label):
        return _WeightWords(name, "exl3", bit_rate_name(float(rate[1])))
    if bits := _BITS.fullmatch(label):
        return _WeightWords(name, "mlx", bits=f"{bits[1]}bit")
    return _WeightWords(name, "gguf", label)
