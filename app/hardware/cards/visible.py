"""Which GPUs a variable such as CUDA_VISIBLE_DEVICES hides from engines, where that can be told.

UUIDs name cards. Numbers do so only among equal cards, or when CUDA was told to count by PCI address: by default it
counts the fastest first, and nobody but CUDA knows which that is. What cannot be told is not guessed.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.core.machine import Gpu
from app.hardware.facts import measured_fact

_BY_BACKEND = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"),
}


def with_hidden(gpus: Sequence[Gpu], backend: str, variables: Mapping[str, str]) -> list[Gpu]:
    """Return the GPUs; what a variable hides from `backend` ("cuda", "rocm") has nothing addressable there."""
    for name in _BY_BACKEND[backend]:
        if name in variables:
            by_address = variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
            hidden_ids = _ids_to_hide(gpus, variables[name], by_address=by_address)
            gpus = [_hide_gpu(gpu, backend, name) if gpu.id in hidden_ids else gpu for gpu in gpus]
    return list(gpus)


def _hide_gpu(gpu: Gpu, backend: str, variable: str) -> Gpu:
    nothing = measured_fact(0, variable, unit="B", note=f"{variable} hides it from engines.")
    return msgspec.structs.replace(gpu, addressable={**gpu.addressable, backend: nothing})


def _ids_to_hide(gpus: Sequence[Gpu], value: str, *, by_address: bool) -> set[str]:
    selectors = [part.strip() for part in value.split(",") if part.strip()]
    if not selectors or selectors[0].startswith("-"):  # the first that names nothing ends the list
        return {gpu.id for gpu in gpus}
    if all(part.isdecimal() for part in selectors):
        return _ids_not_listed(gpus, selectors, by_address=by_address)
    if all(part.startswith(("GPU-", "MIG-")) for part in selectors):
        return {gpu.id for gpu in gpus if not any(gpu.uuid.startswith(part) for part in selectors)}
    return set()


def _ids_not_listed(gpus: Sequence[Gpu], numbers: Sequence[str], *, by_address: bool) -> set[str]:
    are_equal = len({gpu.name.value for gpu in gpus}) == 1
    if not are_equal and not by_address:
        return set()
    return {gpu.id for number, gpu in enumerate(gpus) if str(number) not in numbers}
