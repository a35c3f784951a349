"""Which log lines name a cause: what drivers, loaders, Python, PyTorch and the Hugging Face packages write.

Shared by all engines; each adds its own clues before these. One regular expression per text, case does not matter, and
the first kind that fits counts.
"""

import re
from collections.abc import Sequence

from engines.api import FailureKind

_K = FailureKind

Clue = tuple[FailureKind, re.Pattern[str]]


def compile_clues(*rows: tuple[FailureKind, Sequence[str]]) -> tuple[Clue, ...]:
    """Compile rows of a kind and what gives it away."""
    return tuple((kind, re.compile("|".join(texts), re.IGNORECASE)) for kind, texts in rows)


GENERIC = compile_clues(
    (
        _K.PORT_IN_USE,
        (
            r"address already in use",
            r"errno (48|98|10048)\b",
            r"only one usage of each socket address",
            r"couldn't bind HTTP server socket",
            r"failed to bind",
            r"port (\d+ )?is (already|currently) in use",
            r"port at \d+ is not available in \d+ seconds",
        ),
    ),
    (
        _K.OUT_OF_MEMORY,
        (
            r"oom-kill:",
            r"out of memory: killed process",
            r"oom_reaper",
            r"killed by the oom killer",
        ),
    ),
    (
        _K.OUT_OF_GPU_MEMORY,
        (
            r"(cuda|hip|nvml|xpu|vram)\S{0,40}\s?.{0,60}out of memory",
            r"out of memory on device",
            r"(cuda|hip)Malloc failed",
            r"out_?of_?device_?memory",
            r"torch\.(cuda\.)?outofmemoryerror",
            r"CUBLAS_STATUS_ALLOC_FAILED",
            r"insufficient vram",
            r"\[metal\].{0,200}insufficient memory",
            r"kIOGPUCommandBufferCallbackErrorOutOfMemory",
            r"CL_OUT_OF_RESOURCES",
            r"maximum allowed buffer size",
            r"\[metal::malloc\]",
        ),
    ),
    (
        _K.OUT_OF_MEMORY,
        (
            r"std::bad_alloc",
            r"\bMemoryError\b",
            r"cannot allocate memory",
            r"resource temporarily unavailable",
            r"defaultcpuallocator: (can't|not enough)",
            r"out_?of_?host_?memory",
            r"unable to mmap",
            r"paging file is too small",
            r"\[malloc(_or_wait)?\] unable to allocate",
        ),
    ),
    (
        _K.SHARED_MEMORY,
        (
            r"shared memory .{0,200}no space left",
            r"\bdev/shm.{0,200}no space left",
            r"insufficient shared memory",
        ),
    ),
    (
        _K.DISK_FULL,
        (
            r"no space left on device",
            r"disk quota exceeded",
            r"not enough (free )?(disk )?space",
            r"os error 112\b",
        ),
    ),
    (
        _K.AUTH,
        (
            r"gated repo",
            r"\b401 client error",
            r"access to (model|repository) .{0,200} is restricted",
            r"\binvalid user token",
            r"you (must|need to) (have access|be authenticated|log in)",
            r"\b403 (client error|forbidden)",
        ),
    ),
    (
        _K.OFFLINE,
        (
            r"offline mode is enabled",
            r"hf_hub_offline",
            r"name resolution",
            r"failed to resolve",
            r"nodename nor servname",
            r"(couldn't|can't|cannot) connect to",
            r"max retries exceeded",
            r"network is unreachable",
            r"localentrynotfound",
        ),
    ),
    (
        _K.REMOTE_CODE,
        (
            r"requires you to execute the \w+ file",
            r"contains custom code",
            r"auto_map.{0,200}trust_remote_code",
            r"(set|pass|setting|use|using|enable|option) (the )?[`'\"]?(--)?trust[_-]remote[_-]code",
        ),
    ),
    (
        _K.MODEL_UNSUPPORTED,
        (
            r"does not recognize this architecture",
            r"are not supported for now",
            r"model type .{0,200} not supported",
            r"unknown (model )?architecture",
            r"unknown quantization method",
            r"quantization method .{0,200} not supported",
            r"no module named '\S*\.models\.",
            r"unsupported (model )?architecture",
            r"unsupported model type",
            r"tokenizer class \S+ does not exist or is not currently imported",
        ),
    ),
    (
        _K.MODEL_CORRUPT,
        (
            r"invalid ?header",
            r"unexpected (eof|end of file)",
            r"corrupt(ed)?\b.{0,200}(file|model|weights)",
            r"checksum mismatch",
            r"(model|file|weights)\b.{0,200}\b(is|are) corrupt",
            r"pytorchstreamreader failed",
            r"protobuf parsing failed",
            r"unable to read \d+ bytes from file",
            r"safetensor\w{0,40}error",
            r"incompletemetadata",
            r"metadataincompletebuffer",
            r"header ?too ?(large|small)",
            r"is not a valid json file",
            r"jsondecodeerror",
            r"size mismatch for \S+: copying a param",
            r"(missing|received) \d+ parameters",
            r"weights? .{0,200} not (initialized|found) (from|in) checkpoint",
        ),
    ),
    (
        _K.DRIVER,
        (
            r"no cuda(-capable device| gpus? are available| device)",
            r"failed to infer device type",
            r"torch not compiled with cuda",
            r"no kernel image is available",
            r"hiperrornobinaryforgpu",
            r"errorincompatibledriver",
            r"forward compatibility was attempted",
            r"requires (a )?(gpu|device) with compute capability",
            r"compute capability .{0,200}(at least|or (higher|newer))",
            r"driver version is insufficient",
            r"no device code compatible with",
            r"provided ptx was compiled with",
            r"device kernel image is invalid",
            r"unsupported display driver",
            r"system not yet initialized",
            r"nvidia driver on your system is too old",
            r"found no nvidia driver",
            r"libcuda\.so",
            r"libopencl\.so",
            r"libnvidia-ml",
            r"nvcuda\.dll",
            r"libamdhip64",
            r"driver/library version mismatch",
            r"no (hip|rocm|xpu|metal) (gpus?|devices?) (are|is|were)? ?(available|found)",
            r"0 active drivers",
        ),
    ),
    (
        _K.ILLEGAL_INSTRUCTION,
        (
            r"illegal instruction",
            r"sigill\b",
            r"0xc000001d",
            r"(does|cpu).{0,20} not support (avx|amx|fma)",
        ),
    ),
    (
        _K.MISSING_LIBRARY,
        (
            r"cannot open shared object",
            r"error while loading shared libraries",
            r"dll load failed",
            r"wrong elf class",
            r"modulenotfounderror",
            r"importerror",
            r"could not find (nvcc|clang|cl\.exe)",
            r"cuda_home env\w* variable",
            r"library not loaded",
            r"symbol lookup error",
            r"undefined symbol",
            r"(GLIBC(XX)?|CXXABI|GCC)_[\d.]+' not found",
            r"failed to find c compiler",
            r"no working c\+\+ compiler",
            r"fatal error: \S+: no such file",
            r"fatal error: '\S+' file not found",
            r"cannot open include file",
            r"cannot find -l\w+",
            r"0xc0000135",
            r"0xc0000139",
            r"no matching distribution",
            r"ninja is required",
            r"packagenotfounderror",
        ),
    ),
    (
        _K.BAD_FLAG,
        (
            r"unrecognized arguments?",
            r"unknown argument",
            r"error: invalid argument",
            r"no such option",
            r"unexpected argument",
            r"error: argument -",
            r"the following arguments are required",
            r"invalid choice:",
            r"invalid value for '-",
            r"got an unexpected keyword argument",
            r"error while handling argument",
        ),
    ),
    (
        _K.BAD_TEMPLATE,
        (
            r"jinja2\.exceptions",
            r"chat template parsing error",
            r"template(syntax|assertion|runtime)error",
        ),
    ),
    (
        _K.MODEL_NOT_FOUND,
        (
            r"repository ?not ?found",
            r"is not a local folder and is not a valid",
            r"repo id must be in the form",  # a folder that is not there is taken for a name on the hub
            r"revisionnotfound",
            r"\b404 client",
            r"filenotfounderror",
            r"(?<!\.[chs]: )(?<!\.cc: )(?<!\.cpp: )no such file or directory",  # sources: in traces
            r"permission ?(error|denied)",
            r"path .{0,400} does not exist",
            r"could not find a model",
            r"does not appear to have (a file|files) named",
            r"entrynotfounderror",
        ),
    ),
    (
        _K.STALLED,
        (
            r"watchdog (caught|timeout)",
            r"collective operation timeout",
        ),
    ),
    (
        _K.BACKEND_CRASH,
        (
            r"cuda error",
            r"illegal memory access",
            r"device-side assert",
            r"nccl (error|warn)",
            r"nccl\w{0,40}error",
            r"gloo/transport.{0,99} connection closed by peer",
            r"ggml_assert\(",
            r"(rocm|hip|vulkan|metal|opencl|sycl|xpu) error",
            r"errordevicelost",
            r"hsa_status_error",
            r"cudnn_status",
            r"kIOGPUCommandBufferCallbackError",
        ),
    ),
    (
        _K.CRASHED,
        (
            r"segmentation fault",
            r"sigsegv",
            r"core dumped",
            r"fatal python error",
            r"exit ?code:? ?-(6|7|11)\b",
        ),
    ),
    (
        _K.KILLED,
        (
            r"\bsigkill\b",
            r"signal: killed",
            r"exit ?code:? ?-9\b",
        ),
    ),
)

