"""The end of the tunnel that lends memory: what other machines' models have of their layers here.

One machine at a time: llama.cpp's RPC server serves one client. A worker runs for as long as that machine holds it, is
supervised as every engine is, and takes its room among the models. The holding connection is echoed byte for byte: that
is how the other machine knows that this one is there.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from app.config.paths import guide_gguf
from app.core.across import TunnelMember
from app.core.errors import RoundhouseError
from app.gateway.across.tunnel import (
    ANSWER_S,
    Pipe,
    TunnelIdentity,
    TunnelReply,
    TunnelRequest,
    join_pipes,
    read_line,
    send_line,
)
from app.gateway.loading.launch import HEAD_ROOM
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest, MemoryNeeds
from app.supervisor.scheduling import SYSTEM
from engines.api import LaunchOptions, ModelFormat, ModelSource
from engines.llama_cpp.launch import LAYERS, NO_RPC, RPC_FLAG

log = logging.getLogger(__name__)

ENGINE = "llama.cpp"
INSTALL_HINT = "`roundhouse engines install llama.cpp --variant rpc` installs and uses it."
_MOST_BYTES = 16 << 20
"""That are sent to measure a link."""
_QUIET_S = 30.0
"""A machine that sends no heartbeat for so long has gone."""


class LayerLender:
    """Listens for machines that are known, and serves one of them at a time. Belongs to the event loop."""

    def __init__(self, services: Services, identity: TunnelIdentity) -> None:
        self._services = services
        self._identity = identity
        self._holder = ""
        self._ports: dict[str, tuple[str, int]] = {}

    async def lend_memory(self, address: str) -> None:
        """Listen until cancelled; where that cannot be done, the log says so."""
        host, _, port = address.rpartition(":")
        context = await asyncio.to_thread(self._identity.server_context)
        # Machines that are added later are let in too: the context is asked anew for every connection.
        context.sni_callback = self._renew_context
        try:
            server = await asyncio.start_server(
                self._serve_machine, host.strip("[]"), int(port), ssl=context, ssl_handshake_timeout=ANSWER_S
            )
        except OSError as error:
            log.warning("Memory cannot be lent at %s: %s", address, error)
            return
        async with server:
            log.info("Memory is lent at %s", address)
            await server.serve_forever()

    def _renew_context(self, connection: ssl.SSLObject, _name: str | None, _before: ssl.SSLContext) -> None:
        connection.context = self._identity.server_context()

    async def _serve_machine(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            member = await asyncio.to_thread(self._member_of, writer)
            if member is None:
                return
            async with asyncio.timeout(ANSWER_S):
                request = await read_line(reader, TunnelRequest)
            await self._answer_request(member, request, (reader, writer))
        except (OSError, TimeoutError, ValueError) as error:
            log.info("A tunnel ended: %s", error)
        except RoundhouseError as error:
            with suppress(OSError):
                await send_line(writer, TunnelReply(problem=f"{error} {error.hint}".strip()))
        finally:
            writer.close()

    def _member_of(self, writer: asyncio.StreamWriter) -> TunnelMember | None:
        """Return whose certificate the other side has shown: one that was forgotten meanwhile is nobody's."""
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        members = self._identity.list_members()
        return next((each for each in members if ssl.PEM_cert_to_DER_cert(each.certificate.strip()) == shown), None)

    async def _answer_request(self, member: TunnelMember, request: TunnelRequest, pipe: Pipe) -> None:
        match request.ask:
            case "state":
                await send_line(pipe[1], await lender_state(self._services))
                await _echo_bytes(pipe)
            case "receive":
                await send_line(pipe[1], TunnelReply())
                pipe[1].write(bytes(max(0, min(request.count, _MOST_BYTES))))
                await pipe[1].drain()
            case "hold":
                await self._hold_layers(member, request, pipe)
            case "layers" if request.session in self._ports:
                host, port = self._ports[request.session]
                inner = await asyncio.open_connection(host, port)
                await send_line(pipe[1], TunnelReply())
                await join_pipes(pipe, inner)
            case _:
                await send_line(pipe[1], TunnelReply(problem="That is not known here."))

    async def _hold_layers(self, member: TunnelMember, request: TunnelRequest, pipe: Pipe) -> None:
        """Run a worker for as long as the other side holds the connection."""
        state = await lender_state(self._services)
        if state.problem or self._holder:
            busy = f"It holds layers for {self._holder} already."
            await send_line(pipe[1], TunnelReply(problem=state.problem or busy))
            return
        self._holder = member.name
        try:
            async with self._services.supervisor.lease(worker_request(request.count)) as lease:
                where = urlsplit(lease.base_url)
                self._ports[request.session] = (where.hostname or "", where.port or 0)
                await send_line(pipe[1], state)
                echo = asyncio.ensure_future(_echo_bytes(pipe))
                ends: set[asyncio.Future[Any]] = {echo, lease.end}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                echo.cancel()
        finally:
            self._holder = ""
            self._ports.pop(request.session, None)
            await self._services.supervisor.unload_model(LAYERS, force=True)


async def lender_state(services: Services) -> TunnelReply:
    """Return what this machine has for layers, or why it can hold none."""
    try:
        installation = await asyncio.to_thread(services.catalogue.find_installation, ENGINE)
    except RoundhouseError as error:
        return TunnelReply(problem=str(error))
    machine = await services.machine.read_free()
    free = machine.pools[0].free.value if machine.pools else None
    return TunnelReply(
        problem="" if RPC_FLAG in installation.flags else f"{NO_RPC} {INSTALL_HINT}",
        free_bytes=max(0, (free or 0) - HEAD_ROOM),
        bandwidth_gb_s=machine.memory.bandwidth_gb_s.value,
        version=installation.version,
    )


def worker_request(size_bytes: int, pools: Mapping[str, int] | None = None) -> LoadRequest:
    """Return what has the supervisor run a worker that holds so many bytes of layers."""
    from app.hardware.cpu import engine_threads  # noqa: PLC0415 -- start-up must not pay for the probes

    # It reads no file; a model there has to be, for the confinement to name.
    source = ModelSource(name=LAYERS, path=guide_gguf(), format=ModelFormat.GGUF)
    options = LaunchOptions(task=LAYERS, threads=engine_threads(), context=None)
    needs = MemoryNeeds(pools=pools or {SYSTEM: max(0, size_bytes)})
    return LoadRequest(engine=ENGINE, source=source, options=options, needs=needs)


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
