"""How long it takes to look through 2,000 model files: the first time, after a restart, and again.

The files have headers of real tensor tables over holes, and lie where each program keeps its own: our folder, the hub's
cache with its links, LM Studio, llama.cpp, Jan, GPT4All and Ollama. Vocabularies are small: a real one is 5 MB a file,
which makes the first time a matter of the disk.
"""

import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from app.config.paths import Home, this_home
from app.core.models import ModelInfo
from app.hub.library.candidates import SETTLED_NS, FolderListings
from app.hub.library.library import Library
from app.hub.library.stores import other_models
from app.hub.synthetic import SyntheticShape, write_synthetic
from tests.bench.figures import BenchFigure, at_least, at_most

FILES = 2_000
COLD_S, WARM_MS = 3.0, 100.0
_AGAIN = 9
_MS = 1e3
_HEADER_BYTES = 64 << 10
"""More than a header of 32 layers takes; what follows is a hole in the file."""
_SHAPE = SyntheticShape(layers=32, hidden=256, heads=4, kv_heads=2, feed_forward=256)
_OLLAMA_LAYER = "application/vnd.ollama.image.model"


def measure(files: int = FILES) -> Sequence[BenchFigure]:
    """Return how many models are found, and how long it takes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill_home(root, files)
        home = this_home({"HOME": str(root)}, "linux")
        cold, models = _time_listing(_make_library(root, home).list_models)
        restarted_library = _make_library(root, home)
        after_restart, _ = _time_listing(restarted_library.list_models)
        warm = statistics.median(_time_listing(restarted_library.list_models)[0] for _ in range(_AGAIN))
    return [
        at_least("library: models found of those there", len(models) / (files + 1), 1.0),
        at_most(f"library: {files:,} files, nothing known", cold, COLD_S, "s"),
        at_most(f"library: {files:,} files, after a restart", after_restart, COLD_S, "s"),
        at_most(f"library: {files:,} files, again", warm * _MS, WARM_MS, "ms"),
    ]


def fill_home(root: Path, files: int) -> None:
    """Put so many models below a home folder, shared out among the stores."""
    header, size = _make_tiny_model(root / "tiny.gguf")
    for number in range(files):
        _STORES[number % len(_STORES)](root, f"model-{number:04d}-Q4_0", number, _TinyModel(header, size))
    long_ago = time.time() - 2 * SETTLED_NS / 1e9  # as if the models had not come this very second
    for folder, _, _ in os.walk(root):
        os.utime(folder, (long_ago, long_ago))


class _TinyModel(msgspec.Struct, frozen=True):
    """The beginning of a model, and how long it is."""

    header: bytes
    size: int

    def write_to(self, file: Path) -> None:
        """Write it; the weights are a hole."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.header)
        os.truncate(file, self.size)


def _make_tiny_model(file: Path) -> tuple[bytes, int]:
    size = write_synthetic(file, _SHAPE)
    with file.open("rb") as source:
        header = source.read(_HEADER_BYTES)
    file.unlink()
    return header, size


def _put_in_own_folder(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    model.write_to(root / "models" / f"{name}.gguf")


def _put_in_hub_cache(root: Path, name: str, number: int, model: _TinyModel) -> None:
    folder, commit = root / "hub" / f"models--org--{name}-GGUF", f"{number:040x}"
    blob = folder / "blobs" / hashlib.sha256(name.encode()).hexdigest()
    model.write_to(blob)
    link = folder / "snapshots" / commit / f"{name}.gguf"
    link.parent.mkdir(parents=True)
    try:
        link.symlink_to(Path("../../blobs") / blob.name)
    except OSError:  # a Windows that lets nobody make links: the cache holds the file itself there
        blob.rename(link)


def _put_in_lm_studio(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    model.write_to(root / ".lmstudio/models/org" / f"{name}-GGUF" / f"{name}.gguf")


def _put_in_llama_cpp(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    model.write_to(root / ".cache/llama.cpp" / f"org_{name}.gguf")


def _put_in_jan(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    model.write_to(root / "jan/models" / name / "model.gguf")


def _put_in_gpt4all(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    model.write_to(root / ".local/share/nomic.ai/GPT4All" / f"{name}.gguf")


def _put_in_ollama(root: Path, name: str, _number: int, model: _TinyModel) -> None:
    digest = hashlib.sha256(name.encode()).hexdigest()
    store = root / ".ollama/models"
    model.write_to(store / "blobs" / f"sha256-{digest}")
    manifest = store / "manifests/registry.ollama.ai/library" / name / "latest"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": _OLLAMA_LAYER, "digest": f"sha256:{digest}", "size": model.size}
    manifest.write_bytes(msgspec.json.encode({"schemaVersion": 2, "layers": [layer]}))


_STORES: tuple[Callable[[Path, str, int, _TinyModel], None], ...] = (
    *(_put_in_own_folder, _put_in_hub_cache, _put_in_lm_studio, _put_in_llama_cpp),
    *(_put_in_jan, _put_in_gpt4all, _put_in_ollama),
)


def _make_library(root: Path, home: Home) -> Library:
    folders = [root / "models", root / "hub"]
    others = FolderListings()
    return Library(lambda: folders, root / "state/models.json", root / "none.gguf", lambda: other_models(home, others))


def _time_listing(work: Callable[[], list[ModelInfo]]) -> tuple[float, list[ModelInfo]]:
    began = time.perf_counter()
    models = work()
    return time.perf_counter() - began, models
