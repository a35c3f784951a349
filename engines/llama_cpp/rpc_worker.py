"""Layers for a model that another machine loads: llama.cpp's RPC server in a process of its own.

`python -m engines.llama_cpp.rpc_worker`. RPC has no authentication: it listens on loopback, and Roundhouse's tunnel is
what leads to it. Unlike llama.cpp's own program it ends with its parent.
"""

import ctypes
import ipaddress
import os
from pathlib import Path
from typing import Any

from engines import worker_base

_CPU, _GPUS = 0, (1, 2)
"""`enum ggml_backend_dev_type`: the processor, graphics cards and those inside a processor."""


def serve(launch: worker_base.WorkerLaunch) -> None:
    """Serve until told to end. Raises ValueError for an address that others reach, ImportError without the library."""
    host, port = str(launch.config["host"]), launch.config["port"]
    if not ipaddress.ip_address(host).is_loopback:
        raise ValueError("RPC asks for no key, so it may only listen on loopback")
    worker_base.emit("progress", stage="Starting llama.cpp", fraction=None)
    ggml, rpc = _load_libraries()
    devices = _list_devices(ggml)
    start = rpc.ggml_backend_rpc_start_server
    start.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
    array = (ctypes.c_void_p * len(devices))(*devices)
    threads = launch.config["threads"] or os.cpu_count() or 1
    start(f"{host}:{port}".encode(), None, threads, len(devices), array)
    raise RuntimeError(f"the RPC server could not listen on {host}:{port}")


def _load_libraries() -> tuple[Any, Any]:
    import llama_cpp  # noqa: PLC0415 -- native code: the lifeline must hold before it loads
    from llama_cpp import _ggml  # noqa: PLC0415 -- as above

    llama_cpp.llama_backend_init()
    library = next(Path(_ggml.__file__).parent.glob("lib/*ggml-rpc.*"), None)
    if library is None:
        raise ImportError("this build of llama.cpp has no RPC")
    return _ggml.libggml, ctypes.CDLL(str(library))


def _list_devices(ggml: Any) -> list[int]:  # noqa: ANN401 -- a ctypes library
    """Return the graphics cards, or the processor where there are none."""
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_get.argtypes = (ctypes.c_size_t,)
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_type.argtypes = (ctypes.c_void_p,)
    devices = [ggml.ggml_backend_dev_get(number) for number in range(ggml.ggml_backend_dev_count())]
    by_kind = {device: ggml.ggml_backend_dev_type(device) for device in devices}
    cards = [device for device, kind in by_kind.items() if kind in _GPUS]
    return cards or [device for device, kind in by_kind.items() if kind == _CPU]


if __name__ == "__main__":
    worker_base.run(serve)
