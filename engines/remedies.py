"""What may help against each kind of end, and by how much: the figures an engine named, turned into options that fit.

Pure: a remedy with options is a load that can be tried; one without is something only a person can do.
"""

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from engines.api import FailureKind, LaunchOptions, Remedy, RemedyKind

_K = FailureKind
_R = RemedyKind

SMALLEST_CONTEXT = 1024
"""Below this a context is hardly of use: a remedy that offers less is none."""
_STEP = 256
"""Contexts are offered in multiples of what engines page their cache by."""
_LEAST_SHARE = 0.1
_HOST_SHARE = 0.5
"""Share of the memory free now that is offered where it is the computer's own: all other programs live in it too."""
_SPARE = 0.02
"""Share of GPU memory left free beside what is free now: a display takes a little more at any time."""


class RemedyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which options of this engine can make it need less. `cache_type` is its smaller KV cache, empty for none."""

    context: bool = True
    slots: bool = True
    cache_type: str = ""
    gpu_layers: bool = False
    gpu_share: bool = False


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine said about memory. Sizes in bytes; zero where it said nothing."""

    request_bytes: int = 0
    free: int = 0
    total: int = 0
    context: int = 0
    """The longest it says would fit."""
    is_host: bool = False
    """Whether the computer's own memory was short, not a device's."""

    def describe_figures(self) -> str:
        """Return a sentence with the figures, to follow the first; empty without any."""
        if self.request_bytes and self.free:
            return f" It requested {_size(self.request_bytes)}, but {_size(self.free)} were free."
        if self.request_bytes:
            return f" It requested {_size(self.request_bytes)} more than there was."
        return f" {_size(self.free)} were free." if self.free else ""


