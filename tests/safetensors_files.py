"""Write safetensors files with a real header and no weights: the data part is a hole."""

import json
import struct
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

from app.hub.facts.safetensors import DTYPE_BITS

Tensors = Mapping[str, tuple[str, Sequence[int]]]
"""Name -> type and shape."""


def header_bytes(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """Return length and JSON as they stand in a file, and the bytes of data they describe."""
    entries: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, (dtype, shape) in tensors.items():
        size = -(-prod(shape) * DTYPE_BITS[dtype] // 8)
        entries[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text, offset


def write_safetensors(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> Path:
    header, data_bytes = header_bytes(tensors, metadata)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + data_bytes)
    return path


def write_model(folder: Path, config: Mapping[str, object], tensors: Tensors, **metadata: str) -> Path:
    """Write a folder with a configuration and, if there are tensors, one file of them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if tensors:
        write_safetensors(folder / "model.safetensors", tensors, metadata)
    return folder
