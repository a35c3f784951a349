"""The models that lie over several machines, in the two ways that engines have, and what loads are told of them."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from app.core.across import AcrossPlan
from app.core.errors import RoundhouseError, Unavailable
from app.core.machines import PairedMachine
from app.gateway.across.links import HeldMachine, MachineLink, NodeLink
from app.gateway.across.packets import PacketSwitch, node_addresses
from app.gateway.across.tunnel import NodeOrder, TunnelRequest, call_machine, refusal_of
from app.gateway.machines.trust import TrustedMachines
from engines.api import Failure, FailureKind, LaunchOptions, NodePlace

_NEXT = "The next request or load tries to reach it again."


class ModelSpread(Protocol):
    """A model's machines, and how its layers lie."""

    plan: AcrossPlan

    @property
    def loss_reason(self) -> str:
        """Why a machine of it is gone; empty while all are there."""

    async def connect(self) -> None:
        """Have the machines ready for a load. Raises Unavailable or NotFound with which is not, and why."""

    def complete_options(self, options: LaunchOptions) -> LaunchOptions:
        """Return the options with where the layers lie."""

    def close(self) -> None:
        """Let the machines go."""


class LayerSpread:
    """llama.cpp's way: the machines hold layers whether the engine runs or not."""

    def __init__(self, trusted_machines: TrustedMachines, plan: AcrossPlan, note_loss: Callable[[str], object]) -> None:
        self.plan = plan
        self._trusted_machines, self._note_loss = trusted_machines, note_loss
        self._links: list[MachineLink] = []

    @property
    def loss_reason(self) -> str:
        """Why a machine of it is gone."""
        return _loss_of(self._links)

    async def connect(self) -> None:
        """Connect to all of them, again where one had gone."""
        if self._links and not self.loss_reason:
            return
        self.close()
        links: list[MachineLink] = []
        try:
            for machine, share in zip(
                _find_machines(self._trusted_machines, self.plan), self.plan.shares[1:], strict=True
            ):
                links.append(MachineLink(self._trusted_machines, machine, self._note_loss))
                await links[-1].open_link(share.needed_bytes)
        except BaseException:
            for link in links:
                link.close_link()
            raise
        self._links = links

    def complete_options(self, options: LaunchOptions) -> LaunchOptions:
        """Return the options with the ports that lead to the machines, and their shares."""
        counts = [share.layers for share in self.plan.shares[1:]]
        return msgspec.structs.replace(
            options,
            rpc_servers=tuple(link.address for link in self._links),
            gpu_layers=sum(counts) + 1,  # the output counts as one more
            split_ratio=(*map(float, counts[:-1]), float(counts[-1] + 1)),
            context=self.plan.context,
            slots=1,
            cpu_moe_layers=None,
            draft=None,
        )

    def close(self) -> None:
        """Let the machines go."""
        for link in self._links:
            link.close_link()


class NodeSpread:
    """vLLM's and SGLang's way: a process on each machine, which runs for as long as the one here does.

    The one here begins with a network of its own (`PacketSwitch`): that is when the others are started.
    """

    def __init__(
        self,
        trusted_machines: TrustedMachines,
        plan: AcrossPlan,
        note_loss: Callable[[str], object],
        *,
        order: NodeOrder,
        memory_share: float,
    ) -> None:
        self.plan = plan
        self._trusted_machines, self._note_loss = trusted_machines, note_loss
        self._order, self._memory_share = order, memory_share
        self._addresses = node_addresses(len(plan.shares))
        self._switch = PacketSwitch(self._addresses[0], self._start_nodes, self._end_nodes)
        self._links: list[NodeLink] = []
        self._start_task: asyncio.Task[None] | None = None
        self._loss = ""

    @property
    def loss_reason(self) -> str:
        """Why a machine of it is gone."""
        return self._loss

    async def connect(self) -> None:
        """Ask each machine whether it would hold its part now; nothing is started before the engine here is."""
        if self._switch.is_running:
            return
        for machine, order in zip(_find_machines(self._trusted_machines, self.plan), self._orders(), strict=True):
            reply, pipe = await call_machine(self._trusted_machines, machine, TunnelRequest(ask="state", node=order))
            pipe[1].close()
            if reply.problem:
                raise refusal_of(machine, reply)
        self._loss = ""

    def complete_options(self, options: LaunchOptions) -> LaunchOptions:
        """Return the options with this machine's place; what the others are not told of does not count here either."""
        layers = tuple(share.layers for share in self.plan.shares)
        place = NodePlace(rank=0, addresses=self._addresses, layers=layers, descriptor=self._switch.descriptor)
        plain_options = msgspec.structs.replace(
            options, lora=(), draft=None, projector=None, extra_args=(), extra_env={}
        )
        return msgspec.structs.replace(
            plain_options,
            node=place,
            tensor_parallel=1,
            pipeline_parallel=len(layers),
            device_ids=(),
            context=self.plan.context,
            slots=self.plan.slots,
            kv_type=self._order.kv_type,
            max_batch_tokens=self._order.batch_tokens,
            gpu_memory_fraction=options.gpu_memory_fraction or self._memory_share,
            cpu_moe_layers=None,
            trust_remote_code=False,
        )

    def close(self) -> None:
        """Let the machines go; the engine here cannot go on without them."""
        self._end_nodes()
        self._switch.close()

    def _orders(self) -> list[NodeOrder]:
        ranks = range(1, len(self._addresses))
        return [msgspec.structs.replace(self._order, rank=rank) for rank in ranks]

    def _start_nodes(self) -> None:
        self._end_nodes()
        self._start_task = asyncio.get_running_loop().create_task(self._open_links())

    def _end_nodes(self) -> None:
        if self._start_task is not None:
            self._start_task.cancel()
            self._start_task = None
        for link in self._links:
            link.close_link()
        self._links = []

    async def _open_links(self) -> None:
        try:
            machines, shares = _find_machines(self._trusted_machines, self.plan), self.plan.shares[1:]
            for machine, share, order in zip(machines, shares, self._orders(), strict=True):
                link = NodeLink(self._trusted_machines, machine, self._lose_machine)
                self._links.append(link)
                await link.open_link(share.needed_bytes, order, self._switch)
        except (RoundhouseError, OSError) as error:
            self._lose_machine(str(error))

    def _lose_machine(self, why: str) -> None:
        self._loss = self._loss or why
        self._note_loss(why)


