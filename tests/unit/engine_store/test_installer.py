"""Installing with the real uv, from an index in a folder: what is put there, what never is, and what is cleaned up."""

import asyncio
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from app.config.programs import uv_program
from app.core.engine_store import BUNDLED, Proof
from app.core.errors import BadRequest, EngineFailed, EnvironmentFault
from app.engine_store.bundles import EngineBundleInfo, read_about, write_bundle
from app.engine_store.bundling import make_bundle
from app.engine_store.environments import InstallMeter, Progress, _venv_argv, own_python_fits
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.host import InstallHost
from app.engine_store.installer import (
    Installer,
    InstallerDeps,
    InstallOptions,
    InstallTask,
    loosen_requirements,
    package_differences,
    update_for,
    version_in_lock,
)
from app.engine_store.recipe import Channel, EngineVariant, InstallRecipe, ReleaseSource, SmokeModel, VariantKind
from app.engine_store.version_store import STAGE, VersionStore
from engines.api import EngineLocation
from tests.fake_engine.adapter import FakeAdapter
from tests.unit.engine_store.package_index import MODULE, PACKAGE, Index, with_hash
from tests.unit.engine_store.release_server import REPOSITORY, ReleaseServer

HERE = InstallHost(platform="linux", architecture="x86_64")
GOOD = Proof(at=1.0, model="the Guide", text="Hello", tokens_per_s=10.0)


def quiet(_stage: str, _fraction: float | None) -> None:
    pass


class Judge:
    """Plays what proves a version; `verdict` is what it says."""

    def __init__(self) -> None:
        self.verdict = GOOD
        self.calls: list[tuple[Path, bool]] = []
        self.hangs = False
        self.call_event = asyncio.Event()

    async def __call__(
        self, engine: str, place: EngineLocation, *, with_own_models: bool, progress: Progress
    ) -> list[Proof]:
        progress(f"Judging {engine}", None)
        assert place.python is None or place.python.exists()
        self.calls.append((place.folder, with_own_models))
        self.call_event.set()
        if self.hangs:
            await asyncio.Event().wait()
        return [self.verdict]


@pytest.fixture
def shelf(tmp_path: Path) -> VersionStore:
    return VersionStore(tmp_path / "engines")


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def index(tmp_path: Path) -> Index:
    package_index = Index(tmp_path / "index")
    package_index.add("1.0")
    package_index.add("2.0")
    return package_index


@pytest.fixture
async def server() -> AsyncIterator[ReleaseServer]:
    async with ReleaseServer().serve_releases() as release_server:
        yield release_server


@pytest.fixture
async def installer(shelf: VersionStore, judge: Judge, server: ReleaseServer) -> AsyncIterator[Installer]:
    async with aiohttp.ClientSession() as http:
        yield Installer(
            InstallerDeps(
                shelf=shelf,
                adapters={"fake": FakeAdapter()},
                fetcher=ReleaseFetcher(http),
                prove=judge,
                uv=uv_program,
                releases_api=lambda: server.url,
            )
        )


def left_in(shelf: VersionStore, tmp_path: Path) -> list[Path]:
    return list((tmp_path / "engines" / STAGE).iterdir())


def import_package(place: EngineLocation) -> str:
    """The version and the folder that the environment's own Python finds."""
    code = f"import {MODULE} as m; print(m.__version__, m.__file__)"
    process = subprocess.run([str(place.python), "-c", code], capture_output=True, text=True, check=True)
    return process.stdout[: len(f"1.0 {place.folder}")]


async def test_a_version_is_made_proved_and_used(
    installer: Installer, shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path
) -> None:
    recipe, stages = index.recipe(tmp_path, "1.0"), []
    manifest = await installer.install_version(
        recipe, recipe.variants[0], InstallOptions(), lambda stage, _: stages.append(stage)
    )
    assert (manifest.manifest.name, manifest.proofs) == ("1.0-cpu", [GOOD])
    state = shelf.read_state("fake")
    assert (state.current, state.previous, state.proofs) == ("1.0-cpu", BUNDLED, {"1.0-cpu": GOOD})
    place = shelf.find_place("fake", "1.0-cpu")
    assert place is not None
    assert await asyncio.to_thread(import_package, place) == f"1.0 {place.folder}"
    assert judge.calls[0][0] != place.folder, "it was proved before it was put in its place"
    assert left_in(shelf, tmp_path) == []
    assert stages[0] == "Creating an environment"
    assert stages[-1] == "Moving it into place"


