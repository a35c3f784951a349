from collections.abc import Sequence
from pathlib import Path

import pytest

from app.core.errors import EngineFailed
from app.engine_store.catalogue import Catalogue
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

HERE = Installation(engine="llama.cpp", version="7", backend="metal", python=Path("/opt/python"))
GONE = Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not here.", hint="Install it.")


class Played:
    """An adapter that is asked whether it is installed, and counts how often."""

    def __init__(self, *answers: Installation | Failure) -> None:
        self.answers = list(answers)
        self.asked = 0

    @property
    def descriptor(self) -> Descriptor:
        return DESCRIPTOR

    def probe(self, place: Place | None = None) -> Installation | Failure:  # noqa: ARG002 -- it is the same everywhere
        self.asked += 1
        return self.answers.pop(0)

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        raise NotImplementedError

    def read_log(self, line: str) -> Sequence[LogEvent]:
        raise NotImplementedError

    def classify_exit(self, end: Exit) -> Failure:
        raise NotImplementedError


def test_an_installed_engine_is_described_with_its_version() -> None:
    (info,) = Catalogue({"llama.cpp": Played(HERE)}).list()
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
    (info,) = Catalogue({"llama.cpp": Played(GONE)}).list()
    assert (info.installed, info.version, info.problem) == (False, "", "It is not here.")


def test_what_was_found_is_not_looked_for_again_and_what_was_missing_is() -> None:
    adapter = Played(GONE, HERE)
    catalogue = Catalogue({"llama.cpp": adapter})
    catalogue.list()
    assert catalogue.installation("llama.cpp") == HERE
    assert catalogue.installation("llama.cpp") == HERE
    assert adapter.asked == 2


def test_a_missing_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="It is not here") as caught:
        Catalogue({"llama.cpp": Played(GONE)}).installation("llama.cpp")
    assert (caught.value.code, caught.value.hint) == ("not_installed", "Install it.")


def test_an_unknown_engine_cannot_be_had() -> None:
    with pytest.raises(EngineFailed, match="knows no engine called 'vllm'") as caught:
        Catalogue({}).installation("vllm")
    assert caught.value.code == "not_installed"
