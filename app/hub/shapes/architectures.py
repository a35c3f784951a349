"""From metadata to a tensor table: which tensors an architecture has is data, `resources/shapes/architectures.toml`."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from app.config.paths import RESOURCES
from app.hub.facts.metadata import Value
from app.hub.shapes.widths import LayerWidths, widths_of

SHAPES = RESOURCES / "shapes"


class TensorOutline(msgspec.Struct, frozen=True):
    """A tensor before it has a type: name, and shape with the innermost dimension first."""

    name: str
    shape: tuple[int, ...]


class Architecture(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts outside and in each block, and metadata that all its models share."""

    outside: str = ""
    block: str = ""
    keys: dict[str, object] = {}
    like: str = ""


class _ArchitectureFile(msgspec.Struct, frozen=True):
    keys: dict[str, str]
    parts: dict[str, tuple[tuple[str, tuple[str, ...]], ...]]
    architectures: dict[str, Architecture]


def architecture_names() -> list[str]:
    """Return the architectures that can be outlined."""
    return list(_read_file().architectures)


def short_keys() -> Mapping[str, str]:
    """Return the short words of the model table with the metadata keys they stand for."""
    return _read_file().keys


def find_architecture(name: str) -> Architecture:
    """Return an architecture, with what it takes from another. Raises KeyError."""
    own_template = _read_file().architectures[name]
    if not own_template.like:
        return own_template
    base = find_architecture(own_template.like)
    return Architecture(outside=base.outside, block=base.block, keys=own_template.keys or base.keys)


def build_outlines(values: Mapping[str, Value], has: frozenset[str]) -> list[TensorOutline]:
    """Return the tensors of a model. `has` names its options, such as "tied". Raises KeyError for an unknown word."""
    template = find_architecture(str(values["general.architecture"]))
    layers = widths_of(values, has)
    outside = [TensorOutline(name, shape) for name, shape in _template_lines(template.outside, layers[0])]
    blocks = [
        TensorOutline(f"blk.{layer.index}.{name}", shape)
        for layer in layers
        for name, shape in _template_lines(template.block, layer)
    ]
    return [*outside, *blocks]


def _template_lines(template: str, widths: LayerWidths) -> Iterator[tuple[str, tuple[int, ...]]]:
    parts = _read_file().parts
    for item in template.split():
        part, _, condition = item.partition("@")
        if condition and not widths.all_hold(condition):
            continue
        for name, dimensions in parts[part]:
            yield name, tuple(widths.size_of(dimension) for dimension in dimensions)


@cache
def _read_file() -> _ArchitectureFile:
    raw = tomllib.loads((SHAPES / "architectures.toml").read_text(encoding="utf-8"))
    keys, parts = raw.pop("keys"), raw.pop("parts")
    return _ArchitectureFile(
        keys=keys,
        parts={name: tuple(_parse_line(line) for line in text.split(";")) for name, text in parts.items()},
        architectures=msgspec.convert(raw, dict[str, Architecture]),
    )


def _parse_line(line: str) -> tuple[str, tuple[str, ...]]:
    name, *dimensions = line.split()
    return name, tuple(dimensions)
