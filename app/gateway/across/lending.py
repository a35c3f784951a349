"""The end of the tunnel that lends memory: what paired machines' models have of their layers here.

One machine at a time: llama.cpp's RPC server serves one client, and other engines take their memory at the start. A
worker, or a process of the engine with a part of the model, runs for as long as that machine holds it, is supervised as
every engine is, and takes its room among the models. The holding connection is echoed byte for byte: that is how the
other machine knows that this one is there.
"""

import asyncio
import logging
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.config.paths import guide_gguf
from app.core.errors import BadRequest, RoundhouseError
from app.core.machines import PairedMachine
from app.core.models import ModelInfo
from app.gateway.across.packets import PacketSwitch, node_addresses
from app.gateway.across.room import LAYER_ENGINE, choose_pool, describe_room, find_same_model, memory_share
from app.gateway.across.tunnel import (
    ANSWER_S,
    FAREWELL,
    NodeOrder,
    Pipe,
    TunnelReply,
    TunnelRequest,
    join_pipes,
    read_line,
    send_line,
)
from app.gateway.services import Services
from app.network.pinned_tls import fingerprint_of, peer_certificate
from app.supervisor.lease import Lease
from app.supervisor.policy import LoadRequest, MemoryNeeds
from app.supervisor.scheduling import SYSTEM
from engines.api import LaunchOptions, ModelFormat, ModelSource, NodePlace
from engines.llama_cpp.launch import LAYERS

log = logging.getLogger(__name__)

_NOT_LENT = "It does not lend memory to this computer."
_LEND_HINT = (
    'Switch on "Lend memory to {name}" there, under Other computers. '
    "In a terminal it is `roundhouse machines lend {word}`."
)
_NOT_PAIRED = "The two are not paired, or not any more. Pair them again."
_MOST_BYTES = 16 << 20
"""That are sent to measure a link."""
_QUIET_S = 30.0
"""A machine that sends no heartbeat for so long has gone."""


