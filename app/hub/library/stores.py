"""Models that other programs keep: used where they lie, never copied, changed or deleted by us.

LM Studio, llama.cpp, Jan and GPT4All keep model files in folders. Ollama keeps them under their hashes, and what they
are called in manifests (https://github.com/ollama/ollama/blob/main/docs/import.md). Hugging Face's cache is a model
folder like our own.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from app.config.paths import Home
from app.hub.library.candidates import Candidate, FolderListings, find_candidates, identity_of, walk_folders

OLLAMA = "Ollama"
MAX_MANIFESTS = 5000
MAX_MANIFEST_BYTES = 1 << 20
_MANIFEST_DEPTH = 6
"""Registry, namespace, name, tag; other registries may have namespaces in namespaces."""
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MODEL_LAYER = "application/vnd.ollama.image.model"
_REGISTRY, _LIBRARY = "registry.ollama.ai", "library"
_PLAIN = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}")
_SETTINGS_BYTES = 1 << 20


class ModelStore(NamedTuple):
    """One program's models: what it is called, and its folder."""

    title: str
    folder: Path


class _ManifestPath(NamedTuple):
    """A manifest, and the names that lead to it."""

    path: str
    parts: tuple[str, ...]


class _OllamaLayer(msgspec.Struct):
    digest: str = ""
    mediaType: str = ""  # noqa: N815 -- the format's name


class _OllamaManifest(msgspec.Struct):
    layers: list[_OllamaLayer] = []


class _LmStudioSettings(msgspec.Struct):
    downloadsFolder: str = ""  # noqa: N815 -- LM Studio's name


def find_stores(home: Home) -> list[ModelStore]:
    """Return the stores of other programs that are there."""
    places = [
        *_lm_studio_stores(home),
        *_llama_cpp_stores(home),
        *_jan_stores(home),
        *_gpt4all_stores(home),
        *_ollama_stores(home),
    ]
    return [store for store in places if store.folder.is_dir()]


def other_models(home: Home, listings: FolderListings | None = None) -> list[Candidate]:
    """Return the models in them. `listings` is what is remembered of their folders from the last time."""
    known_listings = FolderListings() if listings is None else listings
    candidates: list[Candidate] = []
    for store in find_stores(home):
        is_ollama = store.title == OLLAMA
        store_candidates = (
            ollama_models(store.folder, known_listings)
            if is_ollama
            else find_candidates([store.folder], known_listings)
        )
        candidates += [_mark_store(store.title, candidate) for candidate in store_candidates]
    known_listings.forget_unused()
    return candidates


def ollama_models(folder: Path, listings: FolderListings | None = None) -> list[Candidate]:
    """Return the models of an Ollama folder by the names Ollama has for them; what is broken is left out."""
    known_listings = FolderListings() if listings is None else listings
    candidates = (
        _blob_candidate(folder, manifest) for manifest in _iter_manifests(known_listings, f"{folder}{os.sep}manifests")
    )
    return [candidate for candidate in candidates if candidate is not None]


def _iter_manifests(listings: FolderListings, root: str) -> Iterator["_ManifestPath"]:
    places = (
        _ManifestPath(f"{folder}{os.sep}{name}", (*Path(folder[len(root) + 1 :]).parts, name))
        for folder, listing in walk_folders(listings, root, _MANIFEST_DEPTH, set())
        for name in listing.files
        if not name.startswith(".")
    )
    for place, _ in zip(places, range(MAX_MANIFESTS), strict=False):
        yield place


def _blob_candidate(folder: Path, manifest: "_ManifestPath") -> Candidate | None:
    if len(manifest.parts) < 3 or not all(map(_PLAIN.fullmatch, manifest.parts)):  # noqa: PLR2004 -- registry, name, tag
        return None
    digest = _weights_digest(manifest.path)
    blob = folder / "blobs" / f"sha256-{digest}"
    identity = identity_of(blob)
    if not digest or isinstance(identity, str):  # no plain file is there
        return None
    return Candidate(first=blob, stem=_ollama_name(manifest.parts), parts=(blob,), identity=identity)


