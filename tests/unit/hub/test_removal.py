"""A model's files go, those of others stay, and everything comes back as it was."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import Conflict, NotFound, StorageFault
from app.core.models import ModelInfo, Preset
from app.hub.disk.removal import OtherModels, collect_files, plan_removal, remove_files, restore_files
from app.hub.disk.trash import Trash
from tests.gguf_files import gguf_bytes

OLD, NEW = "0" * 40, "1" * 40
BLOB = "a" * 64
PROJECTOR = gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"})


def info(path: Path, name: str = "model", **more: object) -> ModelInfo:
    return ModelInfo(name=name, title=name, path=str(path), format="gguf", size_bytes=1, **more)  # type: ignore[arg-type]


def list_content(root: Path) -> dict[str, str]:
    """What is below a folder: contents, and where links lead."""
    paths = (path for path in sorted(root.rglob("*")) if path.is_symlink() or path.is_file())
    contents = {
        str(file_path.relative_to(root)): str(file_path.readlink())
        if file_path.is_symlink()
        else file_path.read_text(errors="replace")
        for file_path in paths
    }
    return {name: content for name, content in contents.items() if not name.startswith("trash")}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A repository of which two commits were fetched."""
    folder = tmp_path / "hub" / "models--org--m"
    (folder / "blobs").mkdir(parents=True)
    for digest, content in ((BLOB, "weights"), ("b" * 64, "old config"), ("c" * 64, "new config")):
        (folder / "blobs" / digest).write_text(content)
    for commit, config in ((OLD, "b" * 64), (NEW, "c" * 64)):
        snapshot = folder / "snapshots" / commit
        (snapshot / "sub").mkdir(parents=True)
        try:
            (snapshot / "sub" / "m-Q4_0.gguf").symlink_to(f"../../../blobs/{BLOB}")
            (snapshot / "config.json").symlink_to(f"../../blobs/{config}")
            (snapshot / "model.safetensors").symlink_to(f"../../blobs/{BLOB}")
        except OSError:
            pytest.skip("this system lets nobody make links")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(NEW)
    return folder


@pytest.fixture
def trash(tmp_path: Path) -> Trash:
    return Trash(tmp_path / "trash", platform="linux")


def test_all_parts_of_a_split_model_go_and_come_back(tmp_path: Path, trash: Trash) -> None:
    for number in (1, 2):
        (tmp_path / f"big-{number:05d}-of-00002.gguf").write_text(f"part {number}")
    (tmp_path / "other.gguf").write_text("other")
    before = list_content(tmp_path)
    files = collect_files(info(tmp_path / "big-00001-of-00002.gguf"))
    assert files.frees_bytes == 12
    undo = remove_files(files, trash)
    assert list_content(tmp_path) == {"other.gguf": "other"}
    restore_files(undo, trash)
    assert list_content(tmp_path) == before


def test_a_file_of_the_cache_goes_with_every_link_to_it(cache: Path, trash: Trash) -> None:
    for link in cache.glob("snapshots/*/model.safetensors"):
        link.unlink()
    before = list_content(cache)
    files = collect_files(info(cache / "snapshots" / NEW / "sub" / "m-Q4_0.gguf"))
    undo = remove_files(files, trash)
    assert set(list_content(cache)) == {
        *(f"blobs/{letter * 64}" for letter in "bc"),
        *(f"snapshots/{commit}/config.json" for commit in (OLD, NEW)),
        "refs/main",
    }
    assert not (cache / "snapshots" / NEW / "sub").exists()
    restore_files(undo, trash)
    assert list_content(cache) == before


def test_a_link_out_of_the_cache_is_only_a_name(cache: Path, tmp_path: Path, trash: Trash) -> None:
    precious = tmp_path / "outside" / "precious.gguf"
    precious.parent.mkdir()
    precious.write_text("precious")
    link = cache / "snapshots" / NEW / "planted.gguf"
    link.symlink_to(precious)
    files = collect_files(info(link))
    assert (files.contents, files.frees_bytes) == ([], 0)
    undo = remove_files(files, trash)
    assert not link.is_symlink()
    assert precious.read_text() == "precious"
    restore_files(undo, trash)
    assert link.readlink() == precious


