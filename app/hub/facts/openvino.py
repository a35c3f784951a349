"""OpenVINO IR: a graph in XML, whose constants say name, type, size and place in the weights file beside it.

The XML is scanned, not parsed: a parser would follow entities and build a tree of a file that nobody has vouched for.
"""

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

from app.core.model_facts import ModelFacts
from app.hub.facts.capabilities import chat_template_of
from app.hub.facts.formats import WeightStorage
from app.hub.facts.hugging_face import FolderContent, facts_of
from app.hub.facts.json_text import read_object
from app.hub.facts.packed import ModuleWeight, prefix_modules
from app.hub.gguf.values import MAX_NUMBER, corrupt_error
from app.hub.sources import ByteSource, open_file

MAX_XML_BYTES = 128 << 20
"""Graphs of models with thousands of expert matrices have some ten MiB."""
MAX_CONSTANTS = 262_144
WINDOW_BYTES = 4 << 20
OVERLAP_BYTES = 4096
"""Longer than any constant's two tags, so that one cut by the window's edge is seen whole in the next."""

_CONSTANT = re.compile(
    rb'<layer [^<>]{0,64}name="(?P<name>[^"<>]{0,512})" type="Const"[^<>]{0,64}>\s{0,64}<data (?P<data>[^<>]{0,512})/>'
)
_ATTRIBUTE = re.compile(rb'(element_type|shape|offset|size)="([^"]{0,128})"')
_COMPANIONS = ("/scale", "/zero_point", "/zero_point_dequantized")
_TYPE_LABELS = {"u4": "INT4", "i4": "INT4", "nf4": "NF4", "u8": "INT8", "i8": "INT8", "f8e4m3": "FP8"}
_MODELS = ("openvino_model.xml", "openvino_language_model.xml", "openvino_text_embeddings_model.xml")


def is_openvino(folder: Path) -> bool:
    """Whether a folder holds a language model for OpenVINO."""
    return any((folder / name).is_file() for name in _MODELS[:2])


def read_openvino(folder: Path) -> ModelFacts:
    """Return what an IR folder says. Raises NotFound or BadRequest (model_corrupt)."""
    graphs = graphs_of(folder)
    weights = [weight for graph in graphs for weight in _graph_weights(graph)]
    storage = WeightStorage(format="openvino", quantization=quantization_of(weights))
    files = FolderContent(
        config=read_object(folder / "config.json"),
        weights=weights,
        storage=storage,
        file_bytes=sum(_size_of(graph) + _size_of(graph.with_suffix(".bin")) for graph in graphs),
        chat_template=chat_template_of(folder),
    )
    return facts_of(files, name=folder.name, source="OpenVINO graph")


def graphs_of(folder: Path) -> list[Path]:
    """Return the graphs whose weights an engine loads: the model's, and those of its eyes; not the tokeniser's."""
    paths = sorted(folder.glob("openvino_*model.xml"))
    return [path for path in paths if "tokenizer" not in path.name]


def weights_of_graph(graph: Path) -> list[ModuleWeight]:
    """Return the constants of a graph as weights; those that share their place in the file are one.

    Raises NotFound or BadRequest (model_corrupt).
    """
    with open_file(graph.with_suffix(".bin")) as source:
        data_bytes = source.size
    with open_file(graph) as source:
        if source.size > MAX_XML_BYTES:
            raise corrupt_error("its graph is larger than any model needs")
        places = {
            (constant.get("offset"), constant.get("size")): (name, constant)
            for name, constant in _iter_constants(source)
        }
    weights = [_build_weight(name, constant, data_bytes) for name, constant in places.values()]
    return [weight for weight in weights if weight.bytes]


def quantization_of(weights: list[ModuleWeight]) -> str:
    """Return the name of the type most bytes are in."""
    sizes: dict[str, int] = {}
    for weight in weights:
        sizes[weight.type] = sizes.get(weight.type, 0) + weight.bytes
    kind = max(sizes, key=lambda name: sizes[name], default="")
    return _TYPE_LABELS.get(kind, kind.upper())


def _iter_constants(source: ByteSource) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name and attributes of each constant, once."""
    at = next_start = count = 0
    while at < source.size:
        window = source.read_at(at, WINDOW_BYTES)
        if not window:
            raise corrupt_error("it became shorter while it was read")
        for match in _CONSTANT.finditer(window):
            if at + match.start() >= next_start:
                next_start = at + match.end()
                count += 1
                yield match["name"].decode(errors="replace"), _parse_attributes(match["data"])
        if count > MAX_CONSTANTS:
            raise corrupt_error("it claims to have more parts than any model")
        at += max(1, len(window) - OVERLAP_BYTES) if at + len(window) < source.size else len(window)


def _parse_attributes(data: bytes) -> dict[str, str]:
    return {key.decode(): value.decode(errors="replace") for key, value in _ATTRIBUTE.findall(data)}


def _build_weight(name: str, data: dict[str, str], data_bytes: int) -> ModuleWeight:
    try:
        size, offset = int(data["size"]), int(data["offset"])
        elements = prod(int(length) for length in data.get("shape", "").split(",") if length.strip())
    except (KeyError, ValueError):
        raise corrupt_error("a constant has no size") from None
    if size < 0 or offset < 0 or offset + size > data_bytes or not 0 <= elements <= MAX_NUMBER:
        raise corrupt_error("a constant lies outside the weights file")
    module = name.removeprefix("self.").removeprefix("__module.")
    is_companion = module.endswith(_COMPANIONS)
    for suffix in _COMPANIONS:
        module = module.removesuffix(suffix)
    return ModuleWeight(module, data.get("element_type", ""), 0 if is_companion else elements, size, 1)


def _graph_weights(graph: Path) -> list[ModuleWeight]:
    weights = weights_of_graph(graph)
    return prefix_modules("visual", weights) if "vision" in graph.name else weights


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