def _weights_digest(manifest: str) -> str:
    try:
        status = os.stat(manifest)  # noqa: PTH116 -- as often as there are models
    except OSError:
        return ""
    return _weights_of(manifest, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=MAX_MANIFESTS)
def _weights_of(manifest: str, _size: int, _changed_at: int) -> str:
    """Return the digest a manifest names, read again once it changed."""
    try:
        with Path(manifest).open("rb") as file:
            layers = msgspec.json.decode(file.read(MAX_MANIFEST_BYTES), type=_OllamaManifest).layers
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    digests = (_DIGEST.fullmatch(layer.digest) for layer in layers if layer.mediaType == _MODEL_LAYER)
    return next((match[1] for match in digests if match), "")


def _ollama_name(parts: tuple[str, ...]) -> str:
    """Return the name Ollama lists: the registry and the namespace are left out where they are its own."""
    registry, *middle, tag = parts
    names = middle[1:] if registry == _REGISTRY and middle[:1] == [_LIBRARY] and len(middle) > 1 else middle
    host = [] if registry == _REGISTRY else [registry]
    return f"{'/'.join([*host, *names])}:{tag}"


def _mark_store(title: str, candidate: Candidate) -> Candidate:
    """Note whose it is. Jan calls every file `model.gguf`, in a folder that has the name."""
    is_unnamed = candidate.stem.lower() == "model" and not candidate.is_folder
    return replace(candidate, store=title, stem=candidate.first.parent.name if is_unnamed else candidate.stem)


def _lm_studio_stores(home: Home) -> Iterator[ModelStore]:
    usual = (home.folder / ".lmstudio/models", home.folder / ".cache/lm-studio/models")
    chosen_folder = _lm_studio_folder(home)
    for folder in usual if chosen_folder is None else (chosen_folder,):
        yield ModelStore("LM Studio", folder)


def _lm_studio_folder(home: Home) -> Path | None:
    try:
        with (home.folder / ".lmstudio/settings.json").open("rb") as file:
            chosen_folder = msgspec.json.decode(file.read(_SETTINGS_BYTES), type=_LmStudioSettings).downloadsFolder
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Path(chosen_folder) if chosen_folder and Path(chosen_folder).is_absolute() else None


def _llama_cpp_stores(home: Home) -> Iterator[ModelStore]:
    yield ModelStore("llama.cpp", home.variable_folders.get("LLAMA_CACHE") or _cache_folder(home) / "llama.cpp")


def _jan_stores(home: Home) -> Iterator[ModelStore]:
    data = home.support / "Jan/data"
    for folder in (data / "llamacpp/models", data / "models", home.folder / "jan/models"):
        yield ModelStore("Jan", folder)


def _gpt4all_stores(home: Home) -> Iterator[ModelStore]:
    data = {
        "linux": home.variable_folders.get("XDG_DATA_HOME") or home.folder / ".local/share",
        "macos": home.support,
        "windows": _local_folder(home),
    }[home.system]
    yield ModelStore("GPT4All", data / "nomic.ai/GPT4All")


def _ollama_stores(home: Home) -> Iterator[ModelStore]:
    named_folder = home.variable_folders.get("OLLAMA_MODELS")
    yield ModelStore(OLLAMA, named_folder or home.folder / ".ollama/models")
    if home.system == "linux" and not named_folder:
        yield ModelStore(OLLAMA, Path("/usr/share/ollama/.ollama/models"))


def _cache_folder(home: Home) -> Path:
    return {
        "linux": home.variable_folders.get("XDG_CACHE_HOME") or home.folder / ".cache",
        "macos": home.folder / "Library/Caches",
        "windows": _local_folder(home),
    }[home.system]


def _local_folder(home: Home) -> Path:
    return home.variable_folders.get("LOCALAPPDATA") or home.folder / "AppData/Local"
