"""Versions that fail, and who answers meanwhile: a real gateway, supervisor and uv, and engines that misbehave.

Each version of the fake engine behaves as its number says; what installs it is a folder of tiny wheels.
"""

import asyncio

import msgspec
import pytest

from app.core.engine_store import EngineJob
from app.engine_store.version_store import PROVEN_LOADS
from app.gateway.engines import smoke_tests
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.engines.versions import BAD, BUNDLED_VERSION, LATER, VERSIONS, WELL, Store
from tests.patience import until


async def test_a_version_is_installed_tested_and_used_from_the_next_load_on(store: Store) -> None:
    job = await store.install("1.0")
    assert (job.error, job.version) == (None, "1.0-cpu")
    assert job.proofs[0].text.startswith("Roundhouse is a desktop app")
    versions = await store.versions()
    assert (versions["1.0-cpu"].is_current, versions["bundled"].is_previous) == (True, True)
    assert versions["1.0-cpu"].size_bytes > 0
    await store.answer()
    (status,) = store.services.supervisor.list_statuses()
    assert status.version == "1.0"


@pytest.mark.slow
@pytest.mark.parametrize("version", BAD)
async def test_a_bad_version_is_caught_by_its_test_and_the_one_before_answers_meanwhile(
    store: Store, version: str
) -> None:
    await store.install("1.0")
    job, text = await asyncio.gather(store.install(version), store.answer())
    assert text.strip() == smoke_tests.EXPECTED
    code, words = BAD[version]
    assert job.error is not None
    assert (job.error.code, words in job.error.sentence) == (code, True), job.error
    assert "Load the model" not in job.error.hint, "nobody loaded one"
    assert store.current() == "1.0-cpu"
    assert version + "-cpu" not in await store.versions()


@pytest.mark.slow
@pytest.mark.parametrize("fault", LATER)
async def test_a_version_that_fails_at_a_later_load_gives_way_within_the_same_request(store: Store, fault: str) -> None:
    await store.install("1.0")
    await store.answer()
    await store.call("POST", "/unload", {"model": "model"})
    store.adapter.later = {"1.0": LATER[fault]}
    answers = await asyncio.gather(store.answer(), store.answer(), store.answer())
    assert {text.strip() for text in answers} == {smoke_tests.EXPECTED}
    (status,) = store.services.supervisor.list_statuses()
    assert (status.version, store.current()) == (BUNDLED_VERSION, "bundled")
    assert [notice.code for notice in store.notices] == ["engine_rolled_back"]
    assert (await store.versions())["1.0-cpu"].problem


