"""What llama.cpp's log lines mean, as data, and why it ended: checked against recorded runs of the pinned build."""

import re
from collections.abc import Callable, Sequence

import msgspec

from engines.api import BufferAllocated, ContextSet, FailureKind, LoadProgress, LogEvent
from engines.clues import compile_clues
from engines.failure_texts import FailureText
from engines.failures import FailureReader, SurvivableClue
from engines.remedies import RemedyOptions
from engines.worker_launch import read_worker_line

_K = FailureKind

_CLUES = compile_clues(
    (_K.PORT_IN_USE, (r"couldn't bind HTTP server socket",)),
    (_K.UNREACHABLE, (r"Remote RPC server crashed or returned malformed", r"failed to connect to the RPC server")),
    (
        _K.UNREACHABLE,
        (r"RPC server version mismatch", r"RPC handshake failed for", r"Failed to connect to 127\.\S{1,24}:\d"),
    ),
    (_K.OUT_OF_GPU_MEMORY, (r"(cuda|hip)Malloc failed", r"ErrorOutOfDeviceMemory", r"CUDA.{0,200}out of memory")),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"kIOGPUCommandBufferCallbackErrorOutOfMemory",
            r"(failed|unable) to allocate (CUDA|ROCm|MUSA|Vulkan|SYCL|MTL|Metal|OpenCL|GPUOpenCL|CANN)(?!_Host)",
            r"ggml_metal\S{0,80}: error: failed to allocate buffer",
        ),
    ),
    (_K.CONTEXT_TOO_LARGE, (r"failed to allocate buffer for (kv|rs) cache", r"failed to allocate compute")),
    (_K.OUT_OF_MEMORY, (r"(unable|failed) to allocate .{0,200}buffer", r"insufficient memory", r"std::bad_alloc")),
    (_K.MODEL_UNSUPPORTED, (r"unknown model architecture", r"unknown (pre-)?tokenizer")),
    (_K.MODEL_UNSUPPORTED, (r"GGUF file is version \d+ but this software", r"has invalid ggml type")),
    (_K.MODEL_NOT_FOUND, (r"failed to open GGUF file", r"failed to load draft model")),
    (_K.MODEL_UNSUPPORTED, (r"failed to load clip model", r"failed to (apply|load) lora adapter")),
    (_K.MODEL_CORRUPT, (r"invalid magic", r"not within the file bounds", r"wrong number of tensors")),
    (_K.MODEL_CORRUPT, (r"(invalid|illegal) split (file|count)", r"error loading model: (read|ftell|seek) error")),
    (_K.MODEL_CORRUPT, (r"unexpectedly reached end of file",)),
    (_K.MODEL_CORRUPT, (r"gguf_init_from_\w{1,40}: (failed|invalid|encountered|duplicate|tensor)",)),
    (
        _K.MODEL_CORRUPT,
        (r"error loading model.{0,400}(tensor '.{0,99}' not found|key not found|wrong shape|hyperparameters)",),
    ),
    (_K.BAD_TEMPLATE, (r"chat template parsing error", r"failed to initialize chat template")),
    (_K.BAD_FLAG, (r"quantized V cache requires flash_attn", r"error while handling argument", r"invalid device:")),
    (_K.MODEL_UNSUPPORTED, (r"ggml\.c:\d+: GGML_ASSERT\((ggml_(nelements|can)_?|\w->ne\[)",)),  # shapes, as it plans
    (_K.BACKEND_CRASH, (r"GGML_ASSERT\(", r"ggml_(vulkan|metal)\S{0,80} error")),
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
    _K.UNREACHABLE: FailureText(
        "A machine that held a part of the model has gone away.",
        "`roundhouse machines memory` says which answer; load the model again without it, or once it is back.",
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
    texts=_SAID,
)


MIB = 1024 * 1024

_CHILD_STATE = "cmd_child_to_router:state:"
"""How llama.cpp prefixes the JSON of its load progress."""

_STAGES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"loaded meta data with \d+ key-value pairs"), "Reading the model's description"),
    (re.compile(r"loading model tensors"), "Reading weights"),
    (re.compile(r"constructing llama_context"), "Preparing the context"),
    (re.compile(r"warming up the model"), "Warming up"),
    (re.compile(r"srv\s+init: model loaded"), "Ready"),
)

_PURPOSES = {"model": "model", "KV": "kv", "compute": "compute", "output": "output", "RS": "recurrent"}
_BUFFER = re.compile(r"\s(?P<device>\S+)\s+(?P<purpose>model|KV|compute|output|RS) buffer size =\s+(?P<mib>[\d.]+) MiB")
_CONTEXT = re.compile(r"initializing, n_slots = (?P<slots>\d+), n_ctx_slot = (?P<tokens>\d+)")


class _LoadState(msgspec.Struct):
    stages: list[str] = []
    current: str = ""
    value: float = 0.0


class _ChildState(msgspec.Struct):
    state: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")


_STAGE_NAMES = {
    "text_model": "Reading weights",
    "mmproj_model": "Reading the projector",
    "spec_model": "Reading the draft model",
}


def read_log_line(line: str) -> Sequence[LogEvent]:
    """Return what a line means; most mean nothing."""
    if line.startswith(_CHILD_STATE):
        return _read_child_state(line.removeprefix(_CHILD_STATE))
    events = read_worker_line(line)
    if events is not None:
        return events
    line = _message(line)
    return [event for event in (reader(line) for reader in _READERS) if event is not None]


class _JsonLine(msgspec.Struct):
    type: str
    level: str = ""
    msg: str = ""


def _message(line: str) -> str:
    """Return what a line of `--log-jsonl` says, as the text log puts it; any other line as it is."""
    if not line.startswith('{"type"'):
        return line
    try:
        record = msgspec.json.decode(line, type=_JsonLine)
    except msgspec.DecodeError:
        return line
    return f"{record.level[:1].upper()} {record.msg}".lstrip()


def _read_child_state(text: str) -> Sequence[LogEvent]:
    """Turn one state of llama.cpp into progress; several stages (text, projector) share the whole evenly."""
    try:
        child = msgspec.json.decode(text, type=_ChildState)
        if child.state != "loading":
            return ()
        load_state = msgspec.json.decode(child.payload, type=_LoadState)
    except msgspec.DecodeError:
        return ()
    done_stages = load_state.stages.index(load_state.current) if load_state.current in load_state.stages else 0
    fraction = min(1.0, (done_stages + max(0.0, load_state.value)) / max(1, len(load_state.stages)))
    return (LoadProgress(stage=_STAGE_NAMES.get(load_state.current, "Reading weights"), fraction=fraction),)


def _read_buffer(line: str) -> LogEvent | None:
    match = _BUFFER.search(line)
    if match is None:
        return None
    size = round(float(match["mib"]) * MIB)
    return BufferAllocated(device=match["device"], purpose=_PURPOSES[match["purpose"]], size_bytes=size)


def _read_context(line: str) -> LogEvent | None:
    match = _CONTEXT.search(line)
    return ContextSet(tokens=int(match["tokens"]), slots=int(match["slots"])) if match else None


def _read_stage(line: str) -> LogEvent | None:
    stage = next((stage for pattern, stage in _STAGES if pattern.search(line)), None)
    return LoadProgress(stage=stage) if stage else None


_READERS: tuple[Callable[[str], LogEvent | None], ...] = (_read_buffer, _read_context, _read_stage, READER.suspect)
