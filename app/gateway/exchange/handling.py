"""What the handlers of all dialects have in common: a request understood, answered by an engine, and observed."""

import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial

import msgspec
from aiohttp import hdrs, web

from app.core.errors import BadRequest, EngineFailed, RoundhouseError
from app.core.models import ModelInfo
from app.gateway.dialects.keep_alive import ModelLoadFields
from app.gateway.dialects.raw_fields import ABSENT
from app.gateway.exchange.observer import OBSERVATION, Observation
from app.gateway.exchange.passing import pass_on
from app.gateway.exchange.trace_context import TRACEPARENT, TRACESTATE
from app.gateway.exchange.upstream import (
    CacheFieldDroppedError,
    EngineAccess,
    ReplacementRequest,
    TrimOptions,
    UnreadableAnswerError,
    UpstreamRequest,
)
from app.gateway.library.endpoint_routes import routes_of
from app.gateway.loading.requested_model import ResolvedModel, is_able, media_hint
from app.gateway.machines.routing import MachineRoutes
from app.gateway.services import SERVICES, Services
from app.hub.library.library import Library
from app.supervisor.policy import LeaseOptions, LoadRequest
from engines.api import EngineAdapter, FailureKind, Route

log = logging.getLogger(__name__)

ENGINE_ACCESS = web.AppKey("engine_access", EngineAccess)

AnswerHandler = Callable[[web.Request, EngineAccess, Observation], Awaitable[web.StreamResponse]]
"""Answers a request that was understood."""


class RequestJob(msgspec.Struct, frozen=True):
    """A request understood. Without an `answer` of its own the engine's bytes are passed on.

    `detour` does the same by a route that can go without the prompt cache, where the engine's own for it cannot, and
    that puts answers right which the engine could not read. `choices` are what the engine is asked where it is asked
    more than once, for each answer of its own, `upstream` first.
    """

    upstream: UpstreamRequest
    answer: AnswerHandler | None = None
    detour: "Callable[[], Awaitable[RequestJob]] | None" = None
    trim_options: TrimOptions | None = None
    choices: tuple[UpstreamRequest, ...] = ()

    def find_number(self, request: UpstreamRequest) -> int | None:
        """Return which of its answers a request is for, from 0 on; None if it is for something else."""
        return next((at for at, each in enumerate(self.choices or (self.upstream,)) if each is request), None)

    def replace_request(self, number: int) -> ReplacementRequest:
        """Return what is asked for one of its answers in a lost request's place."""
        return ReplacementRequest((self.choices or (self.upstream,))[number], self.trim_options)


Understand = Callable[[web.Request], Awaitable[RequestJob]]
"""Turns a request into what the engine is asked. Raises errors of ours for what cannot be asked."""

_PASSED_ON = (hdrs.ACCEPT, hdrs.USER_AGENT, "OpenAI-Beta")
"""Of the client's headers. Its Authorization, cookies and Origin are not the engine's business."""
_OF_TRACES = (TRACEPARENT, TRACESTATE)
"""Passed on as they are where no traces are sent from here; else the engine is told of its place in the trace."""
_UNLIMITED = nullcontext()
_NO_TERMS, _BESIDE = LeaseOptions(), LeaseOptions(takes_slot=False)
BESIDE_SLOTS = frozenset({Route.TOKENIZE, Route.DETOKENIZE, Route.COUNT_TOKENS, Route.APPLY_TEMPLATE})
"""What an engine answers at once, however many it is writing for."""
ROUTE_VERBS = {
    Route.EMBEDDINGS: "make embeddings",
    Route.RERANK: "rank documents",
    Route.TOKENIZE: "count tokens",
    Route.DETOKENIZE: "write tokens out",
    Route.APPLY_TEMPLATE: "show prompts",
    Route.INFILL: "fill gaps in a text",
    Route.TRANSCRIPTIONS: "transcribe recordings",
    Route.TRANSLATIONS: "translate recordings",
    Route.SPEECH: "read texts aloud",
    Route.IMAGES: "make pictures",
    Route.IMAGE_EDITS: "edit pictures",
    Route.IMAGE_VARIATIONS: "make variations of pictures",
}
"""What a model or an endpoint may lack."""


