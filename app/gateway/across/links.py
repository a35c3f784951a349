"""Machines that hold layers of models that are loaded here, and whether they are still there.

For each machine of a model there is a port on loopback, to which llama.cpp connects, and one connection that is held
with a heartbeat. A machine that stops answering is given up within ten seconds: its connections are closed and the
engine is killed, with an error in its answers instead of waiting for ever.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from app.core.across import AcrossPlan
from app.core.errors import RoundhouseError, Unavailable
from app.core.machines import PairedMachine
from app.gateway.across.tunnel import (
    FAREWELL,
    START_S,
    Pipe,
    TunnelReply,
    TunnelRequest,
    call_machine,
    join_pipes,
    read_line,
)
from app.gateway.machines.trust import TrustedMachines
from engines.api import Failure, FailureKind, LaunchOptions

BEAT_S = 1.0
LOST_S = 2.5
"""Without an echo for so long a machine is gone. The engine, which hangs then, is killed."""
_NEXT = "The next request or load tries to reach it again."
LOOPBACK = "127.0.0.1"


class MachineLink:
    """One machine's layers of one model: a port of ours that leads to its worker, and a heartbeat."""

    def __init__(
        self, trusted: TrustedMachines, machine: PairedMachine, on_loss: Callable[[str], object] | None = None
    ) -> None:
        """`on_loss` is called once with why the machine is gone."""
        self.machine = machine
        self.loss = ""
        """Why it is gone, in a sentence."""
        self.address = ""
        self._trusted = trusted
        self._on_loss = on_loss
        self._session = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._held: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_link(self, size_bytes: int) -> None:
        """Have the machine start its worker, and listen. Raises Unavailable with why not."""
        request = TunnelRequest(ask="hold", session=self._session, count=size_bytes)
        reply, pipe = await call_machine(self._trusted, self.machine, request, within_s=START_S)
        if reply.problem:
            pipe[1].close()
            raise Unavailable(f"{self.machine.name} can hold no layers: {reply.problem}", code="machine_refuses")
        self._held = pipe[1]
        self._server = await asyncio.start_server(self._carry_layers, LOOPBACK, 0)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        self._keep_task(asyncio.create_task(self._watch_machine(pipe)))

    def close_link(self, why: str = "") -> None:
        """Let the machine go; connections through here end now."""
        self.loss = self.loss or why
        if self._server is not None:
            self._server.close()
        if self._held is not None:
            self._held.close()
        for task in list(self._tasks):
            task.cancel()

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
        self.loss = why
        try:
            if self._on_loss is not None:
                self._on_loss(why)  # llama.cpp itself may wait for ever for what was lost
        finally:
            self.close_link()

    async def _read_beat(self, pipe: Pipe) -> str:
        """Return why the machine lends its memory no longer; empty where it goes on."""
        beat = await pipe[0].readexactly(1)
        if beat != FAREWELL:
            return ""
        return f"{self.machine.name} holds no layers any more: {(await read_line(pipe[0], TunnelReply)).problem}"

    def _describe_loss(self) -> str:
        if not self._trusted.is_enabled():
            return f"{self.machine.name} was let go: `machines.enabled` is off."
        if not self._trusted.has_machine(self.machine):
            return f"{self.machine.name} is not paired with this computer any more."
        place = f"{self.machine.name} ({self.machine.host}:{self.machine.port})"
        return f"{place}, which held layers of this model, went away at {time.strftime('%H:%M:%S')}."

    async def _carry_layers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._keep_task(task)
        try:
            request = TunnelRequest(ask="layers", session=self._session)
            reply, pipe = await call_machine(self._trusted, self.machine, request)
            if reply.problem:
                pipe[1].close()
                return
            await join_pipes((reader, writer), pipe)
        except RoundhouseError as error:
            self.loss = self.loss or str(error)
        finally:
            writer.close()


async def _send_beats(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b".")
        await asyncio.sleep(BEAT_S)


class ModelSpread(msgspec.Struct, frozen=True, kw_only=True):
    """A model's machines, and how its layers lie."""

    plan: AcrossPlan
    links: tuple[MachineLink, ...]

    @property
    def loss_reason(self) -> str:
        """Why a machine of it is gone; empty while all are there."""
        return next((link.loss for link in self.links if link.loss), "")


class Spreads:
    """The models that lie over several machines. Belongs to the event loop; kept until the gateway ends."""

    def __init__(self, trusted: TrustedMachines, fail_engine: Callable[[str, Failure], object]) -> None:
        self.trusted = trusted
        self._fail_engine = fail_engine
        self._spreads: dict[str, ModelSpread] = {}
        self._connecting = asyncio.Lock()

    def __contains__(self, model: object) -> bool:
        return model in self._spreads

    def is_over(self, model: str, names: Sequence[str], context: int | None) -> bool:
        """Tell whether a model lies over just these machines already, all of them there."""
        spread = self._spreads.get(model)
        if spread is None or spread.loss_reason or context not in {None, spread.plan.context}:
            return False
        return [link.machine.name for link in spread.links] == list(names)

    async def connect_machines(self, model: str, plan: AcrossPlan) -> None:
        """Have each machine hold its layers of a model. Raises Unavailable or NotFound, and then none does."""
        async with self._connecting:
            await self._connect_links(model, plan)

    async def revive_machines(self, model: str) -> None:
        """Connect again where a machine had gone. Raises Unavailable with which is still gone."""
        spread = self._spreads.get(model)
        if spread is None or not spread.loss_reason:
            return
        async with self._connecting:
            for link in spread.links:
                link.close_link()
            try:
                await self._connect_links(model, spread.plan)
            except RoundhouseError as error:
                raise Unavailable(f"{spread.loss_reason} {error}", hint=error.hint, code=error.code) from None

    def options_for(self, model: str, options: LaunchOptions) -> LaunchOptions:
        """Return the options with where the layers of a spread model lie."""
        spread = self._spreads[model]
        counts = [share.layers for share in spread.plan.shares[1:]]
        return msgspec.structs.replace(
            options,
            rpc_servers=tuple(link.address for link in spread.links),
            gpu_layers=sum(counts) + 1,  # the output counts as one more
            split_ratio=(*map(float, counts[:-1]), float(counts[-1] + 1)),
            context=spread.plan.context,
            slots=1,
            cpu_moe_layers=None,
            draft=None,
        )

    def bytes_here(self, model: str) -> int:
        """Return what a spread model takes of this machine."""
        return self._spreads[model].plan.shares[0].needed_bytes

    def forget_model(self, model: str) -> None:
        """Let the machines of a model go, if it has any."""
        spread = self._spreads.pop(model, None)
        for link in spread.links if spread else ():
            link.close_link()

    def close_all(self) -> None:
        """Let all machines go."""
        for model in list(self._spreads):
            self.forget_model(model)

    def placement_of(self, model: str) -> str:
        """Return where the layers of a spread model lie, in a sentence."""
        return self._spreads[model].plan.placement

    async def _connect_links(self, model: str, plan: AcrossPlan) -> None:
        links: list[MachineLink] = []
        try:
            await self.trusted.open_list()
            for share in plan.shares[1:]:
                machine = self.trusted.find_machine(share.name)
                links.append(MachineLink(self.trusted, machine, partial(self._note_loss, model)))
                await links[-1].open_link(share.needed_bytes)
        except BaseException:
            for link in links:
                link.close_link()
            raise
        self._spreads[model] = ModelSpread(plan=plan, links=tuple(links))

    def _note_loss(self, model: str, why: str) -> None:
        self._fail_engine(model, Failure(kind=FailureKind.UNREACHABLE, sentence=why, hint=_NEXT))
