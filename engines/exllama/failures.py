"""Why ExLlama ended: its own words, from the sources of 1.6.5 and 0.3.2."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (_K.OUT_OF_GPU_MEMORY, (r"insufficient vram", r"insufficient space in device")),
    (_K.DRIVER, (r"no cuda device is visible", r"TORCH_CUDA_ARCH_LIST", r"in _get_cuda_arch_flags")),
    (
        _K.MISSING_LIBRARY,
        (
            r"pytorch is required but not installed",
            r"no c\+\+ compiler",
            r"c\+\+: not found",
            r"unsupported gnu version",
            r"kernels could not be compiled",
            r"error building extension",
            r"flash[-_]attn .{0,200}required",
            r"required flash attention",
        ),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (
            r"unsupported architecture",
            r"unknown architecture",
            r"architecture .{0,99} not supported",
            r"tensor-parallel is not (currently )?(supported|implemented)",
            r"the draft model has a vocabulary of",
        ),
    ),
    (_K.MODEL_NOT_FOUND, (r"cannot find config\.json", r"no \.safetensors files found")),
)

EXL3 = FailureReader(name="ExLlamaV3", means=RemedyOptions(cache_type="q8_0"), clues=_CLUES)
EXL2 = FailureReader(name="ExLlamaV2", means=RemedyOptions(cache_type="q8_0"), clues=_CLUES)
