"""Which files of a model there are to choose from: the one that was named, or the forms a well-known model comes in.

Publishers make the same handful of quantisations of nearly every model. What they would weigh is computed from the
model's shape; what a repository really offers is known once it has been looked at.
"""

import asyncio
from collections.abc import Mapping
from functools import cache

import msgspec

from app.core.model_facts import ModelFacts
from app.gateway.advising.model_facts import FactsReader, well_known

FORMS: dict[str, tuple[str, ...]] = {
    "gguf": ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"),
    "mlx": ("8bit", "6bit", "4bit", "3bit"),
    "exl2": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw"),
    "exl3": ("8.0bpw", "6.0bpw", "5.0bpw", "4.0bpw", "3.0bpw", "2.0bpw"),
    "safetensors": ("BF16",),
    "fp8": ("FP8",),
    "nvfp4": ("NVFP4",),
    "awq": ("4bit",),
    "gptq": ("4bit",),
    "openvino": ("int8", "int4"),
    "onnx-genai": ("int4",),
    "mlc": ("q4f16_1",),
}
"""Format -> the quantisations that are usually published, the best first."""

REFERENCE = (
    "Qwen3 0.6B",
    "Qwen3 1.7B",
    "Qwen3 4B",
    "Qwen3 8B",
    "Qwen3 14B",
    "Qwen3 32B",
    "Llama 3.3 70B",
    "Qwen3 235B-A22B",
)
"""Well-known models from small to large, to take a machine's measure with where no model is named."""
_REFERENCE_FORMS = {"gguf": ("Q4_K_M",), "mlx": ("4bit",), "exl2": ("4.0bpw",), "exl3": ("4.0bpw",)}
_SERVED_FORMS = {"safetensors": ("BF16",), "fp8": ("FP8",), "openvino": ("int4",), "onnx-genai": ("int4",)}


_NATIVE_FORMS = {"MXFP4": {"gguf": ("MXFP4",), "mxfp4": ("MXFP4",), "mlx": ("4bit",)}}
"""MLX repacks MXFP4 as its own four bits; the others keep it."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates, the name to show, and whether there is nothing else of that model to be had."""

    candidates: list[ModelFacts]
    model: str = ""
    is_fixed: bool = False


async def candidates(facts: FactsReader, model: str) -> Found:
    """Return what could be run when `model` is wanted. Raises NotFound or BadRequest."""
    if not model:
        return Found(candidates=list(reference()))
    known = None if await asyncio.to_thread(facts.is_here, model) else well_known(model)
    if known is None or known.quantization:
        found = await facts.find(model)
        return Found(candidates=[found], model=found.name, is_fixed=True)
    forms = list(forms_of(known.name, native=known.native))
    return Found(candidates=forms, model=forms[0].name)


@cache
def forms_of(name: str, *, native: str = "") -> tuple[ModelFacts, ...]:
    """Return a well-known model in every usual form; `native` is the quantisation of one that comes in no other."""
    return _shaped(name, _NATIVE_FORMS.get(native, FORMS))


@cache
def reference() -> tuple[ModelFacts, ...]:
    """Return the reference models in the usual balance of every format."""
    forms = {**_REFERENCE_FORMS, **_SERVED_FORMS}
    return tuple(facts for name in REFERENCE for facts in _shaped(name, forms))


def _shaped(name: str, forms: Mapping[str, tuple[str, ...]]) -> tuple[ModelFacts, ...]:
    from app.hub.shapes import shape_facts  # noqa: PLC0415 -- the gateway starts without it

    return tuple(shape_facts(name, one, format=kind) for kind, quantizations in forms.items() for one in quantizations)
