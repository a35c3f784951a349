"""What holds for every engine in the registry, without starting any."""

import sys
from pathlib import Path

import pytest

from app.engine_store.recipe import read_recipes
from engines.api import (
    EngineAdapter,
    EngineFamily,
    EngineInstallation,
    Exit,
    Failure,
    FailureKind,
    Feature,
    LaunchOptions,
    ListenOptions,
    ModelFormat,
    ModelSource,
    RemoteEndpoint,
    Suspicion,
)
from engines.registry import ADAPTERS

KEY = "a-key-nobody-may-see"
NET = ListenOptions(host="127.0.0.1", port=50_001, key=KEY)
ALL = pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=list(ADAPTERS))


def installation(adapter: EngineAdapter) -> EngineInstallation:
    return EngineInstallation(engine=adapter.descriptor.id, version="1", backend="cpu", python=Path(sys.executable))


def source(adapter: EngineAdapter) -> ModelSource:
    model_format = next(iter(adapter.descriptor.formats))
    is_remote = model_format is ModelFormat.REMOTE
    there = RemoteEndpoint(url="http://127.0.0.1:50001", served_as="served-name", key_file=Path("/models/key"))
    return ModelSource(
        name="served-name", path=Path("/models/model"), format=model_format, remote=there if is_remote else None
    )


def test_listing_the_engines_imports_none_of_them() -> None:
    assert "llama.cpp" in list(ADAPTERS)
    with pytest.raises(KeyError):
        ADAPTERS["no such engine"]


@ALL
def test_the_descriptor_is_complete(adapter: EngineAdapter) -> None:
    about = adapter.descriptor
    assert ADAPTERS[about.id].descriptor is about
    assert all((about.name, about.licence, about.homepage, about.formats, about.routes, about.accelerators))
    assert about.verified.endswith(".")
    assert about.unverified.endswith(".")
    assert all(path.startswith("/") for path in about.routes.values())
    assert bool(about.obtained) == (about.id not in read_recipes() and about.family is not EngineFamily.EXTERNAL)


@ALL
def test_the_key_is_a_secret_and_nothing_else(adapter: EngineAdapter) -> None:
    plan = adapter.plan(source(adapter), LaunchOptions(context=512), NET, installation(adapter))
    for process in plan.processes:
        assert KEY in process.secrets.values() or Feature.API_KEY not in adapter.descriptor.features
        assert KEY not in " ".join([*process.argv, *process.env.values()])
    assert not [file for file in plan.files if KEY.encode() in file.content]


@ALL
def test_the_plan_listens_where_it_was_told(adapter: EngineAdapter) -> None:
    plan = adapter.plan(source(adapter), LaunchOptions(context=512, slots=3), NET, installation(adapter))
    assert plan.base_url.removesuffix("/v1") == "http://127.0.0.1:50001"  # a router has its routes there
    assert plan.served_name in {"served-name", str(Path("/models/model")), "tgi"}  # some name a model by its path
    assert (plan.context, plan.slots) == (512, 3)
    assert all(
        process.stdin_lifeline for process in plan.processes if adapter.descriptor.family is EngineFamily.VENV_WORKER
    )


@ALL
def test_a_format_it_does_not_read_is_refused(adapter: EngineAdapter) -> None:
    other = next(kind for kind in ModelFormat if kind not in adapter.descriptor.formats)
    model = ModelSource(name="x", path=Path("/models/x"), format=other)
    with pytest.raises(ValueError, match=other.value):
        adapter.plan(model, LaunchOptions(), NET, installation(adapter))


@ALL
@pytest.mark.parametrize("kind", FailureKind)
def test_every_cause_has_a_sentence_and_a_next_step(adapter: EngineAdapter, kind: FailureKind) -> None:
    end = Exit(code=1, suspicions=[Suspicion(kind=kind, line="as it was written")], tail=[], was_ready=False)
    failure = adapter.classify_exit(end)
    assert failure.kind is kind
    assert failure.sentence.endswith(".")
    assert failure.hint.endswith(".")


@pytest.mark.slow(cases=201)
@ALL
@pytest.mark.parametrize("code", [None, 0, 1, 2, -1, -2, -4, -6, -9, -11, -15, 3221225477, -1073741819, 99])
def test_any_exit_code_is_explained(adapter: EngineAdapter, code: int | None) -> None:
    failure = adapter.classify_exit(Exit(code=code, suspicions=[], tail=[], was_ready=True))
    assert isinstance(failure, Failure)
    assert failure.sentence


@pytest.mark.slow(cases=5)
@ALL
@pytest.mark.parametrize(
    "line", ["", "{", '{"event"', '{"event": 5}', "\x00\xff", "cmd_child_to_router:state:{]", "a" * 99_999]
)
def test_no_line_breaks_the_reader(adapter: EngineAdapter, line: str) -> None:
    assert list(adapter.read_log(line)) == []
