import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from app.core.engine_store import OWN
from app.core.errors import EngineFailed
from app.engine_store.catalogue import EngineCatalogue, OwnPrograms, VersionedAdapters, old_version_failure
from app.engine_store.version_store import VersionState, VersionStore
from engines.api import (
    Descriptor,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
)
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.launch import ADAPTER
from engines.mlx_lm.descriptor import DESCRIPTOR as OTHER

HERE = EngineInstallation(engine="llama.cpp", version="7", backend="metal", python=Path("/opt/python"))
NOWHERE = Path("/nowhere/at/all")
GONE = Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not here.", hint="Install it.")


class Played:
    """An adapter that is asked whether it is installed, and counts how often."""

    def __init__(self, *answers: EngineInstallation | Failure, descriptor: Descriptor = DESCRIPTOR) -> None:
        self.descriptor = descriptor
        self.answers = list(answers)
        self.probe_count = 0
        self.places: list[EngineLocation | None] = []

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        self.probe_count += 1
        self.places.append(place)
        return self.answers.pop(0)

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        raise NotImplementedError

    def read_log(self, line: str) -> Sequence[LogEvent]:
        raise NotImplementedError

    def classify_exit(self, end: Exit) -> Failure:
        raise NotImplementedError


def catalogue_of(adapter: Played) -> EngineCatalogue:
    return EngineCatalogue({"llama.cpp": adapter}, VersionStore(NOWHERE))


def test_an_installed_engine_is_described_with_its_version() -> None:
    (info,) = catalogue_of(Played(HERE)).list_engines()
    assert (info.id, info.installed, info.version, info.backend, info.formats) == (
        "llama.cpp",
        True,
        "7",
        "metal",
        ["gguf"],
    )
    assert info.verified
    assert not info.problem


def test_a_missing_engine_is_listed_with_its_problem() -> None:
    (info,) = catalogue_of(Played(GONE)).list_engines()
    assert (info.installed, info.version, info.problem) == (False, "", "It is not here.")


def test_what_was_found_is_not_looked_for_again_and_what_was_missing_is() -> None:
    adapter = Played(GONE, HERE)
    catalogue = catalogue_of(adapter)
    catalogue.list_engines()
    assert catalogue.find_installation("llama.cpp") == HERE
    assert catalogue.find_installation("llama.cpp") == HERE
    assert adapter.probe_count == 2


def test_only_engines_that_read_a_format_are_looked_for() -> None:
    other = Played(descriptor=OTHER)
    catalogue = EngineCatalogue({"llama.cpp": Played(HERE), "mlx-lm": other}, VersionStore(NOWHERE))
    assert [entry.id for entry in catalogue.readers_of("gguf")] == ["llama.cpp"]
    assert catalogue.backend_of("llama.cpp") == "metal"
    assert catalogue.backend_of("none") == ""
    assert other.probe_count == 0


def test_a_missing_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="It is not here") as error:
        catalogue_of(Played(GONE)).find_installation("llama.cpp")
    assert (error.value.code, error.value.hint) == ("not_installed", "Install it.")


def test_an_unknown_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="has no engine called 'vllm'") as error:
        EngineCatalogue({}, VersionStore(NOWHERE)).find_installation("vllm")
    assert error.value.code == "not_installed"


def test_a_version_in_use_is_asked_by_its_place_and_anew_when_another_is_used(tmp_path: Path) -> None:
    shelf = VersionStore(tmp_path)
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    adapter = Played(HERE, EngineInstallation(engine="llama.cpp", version="b11549", backend="cpu"))
    catalogue = EngineCatalogue({"llama.cpp": adapter}, shelf)
    assert catalogue.find_installation("llama.cpp").version == "7"
    shelf.change_state("llama.cpp", lambda _state: VersionState(current=OWN, own=str(own)))
    assert catalogue.find_installation("llama.cpp").version == "b11549"
    assert adapter.places == [None, EngineLocation(folder=tmp_path, version="", backend="", executable=own)]