async def test_an_update_keeps_the_version_before(
    installer: Installer, shelf: VersionStore, index: Index, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0"):
        recipe = index.recipe(tmp_path, version)
        await installer.install_version(recipe, recipe.variants[0], InstallOptions(), quiet)
    assert (shelf.read_state("fake").current, shelf.read_state("fake").previous) == ("2.0-cpu", "1.0-cpu")
    assert [manifest.name for manifest in shelf.list_manifests("fake")] == ["1.0-cpu", "2.0-cpu"]


async def test_a_version_may_be_installed_without_being_used(
    installer: Installer, shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path
) -> None:
    recipe = index.recipe(tmp_path, "1.0")
    await installer.install_version(recipe, recipe.variants[0], InstallOptions(use=False), quiet)
    assert shelf.read_state("fake").current == BUNDLED
    assert judge.calls[0][1] is False


async def test_a_version_that_fails_its_test_is_not_kept_and_why_is(
    installer: Installer, shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path
) -> None:
    judge.verdict = Proof(at=1.0, code="gibberish", problem="It wrote nonsense.", log="last words")
    recipe = index.recipe(tmp_path, "2.0")
    with pytest.raises(EngineFailed, match="was not installed, because its test failed: It wrote nonsense") as error:
        await installer.install_version(recipe, recipe.variants[0], InstallOptions(), quiet)
    assert (error.value.code, error.value.body.detail) == ("gibberish", "last words")
    assert (shelf.read_state("fake").current, shelf.read_state("fake").bad) == (
        BUNDLED,
        {"2.0-cpu": "It wrote nonsense."},
    )
    assert shelf.list_manifests("fake") == []
    assert left_in(shelf, tmp_path) == []


async def test_a_package_that_is_not_the_locked_one_is_not_installed(
    installer: Installer, shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path
) -> None:
    recipe = with_hash(index.recipe(tmp_path, "1.0"), "ab" * 32)
    with pytest.raises(EnvironmentFault, match="hash does not match"):
        await installer.install_version(recipe, recipe.variants[0], InstallOptions(), quiet)
    assert judge.calls == []
    assert left_in(shelf, tmp_path) == []


async def test_calling_it_off_leaves_nothing(
    installer: Installer, shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path
) -> None:
    judge.hangs = True
    recipe = index.recipe(tmp_path, "1.0")
    job = asyncio.create_task(installer.install_version(recipe, recipe.variants[0], InstallOptions(), quiet))
    await judge.call_event.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert shelf.list_manifests("fake") == []
    assert left_in(shelf, tmp_path) == []


async def test_the_latest_channel_locks_on_the_spot(
    installer: Installer, shelf: VersionStore, index: Index, tmp_path: Path
) -> None:
    recipe = index.recipe(tmp_path, "1.0")
    work = InstallTask(recipe, recipe.variants[0], InstallOptions(channel=Channel.LATEST), tmp_path, quiet)
    update = await update_for(installer, work, "1.0")
    assert (update.to, update.changes) == ("2.0", [f"{PACKAGE} 1.0 -> 2.0"])
    manifest = await installer.install_version(recipe, recipe.variants[0], work.options, quiet)
    assert (manifest.manifest.version, manifest.manifest.channel) == ("2.0", "latest")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(("version", "code"), [("1.0", ""), ("3.0", "no_release"), ("1.0; import os", "no_release")])
async def test_a_version_that_is_named_is_locked_or_was_never_published(
    installer: Installer, index: Index, tmp_path: Path, version: str, code: str
) -> None:
    recipe = index.recipe(tmp_path, "2.0")
    options = InstallOptions(channel=Channel.LATEST, version=version)
    refusal = ""
    try:
        manifest = await installer.install_version(recipe, recipe.variants[0], options, quiet)
        assert manifest.manifest.version == version
    except EnvironmentFault as fault:
        refusal = fault.code
    assert refusal == code


async def test_there_is_no_update_to_what_is_used(installer: Installer, index: Index, tmp_path: Path) -> None:
    recipe = index.recipe(tmp_path, "2.0")
    work = InstallTask(recipe, recipe.variants[0], InstallOptions(), tmp_path, quiet)
    assert (await update_for(installer, work, "2.0")).to == ""
    assert (await update_for(installer, work, "1.0")).to == "2.0"


async def test_without_uv_it_says_what_to_do(shelf: VersionStore, index: Index, judge: Judge, tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        means = InstallerDeps(
            shelf=shelf, adapters={"fake": FakeAdapter()}, fetcher=ReleaseFetcher(http), prove=judge, uv=lambda: None
        )
        recipe = index.recipe(tmp_path, "1.0")
        with pytest.raises(EnvironmentFault, match="is missing"):
            await Installer(means).install_version(recipe, recipe.variants[0], InstallOptions(), quiet)


def archive_recipe(tmp_path: Path) -> InstallRecipe:
    variant = EngineVariant(
        name="cpu",
        kind=VariantKind.ARCHIVE,
        version="0.8.0",
        backend="cpu",
        platforms=("linux", "darwin", "win32"),
        pick={"os": "ubuntu"},
        executable="llama-server",
    )
    return InstallRecipe(
        engine="fake",
        folder=tmp_path,
        smoke=SmokeModel(),
        variants=(variant,),
        release=ReleaseSource(
            repository=REPOSITORY, asset=r"llama-b\d+-bin-(?P<os>ubuntu)\.zip", pointer="nightly-tag.txt"
        ),
    )


def publish_release(server: ReleaseServer, tmp_path: Path) -> None:
    import zipfile  # noqa: PLC0415 -- for this one archive

    path = tmp_path / "made.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("llama-b11400/llama-server", b"program")
        archive.writestr("llama-b11400/llama-server.exe", b"program")
    server.add("b11400", {"llama-b11400-bin-ubuntu.zip": path.read_bytes()})
    server.add("v0.8.0", {"nightly-tag.txt": b"b11400"}, prerelease=False)


async def test_an_archive_of_a_release_is_installed_and_its_source_kept(
    installer: Installer, shelf: VersionStore, server: ReleaseServer, tmp_path: Path
) -> None:
    publish_release(server, tmp_path)
    recipe, stages = archive_recipe(tmp_path), []
    manifest = await installer.install_version(
        recipe, recipe.variants[0], InstallOptions(), lambda stage, part: stages.append((stage, part))
    )
    place = shelf.find_place("fake", "0.8.0-cpu")
    assert place is not None
    assert place.executable is not None
    assert place.executable.read_bytes() == b"program"
    assert [source.name for source in manifest.manifest.sources] == ["llama-b11400-bin-ubuntu.zip"]
    assert manifest.manifest.sources[0].sha256
    assert ("Fetching llama-b11400-bin-ubuntu.zip", 1.0) in stages


@pytest.mark.parametrize("kind", [pytest.param(VariantKind.VENV, marks=pytest.mark.engines), VariantKind.ARCHIVE])
async def test_a_bundle_installs_where_there_is_no_network(  # noqa: PLR0913, PLR0917 -- fixtures
    installer: Installer, shelf: VersionStore, index: Index, server: ReleaseServer, tmp_path: Path, kind: VariantKind
) -> None:
    publish_release(server, tmp_path)
    recipe = index.recipe(tmp_path, "1.0") if kind is VariantKind.VENV else archive_recipe(tmp_path)
    bundle = tmp_path / "fake.bundle"
    (tmp_path / "stage").mkdir()
    work = InstallTask(recipe, recipe.variants[0], InstallOptions(), tmp_path / "stage", quiet)
    await make_bundle(installer, work, bundle, HERE)
    nowhere = msgspec.structs.replace(recipe.variants[0], index_urls=())
    server.status = 500
    before = len(server.downloads)
    manifest = await installer.install_version(recipe, nowhere, InstallOptions(bundle=bundle), quiet)
    assert shelf.read_state("fake").current == manifest.manifest.name
    assert len(server.downloads) == before


async def test_a_bundle_that_was_changed_or_is_for_another_engine_is_refused(
    installer: Installer, index: Index, server: ReleaseServer, tmp_path: Path
) -> None:
    publish_release(server, tmp_path)
    recipe, bundle = archive_recipe(tmp_path), tmp_path / "fake.bundle"
    (tmp_path / "stage").mkdir()
    await make_bundle(
        installer, InstallTask(recipe, recipe.variants[0], InstallOptions(), tmp_path / "stage", quiet), bundle, HERE
    )
    other = index.recipe(tmp_path, "1.0", engine="other")
    with pytest.raises(BadRequest, match="holds fake"):
        await installer.install_version(other, other.variants[0], InstallOptions(bundle=bundle), quiet)
    data = bytearray(bundle.read_bytes())
    at = data.rindex(b"program")
    data[at : at + 7] = b"PROGRAM"
    bundle.write_bytes(bytes(data))
    with pytest.raises(BadRequest, match="damaged"):
        await installer.install_version(recipe, recipe.variants[0], InstallOptions(bundle=bundle), quiet)
    bundle.write_bytes(b"no bundle")
    with pytest.raises(BadRequest, match="is not an engine bundle"):
        await installer.install_version(recipe, recipe.variants[0], InstallOptions(bundle=bundle), quiet)


def test_only_the_engines_own_version_is_set_free(index: Index, tmp_path: Path) -> None:
    variant = msgspec.structs.replace(
        index.recipe(tmp_path, "1.0").variants[0], package="mlx-lm", requires=("mlx-lm[cpu]==0.32.2", "mlx==0.30")
    )
    assert loosen_requirements(variant, "") == ["mlx-lm[cpu]", "mlx==0.30"]
    assert loosen_requirements(variant, "0.33") == ["mlx-lm[cpu]==0.33", "mlx==0.30"]


def test_a_lock_tells_versions_whatever_the_spelling() -> None:
    lock = "numpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:aa\nopenvino-genai==2026.4.1.0 \\\n"
    assert version_in_lock(lock, "openvino_genai") == "2026.4.1.0"
    assert package_differences(lock, lock.replace("2.4.6", "2.5.5")) == ["numpy 2.4.6 -> 2.5.5"]
    with pytest.raises(EnvironmentFault):
        version_in_lock(lock, "genai")


@pytest.mark.parametrize(
    ("limits", "version", "fits"),
    [(">=3.11,<3.15", (3, 11), True), (">=3.12", (3, 11), False), (">=3.11,<3.13", (3, 13), False), ("", (3, 9), True)],
)
def test_our_own_python_is_lent_where_it_fits(limits: str, version: tuple[int, int], fits: bool) -> None:  # noqa: FBT001 -- a table
    assert own_python_fits(limits, version) is fits


def test_uvs_lines_become_progress() -> None:
    progress: list[tuple[str, float | None]] = []
    meter = InstallMeter(0, lambda stage, fraction: progress.append((stage, fraction)))
    for line in (
        "Using Python 3.11.7 environment at: venv",
        "Resolved 2 packages in 211ms",
        "Downloading xllamacpp (30.0MiB)",
        "Downloading numpy (10.0MiB)",
        " Downloaded numpy",
        " Downloaded xllamacpp",
        "Prepared 2 packages in 852ms",
    ):
        meter.read_line(line)
    assert progress[0] == ("Fetching xllamacpp", 0.0)
    assert progress[2] == ("Fetching xllamacpp", 0.25)
    assert progress[3][1] == 1.0
    assert progress[-1] == ("Installing", None)


def test_a_compiler_is_silent_for_minutes_and_that_is_said() -> None:
    progress: list[tuple[str, float | None]] = []
    meter = InstallMeter(0, lambda stage, fraction: progress.append((stage, fraction)))
    for line in ("   Building llama-cpp-python==0.3.36", "      Built llama-cpp-python==0.3.36"):
        meter.read_line(line)
    assert progress[0] == ("Compiling llama-cpp-python==0.3.36, which takes minutes", None)
    assert "minutes" not in progress[1][0]


@pytest.mark.parametrize(
    ("current", "to", "download_bytes"),
    [("1.9", "2.0", 3_000_000), ("2.0", "", 0), ("2.1", "", 0), ("", "2.0", 3_000_000)],
)
async def test_an_update_is_to_something_newer_and_else_costs_nothing(
    installer: Installer, tmp_path: Path, current: str, to: str, download_bytes: int
) -> None:
    archive = EngineVariant(
        name="cpu", kind=VariantKind.ARCHIVE, version="2.0", backend="cpu", platforms=("linux",), download_mb=3
    )
    recipe = InstallRecipe(engine="x", folder=tmp_path, smoke=SmokeModel(), variants=(archive,))
    task = InstallTask(recipe, archive, InstallOptions(), tmp_path, lambda *_: None)
    update = await update_for(installer, task, current)
    assert (update.engine, update.variant, update.current) == ("x", "cpu", current)
    assert (update.to, update.download_bytes) == (to, download_bytes)


def test_an_environment_is_made_with_our_own_python_where_it_fits(tmp_path: Path) -> None:
    for limits, python in ((">=3.11,<4.0", sys.executable), (">=2.6,<2.8", ">=2.6,<2.8")):
        variant = EngineVariant(
            name="cpu", kind=VariantKind.VENV, version="1", backend="cpu", platforms=("linux",), python=limits
        )
        argv = _venv_argv(Path("uv"), variant, tmp_path)
        assert argv[argv.index("--python") + 1] == python
        assert argv[-1] == str(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_does_not_begin_as_a_bundle_is_none(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.bundle"
    if content is None:
        with tarfile.open(path, "w") as archive:
            info = tarfile.TarInfo("something else")
            archive.addfile(info)
    else:
        path.write_bytes(content)
    with pytest.raises(BadRequest):
        read_about(path)


def test_a_bundle_says_what_it_is_and_keeps_nothing_of_who_made_it(tmp_path: Path) -> None:
    files = tmp_path / "stage" / "files"
    files.mkdir(parents=True)
    (files / "a.whl").write_bytes(b"wheel")
    about = EngineBundleInfo(
        engine="x", variant="cpu", version="1", platform="linux", architecture="x86_64", files={}, lock="a==1"
    )
    path = tmp_path / "x.bundle"
    write_bundle(path, about, files)
    read = read_about(path)
    assert (read.engine, read.lock, list(read.files)) == ("x", "a==1", ["a.whl"])
    with tarfile.open(path) as archive:
        member = archive.getmember("files/a.whl")
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
    assert [each.name for each in tmp_path.iterdir() if each.suffix == ".part"] == []
