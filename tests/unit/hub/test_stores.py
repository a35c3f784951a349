"""Other programs' models are found where each keeps them, by the names it has for them, and are never touched."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.paths import Home, this_home
from app.core.errors import Conflict
from app.hub.library.library import Library
from app.hub.library.stores import find_stores, ollama_models, other_models
from tests.gguf_files import TinyLlama

MODEL_LAYER = "application/vnd.ollama.image.model"


@pytest.fixture
def person(tmp_path: Path) -> Home:
    return this_home({"HOME": str(tmp_path)}, "linux")


def in_ollama(root: Path, name: str, content: bytes, *, layers: list[dict[str, object]] | None = None) -> Path:
    """Put a model into an Ollama folder; `name` is the manifest's path."""
    digest = hashlib.sha256(content).hexdigest()
    blob = root / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    manifest = root / "manifests" / name
    manifest.parent.mkdir(parents=True, exist_ok=True)
    own = {"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}", "size": len(content)}
    params = {"mediaType": "application/vnd.ollama.image.params", "digest": "sha256:" + "0" * 64, "size": 3}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [params, own] if layers is None else layers}))
    return blob


def test_ollamas_models_have_the_names_ollama_lists(tmp_path: Path) -> None:
    blob = in_ollama(tmp_path, "registry.ollama.ai/library/qwen3/8b", b"one")
    in_ollama(tmp_path, "registry.ollama.ai/someone/model/latest", b"two")
    in_ollama(tmp_path, "hf.co/org/Model-GGUF/Q4_K_M", b"three")
    candidates = {candidate.stem: candidate.first for candidate in ollama_models(tmp_path)}
    assert set(candidates) == {"qwen3:8b", "someone/model:latest", "hf.co/org/Model-GGUF:Q4_K_M"}
    assert candidates["qwen3:8b"] == blob


BROKEN: dict[str, Callable[[Path], object]] = {
    "no json": lambda path: path.write_bytes(b"\xff{"),
    "other json": lambda path: path.write_text("[1]"),
    "no layers": lambda path: path.write_text("{}"),
    "a digest that leads elsewhere": lambda path: path.write_text(
        json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:../../../etc/passwd"}]})
    ),
    "a blob that is gone": lambda path: path.write_text(
        json.dumps({"layers": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "a" * 64}]})
    ),
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN)
def test_a_broken_manifest_is_left_out_and_the_others_stay(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    in_ollama(tmp_path, "registry.ollama.ai/library/fine/1b", b"one")
    in_ollama(tmp_path, "registry.ollama.ai/library/broken/1b", b"two")
    damage(tmp_path / "manifests/registry.ollama.ai/library/broken/1b")
    assert [candidate.stem for candidate in ollama_models(tmp_path)] == ["fine:1b"]


PLACES = [
    ("LM Studio", ".lmstudio/models/lmstudio-community/Tiny-GGUF/Tiny-Q4_0.gguf", "Tiny-Q4_0"),
    ("LM Studio", ".cache/lm-studio/models/org/Tiny-GGUF/Tiny-Q4_0.gguf", "Tiny-Q4_0"),
    ("llama.cpp", ".cache/llama.cpp/org_Tiny-GGUF_Tiny-Q4_0.gguf", "org_Tiny-GGUF_Tiny-Q4_0"),
    ("Jan", ".config/Jan/data/llamacpp/models/org/Tiny-Q4_0/model.gguf", "Tiny-Q4_0"),
    ("Jan", "jan/models/tiny/model.gguf", "tiny"),
    ("GPT4All", ".local/share/nomic.ai/GPT4All/tiny.Q4_0.gguf", "tiny.Q4_0"),
]


@pytest.mark.parametrize(("title", "place", "name"), PLACES)
def test_models_are_found_where_each_program_keeps_them(person: Home, title: str, place: str, name: str) -> None:
    file = person.folder / place
    file.parent.mkdir(parents=True)
    TinyLlama().write(file)
    (candidate,) = other_models(person)
    assert (candidate.store, candidate.stem, candidate.first) == (title, name, file)


def test_folders_that_were_moved_are_followed(person: Home, tmp_path: Path) -> None:
    (person.folder / ".lmstudio").mkdir()
    for name in ("studio", "ollama", "cache"):
        (tmp_path / name).mkdir()
    (person.folder / ".lmstudio/settings.json").write_text(json.dumps({"downloadsFolder": str(tmp_path / "studio")}))
    moved_folders = {"OLLAMA_MODELS": str(tmp_path / "ollama"), "LLAMA_CACHE": str(tmp_path / "cache")}
    stores = find_stores(this_home({"HOME": str(tmp_path), **moved_folders}, "linux"))
    assert {(store.title, store.folder.name) for store in stores} == {
        ("LM Studio", "studio"),
        ("Ollama", "ollama"),
        ("llama.cpp", "cache"),
    }


@pytest.mark.parametrize("platform", ["darwin", "win32", "linux"])
def test_nothing_is_found_where_nothing_is(tmp_path: Path, platform: str) -> None:
    assert find_stores(this_home({"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}, platform)) == []


def test_the_library_lists_them_uses_them_and_forgets_none(person: Home, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    content = TinyLlama(name="Same").content()
    (own / "Same.gguf").write_bytes(content)
    blob = in_ollama(person.folder / ".ollama/models", "registry.ollama.ai/library/tiny/1b", TinyLlama().content())
    library = Library(lambda: [own], tmp_path / "models.json", tmp_path / "none.gguf", lambda: other_models(person))
    model = library.find_model("TINY:1b")
    assert (model.path, model.store, model.problem) == (str(blob), "Ollama", "")
    with pytest.raises(Conflict, match="belongs to Ollama"):
        library.forget_model("tiny:1b")
    assert blob.exists()
