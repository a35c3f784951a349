"""Coming up, with real processes: sharing, waiting, leaving, readiness, progress."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed, Unavailable
from app.supervisor import run
from app.supervisor.pool import Supervisor, SupervisorFolders, SupervisorPolicy
from app.supervisor.readiness import EngineEndpoint, EngineReply
from engines.api import Failure, FailureKind, Readiness, ReadyWhen
from tests.fake_engine.adapter import FakeAdapter, completion_readiness
from tests.fake_engine.behaviour import Behaviour
from tests.unit.supervisor.conftest import Ask, Recorder, launched_below

S = EngineState


async def get(base_url: str, key: str, path: str) -> EngineReply:
    return await EngineEndpoint(base_url=base_url, key=key, served_name="").send_request("GET", path)


async def test_a_lease_leads_to_an_engine_that_wants_its_key(supervisor: Supervisor, ask: Ask) -> None:
    async with supervisor.lease(ask(context=2048, slots=3)) as lease:
        assert (await get(lease.base_url, lease.key, "/v1/models")).status == 200
        assert (await get(lease.base_url, "guess", "/v1/models")).status == 401
        assert lease.served_name == "m"
        assert lease.load_s > 0
        assert lease.key not in repr(lease)
        assert (lease.status.state, lease.status.in_flight, lease.status.context) == (S.READY, 1, 2048)
    async with supervisor.lease(ask()) as again:
        assert again.load_s == 0.0
        assert again.key == lease.key


async def test_many_who_ask_at_once_share_one_process(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    adapter.behaviours["m"] = Behaviour(load_s=0.3, state_file=str(starts))
    statuses = await asyncio.gather(*(supervisor.ensure_ready(ask()) for _ in range(20)))
    assert len({status.pid for status in statuses}) == 1
    assert len(starts.read_bytes()) == 1


async def test_a_waiter_that_goes_away_leaves_the_load_going(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder
) -> None:
    adapter.behaviours["m"] = Behaviour(load_s=0.3)
    waiter = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.LOADING)
    waiter.cancel()
    assert (await asyncio.gather(waiter, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    status = await recorder.until_state(S.READY)
    assert status.in_flight == 0


async def test_a_caller_cancelled_at_the_moment_of_granting_holds_nothing(supervisor: Supervisor, ask: Ask) -> None:
    await supervisor.ensure_ready(ask())

    async def hold() -> None:
        async with supervisor.lease(ask()):
            await asyncio.Event().wait()

    for turns in range(6):  # every number of loop turns between asking and holding
        caller = asyncio.create_task(hold())
        for _ in range(turns):
            await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
    async with supervisor.lease(ask()) as lease:
        assert lease.status.in_flight == 1


async def test_the_memory_of_an_engine_that_names_no_buffers_is_what_its_process_has(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.behaviours["m"] = Behaviour(progress=2, names_buffers=False)
    status = await supervisor.ensure_ready(ask())
    assert status.buffers == {}
    assert status.memory_bytes is not None
    assert 5_000_000 < status.memory_bytes < 2_000_000_000, "a Python interpreter with a server in it"
    assert status.pid is not None
    await supervisor.unload_model("m")
    assert run.resident_bytes([status.pid]) == 0, "a process that is gone has none"


async def test_progress_memory_and_context_are_told_while_loading(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder
) -> None:
    adapter.behaviours["m"] = Behaviour(load_s=0.6, progress=3)
    await supervisor.ensure_ready(ask(context=1))
    await recorder.until(lambda: recorder.statuses()[-1].memory_bytes == 1_234_567)
    (status,) = supervisor.list_statuses()
    steps = [(status.stage, status.progress) for status in recorder.statuses() if status.progress]
    assert steps[-1] == ("Reading weights", 1.0)
    assert sorted(steps, key=lambda pair: pair[1] or 0.0) == steps
    assert (status.context, status.slots) == (4096, 2)
    assert (status.progress, status.stage) == (None, "")
    assert (status.load_seconds or 0) >= 0.6


async def test_health_is_not_believed_where_a_token_is_asked_for(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.readiness = msgspec.structs.replace(completion_readiness(), hard_s=1.0)
    adapter.behaviours["m"] = Behaviour(lies=True)
    with pytest.raises(EngineFailed) as error:
        await supervisor.ensure_ready(ask())
    assert error.value.code == FailureKind.TOO_SLOW
    adapter.readiness, adapter.behaviours["m"] = completion_readiness(), Behaviour()
    assert (await supervisor.ensure_ready(ask())).state is S.READY


async def test_a_model_that_must_be_listed_first(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.readiness = Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models", interval_s=0.02, grace_s=0.05)
    adapter.behaviours["m"] = Behaviour(load_s=0.4)
    status = await supervisor.ensure_ready(ask())
    assert (status.load_seconds or 0) >= 0.4


async def test_an_engine_that_never_says_anything_is_given_up(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path
) -> None:
    adapter.behaviours["m"] = Behaviour(is_silent=True, refuses_to_end=True)
    supervisor.policy = SupervisorPolicy(stall_s=1.5)
    with pytest.raises(EngineFailed) as error:
        await supervisor.ensure_ready(ask())
    assert error.value.code == FailureKind.STALLED
    assert launched_below(tmp_path) == []
    assert (supervisor.list_statuses()[0].state, supervisor.list_statuses()[0].restarts) == (S.FAILED, 0)


@pytest.mark.slow
async def test_an_engine_that_works_in_silence_is_not_stalled(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "PULSE_S", 0.2)
    supervisor.policy = SupervisorPolicy(stall_s=1.5)
    adapter.behaviours["m"] = Behaviour(load_s=2.5, busy=True)
    assert (await supervisor.ensure_ready(ask())).state is S.READY


@pytest.mark.slow
async def test_a_taken_port_is_tried_again_unseen(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, recorder: Recorder, tmp_path: Path
) -> None:
    adapter.behaviours["m"] = Behaviour(port_tries=2, state_file=str(tmp_path / "starts"))
    status = await supervisor.ensure_ready(ask())
    assert recorder.states() == [S.STARTING, S.LOADING, S.READY]
    assert status.restarts == 0
    ports = [line.rsplit(" ", 1)[1] for line in recorder.lines() if "couldn't bind" in line]
    assert len(set(ports)) == len(ports) == 2


@pytest.mark.slow
async def test_a_port_that_stays_taken_is_told(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.behaviours["m"] = Behaviour(says=("couldn't bind HTTP server socket",), exit_code=1)
    with pytest.raises(EngineFailed) as error:
        await supervisor.ensure_ready(ask())
    assert error.value.code == FailureKind.PORT_IN_USE
    await supervisor.unload_model("m")


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    "damage",
    [
        ("ggml: out of memory", FailureKind.OUT_OF_MEMORY),
        ("data is not within the file bounds, model is corrupted or incomplete", FailureKind.MODEL_CORRUPT),
    ],
)
async def test_what_would_only_happen_again_is_told_again_without_a_process(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, tmp_path: Path, damage: tuple[str, FailureKind]
) -> None:
    line, kind = damage
    starts = tmp_path / "starts"
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    adapter.behaviours["m"] = Behaviour(says=(line,), exit_code=1, state_file=str(starts))
    for _ in range(3):
        with pytest.raises(EngineFailed) as error:
            async with supervisor.lease(ask()):
                pass
        assert error.value.code == kind
        assert line in error.value.body.detail
        assert error.value.hint == "Try another model."
    assert len(starts.read_bytes()) == 1
    failure = supervisor.list_statuses()[0].failure
    assert failure is not None
    assert (failure.code, failure.exit_code, failure.log_tail) == (kind, 1, [line])

    (tmp_path / "m.gguf").write_bytes(b"GGUF, downloaded again")
    adapter.behaviours["m"] = Behaviour()
    async with supervisor.lease(ask()) as lease:
        assert lease.status.state is S.READY


@pytest.mark.slow
async def test_an_explicit_load_tries_again(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    adapter.behaviours["m"] = Behaviour(says=("out of memory",), exit_code=1)
    with pytest.raises(EngineFailed):
        await supervisor.ensure_ready(ask())
    adapter.behaviours["m"] = Behaviour()
    assert (await supervisor.ensure_ready(ask())).state is S.READY


@pytest.mark.slow
async def test_an_explicit_load_with_other_options_restarts_and_a_lease_does_not(
    supervisor: Supervisor, ask: Ask
) -> None:
    first = await supervisor.ensure_ready(ask(context=1024))
    async with supervisor.lease(ask(context=4096)) as lease:
        assert lease.status.pid == first.pid
    second = await supervisor.ensure_ready(ask(context=4096))
    assert (second.context, second.pid == first.pid) == (4096, False)


async def test_what_cannot_start_says_why(supervisor: Supervisor, ask: Ask, adapter: FakeAdapter) -> None:
    with pytest.raises(EngineFailed, match="at least one slot") as error:
        await supervisor.ensure_ready(ask("a", slots=0))
    assert error.value.code == FailureKind.BAD_FLAG
    with pytest.raises(EngineFailed, match="nonsense") as unknown:
        await supervisor.ensure_ready(ask("b", engine="nonsense"))
    assert unknown.value.code == FailureKind.NOT_INSTALLED
    installation = adapter.installation
    adapter.installation = Failure(kind=FailureKind.NOT_INSTALLED, sentence="It is not installed.")
    with pytest.raises(EngineFailed, match="It is not installed"):
        await supervisor.ensure_ready(ask("c"))
    assert not isinstance(installation, Failure)
    adapter.installation = msgspec.structs.replace(installation, python=Path("/nowhere/python"))
    with pytest.raises(EngineFailed, match="/nowhere/python"):
        await supervisor.ensure_ready(ask("d"))
    assert {status.state for status in supervisor.list_statuses()} == {S.FAILED}


async def test_a_disk_that_takes_nothing_is_said_and_not_called_our_mistake(
    supervisor: Supervisor, ask: Ask, folders: SupervisorFolders
) -> None:
    folders.records.write_bytes(b"")  # where its folder should be
    with pytest.raises(EngineFailed, match="could not be started") as error:
        await supervisor.ensure_ready(ask())
    assert "disk" in error.value.hint
    folders.records.unlink()
    assert (await supervisor.ensure_ready(ask())).state is S.READY


@pytest.mark.slow
async def test_an_adapter_that_breaks_does_not_break_the_supervisor(
    supervisor: Supervisor,
    ask: Ask,
    adapter: FakeAdapter,
    recorder: Recorder,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raise_mistake(*_: object) -> None:
        raise KeyError("oops")

    adapter.read_log = raise_mistake  # type: ignore[method-assign,assignment]  # a plug-in with a mistake
    adapter.behaviours["m"] = Behaviour(says=("one", "two"))
    assert (await supervisor.ensure_ready(ask())).state is S.READY
    await recorder.until(lambda: len(recorder.lines()) == 2)
    assert [line.text for line in supervisor.read_log("m")] == ["one", "two"]
    adapter.classify_exit = raise_mistake  # type: ignore[method-assign,assignment]  # and another
    adapter.behaviours["n"] = Behaviour(exit_code=1)
    with pytest.raises(EngineFailed, match="a bug in Roundhouse"):
        await supervisor.ensure_ready(ask("n"))
    assert len([record for record in caplog.records if record.exc_info]) == 2
    caplog.clear()
    await supervisor.unload_model("n")


async def test_a_supervisor_that_closes_turns_everybody_away(
    folders: SupervisorFolders, recorder: Recorder, ask: Ask, adapter: FakeAdapter
) -> None:
    adapter.behaviours["m"] = Behaviour(load_s=30.0)
    supervisor = Supervisor({"fake": adapter}, folders, SupervisorPolicy(), recorder.publish)
    waiter = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.LOADING)
    await supervisor.close()
    with pytest.raises(Unavailable, match="shutting down"):
        await waiter
    with pytest.raises(Unavailable, match="shutting down"):
        await supervisor.ensure_ready(ask())


async def test_setting_the_wall_clock_changes_nothing(
    supervisor: Supervisor, ask: Ask, adapter: FakeAdapter, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    adapter.behaviours["m"] = Behaviour(load_s=0.3)
    real = time.time
    load_task = asyncio.create_task(supervisor.ensure_ready(ask()))
    await recorder.until_state(S.LOADING)
    monkeypatch.setattr(time, "time", lambda: real() + 10 * 365 * 86_400)
    status = await load_task
    assert status.state is S.READY
    assert (status.load_seconds or 1e9) < 60
    monkeypatch.setattr(time, "time", lambda: real() - 10 * 365 * 86_400)
    async with supervisor.lease(ask()) as lease:
        assert lease.load_s == 0.0
    monkeypatch.setattr(time, "time", real)
    assert abs((supervisor.list_statuses()[0].last_used_at or 0.0) - real()) < 60
