"""Ollama's routes that make a model write: chat and generate, and loading and unloading by asking for nothing.

Every request is translated: into a canonical one, sent to the engine's OpenAI route, and the engine's events into
NDJSON. An answer that is not streamed is the fold of the same events.
"""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import msgspec
from aiohttp import hdrs, web

from app.core.engines import EngineState
from app.core.errors import RoundhouseError, UserError
from app.gateway.canonical.aggregate import fold
from app.gateway.canonical.events import Failed, failed
from app.gateway.canonical.request import Generate, Request
from app.gateway.dialects.ollama import abilities
from app.gateway.dialects.ollama import create as ollama_create
from app.gateway.dialects.ollama import embed as ollama_embed
from app.gateway.dialects.ollama import models as ollama_models
from app.gateway.dialects.ollama.describing import moment
from app.gateway.dialects.ollama.lookup import abilities_of, find, json_reply, read_document
from app.gateway.dialects.ollama.record import OLLAMA_DIALECT
from app.gateway.dialects.ollama.requests import Asked, read_chat, read_generate
from app.gateway.dialects.ollama.stream import ChatForm, Form, GenerateForm, Lines, Said, error_line, whole
from app.gateway.dialects.ollama.wire import ChatRequest, Ending, GenerateRequest
from app.gateway.entry.middleware import ARRIVED
from app.gateway.exchange import opening
from app.gateway.exchange.capability_fallback import supplied, with_plan
from app.gateway.exchange.engine.planning import Plan
from app.gateway.exchange.engine.request import route_of
from app.gateway.exchange.heartbeat import EVERY_S, Signs
from app.gateway.exchange.infilling import preparer
from app.gateway.exchange.native import load_of
from app.gateway.exchange.opening import first_of
from app.gateway.exchange.proxy import Ask
from app.gateway.exchange.translated import Batches
from app.gateway.exchange.trimmed import Trimming, asked_trimmed
from app.gateway.loading.recent import Found
from app.gateway.services import SERVICES, Services
from app.gateway.watching.watch import Outcome, Watch, watched
from app.supervisor.policy import Terms

log = logging.getLogger(__name__)

_UNKNOWN = ""
"""Stands for the model in the metrics of a request that named none we have: its name could be anything."""
_STREAM_HEADERS = {
    hdrs.CONTENT_TYPE: "application/x-ndjson",
    hdrs.CACHE_CONTROL: "no-cache",
    "X-Accel-Buffering": "no",
}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A request understood: what is asked, what the engine is sent (if anything), and how its answer is put."""

    wanted: Asked
    found: Found
    ask: Ask
    form: Form


def add_routes(app: web.Application) -> None:
    """Add every route of Ollama's."""
    app.router.add_post("/api/chat", chat)
    app.router.add_post("/api/generate", generate)
    ollama_embed.add_routes(app)
    ollama_models.add_routes(app)
    ollama_create.add_routes(app)


async def chat(request: web.Request) -> web.StreamResponse:
    """POST /api/chat."""

    async def understood() -> Job:
        wanted = read_chat(await read_document(request, ChatRequest))
        return await _job(request.app[SERVICES], wanted, ChatForm(wanted.model, _now))

    return await _answer(request, "ollama/chat", understood)


async def generate(request: web.Request) -> web.StreamResponse:
    """POST /api/generate."""

    async def understood() -> Job:
        wanted = read_generate(await read_document(request, GenerateRequest))
        return await _job(request.app[SERVICES], wanted, GenerateForm(wanted.model, _now))

    return await _answer(request, "ollama/generate", understood)


async def _answer(request: web.Request, route: str, understood: Callable[[], Awaitable[Job]]) -> web.StreamResponse:
    services = request.app[SERVICES]
    try:
        job = await understood()
    except RoundhouseError:
        services.metrics.requests.add(route, _UNKNOWN, Outcome.REFUSED)
        raise
    model = job.ask.load.source.name
    with watched(services.metrics, route=route, model=model, started=request[ARRIVED]) as watch:
        if job.wanted.request is None:
            return await _loaded(services, job, watch)
        async with aclosing(asked_trimmed(request, job.ask, watch, _trimming(services, job))) as batches:
            return await (_streamed if job.wanted.streams else _whole)(request, job, batches, watch)


