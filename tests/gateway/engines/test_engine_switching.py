"""Which version is used: one's own program, one on PATH, one that failed, one that is here already."""

import os
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from app.core.engine_store import EngineJob
from app.gateway.engines import smoke_tests
from engines.api import (
    EngineInstallation,
    EngineLocation,
    Failure,
)
from engines.program_probe import output_of
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.engines.versions import BUNDLED_VERSION, VERSIONS, WELL, Store, Versioned
from tests.patience import until


@pytest.mark.slow
async def test_a_program_of_ones_own_is_used_once_it_has_passed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "llama-server"
    own.write_bytes(b"")
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    monkeypatch.setitem(VERSIONS, BUNDLED_VERSION, Behaviour(token="word", tokens=30))
    refused_job = await store.run_job("/engines/fake/use", {"path": str(own)})
    assert refused_job.error is not None
    assert refused_job.error.code == "gibberish"
    assert store.current() == "bundled"
    monkeypatch.setitem(VERSIONS, BUNDLED_VERSION, WELL)
    use_job = await store.run_job("/engines/fake/use", {"path": str(own)})
    assert (use_job.error, store.current()) == (None, "own")
    assert (await store.versions())["own"].path == str(own)
    await store.answer()
    assert (await store.call("DELETE", "/engines/fake/versions/own", fails=True))["code"] == "not_ours"
    await store.call("POST", "/unload", {"model": "model"})
    own.unlink()
    assert (await store.answer()).strip() == smoke_tests.EXPECTED, "the one before answers"
    assert store.current() == "bundled"


@pytest.mark.slow
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
    locations: list[EngineLocation | None] = []
    probe = store.adapter.probe

    def note_place(place: EngineLocation | None = None) -> EngineInstallation | Failure:
        locations.append(place)
        return probe(place)

    monkeypatch.setattr(store.adapter, "probe", note_place)
    for _ in range(3):
        version = (await store.versions())["fake-engine"]
    assert (version.is_on_path, version.path, version.version) == (True, str(program), BUNDLED_VERSION)
    assert len([place for place in locations if place]) == 1, "for as long as it is the same file"
    assert store.current() == "bundled"
    assert (await store.run_job("/engines/fake/test", {"version": "fake-engine"})).error is None
    assert (await store.call("DELETE", "/engines/fake/versions/fake-engine", fails=True))["code"] == "not_ours"
    use_job = await store.run_job("/engines/fake/use", {"version": "fake-engine"})
    assert (use_job.error, store.current()) == (None, "own")
    version = (await store.versions())["own"]
    assert (version.path, version.proof is not None) == (str(program), True)
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

    def probe(place: EngineLocation | None = None) -> EngineInstallation | Failure:
        assert output_of((str(own), "--version"), 600)
        return Versioned.probe(store.adapter, place)

    monkeypatch.setattr(store.adapter, "probe", probe)
    await store.call("POST", "/engines/fake/use", {"path": str(own)})
    await until(lambda: len(find_processes(mark)) == 2)
    await store.call("DELETE", "/engines/job")
    job = msgspec.convert(await store.call("GET", "/engines/job"), EngineJob)
    assert job.error is not None
    assert job.error.code == "cancelled"
    await until(lambda: not find_processes(mark))


def find_processes(mark: str) -> list[int]:
    return [
        process.pid for process in psutil.process_iter(["cmdline"]) if (process.info["cmdline"] or [])[-1:] == [mark]
    ]


async def test_an_engine_that_takes_no_own_program_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    about = msgspec.structs.replace(store.adapter.descriptor, program="")
    monkeypatch.setattr(store.adapter, "descriptor", about)
    refusal = await store.call("POST", "/engines/fake/use", {"path": sys.executable}, fails=True)
    assert (refusal["code"], "Fake engine cannot be used as a program" in refusal["sentence"]) == (
        "no_own_program",
        True,
    )


async def test_an_engine_that_is_not_here_is_said_not_to_be_installed(store: Store) -> None:
    store.adapter.came_along = False
    for path in ("use", "test"):
        refusal = await store.call("POST", f"/engines/fake/{path}", {}, fails=True)
        assert (refusal["code"], refusal["hint"]) == ("not_installed", "Install it.")


@pytest.mark.slow
async def test_what_a_failed_install_left_is_marked_and_a_version_that_failed_is_tested_before_it_is_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.install("1.0")
    await store.install("2.2")
    assert "nonsense" in (await store.stock()).offers[0].problem
    monkeypatch.setitem(VERSIONS, "1.0", Behaviour(token="word", tokens=30))
    test_job = await store.run_job("/engines/fake/test", {})
    assert test_job.error is not None
    assert (test_job.error.code, [proof.code for proof in test_job.proofs]) == ("gibberish", ["gibberish"])
    assert store.current() == "bundled"
    refused_job = await store.run_job("/engines/fake/use", {"version": "1.0"})
    assert refused_job.error is not None
    assert (refused_job.error.code, "--force" in refused_job.error.hint) == ("gibberish", True)
    assert store.current() == "bundled"
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu", "force": True})
    forced_version = (await store.versions())["1.0-cpu"]
    assert (forced_version.is_current, "nonsense" in forced_version.problem) == (True, True)
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    assert (await store.call("POST", "/engines/fake/rollback", fails=True))["code"] == "previous_failed"
    monkeypatch.setitem(VERSIONS, "1.0", WELL)
    use_job = await store.run_job("/engines/fake/use", {"version": "1.0-cpu"})
    assert (use_job.error, store.current()) == (None, "1.0-cpu")
    assert (await store.versions())["1.0-cpu"].problem == ""


@pytest.mark.slow
async def test_versions_are_named_by_their_numbers_too(store: Store) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe(BUNDLED_VERSION)
    await store.run_job("/engines/fake/install", {})
    refusal = await store.call("POST", "/engines/fake/use", {"version": BUNDLED_VERSION}, fails=True)
    assert (refusal["code"], "0.5-cpu and bundled" in refusal["sentence"]) == ("ambiguous_version", True), refusal
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.call("DELETE", "/engines/fake/versions/0.5-cpu")
    refusal = await store.call("DELETE", f"/engines/fake/versions/{BUNDLED_VERSION}", fails=True)
    assert refusal["code"] == "not_ours"
    await store.call("DELETE", "/engines/fake/versions/1.0")
    assert list(await store.versions()) == ["bundled"]


@pytest.mark.slow
async def test_an_update_that_is_here_already_is_tested_and_used(store: Store) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe("1.0")
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    offer = await store.call("GET", "/engines/fake/update")
    assert (offer["to"], offer["is_here"], offer["download_bytes"]) == ("1.0", True, 0)
    update_job = await store.run_job("/engines/fake/update", {})
    assert (update_job.error, update_job.version, store.current()) == (None, "1.0-cpu", "1.0-cpu")
    assert [proof.model for proof in update_job.proofs] == ["the Guide"]


@pytest.mark.slow
async def test_a_test_marks_a_version_that_broke(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await store.install("1.0")
    monkeypatch.setitem(VERSIONS, "1.0", Behaviour(token="word", tokens=30))
    job = await store.run_job("/engines/fake/test", {"version": "1.0-cpu"})
    assert [proof.code for proof in job.proofs] == ["gibberish"]
    assert "nonsense" in (await store.versions())["1.0-cpu"].problem
    assert store.current() == "bundled"
    lines = await store.call("GET", "/engines/log")
    assert any("Testing with the Guide" in line["text"] for line in lines)
