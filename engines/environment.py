"""What an engine may inherit of this process's environment: enough to start and to find devices, and no credentials.

An engine runs other people's code over other people's files; it has no business with tokens a shell exported.
"""

import os
from collections.abc import Mapping

_NAMES = frozenset(
    {
        "APPDATA",
        "COMSPEC",
        "HOME",
        "HOMEDRIVE",
        "HOMEPATH",
        "LANG",
        "LOCALAPPDATA",
        "LOGNAME",
        "NUMBER_OF_PROCESSORS",
        "PATH",
        "PATHEXT",
        "PROGRAMDATA",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "TMP",
        "TMPDIR",
        "TZ",
        "USER",
        "USERNAME",
        "USERPROFILE",
        "WINDIR",
    }
)
_PREFIXES = (
    "CUDA_",
    "DYLD_",
    "GGML_",
    "HIP_",
    "HSA_",
    "LC_",
    "LD_LIBRARY_PATH",
    "NVIDIA_",
    "OMP_",
    "ONEAPI_",
    "ROCM_",
    "ROCR_",
    "SYCL_",
    "VK_",
    "XDG_",
    "ZE_",
)
"""Whole families: devices, their libraries, and how many threads to use."""


def engine_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the part of `environ` (this process's own by default) that an engine is started with."""
    source = os.environ if environ is None else environ
    kept_variables = {name: value for name, value in source.items() if _is_kept(name.upper())}
    original = kept_variables.pop("LD_LIBRARY_PATH_ORIG", None)
    if original is not None:  # a frozen application points LD_LIBRARY_PATH at its own libraries and keeps the old value
        kept_variables["LD_LIBRARY_PATH"] = original
    return kept_variables


def _is_kept(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES)
