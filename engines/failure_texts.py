"""What is said about each cause, whichever engine it was: a sentence and a next step. `{engine}` is its name."""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from engines.api import FailureKind

_K = FailureKind


class FailureText(msgspec.Struct, frozen=True):
    """A sentence that names a cause, and what to do about it."""

    sentence: str
    hint: str


FAILURE_TEXTS: Mapping[FailureKind, FailureText] = MappingProxyType(
    {
        _K.PORT_IN_USE: FailureText(
            "Another program took the port that {engine} was going to use.",
            "Load the model again: a new port is chosen each time.",
        ),
        _K.OUT_OF_GPU_MEMORY: FailureText(
            "The graphics card has too little free memory for this model.",
            "Close programs that use the card, choose a smaller quantisation or context, or put fewer layers on the "
            "GPU where the engine can.",
        ),
        _K.OUT_OF_MEMORY: FailureText(
            "There was not enough memory to load this model.",
            "Close other programs, choose a smaller quantisation, or load it with a smaller context.",
        ),
        _K.CONTEXT_TOO_LARGE: FailureText(
            "The model fits in memory, but not with a context this large.",
            "Choose a smaller context, fewer requests at once, or a quantised KV cache (q8_0).",
        ),
        _K.MODEL_CORRUPT: FailureText(
            "The model's files are damaged or incomplete.",
            "Download it again; an interrupted download is the usual cause.",
        ),
        _K.MODEL_UNSUPPORTED: FailureText(
            "This version of {engine} does not support this kind of model.",
            "Update {engine}, or choose another model or another engine.",
        ),
        _K.MODEL_NOT_FOUND: FailureText(
            "The model is missing, is incomplete, or cannot be read.",
            "Restore it, download it again, or choose another model.",
        ),
        _K.BAD_TEMPLATE: FailureText(
            "The model's chat template has an error that {engine} cannot handle.",
            "Look for a newer upload of this model.",
        ),
        _K.AUTH: FailureText(
            "The model's publisher gives it only to people who requested access.",
            "Accept the conditions on the model's page and set your access token, then download it.",
        ),
        _K.REMOTE_CODE: FailureText(
            "This model contains its own program code, and {engine} needs your permission to run it.",
            "Allow it only if you trust the publisher as you would trust the publisher of a program; otherwise "
            "choose another model.",
        ),
        _K.OFFLINE: FailureText(
            "{engine} tried to download something, but engines are started without access to model sites.",
            "Download the whole model first: a file it refers to is missing.",
        ),
        _K.DISK_FULL: FailureText(
            "There is no space left on the disk.",
            "Free some space: remove models or engine versions that are not needed.",
        ),
        _K.SHARED_MEMORY: FailureText(
            "{engine} has too little shared memory: /dev/shm is full.",
            "Make it larger with `sudo mount -o remount,size=8G /dev/shm`, or start the container with --shm-size=8g.",
        ),
        _K.DRIVER: FailureText(
            "{engine} found no device it can use: the driver is missing or too old, or the device is.",
            "Update the graphics driver and restart the computer, or choose an engine that runs on the processor.",
        ),
        _K.ILLEGAL_INSTRUCTION: FailureText(
            "This processor lacks an instruction that {engine} was built to use (AVX2 on PCs, as a rule).",
            "A build of {engine} for this processor is needed.",
        ),
        _K.MISSING_LIBRARY: FailureText(
            "A library that {engine} needs is missing or cannot be loaded.",
            "Install the engine again; on Windows also the Microsoft Visual C++ runtime.",
        ),
        _K.BAD_FLAG: FailureText(
            "{engine} did not accept the options it was started with.",
            "Reset the model's options. If that does not help, the log shows which one it was.",
        ),
        _K.OUTDATED: FailureText(
            "This version of {engine} has published security holes, so it is not started.",
            "Update the engine. `roundhouse settings engine.allow_outdated true` starts it all the same.",
        ),
        _K.BACKEND_CRASH: FailureText(
            "{engine} stopped because a calculation on the device failed.",
            "Load the model again; if it happens again, update the driver or put fewer layers on the GPU.",
        ),
        _K.NOT_INSTALLED: FailureText(
            "{engine} is not installed.", "Install it: `roundhouse engines` lists what there is."
        ),
        _K.STALLED: FailureText(
            "{engine} was stuck and stopped itself.",
            "Load the model again; with several graphics cards, check that they can reach each other.",
        ),
        _K.UNRESPONSIVE: FailureText(
            "{engine} answered nothing any more and was stopped.",
            "Send the request again; if only this request does it, make it shorter or leave out its grammar.",
        ),
        _K.TOO_SLOW: FailureText(
            "Loading took longer than allowed.",
            "Choose a smaller model, or keep the file on a faster disk.",
        ),
        _K.KILLED: FailureText(
            "{engine} was stopped from outside, most often because the system ran out of memory.",
            "Close other programs, or choose a smaller model or context.",
        ),
        _K.CRASHED: FailureText(
            "{engine} crashed.",
            "Load the model again. If it happens only with this model, its file may be damaged.",
        ),
        _K.LOST_PARENT: FailureText(
            "{engine} stopped because Roundhouse's service ended.",
            "Load the model again.",
        ),
        _K.UNREACHABLE: FailureText(
            "{engine} does not answer.",
            "Check that it is running and can be reached from this computer.",
        ),
        _K.UNKNOWN: FailureText(
            "{engine} stopped without saying why.",
            "The last lines of its log may say more.",
        ),
    }
)