class LayerLender:
    """Answers paired machines in the tunnel, and serves one of them at a time. Belongs to the event loop."""

    def __init__(self, services: Services) -> None:
        self._services, self._trusted_machines = services, services.trusted_machines
        self._holder: PairedMachine | None = None
        self._withdrawal: asyncio.Future[str] | None = None
        """Settled with why the memory is lent no longer."""
        self._parts: dict[str, PacketSwitch | tuple[str, int]] = {}
        """What connections of a session are joined to: a network of an engine, or where a worker listens."""

    def withdraw_memory(self, machine: PairedMachine) -> None:
        """Take back what a machine holds here now, if it holds anything."""
        is_holder = self._holder is not None and self._holder.fingerprint == machine.fingerprint
        if is_holder and self._withdrawal is not None and not self._withdrawal.done():
            self._withdrawal.set_result("its memory is lent no longer.")

    async def serve_machine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a connection of the tunnel, whoever it is from."""
        try:
            machine = self._machine_of(writer)
            if machine is None:
                await send_line(writer, TunnelReply(problem=_NOT_PAIRED))
                return
            self._trusted_machines.tunnels.add_transport(machine.fingerprint, writer.transport)
            async with asyncio.timeout(ANSWER_S):
                request = await read_line(reader, TunnelRequest)
            if machine.lends_memory:
                await self._answer_request(machine, request, (reader, writer))
            else:
                hint = _LEND_HINT.format(name=machine.name, word=shlex.quote(machine.name))
                await send_line(writer, TunnelReply(problem=_NOT_LENT, hint=hint))
        except (OSError, ValueError) as error:
            log.info("A tunnel ended: %s", error)
        except RoundhouseError as error:
            with suppress(OSError):
                await send_line(writer, TunnelReply(problem=f"{error} {error.hint}".strip()))
        finally:
            writer.close()

    def _machine_of(self, writer: asyncio.StreamWriter) -> PairedMachine | None:
        """Return whose certificate the other side has shown; None for a stranger, and for one that was revoked."""
        fingerprint = fingerprint_of(peer_certificate(writer.get_extra_info("ssl_object")))
        trusted_machines = (
            self._trusted_machines.list_machines() if fingerprint in self._trusted_machines.fingerprints() else []
        )
        return next((machine for machine in trusted_machines if machine.fingerprint == fingerprint), None)

    async def _answer_request(self, machine: PairedMachine, request: TunnelRequest, pipe: Pipe) -> None:
        match request.ask:
            case "state":
                await send_line(pipe[1], await describe_room(self._services, request.node))
                await _echo_bytes(pipe)
            case "receive":
                await send_line(pipe[1], TunnelReply())
                pipe[1].write(bytes(max(0, min(request.count, _MOST_BYTES))))
                await pipe[1].drain()
            case "hold":
                await self._hold_layers(machine, request, pipe)
            case "layers" if request.session in self._parts:
                await self._join_part(request, pipe)
            case _:
                await send_line(pipe[1], TunnelReply(problem="That is not known here."))

    async def _hold_layers(self, machine: PairedMachine, request: TunnelRequest, pipe: Pipe) -> None:
        """Run a worker, or a process of an engine, for as long as the other side holds the connection."""
        state = await describe_room(self._services, request.node)
        if state.problem or self._holder is not None:
            busy = f"It holds layers for {self._holder.name} already." if self._holder is not None else ""
            await send_line(pipe[1], TunnelReply(problem=state.problem or busy))
            return
        switch = None if request.node is None else PacketSwitch(_address_of(request.node))
        self._holder = machine
        self._withdrawal = asyncio.get_running_loop().create_future()
        try:
            load = await self._make_load(request, switch)
            async with self._services.supervisor.lease(load) as lease:
                where = urlsplit(lease.base_url)
                self._parts[request.session] = switch or (where.hostname or "", where.port or 0)
                await send_line(pipe[1], state)
                await self._echo_until_end(lease, self._withdrawal, pipe)
        finally:
            self._holder = self._withdrawal = None
            self._parts.pop(request.session, None)
            await self._services.supervisor.unload_model(LAYERS, force=True)
            if switch is not None:
                switch.close()

    async def _make_load(self, request: TunnelRequest, switch: PacketSwitch | None) -> LoadRequest:
        if request.node is None or switch is None:
            return worker_request(request.count)
        machine = await self._services.machine.read_free()
        backend = await asyncio.to_thread(self._services.catalogue.backend_of, request.node.engine)
        pool = choose_pool(machine, backend)
        model = await asyncio.to_thread(find_same_model, self._services, request.node)
        share = memory_share(machine, pool, request.count)
        needs = MemoryNeeds(pools={pool.id if pool is not None else SYSTEM: max(0, request.count)})
        return node_request(request.node, model, switch.descriptor, share=share, needs=needs)

    async def _join_part(self, request: TunnelRequest, pipe: Pipe) -> None:
        """Join a connection to what is held for it."""
        part = self._parts[request.session]
        if isinstance(part, PacketSwitch):
            await send_line(pipe[1], TunnelReply())
            await part.carry_packets(pipe)
            return
        inner = await asyncio.open_connection(*part)
        await send_line(pipe[1], TunnelReply())
        await join_pipes(pipe, inner)

    async def _echo_until_end(self, lease: Lease, withdrawal: "asyncio.Future[str]", pipe: Pipe) -> None:
        """Return when the other side is gone, the worker has ended or the memory is taken back, and say which."""
        echo = asyncio.ensure_future(_echo_bytes(pipe))
        ends: set[asyncio.Future[Any]] = {echo, lease.end, withdrawal}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        echo.cancel()
        if withdrawal.done() or lease.end.done():
            pipe[1].write(FAREWELL)
            why = withdrawal.result() if withdrawal.done() else f"its worker ended there. {lease.end.result()}"
            with suppress(OSError):
                await send_line(pipe[1], TunnelReply(problem=why))


def worker_request(size_bytes: int, pools: Mapping[str, int] | None = None) -> LoadRequest:
    """Return what has the supervisor run a worker that holds so many bytes of layers."""
    from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- start-up must not pay for the probes

    # It reads no file; a model there has to be, for the confinement to name.
    source = ModelSource(name=LAYERS, path=guide_gguf(), format=ModelFormat.GGUF)
    options = LaunchOptions(task=LAYERS, threads=engine_threads(), context=None)
    needs = MemoryNeeds(pools=pools or {SYSTEM: max(0, size_bytes)})
    return LoadRequest(engine=LAYER_ENGINE, source=source, options=options, needs=needs)


def node_request(
    node: NodeOrder, model: ModelInfo, descriptor: int, *, share: float, needs: MemoryNeeds
) -> LoadRequest:
    """Return what has the supervisor run an engine's process with a part of a model. Raises BadRequest for no place."""
    from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- as above

    options = LaunchOptions(
        threads=engine_threads(),
        context=node.context,
        slots=node.slots,
        kv_type=node.kv_type,
        max_batch_tokens=node.batch_tokens,
        gpu_memory_fraction=share,
        pipeline_parallel=len(node.layers),
        node=NodePlace(
            rank=node.rank,
            addresses=node_addresses(len(node.layers)),
            layers=tuple(node.layers),
            descriptor=descriptor,
        ),
    )
    source = ModelSource(name=LAYERS, path=Path(model.path), format=ModelFormat(model.format))
    return LoadRequest(engine=node.engine, source=source, options=options, needs=needs)


def _address_of(node: NodeOrder) -> str:
    """Return the address of the process that is to run here. Raises BadRequest for one that cannot be."""
    if not 0 < node.rank < len(node.layers):
        raise BadRequest("That is no place for a process of a model.", code="invalid_value")
    return node_addresses(len(node.layers))[node.rank]


async def _echo_bytes(pipe: Pipe) -> None:
    """Send back what comes, until nothing has come for a while."""
    with suppress(OSError, TimeoutError):
        while True:
            async with asyncio.timeout(_QUIET_S):
                piece = await pipe[0].read(4096)
            if not piece:
                return
            pipe[1].write(piece)
            await pipe[1].drain()
