"""Where what an engine needs lies on this disk: its model's files, its environment, its devices."""

import contextlib
import functools
import glob
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from app.confinement.policy import MachineFacts
from app.confinement.rules import PortRange
from engines.api import EngineInstallation, LaunchOptions, ModelSource

_PART = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)", re.IGNORECASE)
"""What tells the parts of one model in GGUF apart."""
_DEVICE_NODES = (*("nvidia*", "dri", "kfd", "accel", "dxg", "mali0", "kgsl-3d0", "infiniband", "udmabuf", "dma_heap"),)
"""In `/dev`."""
_DEVICE_LIBRARIES = ("LD_LIBRARY_PATH", "CUDA_", "HIP_", "HSA_", "ONEAPI_", "ROCM_", "ROCR_", "SYCL_", "VK_", "ZE_")
"""Variables, by how they begin, that say where a device's libraries are."""
_PACKAGE_FOLDERS = frozenset({"site-packages", "dist-packages"})
_USUAL_PORTS = PortRange(32768, 60999)
_NVIDIA = Path("/proc/driver/nvidia")
_NVIDIA_MEMORY = Path("/dev/nvidia-uvm")
_MODPROBE = "/usr/bin/nvidia-modprobe"


def model_paths(source: ModelSource, options: LaunchOptions) -> tuple[str, ...]:
    """Return the files and folders of weights that a load reads. Links count as what they lead to."""
    drafts = [options.draft.path] if options.draft is not None and options.draft.path is not None else []
    projectors = [options.projector] if options.projector is not None else []
    named_paths = [
        Path(word) for argument in options.extra_args for word in argument.split("=") if word.startswith("/")
    ]
    paths = (source.path, *options.lora, *drafts, *projectors, *(path for path in named_paths if path.exists()))
    return tuple(dict.fromkeys(str(place) for path in paths for place in _model_places(path)))


def _model_places(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path.resolve()
        yield from (file.resolve() for file in _links_in(path))
        return
    yield path.resolve()
    if _PART.search(path.name):
        pattern = _PART.sub("-?????-of-?????", glob.escape(path.name))
        yield from (part.resolve() for part in path.parent.glob(pattern))


def _links_in(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(place, name)
            if entry.is_symlink() and entry.exists():
                yield entry


def program_paths(installation: EngineInstallation, inherited_environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what an engine consists of, and where the environment says that devices' libraries are."""
    places = [
        *(_python_places(installation.python) if installation.python is not None else ()),
        *(_executable_places(installation.executable) if installation.executable is not None else ()),
        *_library_places(inherited_environment),
    ]
    return tuple(dict.fromkeys(str(place) for place in places))


def _python_places(python: Path) -> Iterator[Path]:
    """Yield an interpreter's environment and the installation it was made from; of a frozen application its folder.

    Packages of our own interpreter may lie elsewhere: in a person's `~/.local`, or where a `.pth` file leads.
    """
    real, environment = python.resolve(), python.parent.parent
    if not real.name.startswith("python"):
        yield real.parent
        return
    if (environment / "pyvenv.cfg").is_file():
        yield environment.resolve()
    yield real.parent.parent
    if python == Path(sys.executable):
        yield from (Path(place).resolve() for place in sys.path if Path(place).name in _PACKAGE_FOLDERS)


def _executable_places(executable: Path) -> Iterator[Path]:
    """Yield a program and the libraries beside it: its folder, unless that is a person's whole home."""
    real = executable.resolve()
    yield real
    yield real.parent
    yield from real.parent.glob("*.so*")
    if real.parent.name == "bin":
        yield from (folder for name in ("lib", "lib64", "share") if (folder := real.parent.parent / name).is_dir())


def _library_places(inherited_environment: Mapping[str, str]) -> Iterator[Path]:
    for name, value in inherited_environment.items():
        if name.startswith(_DEVICE_LIBRARIES):
            paths = (Path(word) for word in value.split(":") if word.startswith("/"))
            yield from (path.resolve() for path in paths if path.exists())


@functools.cache
def home_folder() -> str:
    """Return the home of whoever runs this."""
    return str(Path.home().resolve())


def describe_machine() -> MachineFacts:
    """Return what the rules depend on here: devices may come and go."""
    return MachineFacts(
        cores=os.cpu_count() or 1,
        home=home_folder(),
        devices=tuple(_list_nodes(_DEVICE_NODES)),
        passing_ports=read_passing_ports(),
    )


def _list_nodes(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from map(str, sorted(Path("/dev").glob(pattern)))


def read_passing_ports() -> PortRange:
    """Return the ports that the kernel takes for who names none."""
    try:
        first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split())
    except (OSError, ValueError):
        return _USUAL_PORTS
    return PortRange(first, last)


def make_nvidia_node() -> None:
    """Have the driver's own program make the node that CUDA needs, as CUDA does itself after a start of the system.

    That program belongs to the superuser, which a confined engine cannot become.
    """
    if _NVIDIA.exists() and not _NVIDIA_MEMORY.exists() and Path(_MODPROBE).exists():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run([_MODPROBE, "-c", "0", "-u"], capture_output=True, check=False, timeout=_MODPROBE_S)


_MODPROBE_S = 10.0
"""It loads a kernel module."""
