"""Why OpenVINO ended: what its own lines mean, recorded from the pinned version, or from its sources."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (_K.MODEL_CORRUPT, (r"Incorrect weights in bin file", r"Error parsing .* at offset \d+", r"Empty weights data")),
    (
        _K.MODEL_NOT_FOUND,
        (r"openvino_tokenizer\.xml was not provided", r"could not find a model in", r"Failed to open .*\.json"),
    ),
    (_K.MODEL_UNSUPPORTED, (r"doesn't contain the operation with type", r"cannot create .* layer .* from unsupported")),
    (
        _K.DRIVER,
        (
            r"Cannot load library .*_(gpu|npu)_plugin",
            r"Device with .*(GPU|NPU).* name is not registered",
            r"\[GPU\] (Can't get|No) .*devices?",
            r"No available devices",
            r"(VCL compiler|NPU).* loading failed",
        ),
    ),
    (_K.CONTEXT_TOO_LARGE, (r"KV cache .*(exceeds|not enough|cannot be allocated)",)),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"\[GPU\] .*(out of|exceeds? .*) ?(device )?memory",
            r"Exceeded max size of memory (object )?allocation",
            r"out of GPU resources",
            r"CL_MEM_OBJECT_ALLOCATION_FAILURE",
            r"clCreateBuffer.*-(4|61)\b",
        ),
    ),
    (_K.OUT_OF_MEMORY, (r"std::bad_alloc", r"cannot allocate memory")),
    (_K.BACKEND_CRASH, (r"\[GPU\] .*CL_\w+ error", r"ProgramBuilder build failed", r"clFlush, error code")),
    (_K.BAD_FLAG, (r"Option not found: ", r"Wrong value .* for property key")),
)

READER = FailureReader(name="OpenVINO GenAI", means=RemedyOptions(cache_type="q8_0"), clues=_CLUES)
