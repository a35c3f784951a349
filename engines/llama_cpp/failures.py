"""Why llama.cpp ended, said for a person: a sentence and a next step for every cause, as data."""

from engines.api import Exit, Failure, FailureKind
from engines.worker_base import ExitCode

_K = FailureKind

_SAID: dict[FailureKind, tuple[str, str]] = {
    _K.PORT_IN_USE: (
        "Another program took the port llama.cpp was to listen on.",
        "Load the model again: a new port is chosen each time.",
    ),
    _K.OUT_OF_GPU_MEMORY: (
        "The graphics card has too little free memory for this model.",
        "Close programs that use the card, choose a smaller quantisation, or put fewer layers on the GPU.",
    ),
    _K.OUT_OF_MEMORY: (
        "There was not enough memory to load this model.",
        "Close other programs, choose a smaller quantisation, or load it with a smaller context.",
    ),
    _K.CONTEXT_TOO_LARGE: (
        "The model fits in memory, but not with a context this large.",
        "Choose a smaller context, fewer requests at once, or a quantised KV cache (q8_0).",
    ),
    _K.MODEL_CORRUPT: (
        "The model file is damaged or incomplete.",
        "Download it again; an interrupted download is the usual cause.",
    ),
    _K.MODEL_UNSUPPORTED: (
        "This llama.cpp does not know this kind of model.",
        "Update Roundhouse for a newer llama.cpp, or choose another model.",
    ),
    _K.MODEL_NOT_FOUND: (
        "The model file is no longer where it was, or may not be read.",
        "Put it back or choose another model.",
    ),
    _K.BAD_TEMPLATE: (
        "The model's chat template has a mistake that llama.cpp cannot get past.",
        "Look for a newer upload of this model.",
    ),
    _K.ILLEGAL_INSTRUCTION: (
        "This processor lacks an instruction that llama.cpp was built to use (AVX2 on PCs).",
        "It takes a llama.cpp built for this processor.",
    ),
    _K.MISSING_LIBRARY: (
        "A library that llama.cpp needs is missing or cannot be loaded.",
        "Install Roundhouse again; on Windows also the Microsoft Visual C++ runtime.",
    ),
    _K.BAD_FLAG: (
        "llama.cpp did not accept the options it was started with.",
        "Reset the model's options. If that does not help, the log shows which one it was.",
    ),
    _K.BACKEND_CRASH: (
        "llama.cpp stopped because a calculation on the device failed.",
        "Load the model again; if it happens again, update the driver or put fewer layers on the GPU.",
    ),
    _K.KILLED: (
        "llama.cpp was ended from outside, most often because the system ran out of memory.",
        "Close other programs, or choose a smaller model or context.",
    ),
    _K.CRASHED: (
        "llama.cpp crashed.",
        "Load the model again. If it happens with this model only, its file may be damaged.",
    ),
    _K.LOST_PARENT: (
        "llama.cpp ended because Roundhouse's gateway went away.",
        "Load the model again.",
    ),
    _K.UNKNOWN: (
        "llama.cpp ended and did not say why.",
        "The last lines of its log may tell more.",
    ),
}

_RETRY: dict[FailureKind, dict[str, int | str]] = {
    _K.CONTEXT_TOO_LARGE: {"slots": 1, "kv_type": "q8_0"},
    _K.OUT_OF_MEMORY: {"slots": 1, "kv_type": "q8_0"},
    _K.OUT_OF_GPU_MEMORY: {"gpu_layers": 0},
}

_ALLOCATIONS = frozenset({_K.OUT_OF_MEMORY, _K.OUT_OF_GPU_MEMORY})

_CERTAIN: dict[int, FailureKind] = {
    ExitCode.LOST_PARENT: _K.LOST_PARENT,
    ExitCode.BAD_CONFIG: _K.BAD_FLAG,
    ExitCode.MISSING_PACKAGE: _K.MISSING_LIBRARY,
    -9: _K.KILLED,
    -4: _K.ILLEGAL_INSTRUCTION,
    0xC000001D: _K.ILLEGAL_INSTRUCTION,
    0xC0000135: _K.MISSING_LIBRARY,
    0xC0000139: _K.MISSING_LIBRARY,
}
"""Exit codes that settle the matter whatever the log says (negative: POSIX signals; 0xC...: Windows NTSTATUS)."""

_CRASHES = frozenset({-11, -7, -10, -6, -8, 0xC0000005, 0xC0000409, 0xC00000FD})
"""SIGSEGV, SIGBUS (Linux, macOS), SIGABRT, SIGFPE; access violation, fail-fast, stack overflow."""
_TERMINATED = frozenset({-15, -2, -1})
"""SIGTERM, SIGINT, SIGHUP that the supervisor did not send."""


def classify(end: Exit) -> Failure:
    """Name the cause: a certain exit code, else the first suspicion, else what the code suggests."""
    kind = _kind(end)
    sentence, hint = _SAID.get(kind, _SAID[_K.UNKNOWN])
    return Failure(kind=kind, sentence=sentence, hint=hint, retry=_RETRY.get(kind, {}))


def _kind(end: Exit) -> FailureKind:
    code = _unsigned(end.code)
    if code in _CERTAIN:
        return _CERTAIN[code]
    if end.suspicions:
        return _first(end)
    if code in _CRASHES:
        return _K.CRASHED
    return _K.KILLED if code in _TERMINATED else _K.UNKNOWN


def _first(end: Exit) -> FailureKind:
    """Return the first suspicion, but the context where llama.cpp names it after the allocation that failed."""
    kinds = [suspicion.kind for suspicion in end.suspicions]
    if kinds[0] in _ALLOCATIONS and _K.CONTEXT_TOO_LARGE in kinds:
        return _K.CONTEXT_TOO_LARGE
    return kinds[0]


def _unsigned(code: int | None) -> int:
    """Return the code, with Windows' NTSTATUS as it is written in tables: `subprocess` may give it as negative."""
    if code is None:
        return 0
    return code + 2**32 if code < -(2**16) else code
