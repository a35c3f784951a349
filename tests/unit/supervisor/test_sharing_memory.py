"""Engines that share memory a gauge reads: who fits, who goes, who is refused, and memory that comes back late."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor.memory_limits import MemoryReading, correct_holdings, is_memory_back, limits_of
from app.supervisor.policy import LoadRequest, MemoryNeeds, ModelPolicy, SupervisorPolicy
from app.supervisor.pool import Supervisor, SupervisorFolders
from app.supervisor.scheduling import MemoryLimits, Resident
from tests.fake_engine.adapter import FakeAdapter
from tests.unit.supervisor.conftest import WAIT_S, Ask, Recorder

S = EngineState
GB = 1 << 30


class Memory:
    """A GPU whose engines take what they need. What `keeps` held does not come back before that is emptied."""

    def __init__(self) -> None:
        self.free = 100 * GB
        self.keeps = ""
        self.early_reads = 0
        """How often it was read while something had not come back."""
        self.supervisor: Supervisor | None = None

    async def read(self, pids: Sequence[int]) -> MemoryReading:
        statuses = self.supervisor.list_statuses() if self.supervisor else []
        up = [status for status in statuses if status.pid in pids and status.state in {S.READY, S.DRAINING, S.STOPPING}]
        held_models = {status.model for status in up} | ({self.keeps} if self.keeps else set())
        self.early_reads += len(held_models) > len(up)
        return MemoryReading(free={"gpu": self.free - sum(SIZES[model] for model in held_models)})


SIZES = {"a": 60 * GB, "b": 30 * GB, "c": 50 * GB, "monster": 200 * GB}


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
async def supervisor(
    adapter: FakeAdapter, folders: SupervisorFolders, recorder: Recorder, memory: Memory
) -> AsyncIterator[Supervisor]:
    new_supervisor = Supervisor({"fake": adapter}, folders, SupervisorPolicy(), recorder.publish)
    new_supervisor.gauge = memory.read
    memory.supervisor = new_supervisor
    yield new_supervisor
    async with asyncio.timeout(WAIT_S):
        await new_supervisor.close()


@pytest.fixture
def need(ask: Ask) -> Ask:
    def request(model: str) -> LoadRequest:
        return msgspec.structs.replace(ask(model), needs=MemoryNeeds(pools={"gpu": SIZES[model]}))

    return request


def list_loaded(supervisor: Supervisor) -> list[str]:
    return [status.model for status in supervisor.list_statuses() if status.state is S.READY]


async def test_models_share_memory_as_long_as_it_lasts(supervisor: Supervisor, need: Ask) -> None:
    await supervisor.ensure_ready(need("a"))
    await supervisor.ensure_ready(need("b"))
    assert list_loaded(supervisor) == ["a", "b"]
    await supervisor.ensure_ready(need("c"))
    assert list_loaded(supervisor) == ["b", "c"], "the larger one had to go, the other did not"


@pytest.mark.slow
async def test_a_pinned_model_stays_and_the_other_is_refused(supervisor: Supervisor, need: Ask) -> None:
    supervisor.policy = SupervisorPolicy(models={"a": ModelPolicy(is_pinned=True)}, idle_s=0.01)
    await supervisor.ensure_ready(need("a"))
    with pytest.raises(EngineFailed, match=r"c takes about 50\.0 GiB of memory on gpu.*40\.0 GiB.*a, which is pinned"):
        await supervisor.ensure_ready(need("c"))
    assert list_loaded(supervisor) == ["a"]
    assert [status.is_pinned for status in supervisor.list_statuses()] == [True]
    supervisor.policy = SupervisorPolicy()
    await supervisor.ensure_ready(need("c"))
    assert list_loaded(supervisor) == ["c"]


@pytest.mark.slow
async def test_a_model_may_have_what_the_pinned_ones_leave(supervisor: Supervisor, need: Ask) -> None:
    supervisor.policy = SupervisorPolicy(models={"a": ModelPolicy(is_pinned=True)}, head_room=GB)
    await supervisor.ensure_ready(need("a"))
    await supervisor.ensure_ready(need("b"))
    assert await supervisor.model_capacity("c") == {"gpu": 40 * GB}, "b would go for it"
    assert await supervisor.model_capacity("a") == {"gpu": 100 * GB}, "it has what it holds itself"


async def test_what_cannot_fit_is_refused_and_tried_again_when_asked_again(
    supervisor: Supervisor, need: Ask, memory: Memory
) -> None:
    with pytest.raises(EngineFailed) as error:
        await supervisor.ensure_ready(need("monster"))
    assert error.value.code == "out_of_gpu_memory"
    assert supervisor.list_statuses() == []
    memory.free = 300 * GB
    await supervisor.ensure_ready(need("monster"))


@pytest.mark.slow
async def test_memory_that_comes_back_late_is_waited_for(
    supervisor: Supervisor, need: Ask, memory: Memory, recorder: Recorder
) -> None:
    await supervisor.ensure_ready(need("b"))
    await supervisor.ensure_ready(need("a"))
    memory.keeps = "a"
    waiter = asyncio.create_task(supervisor.ensure_ready(need("c")))
    await recorder.until_state(S.STOPPED, "a")
    async with asyncio.timeout(WAIT_S):
        while memory.early_reads < 3:  # noqa: ASYNC110 -- it looks again and again, and tells nobody
            await asyncio.sleep(0.01)
    assert list_loaded(supervisor) == ["b"], "nobody else had to go for it"
    assert not waiter.done()
    memory.keeps = ""
    await waiter
    assert list_loaded(supervisor) == ["b", "c"]


@pytest.mark.slow
async def test_a_busy_model_is_waited_for(supervisor: Supervisor, need: Ask, recorder: Recorder) -> None:
    async with supervisor.lease(need("a")):
        waiter = asyncio.create_task(supervisor.ensure_ready(need("c")))
        await recorder.until(lambda: [status for status in recorder.statuses("c") if "to free memory" in status.stage])
        assert list_loaded(supervisor) == ["a"]
    await waiter
    assert list_loaded(supervisor) == ["c"]


@pytest.mark.slow
async def test_a_load_that_has_room_never_says_that_it_waits_for_some(
    supervisor: Supervisor, need: Ask, recorder: Recorder
) -> None:
    await supervisor.ensure_ready(need("a"))
    await supervisor.ensure_ready(need("b"))
    assert not [status for model in "ab" for status in recorder.statuses(model) if "to free memory" in status.stage]


async def test_a_gauge_that_fails_stops_nobody(
    supervisor: Supervisor, need: Ask, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.supervisor = None
    memory.free = None  # type: ignore[assignment]  # what makes it fail
    await supervisor.ensure_ready(need("a"))
    assert "Free memory could not be read" in caplog.text
    caplog.clear()


def test_an_estimate_is_put_right_by_what_the_engine_says() -> None:
    needs = MemoryNeeds(pools={"gpu": 80, "system": 20}, buffers=90)
    assert correct_holdings(needs, 110) == {"gpu": 96, "system": 24}
    assert correct_holdings(needs, 90) == needs.pools
    assert correct_holdings(MemoryNeeds(pools={}), 7) == {}
    assert correct_holdings(None, 7) == {"system": 7}


def test_what_engines_give_back_counts_as_there() -> None:
    ready = Resident(model="a", last_used=0.0, is_idle=True, holds={"system": 50, "gpu": 30}, pid=1)
    coming_resident = Resident(model="b", last_used=0.0, holds={"gpu": 20}, pid=2)
    memory_reading = MemoryReading(free={"system": 100, "gpu": 40}, private={1: 10, 2: 1})
    assert limits_of(memory_reading, [ready, coming_resident], 5) == MemoryLimits(
        pools={"system": 106, "gpu": 65}, head_room=5
    )


def test_a_little_less_than_before_is_as_good_as_all() -> None:
    assert is_memory_back({"gpu": 10 * GB}, {"gpu": 10 * GB - 1})
    assert not is_memory_back({"gpu": 10 * GB}, {"gpu": 9 * GB})
    assert is_memory_back({"gpu": 10 * GB}, {}), "who cannot read it cannot wait for it"
