"""Versions that fail, and who answers meanwhile: a real gateway, supervisor and uv, and engines that misbehave.

Each version of the fake engine behaves as its number says; what installs it is a folder of tiny wheels.
"""

import asyncio
import dataclasses
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
import pytest

from app.config.paths import Paths
from app.config.store import Settings
from app.core.api import PREFIX
from app.core.engine_store import EngineJob, EngineStock, EngineVersion
from app.core.events import Notice
from app.engine_store.catalogue import Catalogue, came_along
from app.engine_store.recipe import Recipe
from app.engine_store.shelf import PROVEN_LOADS, Shelf
from app.gateway.engines import trials
from app.gateway.engines.moves import Moves
from app.gateway.engines.rescue import Rescuer, announce
from app.gateway.listen import bind
from app.gateway.loading.launch import model_folders, policy_from
from app.gateway.main import opened
from app.gateway.services import Limits, Services
from app.hub.library.library import Library
from app.supervisor.pool import Folders, Supervisor
from engines.api import (
    Exit,
    Failure,
    FailureKind,
    Installation,
    LaunchOptions,
    LaunchPlan,
    ModelSource,
    Net,
    Place,
    Remedy,
    RemedyKind,
)
from engines.probing import output_of
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.played import Upstream, played_services, until
from tests.gguf_files import TinyLlama
from tests.unit.engine_store.package_index import Index

WELL = Behaviour(token=trials.EXPECTED, tokens=1)
BUNDLED_VERSION = "0.5"
VERSIONS = {
    BUNDLED_VERSION: WELL,
    "1.0": WELL,
    "2.0": dataclasses.replace(WELL, dies_after=0, dies_by="abort", exit_code=3),
    "2.1": Behaviour(says=("libmagic.so.1: cannot open shared object file",), exit_code=127),
    "2.2": Behaviour(token="word", tokens=30),
    "2.3": Behaviour(is_silent=True),
    "2.4": Behaviour(never_answers=True),
    "2.5": dataclasses.replace(WELL, dies_after=0, dies_by="kill"),
    "2.6": Behaviour(exit_code=132),  # as a shell has SIGILL: what AMX kernels come to in some virtual machines
}
BAD = {
    "2.0": ("crashed", "ended with 3"),
    "2.1": ("missing_library", "A library is missing"),
    "2.2": ("gibberish", "nonsense"),
    "2.3": ("stalled", "no sign of life"),
    "2.4": ("hung", "never answered"),
    "2.5": ("killed", "ended with -9"),
    "2.6": ("crashed", "ended with 132"),
}


class Versioned(FakeAdapter):
    """A fake engine whose behaviour hangs on the version that runs; `later` says what it does once it is trusted."""

    def __init__(self) -> None:
        super().__init__()
        self.later: dict[str, Behaviour] = {}
        self.came_along = True

    def probe(self, place: Place | None = None) -> Installation | Failure:
        if place is None and not self.came_along:
            return Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not installed.", hint="Install it.")
        if place is None or place.executable is not None:
            return Installation(engine="fake", version=BUNDLED_VERSION, backend="cpu", python=Path(sys.executable))
        return Installation(engine="fake", version=place.version, backend="cpu", python=place.python)

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        self.behaviours[model.name] = VERSIONS[found.version]
        if model.name != "trial":
            self.behaviours[model.name] = self.later.get(found.version, VERSIONS[found.version])
        return super().plan(model, options, net, found)

    def classify_exit(self, end: Exit) -> Failure:
        if any("shared object" in line for line in end.tail):
            return Failure(kind=FailureKind.MISSING_LIBRARY, sentence="A library is missing: libmagic.so.1.")
        if any("unknown model architecture" in line for line in end.tail):
            remedy = Remedy(kind=RemedyKind.OTHER_RUNTIME, label="Use another engine")
            return Failure(kind=FailureKind.MODEL_UNSUPPORTED, sentence="It knows no starship.", remedies=(remedy,))
        return super().classify_exit(end)