def test_what_another_version_needs_stays(cache: Path, trash: Trash) -> None:
    before = list_content(cache)
    for link in cache.glob("snapshots/*/sub/*"):
        link.unlink()
        link.parent.rmdir()
    files = collect_files(info(cache / "snapshots" / NEW))
    assert "1 of its files stay" in files.left[0]
    assert [file.name for file in files.contents] == ["c" * 64]
    undo = remove_files(files, trash)
    files_left = list_content(cache)
    assert f"blobs/{BLOB}" in files_left
    assert f"snapshots/{OLD}/model.safetensors" in files_left
    assert not (cache / "snapshots" / NEW).exists()
    assert "refs/main" not in files_left
    restore_files(undo, trash)
    assert list_content(cache) == {name: content for name, content in before.items() if "/sub/" not in name}


def test_a_folder_keeps_what_is_not_the_models(tmp_path: Path, trash: Trash) -> None:
    folder = tmp_path / "model"
    (folder / "notes").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "another.gguf"):
        (folder / name).write_text(name)
    files = collect_files(info(folder))
    assert "another.gguf, notes" in files.left[0]
    remove_files(files, trash)
    assert set(list_content(tmp_path)) == {"model/another.gguf"}


def test_for_good_is_for_good_and_a_further_name_frees_nothing(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_text("weights")
    os.link(file, tmp_path / "another.gguf")
    files = collect_files(info(file))
    assert files.frees_bytes == 0
    assert remove_files(files, None).kept == []
    assert not file.exists()


def test_a_removal_that_fails_half_way_is_undone(cache: Path, tmp_path: Path) -> None:
    before = list_content(cache)
    (tmp_path / "file").touch()
    files = collect_files(info(cache / "snapshots" / NEW / "sub" / "m-Q4_0.gguf"))
    with pytest.raises(StorageFault):
        remove_files(files, Trash(tmp_path / "file" / "trash", platform="linux"))
    assert list_content(cache) == before


def test_what_left_the_trash_is_not_brought_back_by_halves(tmp_path: Path, trash: Trash) -> None:
    for number in (1, 2):
        (tmp_path / f"big-{number:05d}-of-00002.gguf").write_text(f"part {number}")
    undo = remove_files(collect_files(info(tmp_path / "big-00001-of-00002.gguf")), trash)
    second = undo.kept[1].place
    second.unlink()
    for _ in range(2):
        with pytest.raises(NotFound, match=r"big-00002-of-00002\.gguf is no longer in the trash") as error:
            restore_files(undo, trash)
        assert error.value.code == "not_in_trash"
        assert list_content(tmp_path) == {}
        second.write_text("another file that was thrown away under that name")


def test_what_is_there_by_now_is_not_replaced_and_nothing_is_brought_back(tmp_path: Path, trash: Trash) -> None:
    for number in (1, 2):
        (tmp_path / f"big-{number:05d}-of-00002.gguf").write_text(f"part {number}")
    undo = remove_files(collect_files(info(tmp_path / "big-00001-of-00002.gguf")), trash)
    (tmp_path / "big-00002-of-00002.gguf").write_text("new")
    with pytest.raises(StorageFault, match=r"another big-00002-of-00002\.gguf"):
        restore_files(undo, trash)
    assert list_content(tmp_path) == {"big-00002-of-00002.gguf": "new"}


REFUSED: dict[str, Callable[[Path], ModelInfo]] = {
    "belongs to Ollama": lambda path: info(path, store="Ollama"),
    "part of Roundhouse": lambda path: info(path, is_builtin=True),
    "runs elsewhere": lambda path: info(path, attached="http://far"),
    "is another name for the weights of base": lambda path: info(path, preset=Preset(base="base")),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_ours_is_refused(tmp_path: Path, why: str) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    with pytest.raises(Conflict, match=why):
        collect_files(REFUSED[why](file))


def test_a_plan_says_whom_it_concerns(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_text("weights")
    model = info(file, "Base")
    made_model = info(file, "terse", preset=Preset(base="Base"))
    others = [model, made_model, info(tmp_path / "x.gguf", "x")]
    plan = plan_removal(model, others, aliases=["gpt-*=base", "claude=x"], chosen_projectors={})
    assert (plan.files, plan.frees_bytes) == ([str(file)], 7)
    assert (plan.made_models, plan.aliases) == (["terse"], ["gpt-*=base"])


def in_folder(folder: Path, *names: str) -> list[ModelInfo]:
    """Files of models in a folder; those called so are projectors."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(PROJECTOR if "mmproj" in name else name.encode())
    return [info(folder / name, Path(name).stem) for name in names if "mmproj" not in name]


def test_a_projector_goes_with_the_only_model_that_needs_it(tmp_path: Path, trash: Trash) -> None:
    parts = ("big-Q4_0-00001-of-00002.gguf", "big-Q4_0-00002-of-00002.gguf")
    models = in_folder(tmp_path, *parts, "mmproj-F16.gguf")
    before = list_content(tmp_path)
    plan = plan_removal(models[0], models[:1], aliases=[], chosen_projectors={})
    assert [Path(file).name for file in plan.files] == [*parts, "mmproj-F16.gguf"]
    assert (plan.projectors, plan.left) == (["mmproj-F16.gguf"], [])
    assert plan.frees_bytes == len("".join(parts)) + len(PROJECTOR)
    undo = remove_files(collect_files(models[0]), trash)
    assert list_content(tmp_path) == {}
    restore_files(undo, trash)
    assert list_content(tmp_path) == before


def test_a_projector_stays_until_the_last_quantisation_goes(tmp_path: Path, trash: Trash) -> None:
    small, large = in_folder(tmp_path, "tiny-Q4_0.gguf", "tiny-Q8_0.gguf", "mmproj.gguf")
    plan = plan_removal(small, [small, large], aliases=[], chosen_projectors={})
    assert [Path(file).name for file in plan.files] == ["tiny-Q4_0.gguf"]
    assert (plan.projectors, plan.left) == ([], ["mmproj.gguf stays: tiny-Q8_0 needs it."])
    remove_files(collect_files(small), trash)
    assert set(list_content(tmp_path)) == {"tiny-Q8_0.gguf", "mmproj.gguf"}
    remove_files(collect_files(large), trash)
    assert list_content(tmp_path) == {}


def test_a_projector_that_was_chosen_for_another_model_stays(tmp_path: Path) -> None:
    (model,) = in_folder(tmp_path / "one", "tiny-Q4_0.gguf", "mmproj.gguf")
    (far,) = in_folder(tmp_path / "two", "far-Q4_0.gguf")
    made_model = info(Path(model.path), "terse", preset=Preset(base=model.name, template="x", chat_template="x"))
    chosen_projectors = {name: str(tmp_path / "one" / "mmproj.gguf") for name in (model.name, "terse", "forgotten")}
    assert plan_removal(
        model, [model, far, made_model], aliases=[], chosen_projectors=chosen_projectors
    ).projectors == ["mmproj.gguf"]
    plan = plan_removal(
        model,
        [model, far, made_model],
        aliases=[],
        chosen_projectors=chosen_projectors | {far.name: chosen_projectors["terse"]},
    )
    assert (plan.projectors, plan.left) == ([], ["mmproj.gguf stays: far-Q4_0 needs it."])


def test_nobodys_projector_and_what_only_bears_the_name_stay(tmp_path: Path) -> None:
    first, two = in_folder(tmp_path, "one-Q4_0.gguf", "two-Q4_0.gguf", "mmproj.gguf")
    assert plan_removal(first, [first, two], aliases=[], chosen_projectors={}).projectors == []
    (tmp_path / "one-mmproj.gguf").write_text("no such thing")
    assert [file.name for file in collect_files(first).contents] == ["one-Q4_0.gguf"]


def test_a_link_in_a_folder_frees_nothing(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("weights")
    for name, target in (("m.gguf", "real"), ("away.gguf", "gone")):
        try:
            (tmp_path / name).symlink_to(target)
        except OSError:
            pytest.skip("this system lets nobody make links")
        files = collect_files(info(tmp_path / name))
        assert (files.contents, files.frees_bytes) == ([tmp_path / name], 0)


def link_file(cache: Path, commit: str, name: str, content: bytes) -> ModelInfo:
    """A file of the cache, whose content is a blob."""
    blob = cache / "blobs" / content[:9].hex().ljust(64, "0")
    blob.write_bytes(content)
    link = cache / "snapshots" / commit / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    return info(link, f"{link.stem}@{commit[0]}")


@pytest.fixture
def empty_cache(cache: Path) -> Path:
    """The same repository, with nothing in it yet."""
    shutil.rmtree(cache / "snapshots")
    for file in (cache / "blobs").iterdir():
        file.unlink()
    return cache


def test_in_the_cache_a_projector_goes_with_every_link_to_it_and_comes_back(empty_cache: Path, trash: Trash) -> None:
    model = link_file(empty_cache, NEW, "UD/tiny-UD-Q4_K_XL-00001-of-00002.gguf", b"weights 1")
    link_file(empty_cache, NEW, "UD/tiny-UD-Q4_K_XL-00002-of-00002.gguf", b"weights 2")
    for commit in (OLD, NEW):  # the model of the old version is gone, and its projector was left behind
        link_file(empty_cache, commit, "mmproj-F16.gguf", PROJECTOR)
    before = list_content(empty_cache)
    plan = plan_removal(model, [model], aliases=[], chosen_projectors={})
    assert (plan.projectors, plan.left, plan.frees_bytes) == (["mmproj-F16.gguf"], [], 18 + len(PROJECTOR))
    undo = remove_files(collect_files(model), trash)
    assert list_content(empty_cache) == {}
    assert list((empty_cache / "snapshots").iterdir()) == []
    restore_files(undo, trash)
    assert list_content(empty_cache) == before


def test_in_the_cache_a_projector_stays_for_another_quantisation(empty_cache: Path, trash: Trash) -> None:
    small = link_file(empty_cache, NEW, "tiny-Q4_0.gguf", b"4 bits of")
    large = link_file(empty_cache, NEW, "Q8_0/tiny-Q8_0.gguf", b"8 bits of")
    link_file(empty_cache, NEW, "mmproj-F16.gguf", PROJECTOR)
    plan = plan_removal(small, [small, large], aliases=[], chosen_projectors={})
    assert (plan.projectors, plan.left) == ([], ["mmproj-F16.gguf stays: tiny-Q8_0@1 needs it."])
    remove_files(collect_files(small), trash)
    assert {Path(name).name for name in list_content(empty_cache / "snapshots")} == {
        "tiny-Q8_0.gguf",
        "mmproj-F16.gguf",
    }
    assert plan_removal(large, [large], aliases=[], chosen_projectors={}).projectors == ["mmproj-F16.gguf"]


def test_in_the_cache_a_projector_of_two_versions_stays_for_the_newer(empty_cache: Path, trash: Trash) -> None:
    old = link_file(empty_cache, OLD, "tiny-Q4_0.gguf", b"before it")
    new = link_file(empty_cache, NEW, "tiny-Q4_0.gguf", b"after it!")
    for commit in (OLD, NEW):
        link_file(empty_cache, commit, "mmproj-F16.gguf", PROJECTOR)
    before = list_content(empty_cache)
    plan = plan_removal(old, [old, new], aliases=[], chosen_projectors={})
    assert (plan.projectors, plan.left) == ([], ["mmproj-F16.gguf stays: tiny-Q4_0@1 needs it."])
    assert plan.frees_bytes == 9
    undo = remove_files(collect_files(old, OtherModels.from_models(old, [old, new], {})), trash)
    assert set(list_content(empty_cache / "snapshots")) == {f"{NEW}/tiny-Q4_0.gguf", f"{NEW}/mmproj-F16.gguf"}
    restore_files(undo, trash)
    assert list_content(empty_cache) == before
