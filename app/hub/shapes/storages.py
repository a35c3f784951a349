"""How many bits other formats than GGUF spend on which weights, from the format and the name of a quantisation.

What Hugging Face folders can say of themselves is put in their own words and read by the reader of such folders, so
that a model known by name and one read from a hub are counted alike.
"""

import re

from app.core.errors import BadRequest
from app.core.model_facts import WeightKind
from app.hub.facts.formats import WeightStorage, storage_of
from app.hub.facts.json_text import Object

_BITS = re.compile(r"(?P<bits>\d(?:\.\d+)?)[-_ ]?(?:bit|bpw)(?:[-_]?g(?P<group>\d+))?", re.IGNORECASE)
_INTEGER = re.compile(r"(?:int|w|q)(?P<bits>[48])", re.IGNORECASE)
MLX_GROUP = 64
"""mlx-lm's own default."""
INTEGER_GROUP = 128
"""What AWQ and GPTQ uploads are made with."""

_MATRICES = frozenset(
    {
        WeightKind.ATTENTION,
        WeightKind.FEED_FORWARD,
        WeightKind.EXPERTS,
        WeightKind.SHARED_EXPERTS,
        WeightKind.RECURRENT,
        WeightKind.DRAFT,
    }
)
_ENDS = frozenset({WeightKind.INPUT_EMBEDDING, WeightKind.OUTPUT})


def storage_for(model_format: str, quantization: str) -> WeightStorage:
    """Return the storage of a format and quantisation. Raises BadRequest (quantization_unknown)."""
    plain = {"BF16": "bfloat16", "F16": "float16", "FP16": "float16", "F32": "float32"}.get(quantization.upper())
    if plain is not None:
        return _rename_storage(storage_of({"torch_dtype": plain}), model_format)
    if model_format in {"openvino", "onnx-genai", "mlc"}:
        return _converter_storage(model_format, quantization)
    config = _build_config(model_format, quantization)
    if config is None:
        raise BadRequest(f"{quantization} is not a quantisation of {model_format} models.", code="quantization_unknown")
    return _rename_storage(storage_of(config), model_format)


def _rename_storage(storage: WeightStorage, model_format: str) -> WeightStorage:
    if model_format in {storage.format, "safetensors"}:
        return storage
    return WeightStorage(
        format=model_format,
        quantization=storage.quantization,
        packing=storage.packing,
        dtype=storage.dtype,
        bits=storage.bits,
    )


def _build_config(model_format: str, quantization: str) -> Object | None:
    """Return what such a folder's `config.json` would say."""
    bits = _parse_bits(quantization)
    if model_format == "mlx":
        return {"quantization": {"bits": round(bits[0]), "group_size": bits[1] or MLX_GROUP}} if bits else None
    if model_format in {"exl2", "exl3"}:
        return {"quantization_config": {"quant_method": model_format, "bits": bits[0]}} if bits else None
    name = quantization.upper()
    for label, stated in _FLOATS.items():
        if label in name or model_format == label.casefold():
            return {"quantization_config": stated}
    if bits is None and name not in {"AWQ", "GPTQ"}:
        return None
    method = "awq" if "awq" in {model_format, quantization.casefold()} else "gptq"
    width, group = bits or (4, 0)
    return {"quantization_config": {"quant_method": method, "bits": round(width), "group_size": group or INTEGER_GROUP}}


_FLOATS: dict[str, Object] = {
    "NVFP4": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    "MXFP4": {"quant_method": "mxfp4"},
    "FP8": {"quant_method": "fp8"},
}


def _parse_bits(quantization: str) -> tuple[float, int] | None:
    """Return bits and group size of "4bit", "8bit-g32", "4.0bpw", "int4"; 0 for a group that is not said."""
    match = _BITS.fullmatch(quantization)
    if match is not None:
        return float(match["bits"]), int(match["group"] or 0)
    integer = _INTEGER.match(quantization)
    return (float(integer["bits"]), 0) if integer else None


def _converter_storage(model_format: str, quantization: str) -> WeightStorage:
    """Return the defaults of the converters: NNCF (OpenVINO), the ONNX Runtime GenAI model builder, MLC.

    NNCF: groups of 128 with scale and zero point, the ends in eight bits. The others: groups of 32 with a half-float
    scale; the model builder leaves the embedding in half floats.
    """
    bits = _parse_bits(quantization)
    if bits is None:
        raise BadRequest(f"{quantization} is not a quantisation of {model_format} models.", code="quantization_unknown")
    width = bits[0]
    if model_format == "openvino":
        each = width + (16 + width) / 128 if width < 8 else 8.0  # noqa: PLR2004 -- bytes have a scale per channel
        ends = 8.0
    else:
        each = width + 16 / 32
        ends = each
    kinds = dict.fromkeys(_MATRICES, each) | dict.fromkeys(_ENDS, ends)
    if model_format == "onnx-genai":
        del kinds[WeightKind.INPUT_EMBEDDING]
    return WeightStorage(format=model_format, quantization=quantization, dtype="F16", bits=kinds)