_SPECIFIC_TEXTS: tuple[tuple[FailureKind, re.Pattern[str], FailureText], ...] = tuple(
    (kind, re.compile(line, re.IGNORECASE), text)
    for kind, line, text in (
        (
            _K.CONTEXT_TOO_LARGE,
            r"is greater than the derived",
            FailureText("The model was not made for a context this large.", "Choose a smaller context."),
        ),
        (
            _K.MODEL_UNSUPPORTED,
            r"supported in vllm until|not supported in-tree",
            FailureText(
                "This version of {engine} no longer runs this kind of model; older versions did.",
                "Choose another model, another engine or an older version of {engine}.",
            ),
        ),
        (
            _K.MODEL_UNSUPPORTED,
            r"not supported for quantization method",
            FailureText(
                "{engine} does not support this quantisation in the model's own number type.",
                "Add the extra argument --dtype=float16, or choose another quantisation.",
            ),
        ),
        (
            _K.MODEL_UNSUPPORTED,
            r"not supported for the current gpu",
            FailureText(
                "The graphics card is too old for this model's quantisation.",
                "Choose another quantisation of the model, or another engine.",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"c\+\+ compiler|c\+\+: not found",
            FailureText(
                "{engine} compiles its kernels for this computer when it first starts, and there is no C++ compiler.",
                "Install one (Debian, Ubuntu: `sudo apt install g++`; Fedora: `sudo dnf install gcc-c++`).",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"unsupported gnu version",
            FailureText(
                "{engine} compiles for this computer, and the installed C++ compiler is too new for CUDA's compiler.",
                "Make an older one the system's `c++`; the log names the newest supported one.",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"c compiler|fatal error: |include file|cannot find -l",
            FailureText(
                "{engine} compiles for this computer, and the compiler or what it needs is missing.",
                "Install a C compiler and Python's headers (Debian, Ubuntu: `sudo apt install gcc python3-dev`).",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"kernels could not be compiled",
            FailureText(
                "{engine} could not compile its kernels for this computer.",
                "The log has the compiler's messages. Install the engine again, or use another engine.",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"(GLIBC(XX)?|CXXABI|GCC)_[\d.]+' not found",
            FailureText(
                "This system is older than those that {engine} was built for.",
                "Update the system, or use a build of {engine} for older ones.",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"no package metadata was found for|packagenotfounderror",
            FailureText(
                "{engine} asks for a package that its environment does not list.",
                "It was installed under another name, or a part of it was removed; the log names the one it looks for.",
            ),
        ),
        (
            _K.MISSING_LIBRARY,
            r"required flash attention",
            FailureText(
                "{engine} needs Flash Attention 2.5.7 or later, which is missing.",
                "Install the engine again; it takes an NVIDIA card of the Ampere generation or newer.",
            ),
        ),
        (
            _K.MODEL_UNSUPPORTED,
            r"GGML_ASSERT\(",
            FailureText(
                "{engine} stopped because parts of the model or of its projector do not fit together.",
                "Download the model and its projector again, both from one publisher; or update the engine.",
            ),
        ),
        (
            _K.BAD_FLAG,
            r"to use speculation|draft vocabs|same vocabulary size",
            FailureText(
                "The draft model does not match this model: their vocabularies differ.",
                "Choose a draft of the same family, or load without one.",
            ),
        ),
    )
)


def find_specific_text(kind: FailureKind, line: str) -> FailureText | None:
    """Return what is said where the line that gave a cause away tells more than the cause alone."""
    return next(
        (text for text_kind, pattern, text in _SPECIFIC_TEXTS if text_kind is kind and pattern.search(line)), None
    )
