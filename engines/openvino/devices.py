"""What OpenVINO calls devices and KV cache types, for the library and for the model server."""

import re

from engines.api import EngineInstallation, LaunchOptions

KV_PRECISIONS = {"f16": "f16", "bf16": "bf16", "q8_0": "u8"}
"""Our names of KV cache types -> OpenVINO's. It keeps f32 only where it decides to compute in f32 too."""
_DEVICE = re.compile(r"CPU|GPU(\.\d{1,2})?")


def device_of(options: LaunchOptions, installation: EngineInstallation) -> str:
    """Return the device in OpenVINO's words. Raises ValueError for one it has not.

    A device that is not there ends the load: nothing else is taken in its place.
    """
    device_name = options.device_ids[0].upper() if options.device_ids else installation.backend.upper()
    device = f"GPU.{device_name}" if device_name.isdigit() else device_name
    if device == "NPU":
        raise ValueError("NPUs are not possible with OpenVINO GenAI yet: they take one request at a time.")
    if not _DEVICE.fullmatch(device):
        raise ValueError(f"OpenVINO GenAI knows no device {device_name}; it has CPU, GPU and GPU.1 and so on.")
    return device


def precision_of(options: LaunchOptions) -> str | None:
    """Return how the KV cache is kept; None leaves it to OpenVINO. Raises ValueError for a type it has not."""
    if options.kv_type not in {None, *KV_PRECISIONS}:
        raise ValueError(f"OpenVINO GenAI keeps its KV cache as one of {', '.join(KV_PRECISIONS)}.")
    return KV_PRECISIONS[options.kv_type] if options.kv_type else None