_HARMLESS = (
    r"^(\d+\.\d+\.\d+\.\d+ )?[WIDT] ",  # llama.cpp
    r"^warning: failed to mlock",  # and its builds that write no level
    r"^(\([^)]*\)\s*)?\[?(INFO|DEBUG|WARNING)\b",  # vLLM, and Python's own default
    r"[\s\]]- (INFO|DEBUG|WARNING) -",  # mlx-lm, LMDeploy
    r"\[TRT-LLM\] \[[IWV]\]",
    r"^\[[\d :,.-]+( (TP|DP|PP)\d+)*\] (WARNING|INFO|server_args=)",  # SGLang
    r"(?<!NCCL)\s(INFO|WARN|DEBUG|TRACE)\s+\S+: ",  # Rust programs: Dynamo, TGI
    r"(Future|User|Deprecation|Runtime)Warning:",
    r"^Failed to import from vllm\._C\w*: ModuleNotFoundError",  # vLLM, for a platform its wheel is not for
    r"^warning: (\S{0,200}gdbinit|opening /proc/)",  # gdb, which ggml starts for a trace; it may do little
    r"^\d{1,7}\s\S{1,300}: No such file or directory\.$",  # its sources, which nobody has here
    r"\b401 Client Error.{0,200}/freeze_gc\b",  # SGLang asks itself without our key, and goes on
    r"\bretrying (without|with|in)\b",  # llama.cpp does without what it could not allocate
)
HARMLESS = re.compile("|".join(_HARMLESS))
"""Lines of a level that ends nothing: they mention causes without being one, e.g. when they print their settings."""
