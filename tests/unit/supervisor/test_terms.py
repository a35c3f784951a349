"""What one lease may ask beside its work: how long the engine stays, and that it has context enough."""

import asyncio
import math
import time

import msgspec
import pytest

from app.core.engines import EngineState
from app.supervisor import messages as m
from app.supervisor.policy import LeaseOptions, LoadRequest, ModelPolicy, SupervisorPolicy
from app.supervisor.pool import Supervisor
from engines.api import LaunchOptions
from tests.unit.supervisor.conftest import Ask, Recorder
from tests.unit.supervisor.test_machine import OTHER, REQUEST, Driver, outcomes

S = EngineState
LARGER = msgspec.structs.replace(REQUEST, options=LaunchOptions(context=200))
GROWS = LeaseOptions(context=150)


def lease(driver: Driver, terms: LeaseOptions, request: LoadRequest = REQUEST) -> list[m.MachineEffect]:
    driver.tickets += 1
    ask = m.ReadyRequest(ticket=driver.tickets, request=request, holds=True, fingerprint=(0,), terms=terms)
    return driver.say(ask)


def release(driver: Driver) -> list[m.MachineEffect]:
    return driver.say(m.ReleaseLease(run=driver.machine.run))


def run_request(request: LoadRequest) -> Driver:
    driver = Driver()
    driver.ask(request)
    driver.start()
    driver.ready()
    return driver


@pytest.mark.parametrize(("keep_s", "gone_after_s"), [(0.0, 0.0), (5.0, 5.0), (4000.0, 4000.0)])
def test_a_lease_says_how_long_it_is_kept(keep_s: float, gone_after_s: float) -> None:
    driver = Driver()
    lease(driver, LeaseOptions(keep_s=keep_s))
    driver.start()
    driver.ready()
    driver.pass_time(9000.0)
    assert driver.state() is S.READY, "in use, so it is kept"
    release(driver)
    if gone_after_s:
        driver.pass_time(gone_after_s - 0.1)
        assert driver.state() is S.READY
    driver.pass_time(0.1)
    assert driver.state() is S.STOPPING


def test_a_lease_that_says_nothing_leaves_the_time_as_it_is_until_the_model_is_gone() -> None:
    driver = Driver().come_up()
    lease(driver, LeaseOptions(keep_s=math.inf))
    lease(driver, LeaseOptions())
    for _ in range(3):
        release(driver)
    driver.pass_time(1e9)
    assert driver.state() is S.READY
    driver.stop()
    driver.end()
    assert driver.machine.idle_s == driver.policy.idle_s


def test_more_context_waits_until_nobody_is_served_and_then_everybody_is() -> None:
    driver = run_request(OTHER)
    assert outcomes(lease(driver, GROWS, LARGER)) == {}
    assert driver.state() is S.DRAINING
    assert outcomes(driver.ask(OTHER)) == {}, "it waiting"
    driver.pass_time(1e6)
    assert driver.state() is S.DRAINING, "nobody is cut off for it"
    release(driver)
    driver.end()
    driver.start()
    assert set(outcomes(driver.ready()).values()) == {m.LeaseGranted(run=driver.machine.run)}
    assert driver.machine.in_flight == 2
    assert driver.machine.request == LARGER


def test_context_that_suffices_starts_nothing_again() -> None:
    driver = run_request(LARGER)
    assert isinstance(outcomes(lease(driver, GROWS, OTHER))[2], m.LeaseGranted)
    assert isinstance(outcomes(lease(driver, LeaseOptions(), LARGER))[3], m.LeaseGranted)
    assert isinstance(outcomes(lease(run_request(OTHER), LeaseOptions(context=99), LARGER))[2], m.LeaseGranted)
    assert isinstance(outcomes(lease(run_request(OTHER), LeaseOptions(context=100), OTHER))[2], m.LeaseGranted), (
        "no more to be had"
    )


