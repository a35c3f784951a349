"""Ports, private files, probes, and how often something is announced."""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Self

import pytest

from app.config.private_files import write_private
from app.supervisor.facts import RunFacts
from app.supervisor.owner import INTERVAL_S, Announcer
from app.supervisor.readiness import EngineEndpoint, is_ready
from app.supervisor.run import HOST, LoopbackPorts
from engines.api import (
    EngineInstallation,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    LoadProgress,
    PortOpened,
    Readiness,
    ReadyWhen,
    Suspicion,
)
from engines.environment import engine_environment
from tests.patience import PATIENCE_S


def test_a_reserved_port_is_free_and_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = LoopbackPorts()
    with ports.reserve_port() as first, ports.reserve_port() as second:
        assert first != second
        for port in (first, second):
            with socket.socket() as engine:
                engine.bind((HOST, port))
    assert ports.reserved == set()


def test_a_port_the_kernel_offers_twice_is_refused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = iter([5001, 5001, 5002])

    class Socket:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, _: object) -> None:
            self.port = next(offers)

        def getsockname(self) -> tuple[str, int]:
            return HOST, self.port

    monkeypatch.setattr(socket, "socket", Socket)
    ports = LoopbackPorts()
    with ports.reserve_port() as first, ports.reserve_port() as second:
        assert (first, second) == (5001, 5002)


def test_a_private_file_is_its_owners_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.ini"
    write_private(path, b"first")
    write_private(path, b"second")
    assert path.read_bytes() == b"second"
    assert [file.name for file in path.parent.iterdir()] == ["file.ini"]
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o600


async def answer_with(raw: bytes, readiness: Readiness) -> bool:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        return await is_ready(EngineEndpoint(base_url=f"http://{HOST}:{port}", key="k", served_name="m"), readiness)


OK = b"HTTP/1.1 200 OK\r\n"
HEALTH = Readiness()
LISTED = Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models")
GENERATES = Readiness(when=ReadyWhen.COMPLETION, path="/v1/completions")


@pytest.mark.parametrize(
    ("raw", "readiness", "is_ready"),
    [
        (OK + b"\r\n", HEALTH, True),
        (OK + b"Content-Length: 2\r\n\r\nok and more", HEALTH, True),
        (b"HTTP/1.1 503 Loading\r\n\r\n", HEALTH, False),
        (b"HTTP/1.1 200 OK\r\nnever", HEALTH, False),
        (b"SSH-2.0-OpenSSH\r\n\r\n", HEALTH, False),
        (b"", HEALTH, False),
        (OK + b'\r\n{"data": [{"id": "other"}, {"id": "m"}]}', LISTED, True),
        (OK + b'\r\n{"data": []}', LISTED, False),
        (OK + b"\r\n<html>", LISTED, False),
        (OK + b'\r\n{"choices": [{}]}', GENERATES, True),
        (OK + b'\r\n{"error": {"message": "no model"}}', GENERATES, False),
        (b'HTTP/1.1 500 No\r\n\r\n{"choices": [{}]}', GENERATES, False),
    ],
)
async def test_only_a_sensible_answer_means_ready(raw: bytes, readiness: Readiness, is_ready: bool) -> None:  # noqa: FBT001 -- a table
    assert await answer_with(raw, readiness) is is_ready


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/completions", {"prompt": "Hi"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]}),
    ],
)
async def test_one_token_is_asked_for_to_see_whether_it_generates(path: str, prompt: dict[str, object]) -> None:
    questions: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        questions.extend([head.splitlines()[0], await reader.readexactly(length)])
        writer.write(OK + b'\r\n{"choices": [{}]}')
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    endpoint = EngineEndpoint(
        base_url=f"http://{HOST}:{server.sockets[0].getsockname()[1]}", key="k", served_name="served"
    )
    async with server:
        assert await is_ready(endpoint, Readiness(when=ReadyWhen.COMPLETION, path=path))
    assert questions[0] == f"POST {path} HTTP/1.0".encode()
    assert json.loads(questions[1]) == {"model": "served", "max_tokens": 1, **prompt}


