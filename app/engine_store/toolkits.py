"""Toolkits that some builds of engines need to be compiled here: found by their compiler and a header beside it.

Looked for on PATH and where the makers' own installers put them. Without the header only a part of the toolkit is here
(a compiler alone, from a distribution's package), with which a build would fail after minutes.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Toolkit(msgspec.Struct, frozen=True, kw_only=True):
    """How a toolkit is told: its compiler, folders it may lie in beside PATH, and a header below one of `roots`."""

    title: str
    compiler: str
    folders: tuple[str, ...]
    header: str


TOOLKITS = {
    "cuda": Toolkit(
        title="NVIDIA's CUDA toolkit (nvcc and cuBLAS)",
        compiler="nvcc",
        folders=("/usr/local/cuda/bin", "/opt/cuda/bin"),
        header="cublas_v2.h",
    ),
    "rocm": Toolkit(
        title="AMD's ROCm toolkit (amdclang++ and hipBLAS)",
        compiler="amdclang++",
        folders=("/opt/rocm/bin",),
        header="hipblas/hipblas.h",
    ),
    "vulkan": Toolkit(
        title="Vulkan's development files (glslc, headers of Vulkan and SPIR-V)",
        compiler="glslc",
        folders=(),
        header="vulkan/vulkan.h",
    ),
}
"""By the name a recipe has for it."""
_SYSTEM_INCLUDES = (Path("/usr/include"), Path("/usr/local/include"))


def find_toolkits() -> dict[str, str]:
    """Return the toolkits that are here, each with its compiler's path."""
    compilers = {name: find_compiler(toolkit) for name, toolkit in TOOLKITS.items()}
    return {name: str(path) for name, path in compilers.items() if path is not None}


def find_compiler(toolkit: Toolkit, includes: Sequence[Path] = _SYSTEM_INCLUDES) -> Path | None:
    """Return the compiler of a toolkit that is here whole."""
    places = [shutil.which(toolkit.compiler), *(shutil.which(toolkit.compiler, path=at) for at in toolkit.folders)]
    for place in filter(None, places):
        compiler = Path(place)
        roots = [compiler.parent.parent / "include", compiler.resolve().parent.parent / "include", *includes]
        if any((root / toolkit.header).is_file() for root in roots):
            return compiler
    return None
