"""Laws of installs: progress that grows to one, names that are picked, versions that are never lost, exact bounds."""

import io
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.engine_store import BUNDLED, Proof
from app.core.errors import EnvironmentFault
from app.engine_store import archives
from app.engine_store.archives import _path_inside, unpack_archive
from app.engine_store.environments import LOCK, TOOLS, InstallMeter, own_python_fits, write_locks
from app.engine_store.fetching import MOST_BYTES, MOST_TEXT
from app.engine_store.host import InstallHost, best_variant, order_variants, variant_gain, version_numbers
from app.engine_store.lock import compile_lock
from app.engine_store.recipe import EngineVariant, InstallRecipe, SmokeModel, VariantKind
from app.engine_store.releases import Asset, AssetSelection, _groups_fit
from app.engine_store.version_store import (
    PROVEN_LOADS,
    VersionManifest,
    VersionState,
    VersionStore,
    alternative_version,
    is_on_probation,
    mark_broken,
    place_of,
    record_load,
    record_proof,
    roll_back,
    switch_version,
)

GOOD = Proof(at=1.0, model="the Guide", text="x")
BAD = Proof(at=1.0, model="the Guide", code="gibberish", problem="it says nothing")
MIB = 1024**2


# ----- progress


def stages_of(lines: Sequence[str], expected_bytes: int = 0) -> list[tuple[str, float | None]]:
    stages: list[tuple[str, float | None]] = []
    meter = InstallMeter(expected_bytes, lambda stage, share: stages.append((stage, share)))
    for line in lines:
        meter.read_line(line)
    return stages


@pytest.mark.parametrize(("unit", "mebibytes"), [("K", 1 / 1024), ("M", 1), ("G", 1024)])
def test_sizes_are_read_in_their_units(unit: str, mebibytes: float) -> None:
    lines = [f"Downloading a (1.0{unit}iB)", "Downloading b (1.0MiB)", " Downloaded a"]
    stage, share = stages_of(lines)[-1]
    assert (stage, share) == ("Fetching b", mebibytes / (mebibytes + 1))


def test_progress_is_of_what_was_announced_or_expected_whichever_is_more() -> None:
    lines = [
        "Downloading a (10.0MiB)",
        " Downloaded a",
        " Downloaded small",
        "Nothing of note",
        "Building c",
        "Built c",
    ]
    assert stages_of(lines, 40 * MIB) == [
        ("Fetching a", 0.0),
        ("Fetching a", 0.25),
        ("Fetching small", 0.25),
        ("Compiling c, which takes minutes", 0.25),
        ("Compiling c", 0.25),
    ]
    assert stages_of(lines[:2], 5 * MIB) == [("Fetching a", 0.0), ("Fetching a", 1.0)]
    assert stages_of(["Building c"]) == [("Compiling c, which takes minutes", None)]


@given(sizes=st.lists(st.integers(1, 900), min_size=1, max_size=6), expected_mib=st.integers(0, 3000))
def test_progress_grows_and_ends_with_all_that_was_announced(sizes: list[int], expected_mib: int) -> None:
    announced_lines = [f"Downloading p{at} ({size}.0MiB)" for at, size in enumerate(sizes)]
    done_lines = [f" Downloaded p{at}" for at in range(len(sizes))]
    shares = [share for _, share in stages_of([*announced_lines, *done_lines], expected_mib * MIB)]
    assert all(share is not None for share in shares)
    end_shares = [share or 0.0 for share in shares[len(sizes) - 1 :]]
    assert end_shares == sorted(end_shares)
    assert end_shares[-1] == pytest.approx(sum(sizes) / max(expected_mib, sum(sizes)))