async def test_nobody_there_is_not_ready() -> None:
    with LoopbackPorts().reserve_port() as port:
        assert not await is_ready(EngineEndpoint(base_url=f"http://{HOST}:{port}", key="", served_name=""), HEALTH)


async def test_changes_are_told_ten_times_a_second_and_the_last_one_always() -> None:
    times: list[float] = []
    loop = asyncio.get_running_loop()
    last = loop.create_future()

    def say() -> None:
        times.append(loop.time())
        if len(times) == 3:
            last.set_result(None)

    announcer = Announcer(say)
    announcer.announce(at_once=False)
    for _ in range(1000):
        announcer.announce(at_once=False)
    assert len(times) == 1
    announcer.announce(at_once=True)
    assert len(times) == 2
    announcer.announce(at_once=False)
    await asyncio.wait_for(last, PATIENCE_S)
    assert times[2] - times[1] >= INTERVAL_S * 0.9
    announcer.announce(at_once=False)
    announcer.close()


def test_an_engine_that_chooses_its_port_is_found_there() -> None:
    facts = RunFacts()
    plan = LaunchPlan(processes=(), base_url="http://[::1]:0", served_name="m", readiness=Readiness())
    facts.take_plan(plan, EngineInstallation(engine="e", version="1", backend="cpu"))
    facts.apply_event(PortOpened(port=4321))
    assert facts.base_url == "http://[::1]:4321"
    facts.apply_event(LoadProgress(stage="Reading", fraction=None))
    assert (facts.stage, facts.progress) == ("Reading", None)


def test_an_engine_that_repeats_itself_does_not_fill_memory() -> None:
    facts = RunFacts()
    for at in range(10_000):
        facts.apply_event(Suspicion(kind=FailureKind.OUT_OF_MEMORY, line=str(at)))
    assert facts.build_exit(LaunchOptions()).suspicions[0].line == "0"
    assert len(facts.suspicions) < 100


def list_suspicions(facts: RunFacts) -> list[str]:
    return [suspicion.line for suspicion in facts.build_exit(LaunchOptions()).suspicions]


def test_what_went_wrong_before_it_served_or_long_ago_is_not_what_ended_it() -> None:
    facts = RunFacts()
    facts.apply_event(Suspicion(kind=FailureKind.DRIVER, line="while it loaded"))
    assert list_suspicions(facts) == ["while it loaded"]
    facts.mark_ready(0.0, 1.0)
    facts.add_lines(["ERROR: a request that was refused"])
    facts.apply_event(Suspicion(kind=FailureKind.MODEL_NOT_FOUND, line="a request that was refused"))
    assert list_suspicions(facts) == ["a request that was refused"]
    facts.add_lines(["POST /v1/chat/completions 200 OK"] * 1_000)
    assert list_suspicions(facts) == []


def test_an_engine_that_served_is_judged_by_its_last_words() -> None:
    facts = RunFacts()
    facts.mark_ready(0.0, 1.0)
    for at in range(10_000):
        facts.add_lines([str(at)])
        facts.apply_event(Suspicion(kind=FailureKind.OUT_OF_MEMORY, line=str(at)))
    assert list_suspicions(facts)[-1] == "9999"
    assert len(facts.suspicions) < 100


def test_an_engine_inherits_what_it_needs_and_no_credentials() -> None:
    shell = {
        "PATH": "/bin",
        "Path": "C:\\",
        "CUDA_VISIBLE_DEVICES": "1",
        "LC_ALL": "C",
        "HF_TOKEN": "hf_secret",
        "OPENAI_API_KEY": "sk-secret",
        "PYTHONPATH": "/elsewhere",
    }
    assert engine_environment(shell) == {"PATH": "/bin", "Path": "C:\\", "CUDA_VISIBLE_DEVICES": "1", "LC_ALL": "C"}


def test_a_frozen_application_gives_engines_the_library_path_it_was_started_with() -> None:
    frozen_environment = {"LD_LIBRARY_PATH": "/frozen", "LD_LIBRARY_PATH_ORIG": "/usr/local/cuda/lib64"}
    assert engine_environment(frozen_environment) == {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
