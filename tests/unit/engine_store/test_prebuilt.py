"""Wheels with compiled kernels from a release: the one that fits is put into an environment, and nothing else ever."""

import asyncio
import hashlib
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from app.core.errors import EnvironmentFault, NotFound
from app.engine_store.bundling import make_bundle
from app.engine_store.installer import Installer, InstallOptions, InstallTask
from app.engine_store.lock_text import read_pins
from app.engine_store.prebuilt import PrebuiltSource, WheelTarget, find_wheel_name, read_target
from app.engine_store.recipe import InstallRecipe, read_recipes
from app.engine_store.version_store import VersionStore
from tests.unit.engine_store.package_index import MODULE, PACKAGE, Index, wheel
from tests.unit.engine_store.release_server import REPOSITORY, ReleaseServer
from tests.unit.engine_store.test_installer import HERE, import_package, index, installer, judge, server, shelf

__all__ = ["index", "installer", "judge", "server", "shelf"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wheels of this test are Linux's")
PYTHON = f"cp{sys.version_info.major}{sys.version_info.minor}"
TORCH = "2.13.0"
COMPILED = f"1.0+cu132.torch{TORCH}"
NAME = f"{MODULE}-{COMPILED}-{PYTHON}-{PYTHON}-linux_x86_64.whl"
SOURCE = PrebuiltSource(
    repository=REPOSITORY,
    cuda="13",
    asset=rf"^{MODULE}-(?P<version>[0-9.]+)\+cu(?P<cuda>\d+)\.torch(?P<torch>[0-9.]+)"
    r"-(?P<python>cp\d+)-cp\d+-(?P<platform>\w+)\.whl$",
)


@pytest.fixture
def recipe(index: Index, tmp_path: Path) -> InstallRecipe:
    """Return a recipe whose environment has a PyTorch beside the engine."""
    folder = tmp_path / "index" / "simple" / "torch"
    folder.mkdir()
    torch = wheel(TORCH, package="torch")
    file = f"torch-{TORCH}-py3-none-any.whl"
    (folder / file).write_bytes(torch)
    sha256 = hashlib.sha256(torch).hexdigest()
    (folder / "index.html").write_text(f'<a href="{file}#sha256={sha256}">{file}</a>', encoding="utf-8")
    recipe = index.recipe(tmp_path, "1.0")
    with recipe.lock_of(recipe.variants[0]).open("a", encoding="utf-8") as lock:
        lock.write(f"torch=={TORCH} \\\n    --hash=sha256:{sha256}\n")
    return msgspec.structs.replace(recipe, prebuilt=SOURCE)


async def version_installed(installer: Installer, shelf: VersionStore, recipe: InstallRecipe) -> tuple[str, list[str]]:
    """Return which version is imported, and what the manifest says it came from."""
    told_lines: list[str] = []
    manifest = await installer.install_version(
        recipe, recipe.variants[0], InstallOptions(), lambda stage, _: told_lines.append(stage)
    )
    place = shelf.find_place("fake", manifest.manifest.name)
    assert place is not None
    assert manifest.manifest.version == "1.0", "whatever it was compiled for"
    assert not list(place.folder.rglob("*.whl"))
    line = await asyncio.to_thread(import_package, place)
    code = f"import importlib.metadata as m; print(m.version({PACKAGE!r}))"
    process = await asyncio.to_thread(
        subprocess.run, [str(place.python), "-c", code], capture_output=True, text=True, check=True
    )
    assert line
    return process.stdout.strip(), [*(source.name for source in manifest.manifest.sources), *told_lines]


async def test_the_wheel_that_fits_takes_the_place_of_the_one_that_compiles(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe
) -> None:
    other = f"{MODULE}-1.0+cu132.torch2.12.0-{PYTHON}-{PYTHON}-linux_x86_64.whl"
    server.add("v1.0", {NAME: wheel(COMPILED), other: wheel("1.0+cu132.torch2.12.0")})
    version, words = await version_installed(installer, shelf, recipe)
    assert version == COMPILED
    assert words[:2] == ["lock.txt", NAME]
    assert server.downloads == [f"v1.0/{NAME}"]


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("tag", ["v1.0", "v0.9"], ids=["for others", "no release"])
async def test_where_none_fits_the_environment_stays_as_it_is(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe, tag: str
) -> None:
    server.add(tag, {NAME.replace(TORCH, "2.12.0"): wheel("1.0+cu132.torch2.12.0")})
    assert (await version_installed(installer, shelf, recipe))[0] == "1.0"
    assert server.downloads == []


async def test_a_wheel_without_a_hash_is_not_taken(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe
) -> None:
    server.add("v1.0", {NAME: wheel(COMPILED)}, digests={NAME: None})
    version, words = await version_installed(installer, shelf, recipe)
    assert (version, server.downloads) == ("1.0", [])
    assert any("has no checksum" in word for word in words)


async def test_a_wheel_that_is_another_than_its_hash_says_is_not_taken(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe
) -> None:
    server.add("v1.0", {NAME: wheel(COMPILED)}, digests={NAME: "sha256:" + "ab" * 32})
    version, words = await version_installed(installer, shelf, recipe)
    assert version == "1.0"
    assert any("compiles its kernels at the first start" in word for word in words)


@pytest.mark.parametrize(("status", "problem"), [(200, "publish no compiled kernels"), (503, "503")])
async def test_where_nothing_is_compiled_an_install_without_kernels_fails(  # noqa: PLR0913, PLR0917 -- fixtures
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe, status: int, problem: str
) -> None:
    server.add("v1.0", {NAME.replace(TORCH, "2.12.0"): wheel("1.0+cu132.torch2.12.0")})
    server.status = status
    variant = msgspec.structs.replace(recipe.variants[0], needs_prebuilt=True)
    with pytest.raises(EnvironmentFault, match=problem):
        await installer.install_version(recipe, variant, InstallOptions(), lambda _stage, _share: None)
    with pytest.raises(NotFound):
        shelf.find_place("fake", "1.0-cpu")


async def test_what_takes_its_kernels_from_a_release_cannot_be_bundled(
    installer: Installer, recipe: InstallRecipe, tmp_path: Path
) -> None:
    variant = msgspec.structs.replace(recipe.variants[0], needs_prebuilt=True)
    stage = tmp_path / "stage"
    stage.mkdir()
    work = InstallTask(recipe, variant, InstallOptions(), stage, lambda _stage, _share: None)
    with pytest.raises(EnvironmentFault, match="cannot be bundled"):
        await make_bundle(installer, work, tmp_path / "bundle", HERE)


def test_a_lock_may_name_the_address_of_a_file() -> None:
    lock = (
        "torch @ https://download.example/whl/cu132/torch-2.13.0%2Bcu132-cp312-cp312-win_amd64.whl \\\n"
        "    --hash=sha256:00\njinja2==3.1.6 ; sys_platform == 'win32' \\\n    --hash=sha256:11\n"
    )
    assert read_pins(lock) == {"torch": "2.13.0+cu132", "jinja2": "3.1.6"}


def test_a_wheel_for_windows_is_for_the_pytorch_at_that_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = read_recipes()["exllamav3"]
    variant = recipe.find_variant("cuda13-windows")
    assert variant is not None
    (tmp_path / "pyvenv.cfg").write_text("version_info = 3.12.9\n", encoding="utf-8")
    monkeypatch.setattr(sys, "platform", "win32")
    target = read_target(recipe.lock_of(variant).read_text(encoding="utf-8"), tmp_path, variant.package)
    assert target == WheelTarget(version=variant.version, torch="2.13.0", python="cp312", platform="win_amd64")
    assert recipe.prebuilt is not None
    name = f"exllamav3-{variant.version}+cu132.torch2.13.0-cp312-cp312-win_amd64.whl"
    assert find_wheel_name(recipe.prebuilt, [name], target) == name


async def test_without_github_it_is_installed_all_the_same(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, recipe: InstallRecipe
) -> None:
    server.status = 503
    assert (await version_installed(installer, shelf, recipe))[0] == "1.0"


def test_names_as_the_authors_write_them_are_understood() -> None:
    """As in READMEs and scripts that install them; the newest CUDA of the lock's major version is taken."""
    names = [
        "exllamav3-1.6.5+cu128.torch2.15.0-cp312-cp312-linux_x86_64.whl",
        "exllamav3-1.6.5+cu130.torch2.15.0-cp312-cp312-linux_x86_64.whl",
        "exllamav3-1.6.5+cu132.torch2.15.0-cp312-cp312-linux_x86_64.whl",
        "exllamav3-1.6.5+cu132.torch2.15.0-cp312-cp312-win_amd64.whl",
        "exllamav3-1.6.5-py3-none-any.whl",
        "exllamav3-1.6.5+cu132.torch2.15.0-cp312-cp312-linux_x86_64.whl.asc",
    ]
    recipes = read_recipes()
    source = recipes["exllamav3"].prebuilt
    assert source is not None
    target = WheelTarget(version="1.6.5", torch="2.15.0", python="cp312", platform="linux_x86_64")
    assert find_wheel_name(source, names, target) == names[2]
    assert find_wheel_name(source, names, msgspec.structs.replace(target, torch="2.14.0")) == ""
    assert find_wheel_name(source, names, msgspec.structs.replace(target, python="cp311")) == ""
    older = recipes["exllamav2"].prebuilt
    assert older is not None
    assert older.pattern.fullmatch("exllamav2-0.3.2+cu128.torch2.8.0-cp312-cp312-win_amd64.whl")