@pytest.mark.parametrize(
    ("limits", "version", "fits"),
    [
        (">=3.11,<3.15", (3, 11), True),
        (">=3.11,<3.15", (3, 10), False),
        (">=3.11,<3.15", (3, 14), True),
        (">=3.11,<3.15", (3, 15), False),
        (">=3.11", (4, 0), True),
        ("<3.9", (3, 10), False),
        ("", (2, 7), True),
    ],
)
def test_a_python_fits_from_its_lower_limit_to_before_its_upper(
    limits: str, version: tuple[int, int], *, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_python_fits(limits, version) is fits
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not own_python_fits(limits, version)
    assert own_python_fits(f">={sys.version_info[0]}.{sys.version_info[1]}") is False


def test_a_stage_has_the_locks_of_what_is_installed_and_of_what_builds_it(tmp_path: Path) -> None:
    write_locks(tmp_path, "a==1", "")
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    write_locks(tmp_path, "a==2", "b==1")
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {LOCK: "a==2", TOOLS: "b==1"}


# ----- which archive, which variant


@given(
    numbers=st.lists(st.integers(0, 10**6), min_size=1, max_size=4), other=st.lists(st.integers(0, 10**6), max_size=4)
)
def test_versions_compare_by_their_numbers(numbers: list[int], other: list[int]) -> None:
    first, second = (".".join(map(str, each)) for each in (numbers, other))
    assert version_numbers(f"v{first}-cpu") == tuple(numbers)
    assert (version_numbers(first) > version_numbers(second)) == (numbers > other)


@pytest.mark.parametrize(
    ("groups", "expected_groups", "fits"),
    [
        ({"os": "linux", "tag": "b1"}, {"os": "linux"}, True),
        ({"os": "linux"}, {"os": "win"}, False),
        ({"os": "linux", "gpu": "cuda"}, {"os": "linux"}, False),
        ({"os": "linux", "gpu": ""}, {"os": "linux"}, True),
        ({"os": "linux", "gpu": "cuda"}, {"os": "linux", "gpu": "cuda"}, True),
        ({"os": "linux", "gpu": ""}, {"os": "linux", "gpu": "cuda"}, False),
        ({"ver": "13.4"}, {"ver": "13"}, True),
        ({"ver": "13"}, {"ver": "13"}, True),
        ({"ver": "130"}, {"ver": "13"}, False),
        ({"ver": "12.8"}, {"ver": "13"}, False),
        ({"ver": "12.8", "ext": "zip", "tag": "x"}, {}, True),
    ],
)
def test_a_name_fits_by_what_is_asked_of_it_and_has_nothing_else(
    groups: Mapping[str, str], expected_groups: Mapping[str, str], *, fits: bool
) -> None:
    assert _groups_fit(groups, expected_groups) is fits


def test_an_asset_has_the_hash_that_the_server_states_as_one() -> None:
    hashes = [Asset(name="a", url="u", digest=digest).sha256 for digest in ("sha256:ab", "sha512:ab", "ab", "", None)]
    assert hashes == ["ab", "", "", "", ""]
    assets = tuple(Asset(name="a", url="u", size=size) for size in (3, 0, 4))
    assert AssetSelection(version="1", tag="b1", assets=assets).size_bytes == 7
    assert msgspec.json.decode(b'{"name": "a", "browser_download_url": "u"}', type=Asset).size == 0


def variant(name: str, backend: str = "cpu", **fields: object) -> EngineVariant:
    new_variant = EngineVariant(
        name=name,
        kind=VariantKind.VENV,
        version="1",
        backend=backend,
        platforms=("linux",),
        package="p",
        requires=("p",),
    )
    return msgspec.structs.replace(new_variant, **fields)


def test_the_first_build_that_this_computer_runs_is_offered(tmp_path: Path) -> None:
    variants = (
        variant("cuda", "cuda", driver={"nvidia": "580"}),
        variant("cpu"),
        variant("mac", platforms=("darwin",)),
    )
    recipe = InstallRecipe(engine="x", folder=tmp_path, smoke=SmokeModel(), variants=variants)
    plain = InstallHost(platform="linux", architecture="x86_64")
    for drivers, name in (
        ({}, "cpu"),
        ({"nvidia": "580.1"}, "cuda"),
        ({"nvidia": "579.9"}, "cpu"),
        ({"amd": "1"}, "cpu"),
    ):
        best = best_variant(recipe, msgspec.structs.replace(plain, drivers=drivers))
        assert best is not None
        assert best.name == name
    assert best_variant(recipe, msgspec.structs.replace(plain, platform="win32")) is None
    assert best_variant(recipe, msgspec.structs.replace(plain, architecture="riscv64")) is None
    assert best_variant(recipe, msgspec.structs.replace(plain, has_uv=False)) is None
    assert sorted(each.name for each in order_variants(recipe, plain)) == ["cpu", "cuda", "mac"]
    assert best_variant(recipe, plain, "mac") is variants[2]
    gains = variant("amx", gains={"amx": "It is faster.", "avx": "A little."})
    assert variant_gain(gains, msgspec.structs.replace(plain, isa=("sse", "avx"))) == "A little."
    assert variant_gain(gains, plain) == ""


def test_a_variant_says_nothing_that_was_not_written_down() -> None:
    plain = variant("a")
    assert (plain.architectures, plain.python) == (("x86_64", "arm64"), ">=3.11,<3.15")
    assert (plain.builds, plain.download_bytes, plain.disk_bytes) == (False, 0, 0)
    measured_variant = variant("a", download_mb=3, disk_mb=5)
    assert (measured_variant.download_bytes, measured_variant.disk_bytes) == (3_000_000, 5_000_000)
    host = InstallHost(platform="linux", architecture="x86_64")
    assert (host.glibc, host.has_uv, host.isa, host.toolkits, host.drivers) == ("", True, (), frozenset(), {})


def test_limits_of_what_is_fetched() -> None:
    assert (MOST_TEXT, MOST_BYTES) == (8 * MIB, 4_000_000_000)


# ----- versions

NAMES = st.sampled_from(["1", "2", "3", BUNDLED])
STEPS = st.lists(st.tuples(st.sampled_from(["switch", "load", "good", "bad", "broken", "back"]), NAMES), max_size=12)


@given(steps=STEPS)
def test_whatever_happens_to_versions_the_one_in_use_is_not_what_it_goes_back_to(steps: list[tuple[str, str]]) -> None:
    state = VersionState()
    assert (state.current, state.previous, state.loads, state.own) == (BUNDLED, "", 0, "")
    for act, name in steps:
        before = state
        match act:
            case "switch":
                state = switch_version(state, name)
                is_changed = name != before.current
                assert (state.current, state.bad) == (name, before.bad)
                assert (state.previous, state.loads) == (
                    (before.current, 0) if is_changed else (before.previous, before.loads)
                )
            case "load":
                state = record_load(state)
                assert state.loads == min(PROVEN_LOADS, before.loads + 1)
                assert state.bad.keys() == before.bad.keys() - {state.current}
            case "good" | "bad":
                state = record_proof(state, name, GOOD if act == "good" else BAD)
                assert state.proofs[name].is_good == (name not in state.bad) == (act == "good")
            case "broken":
                state = mark_broken(state, name, "why")
                assert state.bad == {**before.bad, name: "why"}
            case _ if before.previous:
                state = roll_back(state, "it failed")
                assert (state.current, state.previous, state.loads) == (before.previous, "", 0)
                assert state.bad[before.current] == "it failed"
                assert state.current not in state.bad
        assert state.previous != state.current
        assert is_on_probation(state) == (state.previous != "" and state.loads < 3)
        alternative = alternative_version(state, ["1", "2", "3", BUNDLED], ["3"])
        assert alternative not in {state.current, "3", *state.bad}
        if state.previous not in {"", "3", *state.bad}:
            assert alternative == state.previous


def manifest(name: str, installed_at: float) -> VersionManifest:
    return VersionManifest(
        engine="e", version="1", variant="cpu", backend="cpu", kind="venv", name=name, installed_at=installed_at
    )


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/etc"])
def test_a_version_is_named_by_a_plain_name(name: str, tmp_path: Path) -> None:
    assert VersionStore(tmp_path).read_manifest("e", name) is None


def test_versions_are_listed_by_age_and_then_by_name_and_lie_where_they_are_said_to(tmp_path: Path) -> None:
    for name, at in (("b", 1.0), ("a", 2.0), ("c", 1.0)):
        folder = tmp_path / "e" / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest(name, at)))
    store = VersionStore(tmp_path)
    assert [each.name for each in store.list_manifests("e")] == ["b", "c", "a"]
    place = store.find_place("e", "a")
    assert place is not None
    assert (place.folder, place.version, place.backend, place.python, place.executable) == (
        *(tmp_path / "e" / "a", "1", "cpu"),
        *(None, None),
    )
    with_programs = msgspec.structs.replace(manifest("a", 1.0), python="venv/bin/python", executable="bin/x")
    described_place = place_of(tmp_path, with_programs)
    assert (described_place.python, described_place.executable) == (tmp_path / "venv/bin/python", tmp_path / "bin/x")
    assert store.find_place("e", BUNDLED) is None