_MIB, _GIB = 1 << 20, 1 << 30
_UNITS = {"": 1, "b": 1, "bytes": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_N = r"([\d.,]+) ?(bytes|[kmgt]?i?b?)\b"

_WANTED = (
    re.compile(rf"tried to allocate {_N}", re.IGNORECASE),
    re.compile(rf"allocating {_N} on device", re.IGNORECASE),
    re.compile(rf"failed to allocate .{{0,60}}of size {_N}", re.IGNORECASE),
    re.compile(rf"\({_N} KV cache is needed", re.IGNORECASE),
    re.compile(rf"less than .{{0,99}} \([\d.]+, {_N}\)", re.IGNORECASE),
    re.compile(rf"(?:requested|required) {_N}, (?:but max alloc|already occupied)", re.IGNORECASE),
    re.compile(rf"\[malloc(?:_or_wait)?\] unable to allocate {_N}", re.IGNORECASE),
    re.compile(rf"attempting to allocate {_N} which is greater", re.IGNORECASE),
    re.compile(rf"you tried to allocate {_N}", re.IGNORECASE),
)
_FREE = (
    re.compile(rf"of which {_N} is free", re.IGNORECASE),
    re.compile(rf"available KV cache memory \({_N}\)", re.IGNORECASE),
)
_SHARE = re.compile(
    r"(?:Free memory on device|Available memory on (?P<node>node)) \S* ?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)",
    re.IGNORECASE,
)
_LONGEST = re.compile(
    r"(?:estimated maximum model length is |max(?:imum)? (?:context|seq) len\w* that fits is "
    r"|greater than the derived \w+ \((?:max_position_embeddings=)?)([\d,]+)"
)


def shortage_of(lines: Sequence[str]) -> Shortage:
    """Read the figures out of lines, the most telling first."""
    share = _search(_SHARE, lines)
    longest = _search(_LONGEST, lines)
    return Shortage(
        request_bytes=_bytes(_WANTED, lines),
        free=round(float(share["free"]) * _GIB) if share else _bytes(_FREE, lines),
        total=round(float(share["total"]) * _GIB) if share else 0,
        is_host=bool(share and share["node"]),
        context=int(longest[1].replace(",", "")) if longest else 0,
    )


def list_remedies(
    kind: FailureKind, options: LaunchOptions, shortage: Shortage, means: RemedyOptions
) -> tuple[Remedy, ...]:
    """Return what may help, most promising first. Those with options fit what it ran with."""
    return (*_loads(kind, options, shortage, means), *_BY_HAND.get(kind, ()))


def _loads(kind: FailureKind, options: LaunchOptions, shortage: Shortage, means: RemedyOptions) -> Iterator[Remedy]:
    for offer in _OFFERS.get(kind, ()):
        remedy = offer(options, shortage, means)
        if remedy is not None:
            yield remedy


def _less_context(options: LaunchOptions, shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    current = options.context or 0
    fits = shortage.context or current // 2
    fits -= fits % _STEP
    if not means.context or fits < SMALLEST_CONTEXT or (current and fits >= current):
        return None
    return Remedy(kind=_R.LESS_CONTEXT, label=f"Load with a context of {fits:,} tokens", options={"context": fits})


def _fewer_slots(options: LaunchOptions, _shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    if not means.slots or options.slots == 1:
        return None
    return Remedy(kind=_R.FEWER_SLOTS, label="Load for one request at a time", options={"slots": 1})


def _smaller_cache(options: LaunchOptions, _shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    if not means.cache_type or options.kv_type not in {None, "f16", "f32", "bf16"}:
        return None
    label = f"Load with a KV cache in {means.cache_type}"
    return Remedy(kind=_R.SMALLER_CACHE, label=label, options={"kv_type": means.cache_type})


def _fewer_layers(options: LaunchOptions, _shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    if not means.gpu_layers or options.gpu_layers == 0:
        return None
    layers = (options.gpu_layers or 0) // 2
    label = f"Load with {layers} layers on the GPU" if layers else "Load on the processor only"
    return Remedy(kind=_R.FEWER_LAYERS, label=label, options={"gpu_layers": layers})


def _less_gpu_memory(options: LaunchOptions, shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    if not means.gpu_share or not shortage.total:
        return None
    free = shortage.free / shortage.total
    share = int((free * _HOST_SHARE if shortage.is_host else free - _SPARE) * 100) / 100
    if share < _LEAST_SHARE or share >= (options.gpu_memory_fraction or 1.0):
        return None
    label = f"Load with {share:.0%} of the {'computer' if shortage.is_host else 'GPU'}'s memory"
    return Remedy(kind=_R.LESS_GPU_MEMORY, label=label, options={"gpu_memory_fraction": share})


def _less_host_memory(options: LaunchOptions, shortage: Shortage, means: RemedyOptions) -> Remedy | None:
    """Return the same where an engine takes a share of the computer's own memory."""
    return _less_gpu_memory(options, shortage, means) if shortage.is_host else None


def _again(_options: LaunchOptions, _shortage: Shortage, _means: RemedyOptions) -> Remedy:
    return Remedy(kind=_R.LOAD_AGAIN, label="Load again")


Offer = Callable[[LaunchOptions, Shortage, RemedyOptions], Remedy | None]

_OFFERS: dict[FailureKind, tuple[Offer, ...]] = {
    _K.CONTEXT_TOO_LARGE: (_less_context, _fewer_slots, _smaller_cache),
    _K.OUT_OF_MEMORY: (_less_host_memory, _fewer_slots, _smaller_cache, _less_context),
    _K.OUT_OF_GPU_MEMORY: (_less_gpu_memory, _fewer_layers, _fewer_slots, _smaller_cache, _less_context),
    _K.KILLED: (_less_context, _again),
    _K.BACKEND_CRASH: (_fewer_layers, _again),
    _K.PORT_IN_USE: (_again,),
    _K.CRASHED: (_again,),
    _K.LOST_PARENT: (_again,),
    _K.STALLED: (_again,),
    _K.UNRESPONSIVE: (_again,),
    _K.TOO_SLOW: (_again,),
    _K.UNKNOWN: (_again,),
}

_SMALLER = Remedy(kind=_R.SMALLER_MODEL, label="Choose a smaller model")
_OTHER = Remedy(kind=_R.OTHER_MODEL, label="Choose another model")
_DOWNLOAD = Remedy(kind=_R.DOWNLOAD_AGAIN, label="Download again")
_RUNTIME = Remedy(kind=_R.OTHER_RUNTIME, label="Use another engine")
_FREE_MEMORY = Remedy(kind=_R.FREE_MEMORY, label="Unload other models")
_INSTALL = Remedy(kind=_R.INSTALL_AGAIN, label="Install the engine again")
_UPDATE = Remedy(kind=_R.UPDATE_ENGINE, label="Update the engine")

_BY_HAND: dict[FailureKind, tuple[Remedy, ...]] = {
    _K.CONTEXT_TOO_LARGE: (_FREE_MEMORY,),
    _K.OUT_OF_MEMORY: (_FREE_MEMORY, _SMALLER),
    _K.OUT_OF_GPU_MEMORY: (_FREE_MEMORY, _SMALLER, _RUNTIME),
    _K.KILLED: (_FREE_MEMORY, _SMALLER),
    _K.MODEL_CORRUPT: (_DOWNLOAD, _OTHER),
    _K.MODEL_NOT_FOUND: (_DOWNLOAD, _OTHER),
    _K.MODEL_UNSUPPORTED: (_UPDATE, _RUNTIME, _OTHER),
    _K.BAD_TEMPLATE: (_DOWNLOAD, _OTHER),
    _K.AUTH: (Remedy(kind=_R.SIGN_IN, label="Set an access token"), _OTHER),
    _K.REMOTE_CODE: (Remedy(kind=_R.ALLOW_CODE, label="Allow this model's code"), _OTHER),
    _K.OFFLINE: (_DOWNLOAD,),
    _K.SHARED_MEMORY: (_RUNTIME,),
    _K.DISK_FULL: (Remedy(kind=_R.FREE_DISK, label="Remove models or engines"),),
    _K.DRIVER: (Remedy(kind=_R.UPDATE_DRIVER, label="Update the graphics driver"), _RUNTIME),
    _K.ILLEGAL_INSTRUCTION: (_RUNTIME,),
    _K.MISSING_LIBRARY: (_INSTALL, _RUNTIME),
    _K.OUTDATED: (_UPDATE,),
    _K.NOT_INSTALLED: (_INSTALL,),
    _K.BAD_FLAG: (Remedy(kind=_R.RESET_OPTIONS, label="Reset the model's options"), _UPDATE),
    _K.TOO_SLOW: (_SMALLER,),
}


def _search(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((match for line in lines if (match := pattern.search(line))), None)


def _bytes(patterns: Sequence[re.Pattern[str]], lines: Sequence[str]) -> int:
    for line in lines:
        for pattern in patterns:
            match = pattern.search(line)
            if match:
                return _parse_bytes(match[1], match[2])
    return 0


def _parse_bytes(number: str, unit: str) -> int:
    try:
        value = float(number.strip(",.").replace(",", ""))
    except ValueError:
        return 0
    return round(value * _UNITS.get(unit.lower(), _UNITS.get(unit.lower()[:1], 1)))


def _size(count: int) -> str:
    """Return e.g. "1.5 GiB", as the rest of the product writes memory."""
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.0f} MiB"
