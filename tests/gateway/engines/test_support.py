"""What an engine loads is read once for each of its versions and kept with it."""

from pathlib import Path

import pytest

from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.version_store import VersionStore
from app.gateway.engines import support
from app.gateway.engines.support import SupportReader
from engines.api import EngineInstallation
from engines.api.support import EngineSupport
from engines.registry import ADAPTERS


class Readings:
    """Stands in for reading 100 MB, and counts."""

    def __init__(self) -> None:
        self.versions: list[str] = []

    def read(self, _sources: object, installation: EngineInstallation) -> EngineSupport | None:
        self.versions.append(installation.version)
        return EngineSupport(version=installation.version, gguf=frozenset({"llama"}))


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    readings = Readings()
    monkeypatch.setattr(support, "read_support", readings.read)
    return readings


def make_reader(tmp_path: Path) -> SupportReader:
    adapters = {"llama.cpp": ADAPTERS["llama.cpp"]}
    return SupportReader(EngineCatalogue(adapters, VersionStore(tmp_path / "engines")))


def test_a_version_is_read_once_also_over_a_restart(tmp_path: Path, readings: Readings) -> None:
    reader = make_reader(tmp_path)
    first = reader.read_all()
    assert first["llama.cpp"].gguf == {"llama"}
    assert reader.read_all() == first
    assert make_reader(tmp_path).read_all() == first
    assert len(readings.versions) == 1


def test_another_version_is_read_anew(tmp_path: Path, readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    make_reader(tmp_path).read_all()
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2099.1.1")
    assert make_reader(tmp_path).read_all()["llama.cpp"].version == "2099.1.1"
    assert len(readings.versions) == 2


def test_what_cannot_be_kept_or_read_back_is_read_again(tmp_path: Path, readings: Readings) -> None:
    make_reader(tmp_path).read_all()
    (kept_file,) = (tmp_path / "engines").rglob("*support.json")
    kept_file.write_text("{nothing")
    assert make_reader(tmp_path).read_all()["llama.cpp"].gguf == {"llama"}
    assert len(readings.versions) == 2


def test_an_engine_that_is_not_here_has_nothing_to_read(tmp_path: Path, readings: Readings) -> None:
    adapters = {"vllm": ADAPTERS["vllm"]}
    reader = SupportReader(EngineCatalogue(adapters, VersionStore(tmp_path / "engines", lambda _engine: False)))
    assert reader.read_all() == {}
    assert readings.versions == []