# ----- archives


def zip_with_link(path: Path, length: int) -> Path:
    """Return an archive with a link whose target has so many bytes, through folders that are not there."""
    info = zipfile.ZipInfo("link")
    info.create_system, info.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file", b"x")
        archive.writestr(info, ("./" * length)[: length - 4] + "file")
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_link_in_a_zip_is_as_long_as_a_path_may_be_and_else_none(tmp_path: Path) -> None:
    assert archives._LONGEST_LINK == 4096
    unpack_archive(zip_with_link(tmp_path / "short.zip", 1000), tmp_path / "short")
    assert (tmp_path / "short" / "link").read_bytes() == b"x"
    with pytest.raises(EnvironmentFault, match="neither file, folder nor link"):
        unpack_archive(zip_with_link(tmp_path / "long.zip", 4098), tmp_path / "long")


@pytest.mark.parametrize("target", ["", "/etc/passwd", "..\\up", "../up", "a/../../up"])
@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_link_leads_nowhere_but_inside(target: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    info = tarfile.TarInfo("link")
    info.type, info.linkname = tarfile.SYMTYPE, target
    with tarfile.open(path, "w") as archive:
        archive.addfile(info)
        archive.addfile(tarfile.TarInfo("file"), io.BytesIO())
    with pytest.raises(EnvironmentFault) as fault:
        unpack_archive(path, tmp_path / "into")
    assert fault.value.code == "bad_archive"
    assert not (tmp_path / "into" / ".unpacking").exists()


@pytest.mark.parametrize("name", ["", "/etc/passwd", "a\\b", "a\0b", "c:x", "..", "a/../b", "/"])
def test_a_name_that_leads_out_of_an_archives_folder_is_refused_whatever_else_it_has(name: str, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="would be written outside"):
        _path_inside(tmp_path, name, tmp_path / "a.tar")
    assert _path_inside(tmp_path, "a/b..c", tmp_path / "a.tar") == tmp_path / "a" / "b..c"


@pytest.mark.skipif(sys.platform == "win32", reason="the program is a script of a shell")
def test_a_lock_is_what_uv_writes_of_all_that_is_required(tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\ncat "$1"\n')
    uv.chmod(0o700)
    assert compile_lock([str(uv)], ["one==1", "two"]) == "one==1\ntwo\n"
    uv.write_text("#!/bin/sh\necho no >&2\nexit 1\n")
    with pytest.raises(EnvironmentFault, match="no set of packages that fits") as fault:
        compile_lock([str(uv)], ["one"])
    assert (fault.value.code, fault.value.body.detail) == ("no_lock", "no")