def test_who_loads_it_is_served_before_it_grows_for_another() -> None:
    driver = Driver()
    driver.ask(OTHER)
    driver.start()
    lease(driver, GROWS, LARGER)
    assert list(outcomes(driver.ready())) == [1]
    assert driver.state() is S.DRAINING
    release(driver)
    driver.end()
    driver.start()
    assert list(outcomes(driver.ready())) == [2]


def test_expiring_ends_what_is_idle_and_lets_others_finish() -> None:
    driver = Driver().come_up()
    assert list(outcomes(driver.stop(m.StopReason.EXPIRE)).values()) == [m.Acknowledgement()]
    assert driver.state() is S.READY
    release(driver)
    driver.pass_time(0.0)
    assert driver.state() is S.STOPPING
    idle = Driver().come_up()
    release(idle)
    assert outcomes(idle.stop(m.StopReason.EXPIRE)) == {}, "answered once it is gone"
    assert outcomes(idle.end()) == {2: m.Acknowledgement()}


def test_what_a_request_lets_go_stays_while_it_is_pinned() -> None:
    driver = Driver().come_up()
    release(driver)
    driver.policy = SupervisorPolicy(models={driver.machine.model: ModelPolicy(is_pinned=True)})
    assert list(outcomes(driver.stop(m.StopReason.LET_GO)).values()) == [m.Acknowledgement()]
    assert driver.state() is S.READY
    driver.policy = SupervisorPolicy()
    driver.stop(m.StopReason.LET_GO)
    assert driver.state() is S.STOPPING


def test_what_is_to_be_kept_stays_whatever_a_request_says_but_to_unload_it() -> None:
    driver = Driver(SupervisorPolicy(idle_s=10.0)).come_up()
    driver.policy = SupervisorPolicy(idle_s=10.0, models={driver.machine.model: ModelPolicy(is_kept=True, idle_s=1.0)})
    assert (driver.machine.is_kept, driver.machine.idle_s) == (True, math.inf)
    driver.machine.keep_s = 30.0
    assert driver.machine.idle_s == math.inf
    driver.machine.keep_s = 0.0
    assert driver.machine.idle_s == 0.0
    release(driver)
    driver.stop(m.StopReason.LET_GO)
    assert driver.state() is S.STOPPING


async def test_a_real_process_goes_when_it_is_to_be_kept_no_longer(
    supervisor: Supervisor, ask: Ask, recorder: Recorder
) -> None:
    request = ask()
    async with supervisor.lease(request, LeaseOptions(keep_s=60.0)):
        (status,) = supervisor.list_statuses()
        assert status.unload_at == pytest.approx(time.time() + 60.0, abs=2.0)
    async with supervisor.lease(request, LeaseOptions(keep_s=math.inf)) as held_lease:
        assert held_lease.load_s == 0.0
        assert supervisor.list_statuses()[0].unload_at is None
    assert (await supervisor.expire_model(request.source.name)).state is S.STOPPED
    async with supervisor.lease(request, LeaseOptions(keep_s=0.0)):
        pass
    await recorder.until_state(S.STOPPED, request.source.name)


async def test_expiring_what_never_ran_is_no_error(supervisor: Supervisor) -> None:
    assert (await supervisor.expire_model("nothing")).state is S.STOPPED


@pytest.mark.slow
async def test_a_real_process_is_started_again_with_more_context(supervisor: Supervisor, ask: Ask) -> None:
    small = msgspec.structs.replace(ask(), options=LaunchOptions(context=1000))
    large = msgspec.structs.replace(small, options=LaunchOptions(context=2000))
    async with supervisor.lease(small) as first:
        waiter = asyncio.create_task(_run_of(supervisor, large))
        await asyncio.sleep(0)
        assert not first.end.done()
    assert await waiter > first.run
    async with supervisor.lease(small, LeaseOptions(context=4000)) as last:
        assert last.status.context == 2000


async def _run_of(supervisor: Supervisor, request: LoadRequest) -> int:
    async with supervisor.lease(request, LeaseOptions(context=1500)) as held_lease:
        return held_lease.run
