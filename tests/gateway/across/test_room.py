"""Whether an engine here can hold a part of a model: the same files, an engine that can, and a network of its own."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.errors import EngineFailed, NotFound
from app.core.machine import Fact, Machine, Pool
from app.core.models import ModelInfo
from app.gateway.across import room
from app.gateway.across.room import choose_pool, describe_room, digest_model, memory_share
from app.gateway.across.tunnel import NodeOrder
from engines.api import EngineInstallation
from engines.registry import ADAPTERS

GIB = 1 << 30
VLLM = EngineInstallation(engine="vllm", version="0.33", backend="cpu", python=Path("python"))


def write_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m")


class PlayedLibrary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def find_model(self, name: str) -> ModelInfo:
        if name != "m":
            raise NotFound("No such model.")
        return ModelInfo(name="m", title="M", path=str(self.path), format="safetensors", size_bytes=1)


class PlayedCatalogue:
    def __init__(self, installation: EngineInstallation | None) -> None:
        self.installation = installation

    def find_installation(self, engine: str) -> EngineInstallation:
        if self.installation is None:
            raise EngineFailed(f"{engine} is not installed.")
        return self.installation

    def expect_installation(self, engine: str) -> EngineInstallation:
        return EngineInstallation(engine=engine, version="", backend="")


def pool(name: str, free: int, *, total: int, gpus: list[str] | None = None) -> Pool:
    facts = [Fact(value=value) for value in (total, total, free)]
    return Pool(id=name, name=name, physical=facts[0], addressable=facts[1], free=facts[2], gpus=gpus or [])


def services_with(model: Path, installation: EngineInstallation | None = VLLM) -> Any:  # noqa: ANN401 -- played
    async def read_free() -> Any:  # noqa: ANN401 -- as above
        memory = SimpleNamespace(bandwidth_gb_s=Fact(value=20.0))
        return SimpleNamespace(pools=[pool("system", 8 * GIB, total=16 * GIB)], gpus=[], memory=memory)

    return SimpleNamespace(
        adapters=ADAPTERS,
        catalogue=PlayedCatalogue(installation),
        library=PlayedLibrary(model),
        machine=SimpleNamespace(read_free=read_free),
    )


def order(folder: Path, *, engine: str = "vllm", model: str = "m", digest: str = "") -> NodeOrder:
    return NodeOrder(engine=engine, model=model, digest=digest or digest_model(folder))


@pytest.fixture(autouse=True)
def networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_network_problem", lambda: "")


async def test_the_same_model_and_an_engine_are_all_it_takes(model: Path) -> None:
    reply = await describe_room(services_with(model), order(model))
    assert (reply.problem, reply.version, reply.backend, reply.bandwidth_gb_s) == ("", "0.33", "cpu", 20.0)
    assert 0 < reply.free_bytes < 8 * GIB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "other"}, "not there"),
        ({"digest": "0" * 64}, "another one"),
        ({"engine": "exllamav3"}, "no way to run"),
        ({"engine": "../vllm"}, "is not installed"),
    ],
)
async def test_what_it_cannot_do_is_said(model: Path, fields: dict[str, str], words: str) -> None:
    installation = None if fields.get("engine", "").startswith("..") else VLLM
    reply = await describe_room(services_with(model, installation), order(model, **fields))
    assert words in reply.problem
    assert reply.free_bytes == 0


async def test_an_engine_that_is_not_installed_or_has_no_network_is_named(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "not installed" in (await describe_room(services_with(model, None), order(model))).problem
    monkeypatch.setattr(room, "_network_problem", lambda: "Operation not permitted")
    assert (
        "network of its own: Operation not permitted"
        in (await describe_room(services_with(model), order(model))).problem
    )


async def test_an_engine_that_is_only_planned_needs_nothing_there(model: Path) -> None:
    services = services_with(model, None)
    assert (await describe_room(services, order(model, engine="mlx-lm", digest="0"))).problem == ""


def test_models_are_told_apart_by_names_sizes_and_configuration(model: Path, tmp_path: Path) -> None:
    same = write_model(tmp_path / "same")
    assert digest_model(same) == digest_model(model)
    (same / "config.json").write_text("[]")
    assert digest_model(same) != digest_model(model)
    (same / "config.json").write_text("{}")
    (same / "model.safetensors").write_bytes(b"other weights")
    assert digest_model(same) != digest_model(model)


def test_a_process_takes_the_card_with_most_room_and_a_share_of_it() -> None:
    cards = [pool(name, free * GIB, total=24 * GIB, gpus=[name]) for name, free in (("a", 10), ("b", 20))]
    machine: Machine = SimpleNamespace(pools=[pool("system", GIB, total=64 * GIB), *cards])  # type: ignore[assignment]
    assert choose_pool(machine, "cpu") is machine.pools[0]
    card = choose_pool(machine, "cuda")
    assert card is cards[1]
    assert memory_share(machine, card, 6 * GIB) == 0.25
    assert memory_share(machine, card, 1) == 0.05
    assert memory_share(machine, card, 1000 * GIB) == 0.9
