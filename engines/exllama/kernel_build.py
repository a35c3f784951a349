"""The kernels of both ExLlamas, which PyTorch compiles when a library is first imported: with what, where to, how far.

CUDA's compiler comes with the engine, as wheels that lie in its environment; the C++ compiler that it drives is the
computer's own. What was compiled is kept in the environment too, and goes with it.
"""

import importlib.machinery
import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the gateway, which converts models, starts without the server of workers
    from engines.serving.backend import ProgressCallback

TELL_EVERY_S = 4.0
JOB_BYTES = 3 << 30
"""What is reckoned for one compiler: most files take less than 2 GB, the worst of ExLlamaV3's 4.6 (g++ 12)."""
_MOST_LINES = 60
"""Of what compilers said. A mistake in a template fills a page."""
_COMMAND = re.compile(r"\[\d+/\d+\]|\S*(c\+\+|nvcc) ")
_OBJECT = re.compile(r"^build (\S+\.o):", re.MULTILINE)
_CULPRIT = re.compile(r"error ?:|error --|cannot find -l|not found|fatal +:", re.IGNORECASE)
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
"""1 is PR_SET_PDEATHSIG of <linux/prctl.h>; it outlasts the exec."""
STAGE = "Compiling the kernels for this computer, which is done once"


@contextmanager
def watch_kernel_build(
    name: str, cards: str, environment: MutableMapping[str, str], tell: "ProgressCallback"
) -> Iterator[None]:
    """Make everything ready for `name`'s kernels to be compiled, and tell how far it is, until the library is there.

    They are kept for each kind of `cards`: PyTorch compiles for those it sees, and all anew when these change. Nothing
    is done where the library came with them compiled, as upstream's own wheels do.
    Raises RuntimeError without a C++ compiler, if one is needed still, and with a compiler's words when it fails.
    """
    if _is_prebuilt(f"{name}_ext"):
        yield
        return
    extensions_folder = Path(environment.setdefault("TORCH_EXTENSIONS_DIR", str(_kernels_folder(cards))))
    find_compilers(environment, Path(sysconfig.get_path("purelib")), extensions_folder / "link")
    folder = extensions_folder / f"{name}_ext"
    if not _is_compiled(folder) and shutil.which(environment.get("CXX", "c++"), path=environment["PATH"]) is None:
        raise RuntimeError("no C++ compiler is on PATH (c++), and the kernels are to be compiled")
    over = threading.Event()
    teller = threading.Thread(target=_report_progress, args=(folder, tell, over), name="compiling", daemon=True)
    teller.start()
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("Error building extension"):
            raise
        raise _build_failure(str(error)) from error
    finally:
        over.set()
        teller.join()


def _is_prebuilt(extension: str) -> bool:
    """Tell whether the library will find its compiled functions as a module, as both libraries look for it."""
    spec = importlib.util.find_spec(extension)
    return spec is not None and str(spec.origin).endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES))


def _kernels_folder(cards: str) -> Path:
    """Return where kernels are kept: in the environment, or, if a confined engine may not write there, at its home."""
    folder = Path(sys.prefix) / "kernels" / cards
    if _is_compiled(folder / "exllamav3_ext") or _is_compiled(folder / "exllamav2_ext"):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial = folder / f".{os.getpid()}"
        trial.touch()
        trial.unlink()
    except OSError:
        return Path.home() / "kernels" / cards
    return folder


def _build_failure(compiler_output: str) -> RuntimeError:
    """Return an error with what the compiler said; PyTorch puts all commands of the build before it.

    The rest is written to the log.
    """
    words = [line for line in compiler_output.splitlines()[1:] if line and not _COMMAND.match(line)]
    sys.stderr.write("\n".join(words[-_MOST_LINES:]) + "\n")
    culprit = next(filter(_CULPRIT.search, words), words[-1] if words else compiler_output)
    return RuntimeError(f"the kernels could not be compiled: {culprit.strip()}")