def _find_machines(trusted_machines: TrustedMachines, plan: AcrossPlan) -> list[PairedMachine]:
    """Return the other machines of a plan. Raises NotFound."""
    return [trusted_machines.find_machine(share.name) for share in plan.shares[1:]]


def _loss_of(links: Sequence[HeldMachine]) -> str:
    return next((link.loss for link in links if link.loss), "")


class Spreads:
    """The models that lie over several machines. Belongs to the event loop; kept until the gateway ends."""

    def __init__(self, trusted_machines: TrustedMachines, fail_engine: Callable[[str, Failure], object]) -> None:
        self.trusted_machines = trusted_machines
        self._fail_engine = fail_engine
        self._spreads: dict[str, ModelSpread] = {}
        self._connect_lock = asyncio.Lock()
        self.revision = 0
        """Another number each time that a model is laid over other machines, or is on this one alone again."""

    def __contains__(self, model: object) -> bool:
        return model in self._spreads

    def is_over(self, model: str, names: Sequence[str], context: int | None) -> bool:
        """Tell whether a model lies over just these machines already, all of them there."""
        spread = self._spreads.get(model)
        if spread is None or spread.loss_reason or context not in {None, spread.plan.context}:
            return False
        return [share.name for share in spread.plan.shares[1:]] == list(names)

    async def connect_machines(
        self, model: str, plan: AcrossPlan, order: NodeOrder | None = None, *, memory_share: float = 0.0
    ) -> None:
        """Have each machine hold its layers of a model. Raises Unavailable or NotFound, and then none does.

        With an order each has a process of the engine, which takes `memory_share` of the memory here.
        """
        note_loss = partial(self._note_loss, model)
        async with self._connect_lock:
            await self.trusted_machines.open_list()
            spread: ModelSpread = (
                LayerSpread(self.trusted_machines, plan, note_loss)
                if order is None
                else NodeSpread(self.trusted_machines, plan, note_loss, order=order, memory_share=memory_share)
            )
            try:
                await spread.connect()
            except BaseException:
                spread.close()
                raise
            self._spreads[model] = spread
            self.revision += 1

    async def revive_machines(self, model: str) -> None:
        """Connect again where a machine had gone. Raises Unavailable with which is still gone."""
        spread = self._spreads.get(model)
        if spread is None:
            return
        async with self._connect_lock:
            loss = spread.loss_reason
            try:
                await self.trusted_machines.open_list()
                await spread.connect()
            except RoundhouseError as error:
                sentence = f"{loss} {error}".strip()
                raise Unavailable(sentence, hint=error.hint, code=error.code) from None

    def engine_of(self, model: str) -> str:
        """Return which engine a spread model was planned for."""
        return self._spreads[model].plan.engine

    def options_for(self, model: str, options: LaunchOptions) -> LaunchOptions:
        """Return the options with where the layers of a spread model lie."""
        return self._spreads[model].complete_options(options)

    def bytes_here(self, model: str) -> int:
        """Return what a spread model takes of this machine."""
        return self._spreads[model].plan.shares[0].needed_bytes

    def forget_model(self, model: str) -> None:
        """Let the machines of a model go, if it has any."""
        spread = self._spreads.pop(model, None)
        if spread is not None:
            self.revision += 1
            spread.close()

    def close_all(self) -> None:
        """Let all machines go."""
        for model in list(self._spreads):
            self.forget_model(model)

    def placement_of(self, model: str) -> str:
        """Return where the layers of a spread model lie, in a sentence."""
        return self._spreads[model].plan.placement

    def pool_of(self, model: str) -> str:
        """Return which memory of this machine a spread model takes."""
        return self._spreads[model].plan.pool

    def _note_loss(self, model: str, why: str) -> None:
        self._fail_engine(model, Failure(kind=FailureKind.UNREACHABLE, sentence=why, hint=_NEXT))