@dataclasses.dataclass
class Store:
    """A gateway with an engine store, asked over HTTP."""

    url: str
    http: aiohttp.ClientSession
    services: Services
    adapter: Versioned
    recipe: Callable[[str], Recipe]
    notices: list[Notice]
    may_move: list[bool]
    """Whether a person wants other versions tried, last."""
    moves: Moves

    async def call(self, method: str, path: str, body: object = None, *, fails: bool = False) -> Any:  # noqa: ANN401 -- any JSON
        headers = {"Authorization": f"Bearer {self.services.identity.token}"}
        data = None if body is None else json.dumps(body)
        async with self.http.request(method, self.url + PREFIX + path, data=data, headers=headers) as reply:
            said = await reply.read()
            assert (reply.status >= 400) is fails, said
            return json.loads(said) if said else None

    async def done(self, path: str, body: object) -> EngineJob:
        """Begin a job and wait for its end, as the events tell it."""
        with self.services.events.subscribe() as events:
            begun = msgspec.convert(await self.call("POST", path, body), EngineJob)
            async for event in events:
                job = getattr(event, "job", None)
                if job is not None and job.id == begun.id and job.is_done:
                    return msgspec.convert(msgspec.to_builtins(job), EngineJob)
        raise AssertionError("the gateway ended")

    async def install(self, version: str) -> EngineJob:
        self.services.catalogue.recipes["fake"] = self.recipe(version)
        return await self.done("/engines/fake/install", {})

    async def stock(self) -> EngineStock:
        return msgspec.convert(await self.call("GET", "/engines/stock"), list[EngineStock])[0]

    async def versions(self) -> dict[str, EngineVersion]:
        return {one.name: one for one in (await self.stock()).versions}

    async def answer(self, model: str = "model") -> str:
        body = {"model": model, "messages": [{"role": "user", "content": "Hi"}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            said = await reply.json()
            assert reply.status == 200, said
            return str(said["choices"][0]["message"]["content"])

    async def refusal(self) -> Any:  # noqa: ANN401 -- any JSON
        body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        async with self.http.post(f"{self.url}/v1/chat/completions", json=body) as reply:
            assert reply.status >= 400
            return await reply.json()

    def current(self) -> str:
        return self.services.catalogue.shelf.state("fake").current


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[[str], Recipe]:
    index = Index(tmp_path / "index")
    for version in VERSIONS:
        index.add(version)
    return lambda version: index.recipe(tmp_path / "recipe", version)


@pytest.fixture
async def store(
    paths: Paths,
    limits: Limits,
    unused_port: int,
    recipe: Callable[[str], Recipe],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    monkeypatch.setattr(trials, "STALL_S", 1.5)
    monkeypatch.setattr(trials, "_ANSWER", aiohttp.ClientTimeout(total=1.5))
    TinyLlama().write(paths.models / "model.gguf")
    TinyLlama().write(paths.models / "second.gguf")
    settings = Settings(paths.settings_file, {"ROUNDHOUSE_ENGINE_DRAIN_SECONDS": "0"})
    played = await played_services(paths, {}, limits, Upstream())
    adapter = Versioned()
    shelf = Shelf(paths.data / "engines", lambda engine: came_along({"fake": adapter}, engine))
    catalogue = Catalogue({"fake": adapter}, shelf)
    folders = Folders(records=paths.engine_records, logs=paths.logs, scratch=paths.state)
    supervisor = Supervisor(catalogue.placed, folders, policy_from(settings), played.events.publish)
    services = dataclasses.replace(
        played,
        settings=settings,
        adapters=catalogue.placed,
        supervisor=supervisor,
        library=Library(lambda: model_folders(paths, settings), paths.data / "models.json", paths.data / "none.gguf"),
        catalogue=catalogue,
    )
    announce(shelf, services.events)
    notices: list[Notice] = []
    may_move = [False]
    moves = Moves(shelf, [], lambda: may_move[-1])
    rescuer = Rescuer(shelf, lambda event: notices.append(event) if isinstance(event, Notice) else None, moves)
    supervisor.rescue = rescuer.rescue
    watching = asyncio.create_task(rescuer.watch(services.events))
    runner = await opened(services, bind("127.0.0.1", unused_port))
    async with aiohttp.ClientSession() as http:
        yield Store(f"http://127.0.0.1:{unused_port}", http, services, adapter, recipe, notices, may_move, moves)
    await runner.cleanup()
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_a_version_is_installed_tested_and_used_from_the_next_load_on(store: Store) -> None:
    job = await store.install("1.0")
    assert (job.error, job.version) == (None, "1.0-cpu")
    assert job.proofs[0].text.startswith("Roundhouse is a desktop app")
    found = await store.versions()
    assert (found["1.0-cpu"].is_current, found["bundled"].is_previous) == (True, True)
    assert found["1.0-cpu"].size_bytes > 0
    await store.answer()
    (status,) = store.services.supervisor.statuses()
    assert status.version == "1.0"


@pytest.mark.parametrize("version", BAD)
async def test_a_bad_version_is_caught_by_its_test_and_the_one_before_answers_meanwhile(
    store: Store, version: str
) -> None:
    await store.install("1.0")
    began = time.monotonic()
    job, text = await asyncio.gather(store.install(version), store.answer())
    assert text.strip() == trials.EXPECTED
    assert time.monotonic() - began < 10
    code, words = BAD[version]
    assert job.error is not None
    assert (job.error.code, words in job.error.sentence) == (code, True), job.error
    assert store.current() == "1.0-cpu"
    assert version + "-cpu" not in await store.versions()


LATER: dict[str, Behaviour] = {
    "crash": Behaviour(exit_code=3),
    "missing library": Behaviour(says=("libmagic.so.1: cannot open shared object file",), exit_code=127),
    "hang": Behaviour(is_silent=True),
}


@pytest.mark.parametrize("fault", LATER)
async def test_a_version_that_fails_at_a_later_load_gives_way_within_the_same_request(store: Store, fault: str) -> None:
    await store.install("1.0")
    await store.answer()
    await store.call("POST", "/unload", {"model": "model"})
    store.adapter.later = {"1.0": LATER[fault]}
    began = time.monotonic()
    answers = await asyncio.gather(store.answer(), store.answer(), store.answer())
    assert time.monotonic() - began < 10
    assert {text.strip() for text in answers} == {trials.EXPECTED}
    (status,) = store.services.supervisor.statuses()
    assert (status.version, store.current()) == (BUNDLED_VERSION, "bundled")
    assert [notice.code for notice in store.notices] == ["engine_rolled_back"]
    assert (await store.versions())["1.0-cpu"].problem


async def test_a_version_that_ends_while_it_answers_gives_way_to_the_next_request(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": Behaviour(dies_after=2, dies_by="abort", tokens_per_s=50.0)}
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        await reply.read()
    await until(lambda: store.current() == "bundled")
    assert (await store.answer()).strip() == trials.EXPECTED


async def test_the_only_version_is_marked_when_it_breaks_and_can_be_installed_again(store: Store) -> None:
    store.adapter.came_along = False
    await store.install("1.0")
    assert store.services.catalogue.shelf.state("fake").previous == "", "there is nothing to go back to"
    store.adapter.later = {"1.0": LATER["missing library"]}
    for _ in range(2):
        assert "A library is missing" in str(await store.refusal())
    (status,) = store.services.supervisor.statuses()
    assert (status.version, store.current()) == ("1.0", "1.0-cpu")
    assert "library" in (await store.versions())["1.0-cpu"].problem
    again = await store.install("1.0")
    assert (again.error, store.current()) == (None, "1.0-cpu-2")
    store.adapter.later = {}
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu", "force": True})
    await store.answer()
    await until(lambda: not store.services.catalogue.shelf.state("fake").bad)


async def test_a_version_whose_files_are_gone_is_named_with_what_to_do(store: Store) -> None:
    store.adapter.came_along = False
    await store.install("1.0")
    place = store.services.catalogue.shelf.place("fake", "1.0-cpu")
    assert place is not None
    assert place.python is not None
    place.python.unlink()
    refused = str(await store.refusal())
    assert f"Fake engine 1.0 is broken: {place.python} is gone." in refused
    assert "`roundhouse engines install fake`" in refused
    assert f"{place.python} is gone" in (await store.versions())["1.0-cpu"].problem


async def test_one_that_has_proved_itself_is_not_blamed_for_one_crash(store: Store) -> None:
    await store.install("1.0")
    for _ in range(PROVEN_LOADS):
        await store.answer()
        await store.call("POST", "/unload", {"model": "model"})
    await until(lambda: store.services.catalogue.shelf.state("fake").loads == PROVEN_LOADS)
    store.adapter.later = {"1.0": Behaviour(exit_code=3)}
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 502
    assert store.current() == "1.0-cpu"


STRANGE = Behaviour(says=("unknown model architecture: starship",), exit_code=1)


async def refused(store: Store) -> str:
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        assert reply.status >= 400
        return await reply.text()


async def test_a_model_the_version_in_use_does_not_know_is_run_by_another_where_that_is_wanted(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": STRANGE}
    assert "starship" in await refused(store)
    assert (store.current(), store.notices) == ("1.0-cpu", [])
    store.may_move.append(True)
    answers = await asyncio.gather(store.answer(), store.answer(), store.answer())
    assert {text.strip() for text in answers} == {trials.EXPECTED}
    assert store.current() == "bundled"
    (notice,) = store.notices
    assert notice.code == "engine_moved"
    assert "fake 1.0-cpu cannot run model, so bundled is used. It knows no starship." in notice.sentence
    assert "engines use fake 1.0-cpu" in notice.hint
    assert not (await store.versions())["1.0-cpu"].problem, "it is not its fault"


async def test_where_none_knows_it_the_first_is_used_again_and_nobody_tries_for_ever(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": STRANGE, BUNDLED_VERSION: STRANGE}
    store.may_move.append(True)
    for _ in range(4):
        assert "starship" in await refused(store)
    assert store.current() == "1.0-cpu"
    assert ["is used again" in notice.sentence for notice in store.notices] == [False, True]
    store.adapter.later = {"1.0": STRANGE}
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.answer()
    await until(lambda: not store.moves._hopeless)  # it runs after all: from here on it may be tried again
    await store.call("POST", "/unload", {"model": "model"})
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu"})
    await until(lambda: store.services.catalogue.shelf.state("fake").current == "1.0-cpu")
    assert (await store.answer()).strip() == trials.EXPECTED


async def test_switching_back_and_forth_and_removing(store: Store) -> None:
    await store.install("1.0")
    await store.answer()
    refused = await store.call("DELETE", "/engines/fake/versions/1.0-cpu", fails=True)
    assert refused["code"] == "engine_in_use"
    await store.call("POST", "/engines/fake/rollback")
    assert store.current() == "bundled"
    await store.call("POST", "/engines/fake/use", {"version": "1.0"})
    assert store.current() == "1.0-cpu"
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.call("POST", "/unload", {"model": "model"})
    await store.call("DELETE", "/engines/fake/versions/1.0-cpu")
    assert list(await store.versions()) == ["bundled"]
    assert (await store.call("POST", "/engines/fake/rollback", fails=True))["code"] == "no_previous"


async def test_a_program_of_ones_own_is_used_once_it_has_passed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    monkeypatch.setitem(VERSIONS, BUNDLED_VERSION, Behaviour(token="word", tokens=30))
    refused = await store.done("/engines/fake/use", {"path": str(own)})
    assert refused.error is not None
    assert refused.error.code == "gibberish"
    assert store.current() == "bundled"
    monkeypatch.setitem(VERSIONS, BUNDLED_VERSION, WELL)
    used = await store.done("/engines/fake/use", {"path": str(own)})
    assert (used.error, store.current()) == (None, "own")
    assert (await store.versions())["own"].path == str(own)
    await store.answer()
    assert (await store.call("DELETE", "/engines/fake/versions/own", fails=True))["code"] == "not_ours"
    await store.call("POST", "/unload", {"model": "model"})
    own.unlink()
    assert (await store.answer()).strip() == trials.EXPECTED, "the one before answers"
    assert store.current() == "bundled"


async def test_a_program_on_path_is_listed_and_used_by_its_name_once_it_has_passed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    program = tmp_path / "bin" / "fake-engine"
    program.parent.mkdir()
    program.write_bytes(b"")
    program.chmod(0o755)
    assert "fake-engine" not in await store.versions()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    asked: list[Place | None] = []
    probe = store.adapter.probe

    def noted(place: Place | None = None) -> Installation | Failure:
        asked.append(place)
        return probe(place)

    monkeypatch.setattr(store.adapter, "probe", noted)
    for _ in range(3):
        found = (await store.versions())["fake-engine"]
    assert (found.is_on_path, found.path, found.version) == (True, str(program), BUNDLED_VERSION)
    assert len([place for place in asked if place]) == 1, "for as long as it is the same file"
    assert store.current() == "bundled"
    assert (await store.done("/engines/fake/test", {"version": "fake-engine"})).error is None
    assert (await store.call("DELETE", "/engines/fake/versions/fake-engine", fails=True))["code"] == "not_ours"
    used = await store.done("/engines/fake/use", {"version": "fake-engine"})
    assert (used.error, store.current()) == (None, "own")
    found = (await store.versions())["own"]
    assert (found.path, found.proof is not None) == (str(program), True)
    assert "fake-engine" not in await store.versions(), "it is listed once"
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    assert await store.call("POST", "/engines/fake/use", {"version": "fake-engine"}) is None, "it has passed"
    assert store.current() == "own"


async def test_a_program_that_hangs_is_called_off_with_all_it_started(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, mark = tmp_path / "hangs", f"60{os.getpid()}"
    own.write_text(f"#!/bin/sh\nsleep {mark} & sleep {mark}", encoding="utf-8")
    own.chmod(0o755)

    def probe(place: Place | None = None) -> Installation | Failure:
        assert output_of((str(own), "--version"), 600)
        return Versioned.probe(store.adapter, place)

    monkeypatch.setattr(store.adapter, "probe", probe)
    await store.call("POST", "/engines/fake/use", {"path": str(own)})
    await until(lambda: len(running(mark)) == 2)
    began = time.monotonic()
    await store.call("DELETE", "/engines/job")
    assert time.monotonic() - began < 5
    job = msgspec.convert(await store.call("GET", "/engines/job"), EngineJob)
    assert job.error is not None
    assert job.error.code == "cancelled"
    await until(lambda: not running(mark))


def running(mark: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if (one.info["cmdline"] or [])[-1:] == [mark]]


async def test_an_engine_that_takes_no_own_program_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    about = msgspec.structs.replace(store.adapter.descriptor, program="")
    monkeypatch.setattr(Versioned, "descriptor", about)
    refused = await store.call("POST", "/engines/fake/use", {"path": sys.executable}, fails=True)
    assert (refused["code"], "Fake engine cannot be used as a program" in refused["sentence"]) == (
        "no_own_program",
        True,
    )


async def test_an_engine_that_is_not_here_is_said_not_to_be_installed(store: Store) -> None:
    store.adapter.came_along = False
    for path in ("use", "test"):
        refused = await store.call("POST", f"/engines/fake/{path}", {}, fails=True)
        assert (refused["code"], refused["hint"]) == ("not_installed", "Install it.")


async def test_what_a_failed_install_left_is_marked_and_a_version_that_failed_is_tested_before_it_is_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.install("1.0")
    await store.install("2.2")
    assert "nonsense" in (await store.stock()).offers[0].problem
    monkeypatch.setitem(VERSIONS, "1.0", Behaviour(token="word", tokens=30))
    tested = await store.done("/engines/fake/test", {})
    assert tested.error is not None
    assert (tested.error.code, [proof.code for proof in tested.proofs]) == ("gibberish", ["gibberish"])
    assert store.current() == "bundled"
    refused = await store.done("/engines/fake/use", {"version": "1.0"})
    assert refused.error is not None
    assert (refused.error.code, "--force" in refused.error.hint) == ("gibberish", True)
    assert store.current() == "bundled"
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu", "force": True})
    forced = (await store.versions())["1.0-cpu"]
    assert (forced.is_current, "nonsense" in forced.problem) == (True, True)
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    assert (await store.call("POST", "/engines/fake/rollback", fails=True))["code"] == "previous_failed"
    monkeypatch.setitem(VERSIONS, "1.0", WELL)
    used = await store.done("/engines/fake/use", {"version": "1.0-cpu"})
    assert (used.error, store.current()) == (None, "1.0-cpu")
    assert (await store.versions())["1.0-cpu"].problem == ""


async def test_versions_are_named_by_their_numbers_too(store: Store) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe(BUNDLED_VERSION)
    await store.done("/engines/fake/install", {})
    refused = await store.call("POST", "/engines/fake/use", {"version": BUNDLED_VERSION}, fails=True)
    assert (refused["code"], "0.5-cpu and bundled" in refused["sentence"]) == ("ambiguous_version", True), refused
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.call("DELETE", "/engines/fake/versions/0.5-cpu")
    refused = await store.call("DELETE", f"/engines/fake/versions/{BUNDLED_VERSION}", fails=True)
    assert refused["code"] == "not_ours"
    await store.call("DELETE", "/engines/fake/versions/1.0")
    assert list(await store.versions()) == ["bundled"]


async def test_an_update_that_is_here_already_is_tested_and_used(store: Store) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    found = await store.call("GET", "/engines/fake/update")
    assert (found["to"], found["is_here"], found["download_bytes"]) == ("1.0", True, 0)
    done = await store.done("/engines/fake/update", {})
    assert (done.error, done.version, store.current()) == (None, "1.0-cpu", "1.0-cpu")
    assert [proof.model for proof in done.proofs] == ["the Guide"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/engines/nobody/install", {}, "not_installed"),
        ("/engines/fake/install", {"variant": "cuda"}, "unfit"),
        ("/engines/fake/install", {"channel": "nightly"}, "invalid_value"),
        ("/engines/fake/install", {"bundle": "/nowhere"}, "bad_bundle"),
        ("/engines/fake/use", {"version": "9"}, "engine_version_not_found"),
        ("/engines/fake/use", {"path": "here"}, "no_such_program"),
        ("/engines/nobody/use", {"path": "/bin/sh"}, "not_installed"),
        ("/engines/fake/test", {"version": "9-cpu"}, "engine_version_not_found"),
        ("/engines/fake/bundle", {"path": "relative"}, "invalid_value"),
    ],
)
async def test_what_cannot_be_done_is_said(store: Store, path: str, body: dict[str, str], code: str) -> None:
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    assert (await store.call("POST", path, body, fails=True))["code"] == code


async def test_the_same_version_is_not_installed_twice_and_one_job_runs_at_a_time(store: Store) -> None:
    await store.install("1.0")
    assert (await store.call("POST", "/engines/fake/install", {}, fails=True))["code"] == "engine_installed"
    store.services.catalogue.recipes["fake"] = store.recipe("2.3")
    await store.call("POST", "/engines/fake/install", {})
    assert (await store.call("POST", "/engines/fake/test", {}, fails=True))["code"] == "engine_job_running"
    await store.call("DELETE", "/engines/job")
    job = msgspec.convert(await store.call("GET", "/engines/job"), EngineJob)
    assert job.is_done
    assert job.error is not None
    assert job.error.code == "cancelled"
    assert store.current() == "1.0-cpu"


async def test_an_update_is_shown_before_it_is_made_and_tried_with_pinned_models(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe("2.2")
    found = await store.call("GET", "/engines/fake/update")
    assert (found["current"], found["to"]) == ("1.0", "2.2")
    assert store.current() == "1.0-cpu"
    store.services.settings.change({"models.default": "second"})
    monkeypatch.setitem(VERSIONS, "2.2", WELL)
    tried = await store.done("/engines/fake/update", {})
    assert [proof.model for proof in tried.proofs] == ["the Guide", "second"]
    assert (tried.error, store.current()) == (None, "2.2-cpu")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/engines/fake/install", {}),
        ("POST", "/engines/fake/update", {}),
        ("GET", "/engines/fake/update?channel=latest", None),
        ("POST", "/engines/fake/bundle", {"path": "/somewhere/bundle.zip"}),
    ],
)
async def test_offline_no_engine_is_fetched(store: Store, method: str, path: str, body: object) -> None:
    store.services.settings.change({"network.offline": True})
    refused = await store.call(method, path, body, fails=True)
    assert refused["code"] == "offline"
    assert "bundle" in refused["hint"]


async def test_a_test_marks_a_version_that_broke(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.install("1.0")
    monkeypatch.setitem(VERSIONS, "1.0", Behaviour(token="word", tokens=30))
    job = await store.done("/engines/fake/test", {"version": "1.0-cpu"})
    assert [proof.code for proof in job.proofs] == ["gibberish"]
    assert "nonsense" in (await store.versions())["1.0-cpu"].problem
    assert store.current() == "bundled"
    lines = await store.call("GET", "/engines/log")
    assert any("Testing with the Guide" in line["text"] for line in lines)
