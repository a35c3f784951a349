"""Making EXL3 of a model's original weights on this computer's card: what it takes, and how far it is."""

from typing import Annotated

import msgspec

from app.core.models import ModelInfo

_Name = Annotated[str, msgspec.Meta(max_length=200, pattern=r"^([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_-])?)?$")]
"""Of a folder, on every system: neither hidden nor above the folder that it is put in."""
_PLAIN_TYPES = frozenset({"BF16", "F16", "F32"})


class QuantizeModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ask for a model's EXL3 form: bits a weight, and of the output matrix."""

    model: str
    bits: Annotated[float, msgspec.Meta(ge=1, le=8)] = 4.0
    head_bits: Annotated[int, msgspec.Meta(ge=1, le=8)] = 6
    name: _Name = ""
    """Of the folder it is put in; empty: the model's own with the bits behind."""
    restarts: bool = False
    """What an earlier run left is thrown away instead of gone on from."""


def is_original(model: ModelInfo) -> bool:
    """Tell whether a model is a folder of weights that nobody has quantised yet."""
    return model.format == "safetensors" and model.quantization in _PLAIN_TYPES


class QuantizePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes, before anything is done. Bytes; those of results and memory are estimates."""

    model: str
    name: str
    folder: str
    bits: float
    head_bits: int
    result_bytes: int
    """What the EXL3 folder will weigh."""
    disk_bytes: int
    """What has to be free on the disk while it goes on: the result twice, and checkpoints."""
    free_bytes: int | None = None
    memory_bytes: int
    """System memory for the texts that it calibrates with."""
    card: str = ""
    card_bytes: int | None = None
    """Free on the card; None where that is unknown."""
    needed_card_bytes: int
    """For the largest layer in half precision and what its errors are summed in."""
    resumes: bool = False
    """An earlier run got somewhere, and this one goes on from there."""
    problems: list[str] = []
    """Why it cannot begin now, in sentences; empty where it can."""


class QuantizeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    model: str
    """Its name in the library."""
    folder: str
    size_bytes: int
    took_s: float
