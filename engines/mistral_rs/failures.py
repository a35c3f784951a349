"""Why mistral.rs ended: what its own lines mean, recorded from the pinned version."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (
        _K.MODEL_CORRUPT,
        (
            r"reading checkpoint tensor inventory",
            r"GGUF (array|tensor|string|file) .{0,400}(remain|outside file length|shorter than)",
            r"GGUF magic",
            r"shape mismatch for ",
            r"cannot find tensor ",
        ),
    ),
    (
        _K.MODEL_NOT_FOUND,
        (
            r"was not found in (the )?local (model directory|Hugging Face cache)",
            r"Expected file with extension one of \.safetensors",
        ),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (
            r"Unsupported Hugging Face Transformers",
            r"Unknown [\w -]{0,40}GGUF architecture",
        ),
    ),
    (_K.OUT_OF_GPU_MEMORY, (r"Metal.{0,200}(out of memory|Insufficient Memory)",)),
    (_K.OUT_OF_MEMORY, (r"memory allocation of \d+ bytes failed", r"Cannot allocate memory")),
    (_K.BACKEND_CRASH, (r"Metal error",)),
)

READER = FailureReader(name="mistral.rs", means=RemedyOptions(slots=True), clues=_CLUES)
