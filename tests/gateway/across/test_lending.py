"""The end of the tunnel that lends memory: only to whom a person said, to one at a time, and until it is taken back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from app.gateway.across import lending
from app.gateway.across.lending import LayerLender
from app.gateway.across.tunnel import FAREWELL, NodeOrder, Pipe, TunnelReply, TunnelRequest, call_machine, read_line
from app.gateway.machines.trust import TUNNEL, TrustedMachines
from app.machines import identity as machine_identity
from app.network.pinned_tls import make_client_context
from engines.llama_cpp.launch import LAYERS
from tests.gateway.across.test_tunnel import introduce, open_in
from tests.patience import PATIENCE_S

HOLD = TunnelRequest(ask="hold", session="s", count=1)


class PlayedSupervisor:
    """Runs a worker that is nothing but an address."""

    def __init__(self) -> None:
        self.unloads: list[str] = []
        self.end: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def lease(self, _request: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(base_url="http://127.0.0.1:1", end=self.end)

    async def unload_model(self, model: str, **_how: bool) -> None:
        self.unloads.append(model)


class Lender:
    """A lender that listens, and a machine that it is paired with."""

    def __init__(self, own: TrustedMachines, other: TrustedMachines) -> None:
        self.trusted_machines, self.other = own, other
        self.supervisor = PlayedSupervisor()
        services: Any = SimpleNamespace(trusted_machines=own, supervisor=self.supervisor)
        self.lender = LayerLender(services)
        (self.asker,) = own.list_machines()
        """The other machine, as this one knows it."""
        (self.own,) = other.list_machines()
        """This machine, as the other knows it."""

    async def ask(self, request: TunnelRequest) -> tuple[TunnelReply, Pipe]:
        return await call_machine(self.other, self.own, request)


@pytest.fixture
async def lender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Lender]:
    async def ready(_services: object, _node: object = None) -> TunnelReply:
        return TunnelReply(free_bytes=100, version="1")

    monkeypatch.setattr(machine_identity, "store_secret", lambda _name, _secret: False)
    monkeypatch.setattr(lending, "describe_room", ready)
    trusted_machines, other = await open_in(tmp_path / "own"), await open_in(tmp_path / "other")
    known_machine = await introduce(trusted_machines, other)
    await trusted_machines.change_machine(replace(known_machine, lends_memory=True))
    await introduce(other, trusted_machines)
    played_lender = Lender(trusted_machines, other)
    server = await asyncio.start_server(
        played_lender.lender.serve_machine, "127.0.0.1", 0, ssl=await trusted_machines.server_context()
    )
    async with server:
        host, port = server.sockets[0].getsockname()
        played_lender.own = await other.change_machine(replace(played_lender.own, host=host, port=port))
        yield played_lender


async def read_farewell(pipe: Pipe) -> str:
    async with asyncio.timeout(PATIENCE_S):
        assert await pipe[0].readexactly(1) == FAREWELL
        return (await read_line(pipe[0], TunnelReply)).problem


async def test_memory_is_lent_to_nobody_it_was_not_promised_to(lender: Lender) -> None:
    await lender.trusted_machines.change_machine(replace(lender.asker, lends_memory=False))
    for ask in ("state", "receive", "hold", "layers"):
        reply, pipe = await lender.ask(TunnelRequest(ask=ask, session="s", count=9))
        assert "does not lend" in reply.problem
        assert f'"Lend memory to {lender.asker.name}"' in reply.hint, "by the name that it has there"
        assert f"`roundhouse machines lend {lender.asker.name}`" in reply.hint
        assert await pipe[0].read() == b"", ask
        pipe[1].close()
    assert lender.supervisor.unloads == []


async def test_what_is_held_ends_when_the_memory_is_taken_back(lender: Lender) -> None:
    reply, pipe = await lender.ask(HOLD)
    assert reply.problem == ""
    pipe[1].write(b".")
    assert await pipe[0].readexactly(1) == b"."
    other = replace(lender.asker, certificate="A" * 64)
    lender.lender.withdraw_memory(other)
    pipe[1].write(b".")
    assert await pipe[0].readexactly(1) == b".", "another machine's memory is its own affair"
    lender.lender.withdraw_memory(lender.asker)
    assert await read_farewell(pipe) == "its memory is lent no longer."
    pipe[1].close()
    assert lender.supervisor.unloads == [LAYERS]


async def test_a_worker_that_ends_is_told(lender: Lender) -> None:
    _reply, pipe = await lender.ask(HOLD)
    lender.supervisor.end.set_result(RuntimeError("It ran out of memory."))
    assert await read_farewell(pipe) == "its worker ended there. It ran out of memory."
    pipe[1].close()


async def test_one_machine_holds_layers_at_a_time(lender: Lender) -> None:
    _reply, first = await lender.ask(HOLD)
    reply, second = await lender.ask(replace(HOLD, session="t"))
    assert reply.problem == "It holds layers for desk already."
    for pipe in (first, second):
        pipe[1].close()


async def test_revoking_cuts_what_is_held_at_once(lender: Lender) -> None:
    _reply, pipe = await lender.ask(HOLD)
    await lender.trusted_machines.distrust_machine(lender.asker)
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionError):
            assert await pipe[0].read() == b""
    pipe[1].close()
    reply, again = await lender.ask(HOLD)
    assert "not paired" in reply.problem
    again[1].close()


@pytest.mark.parametrize(
    "line", [b"", b"{}\n", b"[]\n", b'{"ask":"fly"}\n', b'{"ask":"layers","session":"x"}\n', b"x" * 9000, b"\xff\n"]
)
async def test_what_makes_no_sense_is_refused_and_the_next_is_served(lender: Lender, line: bytes) -> None:
    _reply, pipe = await lender.ask(TunnelRequest(ask="state"))
    pipe[1].close()
    reader, writer = await asyncio.open_connection(
        lender.own.host,
        lender.own.port,
        ssl=make_client_context(lender.other.own, lender.own.certificate_der, protocol=TUNNEL),
        server_hostname="desk",
    )
    writer.write(line)
    if not line.endswith(b"\n"):
        writer.close()  # TLS has no half of a connection
    answer = b""
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionError):
            answer = await reader.read()
    assert b"free_bytes" not in answer or b'"problem":"That' in answer
    writer.close()
    reply, again = await lender.ask(TunnelRequest(ask="state"))
    assert reply.version == "1"
    again[1].close()


NODE = NodeOrder(engine="vllm", model="m", digest="d", rank=1, layers=[1, 1])


@pytest.mark.parametrize("changes", [{"rank": 0}, {"rank": 2}, {"layers": []}, {"layers": [1]}])
async def test_a_process_has_a_place_that_there_is(lender: Lender, changes: dict[str, Any]) -> None:
    reply, pipe = await lender.ask(replace(HOLD, node=replace(NODE, **changes)))
    assert "no place" in reply.problem
    pipe[1].close()
    reply, pipe = await lender.ask(HOLD)
    assert reply.problem == "", "nobody holds anything here after that"
    pipe[1].close()


@pytest.mark.slow(cases=5)
@pytest.mark.parametrize(
    "field",
    [
        *(b'"rank":17', b'"rank":-1', b'"layers":[0]', b'"slots":0', b'"model":3', b'"trust_remote_code":true'),
        *(b'"engine":"' + b"x" * 65 + b'"', b'"context":0'),
    ],
)
async def test_an_order_that_makes_no_sense_starts_nothing(lender: Lender, field: bytes) -> None:
    reader, writer = await asyncio.open_connection(
        lender.own.host,
        lender.own.port,
        ssl=make_client_context(lender.other.own, lender.own.certificate_der, protocol=TUNNEL),
        server_hostname="desk",
    )
    order = b'{"engine":"vllm","model":"m","digest":"d",' + field + b"}"
    writer.write(b'{"ask":"hold","session":"s","node":' + order + b"}\n")
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
    assert lender.supervisor.unloads == []
