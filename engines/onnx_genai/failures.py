"""Why ONNX Runtime GenAI ended: what its own lines mean, recorded from the pinned version, or from its sources."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (_K.MODEL_CORRUPT, (r"Protobuf parsing failed", r"are out of bounds or can ?not be read in full", r"JSON Error: ")),
    (_K.MODEL_CORRUPT, (r"external data size mismatch",)),
    (_K.MODEL_NOT_FOUND, (r"Error opening .{0,400}genai_config\.json", r"Failed to open a json file")),
    (
        _K.MODEL_NOT_FOUND,
        (r"External data path does not exist", r"Load model from (?>.{0,400}? failed:).{0,200}doesn't exist"),
    ),
    (_K.MODEL_UNSUPPORTED, (r"Unsupported model_type", r"is not a registered function/op", r"Unknown model type")),
    (_K.MODEL_UNSUPPORTED, (r"does not say the model's context_length", r"Unsupported model IR version")),
    (_K.MODEL_UNSUPPORTED, (r"Opset \d+ is under development",)),
    (
        _K.DRIVER,
        (
            r"Cuda interface not available",
            r"execution provider is not (supported in this build|used)",
            r"has not been built with \w+ support",
            r"Unknown provider name",
            r"CUDA failure \d+: no CUDA-capable device",
        ),
    ),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"CUDA failure 2: out of memory",
            r"BFCArena::AllocateRawInternal.{0,99}cuda",
            r"887A0005",
        ),
    ),
    (_K.OUT_OF_MEMORY, (r"std::bad_alloc", r"bad allocation", r"BFCArena::AllocateRawInternal")),
    (
        _K.OUT_OF_MEMORY,
        (r"Failed to allocate memory for requested buffer", r"Available memory of \d+ is smaller than requested"),
    ),
    (_K.BACKEND_CRASH, (r"CUDA failure \d+", r"CUDNN failure", r"Non-zero status code returned while running")),
)

READER = FailureReader(name="ONNX Runtime GenAI", means=RemedyOptions(slots=True), clues=_CLUES)