@pytest.mark.slow
async def test_a_version_that_ends_while_it_answers_gives_way_to_the_next_request(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": Behaviour(dies_after=2, dies_by="abort", tokens_per_s=50.0)}
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        await reply.read()
    await until(lambda: store.current() == "bundled")
    assert (await store.answer()).strip() == smoke_tests.EXPECTED


@pytest.mark.slow
async def test_the_only_version_is_marked_when_it_breaks_and_can_be_installed_again(store: Store) -> None:
    store.adapter.came_along = False
    await store.install("1.0")
    assert store.services.catalogue.shelf.read_state("fake").previous == "", "there is nothing to go back to"
    store.adapter.later = {"1.0": LATER["missing library"]}
    for _ in range(2):
        assert "A library is missing" in str(await store.refusal())
    (status,) = store.services.supervisor.list_statuses()
    assert (status.version, store.current()) == ("1.0", "1.0-cpu")
    assert "library" in (await store.versions())["1.0-cpu"].problem
    again = await store.install("1.0")
    assert (again.error, store.current()) == (None, "1.0-cpu-2")
    store.adapter.later = {}
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu", "force": True})
    await store.answer()
    await until(lambda: not store.services.catalogue.shelf.read_state("fake").bad)


@pytest.mark.slow
async def test_a_version_whose_files_are_gone_is_named_with_what_to_do(store: Store) -> None:
    store.adapter.came_along = False
    await store.install("1.0")
    place = store.services.catalogue.shelf.find_place("fake", "1.0-cpu")
    assert place is not None
    assert place.python is not None
    place.python.unlink()
    refusal = str(await store.refusal())
    assert f"Fake engine 1.0 is broken: {place.python} is gone." in refusal
    assert "`roundhouse engines install fake`" in refusal
    assert f"{place.python} is gone" in (await store.versions())["1.0-cpu"].problem


@pytest.mark.slow
async def test_one_that_has_proved_itself_is_not_blamed_for_one_crash(store: Store) -> None:
    await store.install("1.0")
    for _ in range(PROVEN_LOADS):
        await store.answer()
        await store.call("POST", "/unload", {"model": "model"})
    await until(lambda: store.services.catalogue.shelf.read_state("fake").loads == PROVEN_LOADS)
    store.adapter.later = {"1.0": Behaviour(exit_code=3)}
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 502
    assert store.current() == "1.0-cpu"


STRANGE = Behaviour(says=("unknown model architecture: starship",), exit_code=1)


async def expect_refusal(store: Store) -> str:
    body = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    async with store.http.post(f"{store.url}/v1/chat/completions", json=body) as reply:
        assert reply.status >= 400
        return await reply.text()


@pytest.mark.slow
async def test_a_model_the_version_in_use_does_not_know_is_run_by_another_where_that_is_wanted(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": STRANGE}
    assert "starship" in await expect_refusal(store)
    assert (store.current(), store.notices) == ("1.0-cpu", [])
    store.may_move.append(True)
    answers = await asyncio.gather(store.answer(), store.answer(), store.answer())
    assert {text.strip() for text in answers} == {smoke_tests.EXPECTED}
    assert store.current() == "bundled"
    (notice,) = store.notices
    assert notice.code == "engine_moved"
    assert "fake 1.0-cpu cannot run model, so bundled is used. It knows no starship." in notice.sentence
    assert "engines use fake 1.0-cpu" in notice.hint
    assert not (await store.versions())["1.0-cpu"].problem, "it is not its fault"


@pytest.mark.slow
async def test_where_none_knows_it_the_first_is_used_again_and_nobody_tries_for_ever(store: Store) -> None:
    await store.install("1.0")
    store.adapter.later = {"1.0": STRANGE, BUNDLED_VERSION: STRANGE}
    store.may_move.append(True)
    for _ in range(4):
        assert "starship" in await expect_refusal(store)
    assert store.current() == "1.0-cpu"
    assert ["is used again" in notice.sentence for notice in store.notices] == [False, True]
    store.adapter.later = {"1.0": STRANGE}
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.answer()
    await until(lambda: not store.moves._hopeless)  # it runs after all: from here on it may be tried again
    await store.call("POST", "/unload", {"model": "model"})
    await store.call("POST", "/engines/fake/use", {"version": "1.0-cpu"})
    await until(lambda: store.services.catalogue.shelf.read_state("fake").current == "1.0-cpu")
    assert (await store.answer()).strip() == smoke_tests.EXPECTED


@pytest.mark.slow
async def test_switching_back_and_forth_and_removing(store: Store) -> None:
    await store.install("1.0")
    await store.answer()
    refusal = await store.call("DELETE", "/engines/fake/versions/1.0-cpu", fails=True)
    assert refusal["code"] == "engine_in_use"
    await store.call("POST", "/engines/fake/rollback")
    assert store.current() == "bundled"
    await store.call("POST", "/engines/fake/use", {"version": "1.0"})
    assert store.current() == "1.0-cpu"
    await store.call("POST", "/engines/fake/use", {"version": "bundled"})
    await store.call("POST", "/unload", {"model": "model"})
    await store.call("DELETE", "/engines/fake/versions/1.0-cpu")
    assert list(await store.versions()) == ["bundled"]
    assert (await store.call("POST", "/engines/fake/rollback", fails=True))["code"] == "no_previous"


@pytest.mark.slow(cases=5)
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_an_update_is_shown_before_it_is_made_and_tried_with_pinned_models(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.install("1.0")
    store.services.catalogue.recipes["fake"] = store.recipe("2.2")
    offer = await store.call("GET", "/engines/fake/update")
    assert (offer["current"], offer["to"]) == ("1.0", "2.2")
    assert store.current() == "1.0-cpu"
    store.services.settings.change_values({"models.default": "second"})
    monkeypatch.setitem(VERSIONS, "2.2", WELL)
    update_job = await store.run_job("/engines/fake/update", {})
    assert [proof.model for proof in update_job.proofs] == ["the Guide", "second"]
    assert (update_job.error, store.current()) == (None, "2.2-cpu")


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
    store.services.settings.change_values({"network.offline": True})
    refusal = await store.call(method, path, body, fails=True)
    assert refusal["code"] == "offline"
    assert "bundle" in refusal["hint"]
