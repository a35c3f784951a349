"""What is asked of an engine in terms that are the same for all, and what it is asked about.

How tokens are chosen where a request does not say: part of what an engine is told at its start.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from engines.api.formats import ModelFormat

_CHOSEN = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty")


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen for a request that does not say. None leaves it to the engine."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    is_all: bool = False
    """What the model's own files say beside these does not count."""

    @property
    def explicit_values(self) -> dict[str, float | int]:
        """What is said, by our names."""
        values_by_name = ((name, getattr(self, name)) for name in _CHOSEN)
        return {name: value for name, value in values_by_name if value is not None}


class EngineLocation(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine store put one version: `python` is its environment's, `executable` its program."""

    folder: Path
    version: str
    """Empty for a person's own program, which has to be asked."""
    backend: str
    python: Path | None = None
    executable: Path | None = None


class EngineInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """One engine version on disk, as `probe` found it. `python` or `executable` starts it; `flags` are those it has."""

    engine: str
    version: str
    backend: str
    python: Path | None = None
    executable: Path | None = None
    package: str = ""
    """The distribution that serves, where an engine can be had in several."""
    flags: frozenset[str] = frozenset()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A draft model for speculative decoding; `kind` is "model", "mtp", "eagle3" or "ngram"."""

    path: Path | None = None
    kind: str = "model"
    tokens: int = 4


class NodePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Which of an engine's processes this is, where each computer has one and they share a network of their own.

    `addresses` and `layers`, the number that each holds, are by rank; the first process answers requests.
    """

    rank: int
    addresses: tuple[str, ...]
    layers: tuple[int, ...]
    descriptor: int
    """The socket over which the network's device is handed to whoever carries its packets."""

    @property
    def address(self) -> str:
        """Where the others reach this one."""
        return self.addresses[self.rank]


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to run with, in common terms; None: as the engine does. `context` is per slot; parsers have its names."""

    context: int | None = None
    slots: int = 1
    threads: int | None = None
    gpu_layers: int | None = None
    device_ids: tuple[str, ...] = ()
    device_bytes: tuple[int, ...] = ()
    """What each of `device_ids` may be filled to, for engines that can be told; empty: as the engine finds."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    split_ratio: tuple[float, ...] = ()
    kv_type: str | None = None
    flash_attention: bool | None = None
    gpu_memory_fraction: float | None = None
    cpu_moe_layers: int | None = None
    draft: Draft | None = None
    lora: tuple[Path, ...] = ()
    projector: Path | None = None
    sampling: SamplingDefaults = SamplingDefaults()
    task: str = "chat"
    """"chat", "embed" or "rerank"; "layers": it holds layers for a model that another machine loads."""
    chat_template: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None
    max_batch_tokens: int | None = None
    prefix_cache: bool = True
    trust_remote_code: bool = False
    rpc_servers: tuple[str, ...] = ()
    """Loopback addresses behind which other machines hold layers; `split_ratio` begins with their shares."""
    node: NodePlace | None = None
    """Its place among processes on several computers; None for an engine that is on this computer alone."""
    traces_url: str = ""
    """Where it sends traces of its own, a collector on this computer; empty for none."""
    extra_args: tuple[str, ...] = ()
    extra_env: Mapping[str, str] = {}

    @property
    def is_over_computers(self) -> bool:
        """Whether other computers hold a part of the model."""
        return bool(self.rpc_servers) or self.node is not None

    @property
    def draft_name(self) -> str:
        """What drafts: the kind where the model drafts by itself, else the draft's name; empty for nothing."""
        if self.draft is None:
            return ""
        return self.draft.kind if self.draft.path is None else self.draft.path.stem


class RemoteEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where an attached model is: its endpoint's base URL and name for it, and the file that holds the key (0600)."""

    url: str
    served_as: str
    key_file: Path
    replicas: tuple[str, ...] = ()
    """Addresses of endpoints that serve it alike, for a router in front of them; `url` is the first one's base."""
    policy: str = ""
    """How that router chooses among them, in its own words."""


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """The weights to load: a file or folder, its format, and the name clients use.

    `remote` is set where an endpoint serves them; `path` is then the record of its being attached.
    """

    name: str
    path: Path
    format: ModelFormat
    remote: RemoteEndpoint | None = None


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the engine must listen, and the per-launch key every request to it carries. Never put the key in argv."""

    host: str
    port: int
    key: str
    state_folder: Path | None = None
    """Where it may write states of slots, if they are to be kept (`Descriptor.slot_states`)."""
