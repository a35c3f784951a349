"""Machines that hold layers of models that are loaded here, and whether they are still there.

For each machine of a model there is a port on loopback, to which llama.cpp connects, and one connection that is held
with a heartbeat. A machine that stops answering is given up within ten seconds: its connections are closed, so that the
engine ends with an error in its answers instead of waiting for ever.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from app.core.across import AcrossPlan, TunnelMember
from app.core.errors import RoundhouseError, Unavailable
from app.gateway.across.tunnel import START_S, Pipe, TunnelIdentity, TunnelRequest, call_member, join_pipes
from engines.api import LaunchOptions

BEAT_S = 1.0
LOST_S = 2.5
"""Without an echo for so long a machine is gone; the engine, which hangs then, takes 5 s to stop: under ten in all."""
LOOPBACK = "127.0.0.1"


class MemberLink:
    """One machine's layers of one model: a port of ours that leads to its worker, and a heartbeat."""

    def __init__(
        self, identity: TunnelIdentity, member: TunnelMember, on_loss: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.member = member
        self.loss = ""
        """Why it is gone, in a sentence."""
        self.address = ""
        self._identity = identity
        self._on_loss = on_loss
        self._session = secrets.token_hex(16)
        self._server: asyncio.Server | None = None
        self._held: asyncio.StreamWriter | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_link(self, size_bytes: int) -> None:
        """Have the machine start its worker, and listen. Raises Unavailable with why not."""
        request = TunnelRequest(ask="hold", session=self._session, count=size_bytes)
        reply, pipe = await call_member(self._identity, self.member, request, within_s=START_S)
        if reply.problem:
            pipe[1].close()
            raise Unavailable(f"{self.member.name} can hold no layers: {reply.problem}", code="unreachable")
        self._held = pipe[1]
        self._server = await asyncio.start_server(self._carry_layers, LOOPBACK, 0)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        self._keep_task(asyncio.create_task(self._watch_member(pipe)))

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

    async def _watch_member(self, pipe: Pipe) -> None:
        """Send a byte now and then and wait for it to come back; without it, close."""
        try:
            while True:
                await asyncio.sleep(BEAT_S)
                pipe[1].write(b".")
                async with asyncio.timeout(LOST_S):
                    await pipe[1].drain()
                    if not await pipe[0].read(1):
                        break
        except (OSError, TimeoutError):
            pass
        at = time.strftime("%H:%M:%S")
        self.loss = f"The machine {self.member.name} ({self.member.address}) went away at {at}."
        try:
            if self._on_loss is not None:
                await self._on_loss()  # llama.cpp itself may wait for ever for what was lost
        finally:
            self.close_link()

    async def _carry_layers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._keep_task(task)
        try:
            request = TunnelRequest(ask="layers", session=self._session)
            reply, pipe = await call_member(self._identity, self.member, request)
            if reply.problem:
                pipe[1].close()
                return
            await join_pipes((reader, writer), pipe)
        except RoundhouseError as error:
            self.loss = self.loss or str(error)
        finally:
            writer.close()


class ModelSpread(msgspec.Struct, frozen=True, kw_only=True):
    """A model's machines, and how its layers lie."""

    plan: AcrossPlan
    links: tuple[MemberLink, ...]

    @property
    def loss_reason(self) -> str:
        """Why a machine of it is gone; empty while all are there."""
        return next((link.loss for link in self.links if link.loss), "")


class Spreads:
    """The models that lie over several machines. Belongs to the event loop; kept until the gateway ends."""

    def __init__(self, identity: TunnelIdentity, stop_engine: Callable[[str], Awaitable[object]]) -> None:
        self.identity = identity
        self._stop_engine = stop_engine
        self._spreads: dict[str, ModelSpread] = {}
        self._connecting = asyncio.Lock()

    def __contains__(self, model: object) -> bool:
        return model in self._spreads

    def is_over(self, model: str, names: Sequence[str], context: int | None) -> bool:
        """Tell whether a model lies over just these machines already, all of them there."""
        spread = self._spreads.get(model)
        if spread is None or spread.loss_reason or context not in {None, spread.plan.context}:
            return False
        return [link.member.name for link in spread.links] == list(names)

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
            except Unavailable as error:
                raise Unavailable(f"{spread.loss_reason} {error}", hint=error.hint, code="unreachable") from None

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

    async def _connect_links(self, model: str, plan: AcrossPlan) -> None:
        links: list[MemberLink] = []
        try:
            for share in plan.shares[1:]:
                member = await asyncio.to_thread(self.identity.find_member, share.name)
                links.append(MemberLink(self.identity, member, partial(self._stop_engine, model)))
                await links[-1].open_link(share.needed_bytes)
        except BaseException:
            for link in links:
                link.close_link()
            raise
        self._spreads[model] = ModelSpread(plan=plan, links=tuple(links))
