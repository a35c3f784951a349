"""Which card a model is put on, where there are several: one value from the setting through the plan to the launch.

A card is named by its UUID, in the variable with which NVIDIA's driver shows a program some of the cards. Whatever
computes with CUDA then finds that one alone, in whatever order it counts them, and the plan is made for a machine that
has no other.
"""

from collections.abc import Mapping

import msgspec

from app.core.errors import NotFound
from app.core.machine import Gpu, Machine
from app.core.models import GpuOption
from engines.api import LaunchOptions

VARIABLE = "CUDA_VISIBLE_DEVICES"
_BACKEND = "cuda"


def list_gpu_options(machine: Machine | None, backend: str) -> list[GpuOption]:
    """Return the cards that an engine with this backend can be put on; none where there is no choice."""
    cards = _nvidia_cards(machine) if machine is not None and backend == _BACKEND else {}
    if len(cards) < 2:  # noqa: PLR2004 -- one is no choice
        return []
    return [
        GpuOption(uuid=uuid, name=gpu.name.value or "NVIDIA", memory_bytes=gpu.memory_total.value)
        for uuid, gpu in cards.items()
    ]


def with_gpu(options: LaunchOptions, gpu: str | None, *, backend: str, machine: Machine | None) -> LaunchOptions:
    """Return the options with the card that was set. Raises NotFound for one that is no longer in this computer."""
    if not gpu or backend != _BACKEND:
        return options
    if machine is not None and gpu not in _nvidia_cards(machine):
        raise NotFound(
            f"The graphics card {gpu} is not in this computer.",
            hint="Choose another in the model's settings, or none: `roundhouse tune MODEL --unset gpu`.",
            code="gpu_not_found",
        )
    return msgspec.structs.replace(options, extra_env={**options.extra_env, VARIABLE: gpu})


def gpu_of(options: LaunchOptions) -> str:
    """Return the card that options put a model on; empty for none."""
    return options.extra_env.get(VARIABLE, "")


def machine_with_gpu(machine: Machine, gpu: str | None) -> Machine:
    """Return the machine as a program sees it that is shown one card; as it is without one."""
    if not gpu or gpu not in _nvidia_cards(machine):
        return machine
    return msgspec.structs.replace(machine, gpus=[_nvidia_cards(machine)[gpu]])


def _nvidia_cards(machine: Machine) -> Mapping[str, Gpu]:
    return {gpu.uuid: gpu for gpu in machine.gpus if gpu.vendor == "nvidia" and gpu.uuid and not gpu.partition_of}
