"""The real engine stopped, set a task without end, and short of memory: each is noticed, and who waits is served."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import psutil
import pytest

from app.config.paths import RESOURCES
from app.core.errors import EngineFailed
from app.supervisor.policy import LoadRequest, MemoryNeeds, SupervisorFolders, SupervisorPolicy
from app.supervisor.pool import Supervisor
from app.supervisor.scheduling import SYSTEM
from engines.api import Descriptor, LaunchOptions, ModelFormat, ModelSource
from engines.llama_cpp.descriptor import DESCRIPTOR
from engines.llama_cpp.launch import LlamaCppAdapter
from tests.patience import until

pytestmark = pytest.mark.real_engine

OVERHEAD = DESCRIPTOR.overhead_bytes + (16 << 20) * (os.cpu_count() or 1)
ENDLESS = "root ::= ([a-z]?){0,40}"
"""Not refused, since its cost is in the repetition; 16 tokens take minutes."""


class HastyAdapter(LlamaCppAdapter):
    """llama.cpp, given up within seconds."""

    @property
    def descriptor(self) -> Descriptor:
        return msgspec.structs.replace(super().descriptor, stuck_s=3.0, frozen_s=1.5)


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    folders = SupervisorFolders(records=tmp_path / "records", logs=tmp_path / "logs", scratch=tmp_path / "scratch")
    new_supervisor = Supervisor({"llama.cpp": HastyAdapter()}, folders, SupervisorPolicy(), lambda _event: None)
    yield new_supervisor
    await new_supervisor.close()


GUIDE = LoadRequest(
    engine="llama.cpp",
    source=ModelSource(name="guide", path=RESOURCES / "guide" / "guide-q8_0.gguf", format=ModelFormat.GGUF),
    options=LaunchOptions(context=2048, slots=1),
)


@pytest.mark.skipif(sys.platform == "win32", reason="in a venv the process is a launcher there; its child serves")
async def test_a_stopped_engine_is_replaced_for_who_waits(
    supervisor: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    async with supervisor.lease(GUIDE) as lease:
        assert await supervisor.is_answering(lease) is True
        first = psutil.Process(lease.status.pid)

        async def wait_for_slot() -> int | None:
            async with supervisor.lease(GUIDE) as later:
                assert await supervisor.is_answering(later) is True
                return later.status.pid

        waiter = asyncio.create_task(wait_for_slot())
        first.suspend()
        await until(lambda: first.status() == psutil.STATUS_STOPPED)  # its threads stop one after another
        assert await supervisor.is_answering(lease) is False
        supervisor.report_stuck(lease)
        verdict = await lease.wait_for_verdict()
    assert isinstance(verdict, EngineFailed)
    assert verdict.code == "unresponsive"
    assert await waiter not in {None, first.pid}
    assert "is restarted" in caplog.text


@pytest.mark.slow
async def test_an_engine_with_a_task_without_end_does_not_answer_though_it_says_it_is_well(
    supervisor: Supervisor,
) -> None:
    async with supervisor.lease(GUIDE) as lease, aiohttp.ClientSession() as http:
        body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "grammar": ENDLESS}
        url, headers = f"{lease.base_url}/v1/chat/completions", {"Authorization": f"Bearer {lease.key}"}

        async def ask() -> None:
            async with http.post(url, data=json.dumps(body), headers=headers) as reply:
                await reply.read()

        question = asyncio.create_task(ask())

        async def is_stuck() -> bool:
            return await supervisor.is_answering(lease) is False

        await until(is_stuck)
        async with http.get(f"{lease.base_url}/health") as reply:
            assert reply.status == 200
        assert not question.done()
        question.cancel()


def data_limit(pid: int | None) -> int:
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(int(line.split()[3]) for line in lines if line.startswith("Max data size"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process limit another")
async def test_an_engine_on_the_processor_has_as_much_memory_as_it_needs_and_no_more(supervisor: Supervisor) -> None:
    def request(name: str, limit: int) -> LoadRequest:
        source = msgspec.structs.replace(GUIDE.source, name=name)
        needs = MemoryNeeds(pools={SYSTEM: 32 << 20}, private_limit=limit)
        return msgspec.structs.replace(GUIDE, source=source, needs=needs)

    async with supervisor.lease(request("enough", 64 << 20)) as lease:
        assert data_limit(lease.status.pid) == (64 << 20) + OVERHEAD
        assert await supervisor.is_answering(lease) is True
    with pytest.raises(EngineFailed) as error:
        await supervisor.ensure_ready(request("too little", (64 << 20) - OVERHEAD))
    assert error.value.code == "out_of_memory"
