"""Engines in containers: where each project publishes its images, and what it is told there beside its own flags."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

DRAIN_S = 120
"""For answers that are being written when an engine is told to end."""


class EngineImage(msgspec.Struct, frozen=True, kw_only=True):
    """One project's image. `{key}` in `key_arguments` stands for the key, which comes by the variable."""

    name: str
    """With `{version}` where the project's versions stand in its tags."""
    key_variable: str = ""
    """Which variable of the container holds the key; empty for an engine without one."""
    key_arguments: tuple[str, ...] = ()
    """For engines that take a key as an argument alone."""
    drain_arguments: tuple[str, ...] = ()
    """What has an engine finish its answers, where it breaks them off by itself."""


IMAGES: Mapping[str, EngineImage] = MappingProxyType(
    {
        "vllm": EngineImage(
            name="docker.io/vllm/vllm-openai:v{version}",
            key_variable="VLLM_API_KEY",  # its own
            drain_arguments=("--shutdown-timeout", str(DRAIN_S)),
        ),
        "sglang": EngineImage(
            name="docker.io/lmsysorg/sglang:v{version}",
            key_variable="FLEET_API_KEY",
            key_arguments=("--api-key", "{key}"),
        ),
        "dynamo": EngineImage(name="nvcr.io/nvidia/ai-dynamo/vllm-runtime:{version}"),
        "smg": EngineImage(
            name="docker.io/lightseekorg/smg:{version}",
            # The second is for whoever would change its replicas.
            key_arguments=("--api-key", "{key}", "--control-plane-api-keys", "gateway:gateway:admin:{key}"),
        ),
    }
)