@pytest.mark.parametrize(("code", "is_named"), [(-11, True), (127, True), (-9, False)])
def test_a_program_of_ones_own_is_named_when_it_fails_by_itself(tmp_path: Path, code: int, is_named: bool) -> None:  # noqa: FBT001 -- a table's column
    shelf = VersionStore(tmp_path)
    adapters = VersionedAdapters({"llama.cpp": ADAPTER}, shelf)
    end = Exit(code=code, suspicions=(), tail=(), was_ready=False)
    came_along = adapters["llama.cpp"].classify_exit(end)
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    shelf.change_state("llama.cpp", lambda _state: VersionState(current=OWN, own=str(own)))
    failure = adapters["llama.cpp"].classify_exit(end)
    assert failure.kind is came_along.kind
    assert (str(own) in failure.hint) == is_named
    assert is_named or failure == came_along


@pytest.mark.skipif(sys.platform == "win32", reason="an executable is made of a text")
def test_a_program_on_path_is_found_where_the_engine_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / DESCRIPTOR.program
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    without = msgspec.structs.replace(DESCRIPTOR, program="")
    programs = OwnPrograms({"llama.cpp": Played(), "library": Played(descriptor=without)})
    assert programs.find_on_path("llama.cpp") == program
    assert programs.find_on_path("library") is None


def test_a_version_whose_files_are_gone_is_missing(tmp_path: Path) -> None:
    shelf = VersionStore(tmp_path)
    shelf.change_state("llama.cpp", lambda _state: VersionState(current=OWN, own=str(tmp_path / "gone")))
    with pytest.raises(EngineFailed, match="no longer there") as error:
        EngineCatalogue({"llama.cpp": Played()}, shelf).find_installation("llama.cpp")
    assert error.value.code == "not_installed"


def test_a_version_that_failed_says_so(tmp_path: Path) -> None:
    shelf = VersionStore(tmp_path)
    shelf.change_state("llama.cpp", lambda _state: VersionState(bad={"bundled": "It wrote nonsense."}))
    (info,) = EngineCatalogue({"llama.cpp": Played(HERE)}, shelf).list_engines()
    assert (info.installed, info.problem) == (True, "It wrote nonsense.")


def test_an_engine_is_broken_whose_version_is_gone_and_not_one_that_never_came_along(tmp_path: Path) -> None:
    assert not catalogue_of(Played(HERE)).list_engines()[0].is_broken
    assert not catalogue_of(Played(GONE)).list_engines()[0].is_broken
    shelf = VersionStore(tmp_path)
    shelf.change_state("llama.cpp", lambda _state: VersionState(current=OWN, own=str(tmp_path / "gone")))
    assert EngineCatalogue({"llama.cpp": Played()}, shelf).list_engines()[0].is_broken


def test_a_program_of_ones_own_is_asked_once_until_it_changes_or_a_person_asks_anew(tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_bytes(b"1")
    adapter = Played(HERE, HERE, GONE)
    programs = OwnPrograms({"llama.cpp": adapter})
    assert programs.probe_program("llama.cpp", program) == programs.probe_program("llama.cpp", program) == HERE
    assert adapter.probe_count == 1
    programs.probe_program("llama.cpp", program, anew=True)
    assert adapter.probe_count == 2
    program.write_bytes(b"22")
    assert programs.probe_program("llama.cpp", program) == GONE


@pytest.mark.parametrize(
    ("version", "is_own", "is_refused"),
    [
        ("b9060", False, True),
        ("b9061", False, False),
        ("b11549", True, False),
        ("custom", True, True),
        ("custom", False, False),
        ("b9060", True, True),
    ],
)
def test_a_version_runs_from_the_first_without_holes_on(
    tmp_path: Path, version: str, *, is_own: bool, is_refused: bool
) -> None:
    about = msgspec.structs.replace(DESCRIPTOR, least_version="b9061")
    installation = EngineInstallation(engine="llama.cpp", version=version, backend="cpu")
    place = EngineLocation(folder=tmp_path, version="" if is_own else version, backend="cpu")
    failure = old_version_failure(about, installation, place)
    assert (failure is not None) == is_refused
    if failure is not None:
        assert failure.kind is FailureKind.OUTDATED
        assert "b9061" in failure.sentence
        assert (version in failure.sentence) == (version != "custom")
    assert old_version_failure(msgspec.structs.replace(about, least_version=""), installation, place) is None


def test_an_engine_that_is_not_here_is_expected_to_be_one_of_its_kind() -> None:
    assert catalogue_of(Played(HERE)).expect_installation("llama.cpp") == HERE
    expected_installation = catalogue_of(Played(GONE)).expect_installation("llama.cpp")
    assert (expected_installation.engine, expected_installation.version, expected_installation.backend) == (
        "llama.cpp",
        "",
        "",
    )