async def answer_request(request: web.Request, route: str, understand: Understand) -> web.StreamResponse:
    """Return the answer to a request. Raises what `understand` and engines raise, as long as nothing was sent."""
    observation = request[OBSERVATION]
    observation.route = route  # a request that is not understood is counted under it too
    with observation, observation.key_use or _UNLIMITED:
        engines = request.app[ENGINE_ACCESS]
        job = await understand(request)
        others = None
        if job.upstream.load.source.remote is not None:
            others = find_fallback(request.app[SERVICES], observation, job, partial(understand, request))
            engines = dataclasses.replace(engines, others=others)
        while True:
            observation.note_model(route, job.upstream.load.source.name)
            observation.request_body = job.upstream.body
            try:
                if job.answer is None:
                    return await pass_on(request, engines, job.upstream, observation)
                return await job.answer(request, engines, observation)
            except CacheFieldDroppedError:
                if job.detour is None:
                    raise
                job = await _take_detour(job.detour, others, observation, "prompt cache")
            except UnreadableAnswerError as error:
                if job.detour is None:
                    return error.refusal
                job = await _take_detour(job.detour, others, observation, "unreadable answer")
            except EngineFailed as error:
                other = None if others is None else await others.find_job(job.upstream, error)
                if other is None:
                    raise
                job = other


async def _take_detour(
    detour: "Callable[[], Awaitable[RequestJob]]", others: "Fallback | None", observation: Observation, why: str
) -> RequestJob:
    """Return the same request by the other route, which may go to another machine as well."""
    observation.note_event("detour", why=why)
    job = await detour()
    if others is not None:
        others.follow_detour(job)
    return job


def find_fallback(
    services: Services,
    observation: Observation,
    job: RequestJob,
    plan_again: Callable[[], Awaitable[RequestJob]] | None = None,
) -> "Fallback | None":
    """Return what asks somebody else in a machine's place, if there may be somebody: for a fleet or a paired machine.

    Without `plan_again` only a fleet is asked again.
    """
    if _is_fleet(job.upstream) or (plan_again is not None and services.machine_routes.has_models):
        return Fallback(services.machine_routes, observation, job, plan_again)
    return None


_LOST = frozenset({FailureKind.UNREACHABLE, "engine_broke_off"})
_LOST_OR_CLOSED = _LOST | {FailureKind.AUTH}
"""Another paired machine answers also for one that no longer trusts this one."""


