"""Why OpenVINO ended: what its own lines mean, recorded from the pinned version, or from its sources."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (
        _K.MODEL_CORRUPT,
        (
            r"Incorrect weights in bin file",
            r"Error parsing .{0,99} at offset \d+",
            r"Empty weights data",
        ),
    ),
    (
        _K.MODEL_NOT_FOUND,
        (r"openvino_tokenizer\.xml was not provided", r"could not find a model in", r"Failed to open .{0,400}\.json"),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (r"doesn't contain the operation with type", r"cannot create .{0,200} layer .{0,200} from unsupported"),
    ),
    (
        _K.DRIVER,
        (
            r"Cannot load library .{0,400}_(gpu|npu)_plugin",
            r"Device with .{0,200}(GPU|NPU).{0,200} name is not registered",
            r"\[GPU\] (Can't get|No) .{0,200}devices?",
            r"No available devices",
            r"(VCL compiler|NPU).{0,200} loading failed",
        ),
    ),
    (_K.CONTEXT_TOO_LARGE, (r"KV cache .{0,200}(exceeds|not enough|cannot be allocated)",)),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"\[GPU\] .{0,200}(out of|exceeds? .{0,80}) ?(device )?memory",
            r"Exceeded max size of memory (object )?allocation",
            r"out of GPU resources",
            r"CL_MEM_OBJECT_ALLOCATION_FAILURE",
            r"clCreateBuffer.{0,200}-(4|61)\b",
        ),
    ),
    (_K.OUT_OF_MEMORY, (r"std::bad_alloc", r"cannot allocate memory")),
    (_K.BACKEND_CRASH, (r"\[GPU\] .{0,200}CL_\w+ error", r"ProgramBuilder build failed", r"clFlush, error code")),
    (_K.BAD_FLAG, (r"Option not found: ", r"Wrong value .{0,200} for property key")),
)

READER = FailureReader(name="OpenVINO GenAI", means=RemedyOptions(cache_type="q8_0"), clues=_CLUES)
