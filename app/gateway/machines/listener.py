"""What other machines reach of this one: a listener of its own, over TLS, for paired machines and those being paired.

The ordinary endpoint stays where it is. Whoever shows no certificate gets the two addresses of pairing and nothing
else. A paired machine gets the addresses in `_PASSED_ON`, for models that are on this machine: requests go to the
endpoint over loopback, and what is attached here is neither listed nor asked, so that no request goes round in circles.
Nothing that manages Roundhouse can be reached: each machine is lent a key of its own that may ask models, so that what
it stores, uses and waits for is its own, and ends with the key.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar, cast

import msgspec
from aiohttp import ClientError, hdrs, web

from app.core.errors import BadRequest, NotFound, RoundhouseError, TooLarge, Unauthorized
from app.core.machines import MachineCard, ModelLoad, PairedMachine
from app.gateway.loading.launch import find_model
from app.gateway.machines.file_giving import FileGiver
from app.gateway.machines.trust import TUNNEL
from app.gateway.services import Services
from app.hub.download.machine_files import FILES
from app.machines.pairing import LONGEST_MESSAGE, PairGuest, PairHost, PairOpening, PairProof
from app.network.machine_addresses import OpenConnections
from app.network.pinned_tls import HANDSHAKE_S, UnpinnedPeerError, check_peer, fingerprint_of, peer_certificate

if TYPE_CHECKING:
    from app.gateway.across.lending import LayerLender

T = TypeVar("T")
_MIB = 1024 * 1024
OPEN, PROVE, STATE = "/pair/open", "/pair/prove", "/machine/state"
_MODELS = "/v1/models"
_PASSED_ON = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/tokenize",
    "/detokenize",
)
_VIA = "1.1 roundhouse"
"""Has the endpoint ask for the key, as of whatever comes by way of another program: on loopback it need not."""
_PEER = web.RequestKey("machine", str)
"""The fingerprint of the machine that asks."""
_HEADERS = (hdrs.CONTENT_TYPE, hdrs.ACCEPT, "traceparent", "tracestate", "OpenAI-Beta", "anthropic-version")
_KEEP_S = 75.0
"""As at the ordinary endpoint."""


MOST_MODELS = 2000
"""That are taken from one machine: a list beyond that is no list of a person's models."""


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """What a machine says of its models to a paired one."""

    name: str
    models: Annotated[list[ModelLoad], msgspec.Meta(max_length=MOST_MODELS)]
    shares_files: bool = False
    """Whether it gives files of the hub's cache to the machine that asks."""
    lends_memory: bool = False
    """Whether it lends its memory to the machine that asks."""


class _ModelName(msgspec.Struct, frozen=True):
    model: str = ""


class _ModelEntry(msgspec.Struct, frozen=True):
    id: str


class _ModelList(msgspec.Struct, frozen=True):
    data: list[msgspec.Raw]


class _Loan(NamedTuple):
    name: str
    key: str


class MachineNotPaired(Unauthorized):
    """Who asks is not paired with this machine, or not any more."""

    default_code = "machine_not_paired"

    def __init__(self) -> None:
        super().__init__("The other machine does not trust this one, or not any more.")


