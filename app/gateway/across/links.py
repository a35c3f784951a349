"""Machines that hold layers of models that are loaded here, and whether they are still there.

For each machine of a model one connection is held, with a heartbeat; beside it there is a port on loopback, to which
llama.cpp connects, or the way of the packets of an engine that has a process on each. A machine that stops answering is
given up within ten seconds: its connections are closed and the engine is killed, with an error in its answers instead
of waiting for ever.
"""

import asyncio
import secrets
import time
from collections.abc import Callable

from app.core.errors import RoundhouseError
from app.core.machines import PairedMachine
from app.gateway.across.packets import PacketSwitch, node_addresses
from app.gateway.across.tunnel import (
    FAREWELL,
    START_S,
    NodeOrder,
    Pipe,
    TunnelReply,
    TunnelRequest,
    call_machine,
    join_pipes,
    read_line,
    refusal_of,
)
from app.gateway.machines.trust import TrustedMachines

BEAT_S = 1.0
LOST_S = 2.5
"""Without an echo for so long a machine is gone. The engine, which hangs then, is killed."""
LOOPBACK = "127.0.0.1"


class HeldMachine:
    """One machine that holds a part of a model, for as long as a connection to it is held, with a heartbeat."""

    def __init__(
        self, trusted_machines: TrustedMachines, machine: PairedMachine, on_loss: Callable[[str], object] | None = None
    ) -> None:
        """`on_loss` is called once with why the machine is gone."""
        self.machine = machine
        self.loss = ""
        """Why it is gone, in a sentence."""
        self._trusted_machines = trusted_machines
        self._on_loss = on_loss
        self._session = secrets.token_hex(16)
        self._pipe: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def close_link(self, why: str = "") -> None:
        """Let the machine go; connections through here end now."""
        self.loss = self.loss or why
        if self._pipe is not None:
            self._pipe.close()
        for task in list(self._tasks):
            task.cancel()

    async def _hold_machine(self, size_bytes: int, node: NodeOrder | None = None) -> Pipe:
        """Have the machine start its worker, and return the connection to be watched. Raises Unavailable, why not."""
        request = TunnelRequest(ask="hold", session=self._session, count=size_bytes, node=node)
        reply, pipe = await call_machine(self._trusted_machines, self.machine, request, within_s=START_S)
        if reply.problem:
            pipe[1].close()
            raise refusal_of(self.machine, reply)
        self._pipe = pipe[1]
        return pipe

    def _keep_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch_machine(self, pipe: Pipe) -> None:
        """Send a byte now and then and wait for it to come back; without it, close."""
        why = ""
        beats = asyncio.create_task(_send_beats(pipe[1]))
        try:
            while not why:
                async with asyncio.timeout(BEAT_S + LOST_S):
                    why = await self._read_beat(pipe)
        except (OSError, EOFError, ValueError):  # TimeoutError is an OSError
            why = self._describe_loss()
        finally:
            beats.cancel()
        self._lose_machine(why)

    def _lose_machine(self, why: str) -> None:
        self.loss = self.loss or why
        try:
            if self._on_loss is not None:
                self._on_loss(self.loss)  # the engine itself may wait for ever for what was lost
        finally:
            self.close_link()

    async def _read_beat(self, pipe: Pipe) -> str:
        """Return why the machine lends its memory no longer; empty where it goes on."""
        beat = await pipe[0].readexactly(1)
        if beat != FAREWELL:
            return ""
        return f"{self.machine.name} holds no layers any more: {(await read_line(pipe[0], TunnelReply)).problem}"

    def _describe_loss(self) -> str:
        if not self._trusted_machines.is_enabled():
            return f"{self.machine.name} was let go: `machines.enabled` is off."
        if not self._trusted_machines.has_machine(self.machine):
            return f"{self.machine.name} is not paired with this computer any more."
        place = f"{self.machine.name} ({self.machine.host}:{self.machine.port})"
        return f"{place}, which held layers of this model, went away at {time.strftime('%H:%M:%S')}."


class MachineLink(HeldMachine):
    """One machine's layers of a model that llama.cpp computes here: a port of ours that leads to its worker."""

    def __init__(
        self, trusted_machines: TrustedMachines, machine: PairedMachine, on_loss: Callable[[str], object] | None = None
    ) -> None:
        super().__init__(trusted_machines, machine, on_loss)
        self.address = ""
        self._server: asyncio.Server | None = None

    async def open_link(self, size_bytes: int) -> None:
        """Have the machine start its worker, and listen. Raises Unavailable with why not."""
        pipe = await self._hold_machine(size_bytes)
        self._server = await asyncio.start_server(self._carry_layers, LOOPBACK, 0)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        self._keep_task(asyncio.create_task(self._watch_machine(pipe)))

    def close_link(self, why: str = "") -> None:
        """Let the machine go, and listen no longer."""
        if self._server is not None:
            self._server.close()
        super().close_link(why)

    async def _carry_layers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._keep_task(task)
        try:
            request = TunnelRequest(ask="layers", session=self._session)
            reply, pipe = await call_machine(self._trusted_machines, self.machine, request)
            if reply.problem:
                pipe[1].close()
                return
            await join_pipes((reader, writer), pipe)
        except RoundhouseError as error:
            self.loss = self.loss or str(error)
        finally:
            writer.close()


class NodeLink(HeldMachine):
    """One machine's process of an engine that has one on each, and the way of its packets."""

    async def open_link(self, size_bytes: int, node: NodeOrder, switch: PacketSwitch) -> None:
        """Have the machine start its process, and carry packets. Raises Unavailable with why not."""
        pipe = await self._hold_machine(size_bytes, node)
        self._keep_task(asyncio.create_task(self._watch_machine(pipe)))
        reply, way = await call_machine(
            self._trusted_machines, self.machine, TunnelRequest(ask="layers", session=self._session)
        )
        if reply.problem:
            way[1].close()
            raise refusal_of(self.machine, reply)
        address = node_addresses(len(node.layers))[node.rank]
        self._keep_task(asyncio.create_task(self._carry_packets(switch, way, address)))

    async def _carry_packets(self, switch: PacketSwitch, way: Pipe, address: str) -> None:
        await switch.carry_packets(way, address)
        await asyncio.sleep(BEAT_S)  # the heartbeat's end says why, where it ended too
        if not self.loss:
            self._lose_machine(self._describe_loss())


async def _send_beats(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b".")
        await asyncio.sleep(BEAT_S)