def _trimming(services: Services, job: Job) -> Trimming | None:
    """Return how a conversation is cut to what fits, if the client asked for that and it is one."""
    work = job.wanted.request
    if not job.wanted.trims or not isinstance(work, Generate):
        return None

    async def ask_for(shorter: Generate) -> Ask:
        return await with_plan(services, job.ask, job.found, shorter)

    def dropped(count: int) -> None:
        job.form.dropped = count

    return Trimming(work=work, ask_for=ask_for, dropped=dropped)


async def _job(services: Services, wanted: Asked, form: Form) -> Job:
    found = await find(services, wanted.model)
    if wanted.unheeded:
        log.warning("Options that have no effect here: %s", ", ".join(wanted.unheeded), extra={"model": wanted.model})
    load = await load_of(services, found, wanted.num_ctx)
    asks = wanted.request
    path, plan = ("", None) if asks is None else await _sendable(services, found, wanted.model, asks)
    ask = Ask(
        load=load,
        path=path,
        body=b"" if plan is None else plan.body,
        plan=plan,
        model=found.model.name,
        terms=Terms(keep_s=wanted.keep_s, context=wanted.num_ctx),
        prepare=None if asks is None else preparer(route_of(asks)),
    )
    return Job(wanted=wanted, found=found, ask=ask, form=form)


async def _sendable(services: Services, found: Found, named: str, request: Request) -> tuple[str, Plan]:
    """Return where at the engine, and what. Raises BadRequest for what model or engine cannot do."""
    is_plain = abilities.needed(request) == ["completion"] and found.model.chats
    if not is_plain and not found.model.attached:  # what an attached endpoint cannot do it says itself
        abilities.check(request, await abilities_of(services, found), model=named)
    path = services.adapters[found.load.engine].descriptor.routes.get(route_of(request))
    if path is None:
        raise abilities.cannot(named, "completion")
    return path, await supplied(services, found, request)


async def _loaded(services: Services, job: Job, watch: Watch) -> web.Response:
    """Load the model, or let it go once nobody uses it, and say which. A pinned one stays, and is said to be loaded."""
    reason = "load"
    if job.wanted.unloads:
        status = await services.supervisor.let_go(job.ask.load.source.name)
        reason = "load" if status.is_pinned and status.state is EngineState.READY else "unload"
    else:
        terms = msgspec.structs.replace(job.ask.terms, takes_slot=False)
        async with services.supervisor.lease(job.ask.load, terms):
            pass
    watch.outcome = Outcome.OK
    return json_reply(job.form(Said(), Ending(done_reason=reason)))


async def _whole(_request: web.Request, job: Job, batches: Batches, _watch: Watch) -> web.Response:
    events = [event async for batch in batches for event in batch]
    reply = whole(fold(events), job.form, _new_id)
    if isinstance(reply, Failed):
        return json_reply(OLLAMA_DIALECT.document(reply), reply.status)
    return json_reply(reply)


async def _streamed(request: web.Request, job: Job, batches: Batches, watch: Watch) -> web.StreamResponse:
    lines, response = Lines(job.form, _new_id), web.StreamResponse(headers=_STREAM_HEADERS)
    only_head = Signs(opening.HEAD_WITHIN_S, EVERY_S, head=bytes, alive=bytes)  # a line would mean something
    try:
        first = await first_of(batches, request, response, only_head)
        if not response.prepared:
            await response.prepare(request)
        await _send(response, lines.feed(first))
        async for batch in batches:
            await _send(response, lines.feed(batch))
        await _send(response, lines.end())
    except RoundhouseError as error:
        if not response.prepared:
            raise
        log.error(str(error), extra={"code": error.code, "model": job.ask.model})  # noqa: TRY400 -- said in a sentence
        watch.outcome = Outcome.REFUSED if isinstance(error, UserError) else Outcome.ENGINE_FAILED
        await response.write(error_line(failed(error)))
    await response.write_eof()
    return response


async def _send(response: web.StreamResponse, lines: bytes) -> None:
    if lines:
        await response.write(lines)


def _now() -> str:
    return moment(time.time())


def _new_id() -> str:
    return f"call_{secrets.token_hex(4)}"
