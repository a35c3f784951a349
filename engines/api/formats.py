"""How weights are stored, by the names everything else uses."""

from enum import StrEnum


class ModelFormat(StrEnum):
    """How weights are stored. Formats are not interchangeable between engines."""

    GGUF = "gguf"
    MLX = "mlx"
    EXL2 = "exl2"
    EXL3 = "exl3"
    AWQ = "awq"
    GPTQ = "gptq"
    FP8 = "fp8"
    COMPRESSED_TENSORS = "compressed-tensors"
    NVFP4 = "nvfp4"
    MXFP4 = "mxfp4"
    OPENVINO = "openvino"
    ONNX_GENAI = "onnx-genai"
    MLC = "mlc"
    TENSORRT = "tensorrt"
    REMOTE = "remote"
    """Weights that are somewhere else: an endpoint serves them."""
    SAFETENSORS = "safetensors"