class Fallback:
    """Where a request goes whose machine went away before anything of an answer was sent, but a head and signs of life.

    To another paired machine that has the model, each once; to a fleet's router once more, which has other replicas.
    Where several answers are wanted, those that are not begun go too. Nobody is answered twice: whatever the machine
    that was lost still does, nobody is left to read it.
    """

    def __init__(
        self,
        routes: MachineRoutes,
        observation: Observation,
        job: RequestJob,
        plan_again: Callable[[], Awaitable[RequestJob]] | None,
    ) -> None:
        self._routes, self._observation, self._job, self._plan_again = routes, observation, job, plan_again
        self._lost_models: set[str] = set()
        self._lost_jobs: list[RequestJob] = []
        self._error: EngineFailed | None = None
        self._other: RequestJob | None = None
        self._repeated_jobs: set[int | None] = set()
        """Which answers a fleet's router was asked for once more."""

    async def has_other(self, failed_request: UpstreamRequest, error: RoundhouseError) -> bool:
        """Tell whether somebody else may be asked instead."""
        return isinstance(error, EngineFailed) and await self.find_job(failed_request, error) is not None

    async def find_other(self, failed_request: UpstreamRequest, error: EngineFailed) -> ReplacementRequest | None:
        """Return what is to be asked instead, for an answer that is translated."""
        number, job = self._job.find_number(failed_request), await self.find_job(failed_request, error)
        if job is None or _is_fleet(failed_request):
            return None if job is None else ReplacementRequest(failed_request)
        if job.answer is None:
            if job.detour is None:
                return None
            self._job = job = await job.detour()
        other = job.replace_request(number or 0)
        self._observation.note_model(self._observation.route, other.upstream.load.source.name)
        self._observation.request_body = other.upstream.body
        return other

    def find_current(self, request: UpstreamRequest) -> UpstreamRequest:
        """Return what is asked in its place since another answer of the same request lost their machine, or itself."""
        numbers = (job.find_number(request) for job in self._lost_jobs)
        number = next((each for each in numbers if each is not None), None)
        return request if number is None else self._job.replace_request(number).upstream

    def follow_detour(self, job: RequestJob) -> None:
        """Take what the same request became, where it goes another way to the same engine."""
        self._job = job

    async def find_job(self, failed_request: UpstreamRequest, error: EngineFailed) -> RequestJob | None:
        """Return what answers instead; the same for the same error."""
        if error is not self._error:
            self._error, self._other = error, await self._find_now(failed_request, error)
            if self._other is not None:
                if self._other is not self._job:
                    self._lost_jobs.append(self._job)
                self._job = self._other
                self._observation.note_event("fallback", lost=failed_request.load.source.name, code=error.code)
        return self._other

    async def _find_now(self, failed_request: UpstreamRequest, error: EngineFailed) -> RequestJob | None:
        is_fleet = _is_fleet(failed_request)
        if error.code not in (_LOST if is_fleet else _LOST_OR_CLOSED):
            return None
        if is_fleet:
            number = self._job.find_number(failed_request)
            may_repeat = number not in self._repeated_jobs
            self._repeated_jobs.add(number)
            return self._job if may_repeat else None
        name = failed_request.load.source.name
        plan_again = None if self._job.find_number(failed_request) is None else self._plan_again
        if plan_again is None or not self._routes.note_loss(name):
            return None
        self._lost_models.add(name)
        try:
            job = await plan_again()
        except RoundhouseError as reason:
            log.info("No other machine can be asked: %s", reason, extra={"model": name})
            return None
        is_lost = job.upstream.load.source.name in self._lost_models  # the person named it, or all were tried
        return None if is_lost else job


def _is_fleet(upstream: UpstreamRequest) -> bool:
    remote = upstream.load.source.remote
    return remote is not None and bool(remote.replicas)


def client_header_lines(request: web.Request) -> bytes:
    """Return the header lines of a client's that an engine may see."""
    headers, lines, observation = request.headers, "", request.get(OBSERVATION)
    names = (
        _PASSED_ON if TRACEPARENT not in headers or (observation and observation.trace) else (*_PASSED_ON, *_OF_TRACES)
    )
    for name in names:
        if name in headers:
            lines += f"{name}: {headers[name]}\r\n"
    return lines.encode("utf-8", "surrogateescape")


def engine_path(
    adapters: Mapping[str, EngineAdapter], library: Library, engine: str, model: ModelInfo, route: Route
) -> str:
    """Return the path of `route` at the engine. Raises BadRequest (model_cannot) if the model or engine lacks it."""
    routes = routes_of(adapters, library, engine, model)
    can = bool(model.attached) or is_able(model, route)
    if can and route in routes:
        return routes[route]
    is_engine = can and not model.attached
    culprit = f"The engine {adapters[engine].descriptor.name}" if is_engine else model.title
    hint = f"If it can after all, `roundhouse attach {model.runs_as} --can` says so." if model.attached else ""
    raise BadRequest(
        f"{culprit} does not {ROUTE_VERBS.get(route, 'write text')}.",
        hint=" ".join(filter(None, (media_hint(route) or "Choose another model.", hint))),
        code="model_cannot",
    )


def lease_options(wishes: ModelLoadFields, route: Route) -> LeaseOptions:
    """Return what a request asks beside its work. Raises BadRequest."""
    takes_slot = route not in BESIDE_SLOTS
    if wishes.ttl is None and wishes.options is None and wishes.keep_alive is ABSENT:  # as nearly always
        return _NO_TERMS if takes_slot else _BESIDE
    return LeaseOptions(keep_s=wishes.keep_s, context=wishes.context, takes_slot=takes_slot)


async def load_for_context(services: Services, target: ResolvedModel, context: int | None) -> LoadRequest:
    """Return what loads the model with at least so much context, if any was asked for, as far as it can be had."""
    if context is None:
        return target.load
    from app.gateway.loading.memory_fit import with_context  # noqa: PLC0415 -- brings in the advisor, once it is needed

    return await with_context(services, target, context)
