"""What this machine has for layers of a model, and whether an engine here can hold some: asked by others and by us."""

import asyncio
import hashlib
import os
from pathlib import Path

from app.confinement.support import read_kernel_offer
from app.core.errors import EngineFailed, NotFound, RoundhouseError
from app.core.machine import Machine, Pool
from app.core.models import ModelInfo
from app.gateway.across.tunnel import NodeOrder, TunnelReply
from app.gateway.loading.launch import HEAD_ROOM
from app.gateway.services import Services
from engines.api import ComputerSpan, EngineInstallation, SpanKind
from engines.llama_cpp.launch import NO_RPC, RPC_FLAG

LAYER_ENGINE = "llama.cpp"
INSTALL_HINT = "`roundhouse engines install llama.cpp --variant rpc` installs and uses it."
_CONFIGURATION = "config.json"
_LEAST_SHARE, _MOST_SHARE = 0.05, 0.9


async def describe_room(services: Services, node: NodeOrder | None = None) -> TunnelReply:
    """Return what this machine has for layers, or why it can hold none. Without `node` they are llama.cpp's."""
    engine = LAYER_ENGINE if node is None else node.engine
    span = span_of(services, engine)
    if span is None and engine in services.adapters:
        return TunnelReply(problem=f"Its Roundhouse knows no way to run {engine} over several computers.")
    try:
        installation = await asyncio.to_thread(find_engine, services, engine, span)
        if node is not None and span is not None and span.is_started:
            await asyncio.to_thread(find_same_model, services, node)
    except RoundhouseError as error:
        return TunnelReply(problem=f"{error} {error.hint}".strip())
    machine = await services.machine.read_free()
    pool = choose_pool(machine, installation.backend)
    free = pool.free.value if pool is not None else None
    return TunnelReply(
        free_bytes=max(0, (free or 0) - HEAD_ROOM),
        bandwidth_gb_s=_bandwidth_of(machine, pool),
        version=installation.version,
        backend=installation.backend,
    )


def span_of(services: Services, engine: str) -> ComputerSpan | None:
    """Return how an engine lays a model over several computers; None for one that does not, and for an unknown one."""
    adapter = services.adapters.get(engine)
    return None if adapter is None else adapter.descriptor.span


def find_engine(services: Services, engine: str, span: ComputerSpan | None) -> EngineInstallation:
    """Return what of an engine is installed here, able to hold layers. Raises EngineFailed with why none is.

    Runs programs: for a thread.
    """
    if span is not None and not span.is_started:
        return services.catalogue.expect_installation(engine)
    installation = services.catalogue.find_installation(engine)
    if span is None:
        return installation
    if span.kind is SpanKind.LAYERS and RPC_FLAG not in installation.flags:
        raise EngineFailed(NO_RPC, hint=INSTALL_HINT, code="not_installed")
    if span.kind is SpanKind.NODES and (problem := _network_problem()):
        name = services.adapters[engine].descriptor.name
        raise EngineFailed(f"{name} can have no network of its own: {problem}.", code="no_private_network")
    return installation


def _network_problem() -> str:
    """Return why no engine can have a network of its own on this computer; empty where it can."""
    offer = read_kernel_offer()
    return "only Linux has networks for single programs" if offer is None else offer.network_problem


def find_same_model(services: Services, node: NodeOrder) -> ModelInfo:
    """Return the model of which this machine is to hold a part. Raises NotFound where it is not here, or another."""
    try:
        model = services.library.find_model(node.model)
    except NotFound:
        raise NotFound(
            f"The model {node.model} is not there.", hint="Each computer reads its layers from files of its own."
        ) from None
    if model.attached or digest_model(Path(model.path)) != node.digest:
        raise NotFound(f"Its {node.model} is another one: the files differ in name, size or configuration.")
    return model


def digest_model(path: Path) -> str:
    """Return what tells models apart without reading weights: names and sizes of files, and the configuration."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = Path(folder, name)
            if file.exists() and not name.startswith("."):
                digest.update(f"{file.relative_to(path).as_posix()}\0{file.stat().st_size}\n".encode())
    if (configuration := path / _CONFIGURATION).is_file():
        digest.update(configuration.read_bytes())
    return digest.hexdigest()


def choose_pool(machine: Machine, backend: str) -> Pool | None:
    """Return the memory that a process of an engine takes: the card with most room, or the system's."""
    if not machine.pools:
        return None
    cards = [pool for pool in machine.pools if pool.gpus] if backend != "cpu" else []
    return max(cards, key=lambda pool: pool.free.value or 0, default=machine.pools[0])


def memory_share(machine: Machine, pool: Pool | None, size_bytes: int) -> float:
    """Return the share of its memory that an engine is told to take for so many bytes."""
    total = pool.physical.value if pool is not None else machine.memory.total.value
    return min(_MOST_SHARE, max(_LEAST_SHARE, round(size_bytes / total, 2))) if total else _LEAST_SHARE


def _bandwidth_of(machine: Machine, pool: Pool | None) -> float | None:
    cards = [gpu for gpu in machine.gpus if pool is not None and gpu.id in pool.gpus and not pool.is_unified]
    return cards[0].bandwidth_gb_s.value if cards else machine.memory.bandwidth_gb_s.value
