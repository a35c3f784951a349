"""Why llama.cpp ended: what its own lines mean, checked against recorded runs of the pinned build, and own words."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.failure_texts import FailureText
from engines.failures import FailureReader, SurvivableClue
from engines.remedies import RemedyOptions

_K = FailureKind

_CLUES = compile_clues(
    (_K.PORT_IN_USE, (r"couldn't bind HTTP server socket",)),
    (_K.OUT_OF_GPU_MEMORY, (r"(cuda|hip)Malloc failed", r"ErrorOutOfDeviceMemory", r"CUDA.*out of memory")),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"kIOGPUCommandBufferCallbackErrorOutOfMemory",
            r"(failed|unable) to allocate (CUDA|ROCm|MUSA|Vulkan|SYCL|MTL|Metal|OpenCL|GPUOpenCL|CANN)(?!_Host)",
            r"ggml_metal\S*: error: failed to allocate buffer",
        ),
    ),
    (_K.CONTEXT_TOO_LARGE, (r"failed to allocate buffer for (kv|rs) cache", r"failed to allocate compute")),
    (_K.OUT_OF_MEMORY, (r"(unable|failed) to allocate .*buffer", r"insufficient memory", r"std::bad_alloc")),
    (_K.MODEL_UNSUPPORTED, (r"unknown model architecture", r"unknown (pre-)?tokenizer")),
    (_K.MODEL_UNSUPPORTED, (r"GGUF file is version \d+ but this software", r"has invalid ggml type")),
    (_K.MODEL_NOT_FOUND, (r"failed to open GGUF file", r"failed to load draft model")),
    (_K.MODEL_UNSUPPORTED, (r"failed to load clip model", r"failed to (apply|load) lora adapter")),
    (_K.MODEL_CORRUPT, (r"invalid magic", r"not within the file bounds", r"wrong number of tensors")),
    (_K.MODEL_CORRUPT, (r"(invalid|illegal) split (file|count)", r"error loading model: (read|ftell|seek) error")),
    (_K.MODEL_CORRUPT, (r"unexpectedly reached end of file",)),
    (_K.MODEL_CORRUPT, (r"gguf_init_from_\w+: (failed|invalid|encountered|duplicate|tensor)",)),
    (_K.MODEL_CORRUPT, (r"error loading model.*(tensor '.*' not found|key not found|wrong shape|hyperparameters)",)),
    (_K.BAD_TEMPLATE, (r"chat template parsing error", r"failed to initialize chat template")),
    (_K.BAD_FLAG, (r"quantized V cache requires flash_attn", r"error while handling argument", r"invalid device:")),
    (_K.BACKEND_CRASH, (r"GGML_ASSERT\(", r"ggml_(vulkan|metal)\S* error")),
)

_GOES_ON = (
    (
        (_K.OUT_OF_GPU_MEMORY, (r"retrying without pipeline parallelism",)),
        "The cards work one after another: there is not enough memory for them to work at the same time.",
    ),
    (
        (_K.DRIVER, (r"failed to initialize (CUDA|ROCm|HIP|MUSA)\b",)),
        "It computes without the graphics card, which could not be started.",
    ),
    (
        (_K.BAD_FLAG, (r"match target model to use speculation", r"target and draft vocabs are not compatible")),
        "The draft model is not used: its vocabulary differs from this model's.",
    ),
)
_SURVIVED = tuple(SurvivableClue(clue, sentence) for row, sentence in _GOES_ON for clue in compile_clues(row))

_SAID = {
    _K.MODEL_CORRUPT: FailureText(
        "The model file is damaged or incomplete.",
        "Download it again; an interrupted download is the usual cause.",
    ),
    _K.MODEL_UNSUPPORTED: FailureText(
        "This version of llama.cpp does not support this kind of model.",
        "Update Roundhouse for a newer llama.cpp, or choose another model.",
    ),
    _K.MODEL_NOT_FOUND: FailureText(
        "The model file was moved or cannot be read.",
        "Restore it, or choose another model.",
    ),
    _K.MISSING_LIBRARY: FailureText(
        "A library that llama.cpp needs is missing or cannot be loaded.",
        "Install Roundhouse again; on Windows also the Microsoft Visual C++ runtime.",
    ),
}

READER = FailureReader(
    name="llama.cpp",
    means=RemedyOptions(cache_type="q8_0", gpu_layers=True),
    clues=_CLUES,
    survived=_SURVIVED,
    said=_SAID,
)
