"""The process that reads a file: its limits, its confinement, and what is said when it is ended."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import msgspec
import pytest

from app.confinement.support import read_kernel_offer
from app.core.attachments import Extraction, ExtractionProblem, FileProblem
from app.gateway.attachments import reading_child
from app.gateway.attachments.reading_child import FileReader, child_order
from tests.file_corpus import sheet_of_far_cells

PROGRAM = """
import os, socket, sys
def tries(what):
    try: what()
    except OSError: return "refused"
    return "done"
sys.stdin.buffer.read()
print(tries(lambda: open({secret!r}).read()), tries(lambda: open({place!r}, "w")),
      tries(lambda: socket.create_connection(("127.0.0.1", {port}))), sep=",", end="")
"""


async def run_instead(monkeypatch: pytest.MonkeyPatch, *argv: str) -> bytes:
    order = msgspec.structs.replace(child_order(), argv=argv)
    monkeypatch.setattr(reading_child, "child_order", lambda: order)
    return await reading_child._run_child("a.txt", b"content")


@pytest.mark.skipif(sys.platform != "linux", reason="confined on Linux only")
async def test_a_child_opens_no_file_of_yours_and_connects_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = read_kernel_offer()
    if offer is None or not offer.landlock or not offer.has_filter:
        pytest.skip("this kernel confines nothing")
    secret = tmp_path / "secret.txt"
    secret.write_text("mine", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = PROGRAM.format(secret=str(secret), place=str(tmp_path / "planted"), port=server.getsockname()[1])
        answer = await run_instead(monkeypatch, sys.executable, "-c", program)
    assert answer == b"refused,refused,refused"
    assert os.listdir(tmp_path) == ["secret.txt"]  # noqa: PTH208 -- names only


async def test_a_child_that_waits_or_writes_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_child, "_MOST_OUTPUT", 1 << 16)
    flood = "import sys\nwhile True: sys.stdout.buffer.write(bytes(1 << 14))"
    assert await run_instead(monkeypatch, sys.executable, "-c", flood) == b""
    monkeypatch.setattr(reading_child, "WALL_S", 0.5)
    assert await run_instead(monkeypatch, sys.executable, "-c", "import time; time.sleep(600)") == b""


async def test_what_ends_its_process_is_a_sentence() -> None:
    bomb = sheet_of_far_cells()
    problem = await FileReader().read(bomb.name, bomb.content)
    assert isinstance(problem, ExtractionProblem)
    assert problem.code == FileProblem.EXCESSIVE


async def test_a_reader_who_leaves_ends_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[asyncio.subprocess.Process] = []
    begin_event = asyncio.Event()
    create = asyncio.create_subprocess_exec

    async def create_noted(*arguments: str, **options: object) -> asyncio.subprocess.Process:
        process = await create(*arguments, **options)  # type: ignore[arg-type]  # as it was called
        processes.append(process)
        begin_event.set()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_noted)
    order = msgspec.structs.replace(child_order(), argv=(sys.executable, "-c", "import time; time.sleep(600)"))
    monkeypatch.setattr(reading_child, "child_order", lambda: order)
    read_task = asyncio.create_task(FileReader().read("a.txt", b"x"))
    await begin_event.wait()
    read_task.cancel()
    await asyncio.gather(read_task, return_exceptions=True)
    assert processes[0].returncode is not None


async def test_files_are_read_two_at_a_time() -> None:
    reader = FileReader()
    results = await asyncio.gather(*(reader.read(f"{number}.txt", b"text") for number in range(4)))
    assert all(isinstance(result, Extraction) for result in results)
