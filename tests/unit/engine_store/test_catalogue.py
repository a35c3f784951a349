from collections.abc import Sequence
from pathlib import Path

import pytest

from app.core.engine_store import OWN
from app.core.errors import EngineFailed
from app.engine_store.catalogue import Catalogue
from app.engine_store.placed import PlacedAdapters
from app.engine_store.shelf import Shelf, State
from engines.api import (
    Descriptor,
    Exit,
    Failure,
    FailureKind,
    Installation,
    LaunchOptions,
    LaunchPlan,
    LogEvent,
    ModelSource,
    Net,
    Place,
)
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.launch import ADAPTER
from engines.mlx_lm.descriptor import DESCRIPTOR as OTHER

HERE = Installation(engine="llama.cpp", version="7", backend="metal", python=Path("/opt/python"))
NOWHERE = Path("/nowhere/at/all")
GONE = Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not here.", hint="Install it.")


class Played:
    """An adapter that is asked whether it is installed, and counts how often."""

    def __init__(self, *answers: Installation | Failure, descriptor: Descriptor = DESCRIPTOR) -> None:
        self.descriptor = descriptor
        self.answers = list(answers)
        self.asked = 0
        self.places: list[Place | None] = []

    def probe(self, place: Place | None = None) -> Installation | Failure:
        self.asked += 1
        self.places.append(place)
        return self.answers.pop(0)

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        raise NotImplementedError

    def read_log(self, line: str) -> Sequence[LogEvent]:
        raise NotImplementedError

    def classify_exit(self, end: Exit) -> Failure:
        raise NotImplementedError


def catalogue_of(adapter: Played) -> Catalogue:
    return Catalogue({"llama.cpp": adapter}, Shelf(NOWHERE))


def test_an_installed_engine_is_described_with_its_version() -> None:
    (info,) = catalogue_of(Played(HERE)).list()
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
    (info,) = catalogue_of(Played(GONE)).list()
    assert (info.installed, info.version, info.problem) == (False, "", "It is not here.")


def test_what_was_found_is_not_looked_for_again_and_what_was_missing_is() -> None:
    adapter = Played(GONE, HERE)
    catalogue = catalogue_of(adapter)
    catalogue.list()
    assert catalogue.installation("llama.cpp") == HERE
    assert catalogue.installation("llama.cpp") == HERE
    assert adapter.asked == 2


def test_only_engines_that_read_a_format_are_looked_for() -> None:
    other = Played(descriptor=OTHER)
    catalogue = Catalogue({"llama.cpp": Played(HERE), "mlx-lm": other}, Shelf(NOWHERE))
    assert [one.id for one in catalogue.readers_of("gguf")] == ["llama.cpp"]
    assert catalogue.backend_of("llama.cpp") == "metal"
    assert catalogue.backend_of("none") == ""
    assert other.asked == 0


def test_a_missing_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="It is not here") as caught:
        catalogue_of(Played(GONE)).installation("llama.cpp")
    assert (caught.value.code, caught.value.hint) == ("not_installed", "Install it.")


def test_an_unknown_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="has no engine called 'vllm'") as caught:
        Catalogue({}, Shelf(NOWHERE)).installation("vllm")
    assert caught.value.code == "not_installed"


def test_a_version_in_use_is_asked_by_its_place_and_anew_when_another_is_used(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    adapter = Played(HERE, Installation(engine="llama.cpp", version="8", backend="cpu"))
    catalogue = Catalogue({"llama.cpp": adapter}, shelf)
    assert catalogue.installation("llama.cpp").version == "7"
    shelf.change("llama.cpp", lambda _state: State(current=OWN, own=str(own)))
    assert catalogue.installation("llama.cpp").version == "8"
    assert adapter.places == [None, Place(folder=tmp_path, version="", backend="", executable=own)]


@pytest.mark.parametrize(("code", "is_named"), [(-11, True), (127, True), (-9, False)])
def test_a_program_of_ones_own_is_named_when_it_fails_by_itself(tmp_path: Path, code: int, is_named: bool) -> None:  # noqa: FBT001 -- a table's column
    shelf = Shelf(tmp_path)
    adapters = PlacedAdapters({"llama.cpp": ADAPTER}, shelf)
    end = Exit(code=code, suspicions=(), tail=(), was_ready=False)
    came_along = adapters["llama.cpp"].classify_exit(end)
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    shelf.change("llama.cpp", lambda _state: State(current=OWN, own=str(own)))
    failure = adapters["llama.cpp"].classify_exit(end)
    assert failure.kind is came_along.kind
    assert (str(own) in failure.hint) == is_named
    assert is_named or failure == came_along


def test_a_version_whose_files_are_gone_is_missing(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.change("llama.cpp", lambda _state: State(current=OWN, own=str(tmp_path / "gone")))
    with pytest.raises(EngineFailed, match="no longer there") as caught:
        Catalogue({"llama.cpp": Played()}, shelf).installation("llama.cpp")
    assert caught.value.code == "not_installed"


def test_a_version_that_failed_says_so(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.change("llama.cpp", lambda _state: State(bad={"bundled": "It wrote nonsense."}))
    (info,) = Catalogue({"llama.cpp": Played(HERE)}, shelf).list()
    assert (info.installed, info.problem) == (True, "It wrote nonsense.")
