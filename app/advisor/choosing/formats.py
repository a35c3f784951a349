"""What formats of weights are called, and which GPUs have kernels for them."""

from engines.api.traits import ADA, AMPERE, BLACKWELL, TURING, Version

MADE_FROM_ORIGINALS = frozenset({"openvino", "onnx-genai", "mlc"})
"""Formats the engine's own exporter makes from the original weights: missing ones can be had."""

_CUDA_FORMATS: dict[str, Version] = {
    "nvfp4": BLACKWELL,
    "fp8": ADA,
    "mxfp4": AMPERE,
    "awq": TURING,
    "gptq": TURING,
    "compressed-tensors": TURING,
    "exl2": AMPERE,
    "exl3": TURING,
}
_FP8_ROCM = frozenset({"gfx942", "gfx950", "gfx1200", "gfx1201"})
_MXFP4_ROCM = frozenset({"gfx942", "gfx950", "gfx1201"})
"""vLLM's recipe for gpt-oss names MI300X, MI325X, MI355X and Radeon AI PRO R9700 (recipes/OpenAI/GPT-OSS.md)."""
_ROCM_FORMATS: dict[str, frozenset[str]] = {"fp8": _FP8_ROCM, "mxfp4": _MXFP4_ROCM, "nvfp4": frozenset()}
FORMAT_NAMES = {
    "gguf": "GGUF",
    "mlx": "MLX weights",
    "exl2": "EXL2",
    "exl3": "EXL3",
    "awq": "AWQ",
    "gptq": "GPTQ",
    "fp8": "FP8",
    "nvfp4": "NVFP4",
    "mxfp4": "MXFP4",
    "compressed-tensors": "compressed tensors",
    "openvino": "OpenVINO IR",
    "onnx-genai": "ONNX",
    "mlc": "MLC weights",
    "tensorrt": "a TensorRT engine",
    "safetensors": "16-bit safetensors",
}


def inner_format(format_name: str, quantization: str) -> str:
    """Return the scheme kernels are chosen by: compressed tensors hold FP8, NVFP4 or integers."""
    if format_name != "compressed-tensors":
        return format_name
    lower_name = quantization.lower()
    return next((scheme for scheme in ("nvfp4", "mxfp4", "fp8") if scheme in lower_name), format_name)


def kernel_lack(format_name: str, *, compute: Version, gfx: str = "") -> str:
    """Say why no kernels exist for a format on a GPU of this capability or gfx target; empty when they do."""
    if gfx:
        format_kernels = _ROCM_FORMATS.get(format_name)
        has_kernels = format_kernels is None or gfx in format_kernels
        return "" if has_kernels else f"{FORMAT_NAMES[format_name]} has no kernels for {gfx}"
    least = _CUDA_FORMATS.get(format_name, (0, 0))
    if compute >= least:
        return ""
    return f"{FORMAT_NAMES[format_name]} needs compute capability {least[0]}.{least[1]}"
