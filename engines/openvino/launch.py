"""OpenVINO GenAI's adapter: which device computes, and how its KV cache is stored."""

import re
from collections.abc import Mapping

from engines.api import Installation, LaunchOptions
from engines.openvino.descriptor import DESCRIPTOR
from engines.openvino.failures import READER
from engines.worker_adapter import Library, WorkerAdapter

KV_PRECISIONS = {"f16": "f16", "bf16": "bf16", "q8_0": "u8"}
"""Our names of KV cache types -> OpenVINO's. It keeps f32 only where it decides to compute in f32 too."""
_DEVICE = re.compile(r"CPU|GPU(\.\d{1,2})?")


def configure(options: LaunchOptions, found: Installation) -> Mapping[str, object]:
    """Return what the worker is told. Raises ValueError for a device or cache it has not."""
    if options.kv_type not in {None, *KV_PRECISIONS}:
        raise ValueError(f"OpenVINO GenAI keeps its KV cache as one of {', '.join(KV_PRECISIONS)}.")
    return {
        "device": _device(options, found),
        "kv_precision": KV_PRECISIONS[options.kv_type] if options.kv_type else None,
    }


def _device(options: LaunchOptions, found: Installation) -> str:
    """Return the device in OpenVINO's words. One that is not there ends the load: nothing else is taken instead."""
    named = options.device_ids[0].upper() if options.device_ids else found.backend.upper()
    device = f"GPU.{named}" if named.isdigit() else named
    if device == "NPU":
        raise ValueError("NPUs are not possible with OpenVINO GenAI yet: they take one request at a time.")
    if not _DEVICE.fullmatch(device):
        raise ValueError(f"OpenVINO GenAI knows no device {named}; it has CPU, GPU and GPU.1 and so on.")
    return device


ADAPTER = WorkerAdapter(
    Library(
        about=DESCRIPTOR,
        reader=READER,
        worker="engines.openvino.worker",
        distribution="openvino-genai",
        configure=configure,
    )
)
