"""ONNX Runtime GenAI folders: `genai_config.json` describes the model, the graph's initialisers its weights.

The graph is a protocol buffer; only the fields that name, type and size an initialiser are looked at, and lengths are
believed only as far as the file reaches. Weights lie in files beside it, or within.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from app.core.errors import BadRequest
from app.core.model_facts import ModelFacts
from app.hub.facts.capabilities import chat_template_of
from app.hub.facts.formats import WeightStorage
from app.hub.facts.hf_config import read_count
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.json_text import Object, read_object, read_object_if_there
from app.hub.facts.packed import ModuleWeight, prefix_modules
from app.hub.gguf.values import MAX_NUMBER, corrupt_error
from app.hub.sources import ByteSource, open_file

CONFIG = "genai_config.json"
MAX_FIELDS = 4_000_000
"""Steps in one graph; the largest have some hundred thousand nodes, which are stepped over one by one."""
MAX_INITIALIZERS = 262_144
MAX_TEXT_BYTES = 4096

_GRAPH, _INITIALIZER = 7, 5
_DIMENSIONS, _TYPE, _NAME, _RAW, _EXTERNAL = 1, 2, 8, 9, 13
_TYPES = {1: ("F32", 32), 2: ("U8", 8), 3: ("I8", 8), 5: ("I16", 16), 6: ("I32", 32), 7: ("I64", 64), 9: ("BOOL", 8)}
_TYPES |= {10: ("F16", 16), 11: ("F64", 64), 16: ("BF16", 16), 17: ("F8_E4M3", 8), 21: ("U4", 4), 22: ("I4", 4)}
"""TensorProto.DataType -> our name and bits (onnx.proto)."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def is_onnx(folder: Path) -> bool:
    """Whether a folder holds a model for ONNX Runtime GenAI."""
    return (folder / CONFIG).is_file()


def read_onnx(folder: Path) -> ModelFacts:
    """Return what a GenAI folder says. Raises NotFound or BadRequest (model_corrupt)."""
    config = read_object(folder / CONFIG)
    graphs = graphs_of(folder, config)
    if not graphs:
        raise corrupt_error(f"{CONFIG} names no graph")
    weights = [weight for part, graph in graphs for weight in _part_weights(part, graph)]
    storage = WeightStorage(format="onnx-genai", quantization=quantization_of(weights))
    files = FolderContent(
        config=read_object_if_there(folder / "config.json") or configuration_of(config),
        weights=weights,
        storage=storage,
        file_bytes=sum(_size_of(graph) + _size_of(graph.with_name(f"{graph.name}.data")) for _, graph in graphs),
        chat_template=chat_template_of(folder),
    )
    return facts_of(files, name=folder.name, source="ONNX graph")


def configuration_of(config: Object) -> Object:
    """Return GenAI's description in the terms of a Hugging Face configuration."""
    model = config.get("model")
    model = model if isinstance(model, dict) else {}
    decoder = model.get("decoder")
    decoder = decoder if isinstance(decoder, dict) else {}
    window = decoder.get("sliding_window")
    names = {"num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size"}
    return {
        "model_type": model.get("type"),
        "max_position_embeddings": model.get("context_length"),
        "vocab_size": model.get("vocab_size"),
        "head_dim": decoder.get("head_size"),
        "sliding_window": read_count(window, "window_size") if isinstance(window, dict) else None,
        **{name: decoder.get(name) for name in names},
    }


def graphs_of(folder: Path, config: Object) -> list[tuple[str, Path]]:
    """Return the parts ("decoder", "vision", ...) with their graphs, by file names that stay within the folder."""
    model = config.get("model")
    parts = model.items() if isinstance(model, dict) else ()
    file_names = ((part, own.get("filename")) for part, own in parts if isinstance(own, dict))
    return [(part, folder / name) for part, name in file_names if isinstance(name, str) and Path(name).name == name]


def weights_of_graph(graph: Path) -> list[ModuleWeight]:
    """Return the initialisers as weights. Raises NotFound or BadRequest (model_corrupt)."""
    with open_file(graph) as source:
        reader = _ProtobufReader(source)
        weights = [
            weight for start, end in reader.iter_initializers() if (weight := reader.read_weight(start, end)).bytes
        ]
    if not weights:
        raise BadRequest(f"{graph.name} holds no weights.", code="model_corrupt")
    return weights