def visible_cards(torch: Any) -> str:  # noqa: ANN401 -- the library
    """Return the kinds of cards that PyTorch sees, e.g. "8.6-8.9", the compute capabilities."""
    capabilities = {torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())}
    return "-".join(f"{major}.{minor}" for major, minor in sorted(capabilities))


def find_compilers(environment: MutableMapping[str, str], packages: Path, links: Path) -> None:
    """Put what compiles where PyTorch looks for it.

    A compiler in the environment counts more than the computer's: it was made for this PyTorch, while `CUDA_HOME` may
    lead to another CUDA, which PyTorch refuses.
    """
    _prepend(environment, "PATH", Path(sys.executable).parent)  # ninja: nobody activated this environment
    ninja = shutil.which("ninja", path=environment["PATH"])
    if ninja is not None and sys.platform == "linux":
        _prepend(environment, "PATH", write_ninja_wrapper(ninja, links))
    environment.setdefault("MAX_JOBS", str(compiler_count(_available_bytes())))
    toolkit = next((nvcc.parents[1] for nvcc in sorted(packages.glob("nvidia/cu*/bin/nvcc"))), None)
    if toolkit is not None:
        environment["CUDA_HOME"] = str(toolkit)
        _prepend(environment, "LIBRARY_PATH", _link_runtime_library(toolkit / "lib", links))


def compiler_count(available_bytes: int) -> int:
    """Return how many compilers may run at once: as many as there are processors, and as memory has room for."""
    return max(1, min(_processors(), available_bytes // JOB_BYTES))


def _processors() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def build_progress(folder: Path) -> tuple[int, int]:
    """Return how many files are compiled and how many there are; (0, 0) while it is unknown, or when all is done."""
    plan = folder / "build.ninja"
    if not plan.exists() or _is_compiled(folder):
        return 0, 0
    objects = _OBJECT.findall(plan.read_text(encoding="utf-8"))
    return sum(_is_newer(folder / name, plan) for name in objects), len(objects)


def _is_compiled(folder: Path) -> bool:
    return any(_is_newer(library, folder / "build.ninja") for library in folder.glob("*_ext*.so"))


def _is_newer(made_file: Path, plan: Path) -> bool:
    """Tell whether a file was made since the plan was written; PyTorch writes it anew when anything in it changes."""
    try:
        return made_file.stat().st_mtime_ns >= plan.stat().st_mtime_ns
    except OSError:
        return made_file.exists()


def _report_progress(folder: Path, tell: "ProgressCallback", over: threading.Event) -> None:
    """Tell again and again, also what was told before: a single file can take minutes, and silence means a hang."""
    while not over.wait(TELL_EVERY_S):
        done_count, total = build_progress(folder)
        if total:
            tell(STAGE, done_count / total)


def _available_bytes() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return JOB_BYTES
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), JOB_BYTES)


def _prepend(environment: MutableMapping[str, str], name: str, folder: Path) -> None:
    environment[name] = os.pathsep.join(filter(None, (str(folder), environment.get(name, ""))))


def write_ninja_wrapper(ninja: str, folder: Path) -> Path:
    """Return a folder with a ninja that ends with this process, and its compilers with it.

    Whoever calls off a load ends the worker; left alone, ninja would go on for an hour, beside that of the next start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join([sys.executable, "-I", "-c", _DIE_WITH_PARENT, ninja])
    new_file = folder / f"ninja.{os.getpid()}"
    new_file.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    new_file.chmod(0o755)
    new_file.replace(folder / "ninja")
    return folder


def _link_runtime_library(libraries: Path, folder: Path) -> Path:
    """Return a folder with the runtime library by the name that linkers look for, which the wheels leave out."""
    link = folder / "libcudart.so"
    for library in libraries.glob("libcudart.so.*"):
        folder.mkdir(parents=True, exist_ok=True)
        new_file = folder / f"libcudart.{os.getpid()}"  # renamed into place: two starts may do this at once
        new_file.symlink_to(library)
        new_file.replace(link)
    return folder