class _Entrance(asyncio.Protocol):
    """A connection until its handshake is over: then it is the tunnel's or HTTP's, as the other side asked there."""

    def __init__(
        self,
        make_http: Callable[[], asyncio.BaseProtocol],
        serve_tunnel: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        self._make_http, self._serve_tunnel = make_http, serve_tunnel

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the connection to whose it is."""
        protocol = self._make_http()
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() == TUNNEL:
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._serve_tunnel)
        cast("asyncio.Transport", transport).set_protocol(protocol)  # uvloop's is no asyncio.Transport by name
        protocol.connection_made(transport)


class MachineOwner(NamedTuple):
    """What is decided elsewhere: the callables of whoever pairs machines and knows their models."""

    expect: Callable[[MachineCard, str], Awaitable[None]]
    """Called for one that has proved the code, and from which address."""
    trust: Callable[[PairGuest], Awaitable[None]]
    """Called when that one comes with its certificate."""
    state: Callable[[PairedMachine], Awaitable[MachineState]]
    """What this machine has for one."""


class MachineListener:
    """Serves paired machines. Belongs to the event loop's thread.

    `lender` answers in the tunnel, which a connection asks for in its handshake.
    """

    def __init__(self, services: Services, host: PairHost, owner: MachineOwner, lender: "LayerLender") -> None:
        self._services, self._host, self._trusted_machines = services, host, services.trusted_machines
        self._owner, self._lender = owner, lender
        self._files = FileGiver(services, lambda fingerprint: fingerprint in services.trusted_machines.fingerprints())
        self._connections = OpenConnections()
        self._loans: dict[str, _Loan] = {}
        """The keys that are lent now, by fingerprint."""
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    async def start(self, sockets: tuple[socket.socket, ...], context: ssl.SSLContext) -> None:
        """Serve on sockets that listen."""
        limit = self._services.settings.get_int("gateway.max_body_mib") * _MIB
        app = web.Application(client_max_size=limit, middlewares=[self._admit])
        app.router.add_post(OPEN, self._answer_opening)
        app.router.add_post(PROVE, self._check_proof)
        app.router.add_get(STATE, self._send_state)
        app.router.add_get(_MODELS, self._send_models)
        app.router.add_get(FILES + "{digest}", self._send_file)
        for path in _PASSED_ON:
            app.router.add_post(path, self._pass_on)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, keepalive_timeout=_KEEP_S, shutdown_timeout=1.0
        )
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(
                self._make_entrance, sock=listening_socket, ssl=context, ssl_handshake_timeout=HANDSHAKE_S
            )
            for listening_socket in sockets
        ]

    def _make_entrance(self) -> asyncio.Protocol:
        assert self._runner is not None  # noqa: S101 -- for the type checker: it listens
        http = self._runner.server
        assert http is not None  # noqa: S101 -- as above
        return _Entrance(http, self._lender.serve_machine)

    async def close(self) -> None:
        """Listen no longer, and end every connection."""
        for server in self._servers:
            server.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        for fingerprint in list(self._loans):
            self._end_loan(fingerprint)

    def cut_machine(self, fingerprint: str) -> None:
        """End every connection of one machine now, and what it asked for."""
        self._connections.cut_all(fingerprint)
        self._end_loan(fingerprint)

    @web.middleware
    async def _admit(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Let in who is paired, and others to be paired. Errors are written as our API writes them."""
        try:
            if request.path not in {OPEN, PROVE}:
                await self._check_paired(request)
            return await handler(request)
        except RoundhouseError as error:
            # `message` is what engines call it: the exchange reads answers of this as those of any endpoint.
            reply = {"error": msgspec.structs.asdict(error.body) | {"message": str(error)}}
            return web.Response(status=error.status, body=msgspec.json.encode(reply), content_type="application/json")

    async def _check_paired(self, request: web.Request) -> None:
        transport = request.transport
        tls = transport.get_extra_info("ssl_object") if transport is not None else None
        guest = self._host.find_guest(fingerprint_of(peer_certificate(tls)))
        if guest is not None:
            await self._owner.trust(guest)
        try:
            fingerprint = check_peer(tls, self._trusted_machines.fingerprints().keys())
        except UnpinnedPeerError:
            raise MachineNotPaired from None
        assert transport is not None  # noqa: S101 -- for the type checker: a peer was checked
        self._connections.add_transport(fingerprint, transport)
        request[_PEER] = fingerprint
        if request.path != STATE and self._trusted_machines.find_machine(fingerprint).is_memory_only:
            raise MachineNotPaired

    async def _answer_opening(self, request: web.Request) -> web.Response:
        pair_opening = await _read_message(request, PairOpening)
        return _json_response(self._host.answer_opening(pair_opening))

    async def _check_proof(self, request: web.Request) -> web.Response:
        card, verdict = self._host.check_proof(await _read_message(request, PairProof))
        await self._owner.expect(card, request.remote or "")
        return _json_response(verdict)

    async def _send_state(self, request: web.Request) -> web.Response:
        return _json_response(await self._owner.state(self._trusted_machines.find_machine(request[_PEER])))

    async def _send_file(self, request: web.Request) -> web.StreamResponse:
        return await self._files.send_file(request, request[_PEER])

    async def _send_models(self, request: web.Request) -> web.Response:
        services = self._services
        models = await asyncio.to_thread(services.library.list_models)
        elsewhere = {model.name for model in models if model.attached or model.is_builtin}
        async with services.http.get(services.identity.url + _MODELS, headers=self._headers(request)) as reply:
            listing = msgspec.json.decode(await reply.read(), type=_ModelList)
        kept_entries = [
            entry for entry in listing.data if msgspec.json.decode(entry, type=_ModelEntry).id not in elsewhere
        ]
        return web.Response(
            body=msgspec.json.encode({"object": "list", "data": kept_entries}), content_type="application/json"
        )

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        await self._check_model(body)
        services = self._services
        async with services.http.post(
            services.identity.url + request.path, data=body, headers=self._headers(request)
        ) as reply:
            answer = web.StreamResponse(
                status=reply.status, headers={hdrs.CONTENT_TYPE: reply.headers.get(hdrs.CONTENT_TYPE, "text/plain")}
            )
            await answer.prepare(request)
            try:
                async for piece in reply.content.iter_any():
                    await answer.write(piece)
            except ClientError:  # the answer broke off: ending the connection without its last chunk says so
                if request.transport is not None:
                    request.transport.abort()
                return answer
            await answer.write_eof()
        return answer

    async def _check_model(self, body: bytes) -> None:
        """Raise NotFound for a model that is not on this machine itself."""
        try:
            name = msgspec.json.decode(body, type=_ModelName).model
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadRequest("The body is no JSON object.") from None
        model = await find_model(self._services, name) if name else None
        if model is None or model.attached:
            raise NotFound("This machine itself has no such model.", code="model_not_found")

    def _headers(self, request: web.Request) -> dict[str, str]:
        """Return what the endpoint is sent. Raises MachineNotPaired for a machine that was revoked meanwhile."""
        fingerprint = request[_PEER]
        name = self._trusted_machines.fingerprints().get(fingerprint)
        if name is None:
            raise MachineNotPaired
        kept_headers = {header: request.headers[header] for header in _HEADERS if header in request.headers}
        key = self._lend_key(fingerprint, f"machine/{name}")
        return kept_headers | {hdrs.AUTHORIZATION: f"Bearer {key}", hdrs.USER_AGENT: name, hdrs.VIA: _VIA}

    def _lend_key(self, fingerprint: str, name: str) -> str:
        loan = self._loans.get(fingerprint)
        if loan is None or loan.name != name:  # it was paired again, under another name
            self._end_loan(fingerprint)
            loan = self._loans[fingerprint] = _Loan(name, self._services.keys.lend_key(name))
        return loan.key

    def _end_loan(self, fingerprint: str) -> None:
        loan = self._loans.pop(fingerprint, None)
        if loan is not None:
            self._services.keys.end_loan(loan.name)


async def _read_message(request: web.Request, kind: type[T]) -> T:
    body = await request.content.read(LONGEST_MESSAGE + 1)
    while not request.content.at_eof() and len(body) <= LONGEST_MESSAGE:
        body += await request.content.read(LONGEST_MESSAGE + 1 - len(body))
    if len(body) > LONGEST_MESSAGE:
        raise TooLarge("The message is too long.")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadRequest("This is no message of a pairing.") from None


def _json_response(value: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