class _ProtobufReader:
    """Fields of nested messages by their place in the file; nothing is read ahead of its length check."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._window = b""
        self._start = 0
        self._fields_left = MAX_FIELDS

    def iter_initializers(self) -> Iterator[tuple[int, int]]:
        """Yield where each initialiser begins and ends."""
        count = 0
        for field, start, end in self._iter_messages(0, self._source.size):
            if field != _GRAPH:
                continue
            for inner, inner_start, inner_end in self._iter_messages(start, end):
                if inner == _INITIALIZER:
                    count += 1
                    if count > MAX_INITIALIZERS:
                        raise corrupt_error("it claims to have more parts than any model")
                    yield inner_start, inner_end

    def read_weight(self, start: int, end: int) -> ModuleWeight:
        """Return one initialiser."""
        dimensions: list[int] = []
        name, kind, size = "", 0, 0
        for field, at, stop, value in self._iter_fields(start, end):
            if field == _DIMENSIONS:
                dimensions += [value] if at == stop else self._read_packed_numbers(at, stop)
            elif field == _TYPE:
                kind = value
            elif field == _NAME:
                name = self._read_bytes(at, min(stop, at + MAX_TEXT_BYTES)).decode(errors="replace")
            elif field == _RAW:
                size += stop - at
            elif field == _EXTERNAL:
                size += self._external_length(at, stop)
        elements = prod(dimensions)
        label, bits = _TYPES.get(kind, (str(kind), 0))
        if elements > MAX_NUMBER or size > MAX_NUMBER:
            raise corrupt_error("a tensor has an impossible size")
        return _name_weight(name, label, elements, size or -(-elements * bits // 8))

    def _external_length(self, start: int, end: int) -> int:
        """Return the number behind the key "length" of a text pair; other pairs count nothing."""
        texts = [self._read_bytes(at, min(stop, at + 64)) for _, at, stop in self._iter_messages(start, end)]
        is_length = len(texts) == 2 and texts[0] == b"length" and texts[1].isdigit()  # noqa: PLR2004 -- key, value
        return int(texts[1]) if is_length else 0

    def _read_packed_numbers(self, at: int, end: int) -> list[int]:
        numbers: list[int] = []
        while at < end and len(numbers) < 16:  # noqa: PLR2004 -- more dimensions than any tensor
            value, at = self._read_varint(at, end)
            numbers.append(value)
        return numbers

    def _iter_messages(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        return ((field, at, stop) for field, at, stop, _ in self._iter_fields(start, end) if at != stop)

    def _iter_fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, start and end of each field's bytes, and its value if it is a plain number."""
        while at < end:
            self._fields_left -= 1
            if self._fields_left < 0:
                raise corrupt_error("its graph is longer than any model needs")
            tag, at = self._read_varint(at, end)
            kind, value, stop = tag & 7, 0, at
            if kind == _VARINT:
                value, at = self._read_varint(at, end)
                stop = at
            elif kind == _BYTES:
                length, at = self._read_varint(at, end)
                stop = at + length
            elif kind in (_EIGHT, _FOUR):
                stop = at + (8 if kind == _EIGHT else 4)
            else:
                raise corrupt_error("it is not an ONNX graph")
            if stop > end:
                raise corrupt_error("it ends in the middle")
            yield tag >> 3, at, stop, value
            at = stop

    def _read_varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for index, byte in enumerate(self._read_bytes(at, min(end, at + 10))):
            value |= (byte & 127) << (7 * index)
            if byte < 128:  # noqa: PLR2004 -- the last byte of a number has its top bit clear
                return value, at + index + 1
        raise corrupt_error("it ends in the middle")

    def _read_bytes(self, at: int, end: int) -> bytes:
        offset = at - self._start
        if offset < 0 or offset + end - at > len(self._window):
            self._window = self._source.read_at(at, max(end - at, 1 << 16))
            self._start, offset = at, 0
        return self._window[offset : offset + end - at]


def _name_weight(name: str, label: str, elements: int, size: int) -> ModuleWeight:
    """Return a weight under its module's name; of a packed one, the scales count bytes and no parameters."""
    module = name.replace(".MatMul.", ".")
    for suffix in ("_scales", "_zp", "_zero_points"):
        if module.endswith(suffix):
            return ModuleWeight(module.removesuffix(suffix), label, 0, size, 1)
    base, mark, bits = module.rpartition("_Q")
    if mark and bits.isdigit() and 0 < int(bits) <= 8:  # noqa: PLR2004 -- packed into bytes
        return ModuleWeight(base, f"{int(bits)}-bit", size * 8 // int(bits), size, 1)
    return ModuleWeight(module, label, elements, size, 1)


def quantization_of(weights: list[ModuleWeight]) -> str:
    """Return the name of the type most parameters are in."""
    counts: dict[str, int] = {}
    for weight in weights:
        counts[weight.type] = counts.get(weight.type, 0) + weight.elements
    kind = max(counts, key=lambda name: counts[name], default="")
    return {"4-bit": "INT4", "8-bit": "INT8"}.get(kind, kind)


def _part_weights(part: str, graph: Path) -> list[ModuleWeight]:
    weights = weights_of_graph(graph)
    return weights if part in ("decoder", "embedding") else prefix_modules("visual", weights)


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
