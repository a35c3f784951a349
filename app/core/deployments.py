"""Files for clusters: what is to be served, and the texts that a cluster or Docker Compose is given."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

TARGETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"vllm": ("kubernetes", "compose"), "sglang": ("kubernetes", "compose"), "dynamo": ("kubernetes",)}
)
"""What files there are for each engine. NVIDIA Dynamo's are for its Kubernetes operator."""


ENGINE_TITLES: Mapping[str, str] = MappingProxyType(
    {"vllm": "vLLM + smg", "sglang": "SGLang + smg", "dynamo": "NVIDIA Dynamo"}
)
"""What serves the model, with the router in front: names that are the same in every language."""
TARGET_TITLES: Mapping[str, str] = MappingProxyType({"kubernetes": "Kubernetes", "compose": "Docker Compose"})


class DeploymentRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be served: a repository of the hub, by which engine, on how many cards, how often."""

    model: str
    """A repository on Hugging Face, as OWNER/NAME."""
    engine: str = "vllm"
    """One of `TARGETS`."""
    target: str = "kubernetes"
    """One of the engine's targets."""
    replicas: int = 2
    cards: int = 1
    """GPUs of each replica, all in one computer: the model is cut over them."""
    context: int | None = None
    """Tokens; without it, what the model's own files say."""
    name: str = ""
    """What clients call the model, and what the objects are called; empty: made from the repository's name."""
    disk_gib: int = 200
    """Room of each replica for the model's files."""


class DeploymentFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file to write."""

    name: str
    text: str


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The files, what has to be there before they are used, and how they are used. Nothing was written or run."""

    name: str
    files: list[DeploymentFile]
    notes: list[str]
