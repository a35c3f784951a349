"""What an engine wrote last is heard before its end is told, however slowly it is read; silence is not waited for."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from app.confinement.rules import LaunchOrder
from app.supervisor import child
from app.supervisor.child import ChildHandlers, ChildOutput, EngineProcess
from app.supervisor.logs import EngineLog, LogRedactor
from engines.api import LogEvent
from tests.patience import PATIENCE_S
from tests.unit.supervisor.conftest import Recorder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")

LAST_WORDS_S = 0.3
Start = Callable[[str], EngineProcess]


class Witness:
    """Notes in their order what is heard and how it ends."""

    def __init__(self) -> None:
        self.events: list[str | int] = []
        self.has_ended = asyncio.Event()
        self.slowly = 0.0

    def read_log(self, _line: str) -> Sequence[LogEvent]:
        time.sleep(self.slowly)
        return ()

    def hear(self, output: ChildOutput) -> None:
        self.events += output.lines

    def note_end(self, _child: EngineProcess, code: int) -> None:
        self.events.append(code)
        self.has_ended.set()


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
async def start(
    witness: Witness, tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    monkeypatch.setattr(child, "_LAST_WORDS_S", LAST_WORDS_S)
    log, begun_processes = EngineLog("m", tmp_path, recorder.publish), list[EngineProcess]()

    def start_process(script: str) -> EngineProcess:
        order = LaunchOrder(argv=("/bin/sh", "-c", script), env=dict(os.environ), cwd=str(tmp_path))
        ways = ChildHandlers(
            log=log, redactor=LogRedactor([]), read_log=witness.read_log, hear=witness.hear, ended=witness.note_end
        )
        begun_processes.append(EngineProcess(order, role="server", has_lifeline=False, prefix="", handlers=ways))
        return begun_processes[-1]

    yield start_process
    for process in begun_processes:
        process.kill()
    log.close()


async def test_last_words_count_however_slowly_they_are_read(start: Start, witness: Witness) -> None:
    witness.slowly = LAST_WORDS_S
    start("echo first; echo second; echo last >&2; exit 3")
    await asyncio.wait_for(witness.has_ended.wait(), PATIENCE_S)
    assert witness.events[-1] == 3
    assert sorted(map(str, witness.events[:-1])) == ["first", "last", "second"]


async def test_a_pipe_that_somebody_else_holds_is_not_waited_for(start: Start, witness: Witness) -> None:
    start("sleep 60 & echo last; exit 4")
    await asyncio.wait_for(witness.has_ended.wait(), PATIENCE_S)
    assert witness.events == ["last", 4]


async def test_nor_one_that_somebody_else_goes_on_writing_to(
    start: Start, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_MOST_WORDS_S", 3 * LAST_WORDS_S)
    start("while echo more; do sleep 0.05; done & echo last; exit 5")
    await asyncio.wait_for(witness.has_ended.wait(), PATIENCE_S)
    assert 5 in witness.events
