"""From a variant to the archives it is made of, and the archives to the disk, against a server that plays GitHub."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from app.core.errors import EnvironmentFault
from app.engine_store.fetching import ReleaseFetcher
from app.engine_store.recipe import Channel, EngineVariant, ReleaseSource, VariantKind, read_recipes
from app.engine_store.releases import Releases
from tests.unit.engine_store.release_server import ReleaseServer

LLAMA_CPP = read_recipes()["llama.cpp"]
RELEASE = LLAMA_CPP.release or ReleaseSource(repository="", asset="")
ARCHIVES = [variant for variant in LLAMA_CPP.variants if variant.kind is VariantKind.ARCHIVE]
UBUNTU = ("x64", "vulkan-x64", "cuda-12.8-x64", "cuda-13.4-x64", "rocm-10.0-x64", "sycl-fp16-x64", "sycl-fp32-x64")
MORE = ("openvino-2026.4-x64", "arm64", "vulkan-arm64", "cuda-13.4-arm64", "s390x")
WINDOWS = ("cpu-x64", "cpu-arm64", "vulkan-x64", "cuda-12.4-x64", "cuda-13.4-x64", "rocm-10.0-x64", "sycl-x64")


def names(tag: str) -> list[str]:
    ubuntu = [f"llama-{tag}-bin-ubuntu-{name}.tar.gz" for name in (*UBUNTU, *MORE)]
    windows = [f"llama-{tag}-bin-win-{name}.zip" for name in WINDOWS]
    return [
        *ubuntu,
        *windows,
        f"llama-{tag}-bin-linux-arm64-snapdragon.tar.gz",
        f"llama-{tag}-bin-macos-arm64.tar.gz",
        f"cudart-llama-{tag}-bin-ubuntu-cuda-13.4-x64.tar.gz",
        f"cudart-llama-{tag}-bin-ubuntu-cuda-12.8-x64.tar.gz",
        "cudart-llama-bin-win-cuda-13.4-x64.zip",
        "cudart-llama-bin-win-cuda-12.4-x64.zip",
        f"llama-{tag}-ui.tar.gz",
        f"llama-{tag}-xcframework.zip",
    ]


def variant(pick: dict[str, str], *companions: dict[str, str], pins: dict[str, str] | None = None) -> EngineVariant:
    return EngineVariant(
        name="one",
        kind=VariantKind.ARCHIVE,
        version="0.8.0",
        backend="cpu",
        platforms=("linux",),
        pick=pick,
        companions=companions,
        executable="llama-server",
        pins=pins or {},
    )


CPU = variant({"os": "ubuntu", "arch2": "x64"})


@pytest.fixture
async def server() -> AsyncIterator[ReleaseServer]:
    async with ReleaseServer().serve_releases() as release_server:
        release_server.add("b11400", {name: name.encode() for name in names("b11400")})
        release_server.add("v0.8.0", {"nightly-tag.txt": b"b11400\n"}, prerelease=False)
        release_server.add("b11549", {name: name.encode() for name in names("b11549")})
        release_server.add("v0.9.0", {"nightly-tag.txt": b"../../evil"}, prerelease=False)
        yield release_server


@pytest.fixture
async def fetcher() -> AsyncIterator[ReleaseFetcher]:
    async with aiohttp.ClientSession() as http:
        yield ReleaseFetcher(http)


@pytest.fixture
def releases(server: ReleaseServer, fetcher: ReleaseFetcher) -> Releases:
    return Releases(fetcher, RELEASE, server.url)


async def test_a_stable_release_is_followed_to_the_tag_that_carries_its_archives(releases: Releases) -> None:
    selection = await releases.choose_assets(CPU, Channel.STABLE)
    assert (selection.version, selection.tag) == ("0.8.0", "b11400")
    assert [asset.name for asset in selection.assets] == ["llama-b11400-bin-ubuntu-x64.tar.gz"]
    assert selection.assets[0].sha256 == hashlib.sha256(b"llama-b11400-bin-ubuntu-x64.tar.gz").hexdigest()
    assert selection.size_bytes == len("llama-b11400-bin-ubuntu-x64.tar.gz")


async def test_the_latest_is_the_newest_release_that_has_archives(releases: Releases) -> None:
    selection = await releases.choose_assets(CPU, Channel.LATEST)
    assert (selection.version, selection.tag) == ("b11549", "b11549")


async def test_a_version_may_be_named_by_its_tag(releases: Releases) -> None:
    assert (await releases.choose_assets(CPU, Channel.STABLE, "b11549")).tag == "b11549"


@pytest.mark.parametrize(
    ("pick", "name"),
    [
        ({"os": "ubuntu", "arch2": "x64"}, "llama-b11400-bin-ubuntu-x64.tar.gz"),
        ({"os": "ubuntu", "arch2": "arm64"}, "llama-b11400-bin-ubuntu-arm64.tar.gz"),
        ({"os": "linux", "arch2": "arm64", "vendor": "snapdragon"}, "llama-b11400-bin-linux-arm64-snapdragon.tar.gz"),
        ({"os": "ubuntu", "backend": "vulkan", "arch": "x64"}, "llama-b11400-bin-ubuntu-vulkan-x64.tar.gz"),
        (
            {"os": "ubuntu", "backend": "cuda", "arch": "x64", "ver": "12"},
            "llama-b11400-bin-ubuntu-cuda-12.8-x64.tar.gz",
        ),
        ({"os": "ubuntu", "backend": "cuda", "arch": "x64"}, "llama-b11400-bin-ubuntu-cuda-13.4-x64.tar.gz"),
        ({"os": "ubuntu", "backend": "rocm", "arch": "x64"}, "llama-b11400-bin-ubuntu-rocm-10.0-x64.tar.gz"),
        (
            {"os": "ubuntu", "backend": "sycl", "arch": "x64", "ver": "fp16"},
            "llama-b11400-bin-ubuntu-sycl-fp16-x64.tar.gz",
        ),
        ({"os": "macos", "arch2": "arm64"}, "llama-b11400-bin-macos-arm64.tar.gz"),
        ({"os": "win", "backend": "cpu", "arch": "x64"}, "llama-b11400-bin-win-cpu-x64.zip"),
    ],
)
async def test_archives_are_picked_by_what_their_names_say(releases: Releases, pick: dict[str, str], name: str) -> None:
    assert [asset.name for asset in (await releases.choose_assets(variant(pick), Channel.STABLE)).assets] == [name]


@pytest.mark.parametrize("engine_variant", ARCHIVES, ids=lambda archive: archive.name)
async def test_every_variant_of_llama_cpp_finds_its_archives(releases: Releases, engine_variant: EngineVariant) -> None:
    selection = await releases.choose_assets(engine_variant, Channel.LATEST)
    assert len(selection.assets) == 1 + len(engine_variant.companions)
    assert selection.tag == "b11549"


@pytest.mark.parametrize("version", ["12", "13", ""])
async def test_a_companion_is_of_the_same_version(releases: Releases, version: str) -> None:
    pick = {"os": "ubuntu", "backend": "cuda", "arch": "x64", "ver": version} if version else {}
    cuda = variant(
        pick or {"os": "ubuntu", "backend": "cuda", "arch": "x64", "ver": "13"},
        {"cudart": "cudart-", "os": "ubuntu", "backend": "cuda", "arch": "x64", "ver": version or "13"},
    )
    first, second = (await releases.choose_assets(cuda, Channel.STABLE)).assets
    assert second.name == f"cudart-{first.name}"


async def test_a_pinned_hash_counts_whatever_the_server_says(releases: Releases) -> None:
    pinned_variant = variant(CPU.pick, pins={"llama-b11400-bin-ubuntu-x64.tar.gz": "ab" * 32})
    (asset,) = (await releases.choose_assets(pinned_variant, Channel.STABLE)).assets
    assert asset.sha256 == "ab" * 32


@pytest.mark.parametrize(
    ("engine_variant", "version", "code"),
    [
        (variant({"os": "ubuntu", "backend": "opencl-adreno", "arch": "x64"}), "", "no_asset"),
        (CPU, "7.7.7", "no_release"),
        (CPU, "../../x", "no_release"),
        (CPU, "0.9.0", "no_release"),
    ],
    ids=["no such archive", "no such release", "no version", "a pointer elsewhere"],
)
async def test_what_cannot_be_had_is_said(
    releases: Releases, engine_variant: EngineVariant, version: str, code: str
) -> None:
    with pytest.raises(EnvironmentFault) as error:
        await releases.choose_assets(engine_variant, Channel.STABLE, version)
    assert error.value.code == code


async def test_a_release_that_is_not_there_is_named_and_so_are_those_there_are(releases: Releases) -> None:
    with pytest.raises(EnvironmentFault, match=r"There is no release b99999999 of this engine\.") as error:
        await releases.choose_assets(CPU, Channel.LATEST, "b99999999")
    assert error.value.hint == "The newest are v0.9.0, b11549, v0.8.0, b11400."


async def test_a_server_that_refuses_and_one_that_is_none(
    server: ReleaseServer, releases: Releases, fetcher: ReleaseFetcher
) -> None:
    server.status = 403
    with pytest.raises(EnvironmentFault, match="no more requests"):
        await releases.choose_assets(CPU, Channel.STABLE)
    server.status = 500
    with pytest.raises(EnvironmentFault, match="answered 500"):
        await releases.choose_assets(CPU, Channel.STABLE)
    with pytest.raises(EnvironmentFault, match="cannot be reached"):
        await Releases(fetcher, RELEASE, "http://127.0.0.1:1").choose_assets(CPU, Channel.STABLE)


CONTENT = b"weights" * 100_000


async def fetch_content(
    server: ReleaseServer, fetcher: ReleaseFetcher, path: Path, *, sha256: str | None = None
) -> list[int]:
    server.files["file"] = CONTENT
    amounts: list[int] = []
    digest = hashlib.sha256(CONTENT).hexdigest() if sha256 is None else sha256
    await fetcher.fetch_file(
        f"{server.url}/download/file", path, sha256=digest, size=len(CONTENT), report_bytes=amounts.append
    )
    return amounts


async def test_a_file_is_fetched_and_its_progress_told(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path
) -> None:
    amounts = await fetch_content(server, fetcher, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert amounts == sorted(amounts)
    assert amounts[-1] == len(CONTENT)


async def test_a_file_with_another_hash_is_refused(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentFault, match="SHA-256 differs") as error:
        await fetch_content(server, fetcher, tmp_path / "file", sha256="ab" * 32)
    assert error.value.code == "checksum"


async def test_a_file_without_a_hash_is_not_even_asked_for(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentFault, match="no checksum"):
        await fetch_content(server, fetcher, tmp_path / "file", sha256="")
    assert server.downloads == []


async def test_a_file_that_is_longer_than_announced_is_cut_off(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path
) -> None:
    server.files["file"] = CONTENT
    with pytest.raises(EnvironmentFault, match="it is longer"):
        await fetcher.fetch_file(
            f"{server.url}/download/file", tmp_path / "file", sha256="a", size=1000, report_bytes=lambda _n: None
        )


async def test_a_download_that_breaks_off_is_said(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path
) -> None:
    server.cut_after = 1000
    with pytest.raises(EnvironmentFault, match="cannot be reached"):
        await fetch_content(server, fetcher, tmp_path / "file")


@pytest.mark.parametrize("target", ["http://example.com/x", "ftp://127.0.0.1/x", "file:///etc/passwd"])
async def test_a_way_that_is_not_safe_is_not_taken(
    server: ReleaseServer, fetcher: ReleaseFetcher, tmp_path: Path, target: str
) -> None:
    with pytest.raises(EnvironmentFault, match="not an https address"):
        await fetcher.fetch_text(target)
    if target.startswith("ftp"):
        server.redirect = target
        with pytest.raises(EnvironmentFault):
            await fetch_content(server, fetcher, tmp_path / "file")
