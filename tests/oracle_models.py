"""The models the oracle is asked about: small ones of every architecture and kind of memory, and how each is loaded."""

import tomllib
from functools import cache
from pathlib import Path

from app.hub.shapes.shape import ModelShape, shape_from
from tests.oracle import Setting
from tests.weightless import write_weightless

FILE = Path(__file__).parent / "data" / "weightless.toml"
QUANTIZATION = "Q4_K_M"

SETTINGS = (
    Setting(context=4096, slots=1),
    Setting(context=2048, slots=4),
    Setting(context=8192, slots=1, kv_type="q8_0", flash_attention=True),
    Setting(context=4096, slots=2, ubatch=2048, unified=True),
)
"""One conversation; the product's four; a quantised cache; one cache shared by all slots, with a large batch."""


@cache
def models() -> list[ModelShape]:
    """Return every model of the file, called "architecture.variant"."""
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        shape_from(f"{architecture}.{variant}", architecture, figures)
        for architecture, variants in table.items()
        for variant, figures in variants.items()
    ]


def write_model(folder: Path, model: ModelShape) -> Path:
    """Write the file that llama.cpp loads; the tensors are those of `model.tensors(QUANTIZATION)`."""
    return write_weightless(folder / f"{model.name}.gguf", model.build_metadata(), model.build_tensors(QUANTIZATION))
