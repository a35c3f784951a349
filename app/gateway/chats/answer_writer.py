"""Has an engine write an answer, the way every client's request is answered, in a task of its own.

Cancelling it closes the connection, which is how an engine learns to stop.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec

from app.core.attachments import Attachment
from app.core.chats import Chat, Message
from app.core.documents import WholeFile
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, RoundhouseError
from app.core.events import EngineChanged
from app.core.guide import LONGEST_QUESTION
from app.core.models import ModelInfo
from app.gateway.attachments.prompt import attachment_parts, senses_of
from app.gateway.canonical import request as canonical
from app.gateway.canonical.events import (
    AnswerFailed,
    ContextOverflow,
    Event,
    Overflow,
    TextDelta,
    ToolCallAssembler,
    ToolCallDelta,
    failure_event,
)
from app.gateway.chats.chat_request import AttachmentParts, chat_request
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.chats.model_requests import ModelRequests
from app.gateway.chats.overflow import OverflowTrimming, overflow_rule
from app.gateway.chats.pictures import PictureDrawer
from app.gateway.chats.sources import SourceFinder, with_sources
from app.gateway.chats.tool_session import ToolSession
from app.gateway.events import EventHub
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.connections import ReadFlow
from app.gateway.exchange.engine.error_document import NO_REASON
from app.gateway.exchange.handling import RequestJob, find_fallback
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.repairs import without_checks
from app.gateway.exchange.tool_rounds import answer_in_rounds
from app.gateway.exchange.translating import translate_answer
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.guide.answering import Guide
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.mcp.servers import McpServers
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from app.supervisor.pool import Supervisor
from engines.api import Route

_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_LOOK_AT_MEMORY_S = 0.5
_ENGINES_WORDS = frozenset({"engine_refused", "engine_error", "engine_busy", "unparsed_answer"})
_LONGEST_TEXT = 500
_TOO_LONG = frozenset({"context_too_long", ContextOverflow.default_code})


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerJob:
    """What is to be answered: a question of a chat (whose own `messages` are not looked at), and with what."""

    chat: Chat
    question: str
    model: ModelInfo
    load: LoadRequest
    continues: str | None = None
    """The answer whose text is gone on with."""


class AnswerHelpers(NamedTuple):
    """What answers may be given beside the conversation: tools, and passages of documents."""

    mcp: McpServers
    finder: SourceFinder
    guide: Guide | None = None
    """Looks up what the built-in model is inputs."""
    drawer: PictureDrawer | None = None
    """Draws pictures that models ask for."""


class AnswerWriter:
    """Has answers written."""

    def __init__(
        self,
        services: Services,
        engines: EngineAccess,
        requests: ModelRequests,
        helpers: AnswerHelpers,
    ) -> None:
        self._services, self._engines, self._requests = services, engines, requests
        self._mcp, self._finder = helpers.mcp, helpers.finder
        self._guide, self._drawer = helpers.guide, helpers.drawer

    async def write(self, job: AnswerJob, live: LiveAnswer, observation: Observation) -> None:
        """Fill `live`. Raises EngineFailed or Unavailable; what was written until then is in `live`."""
        if self._guide is not None and job.model.is_builtin and job.continues is None:
            question = await self._services.chats.read_message(job.chat.id, job.question)
            if not question.attachments:  # files are read by the model
                await self._look_up(self._guide, question.content, live)
                return
        live.report_progress("Waiting for the model")
        try:
            async with _report_loading(self._services.supervisor, self._services.events, job.load, live):
                path = await self._services.chats.read_path(job.chat.id, job.continues or job.question)
                await self._write_rounds(job, live, observation, path)
        except RoundhouseError as error:
            raise error_for_reader(error) from error

    async def _look_up(self, guide: Guide, question: str, live: LiveAnswer) -> None:
        """Answer as the Guide does: with what was looked up, the calls that did it, and what can be done."""
        live.report_progress("Looking it up")
        answer = await guide.answer(question[:LONGEST_QUESTION])
        for call in answer.calls:
            live.note_call(call)
        live.actions, live.documents = answer.actions, answer.documents
        live.add(TextDelta(answer.text))

    async def _write_rounds(
        self, job: AnswerJob, live: LiveAnswer, observation: Observation, path: Sequence[Message]
    ) -> None:
        """Have the model answer until it calls no tool any more. Raises EngineFailed for one that never stops."""
        tools = ToolSession(self._mcp, self._services.chats, job.chat, live, self._drawer)
        rounds = 0
        parts: AttachmentParts = {}

        async def write_round() -> Sequence[canonical.ToolCall]:
            nonlocal rounds, parts
            rounds += 1
            if rounds == 1:
                first = _Round(path, {}, await _offer(job, tools))
                parts, calls = await self._write_first_round(job, live, observation, first)
                return calls
            again = _Round([*path, live.message], parts, await _offer(job, tools))
            with observation.observe_round(rounds) as further:
                return await self._write_round(job, live, further, again)

        await answer_in_rounds(write_round, tools.answer_calls)

    async def _write_first_round(
        self, job: AnswerJob, live: LiveAnswer, observation: Observation, inputs: "_Round"
    ) -> tuple[AttachmentParts, tuple[canonical.ToolCall, ...]]:
        """Have the model write, and return what it was given of files with the tools that it calls.

        Files that should fit are given whole. Only the engine knows whether they do: if it refuses that, passages are
        chosen from them, before anything of the conversation is left out.
        """
        context = self._requests.context_of(ResolvedModel(job.model, job.load))
        whole, long = self._finder.split_files(inputs.path, context)
        if whole:
            parts = await self._read_documents(job, live, inputs.path, (whole, long))
            try:
                round_inputs = inputs._replace(parts=parts, may_be_cut=False)
                return parts, await self._write_round(job, live, observation, round_inputs)
            except (ContextOverflow, EngineFailed) as error:
                if error.code not in _TOO_LONG:
                    raise
            long = [*long, *whole]
        parts = await self._read_documents(job, live, inputs.path, ([], long))
        with observation.observe_round(1) if whole else nullcontext(observation) as watched_round:
            return parts, await self._write_round(job, live, watched_round, inputs._replace(parts=parts))

    async def _write_round(
        self, job: AnswerJob, live: LiveAnswer, observation: Observation, inputs: "_Round"
    ) -> tuple[canonical.ToolCall, ...]:
        """Have the model write, and return the tools that it calls."""
        context = self._requests.context_of(ResolvedModel(job.model, job.load))
        request = chat_request(
            job.chat, inputs.path, inputs.parts, continues=job.continues is not None, context=context
        )  # fmt: skip
        request = msgspec.structs.replace(request, tools=inputs.tools)
        upstream = await self._make_upstream_request(job, request)
        sink = _LiveAnswerSink(live, observation)
        trimming_options = self._make_trimming(job, inputs.path, live).options(request) if inputs.may_be_cut else None
        others = find_fallback(self._services, observation, RequestJob(upstream))
        engines = self._engines if others is None else dataclasses.replace(self._engines, others=others)
        end = await translate_answer(engines, upstream, observation, sink, trimming_options)
        if isinstance(end, AnswerFailed):
            raise error_from_engine(end)
        live.note_finish(end, observation.tokens.timings)
        return sink.calls.all_calls()

    def _make_trimming(self, job: AnswerJob, path: Sequence[Message], live: LiveAnswer) -> OverflowTrimming:
        return OverflowTrimming(
            requests=self._requests,
            target=ResolvedModel(job.model, job.load),
            rule=overflow_rule(self._services, job.chat),
            path=path,
            note=live.note_omitted,
            report=live.report_progress,
            prepare=partial(self._make_upstream_request, job),
        )

    async def _make_upstream_request(self, job: AnswerJob, request: canonical.ConversationRequest) -> UpstreamRequest:
        services = self._services
        blank = UpstreamRequest(
            load=job.load,
            path=services.adapters[job.load.engine].descriptor.routes[Route.CHAT],
            body=b"",
            model=job.model.name,
        )
        # What is wrong with a call is its result here, which the window shows, and the model reads next.
        upstream = without_checks(await with_plan(services, blank, ResolvedModel(job.model, job.load), request))
        # What the Guide looks up never gets here: this is a question about files, which a model reads.
        plan = None if upstream.plan is None else msgspec.structs.replace(upstream.plan, question="")
        return msgspec.structs.replace(upstream, plan=plan)

    async def _read_documents(
        self,
        job: AnswerJob,
        live: LiveAnswer,
        path: Sequence[Message],
        files: tuple[Sequence[Attachment], Sequence[Attachment]],
    ) -> AttachmentParts:
        """Return what questions bring along: of the files the first ones whole, and passages of the others."""
        context = self._requests.context_of(ResolvedModel(job.model, job.load))
        whole, long_files = files
        parts = await self._read_attachments(job, path, long_files)
        if job.continues is None:
            live.note_files([WholeFile(name=file.name, tokens=file.tokens) for file in whole])
            live.note_sources(await self._finder.find_sources(job.chat, path, long_files, context, live))
        return with_sources(parts, path, live.documents.sources)

    async def _read_attachments(
        self, job: AnswerJob, path: Sequence[Message], long_files: Sequence[Attachment]
    ) -> AttachmentParts:
        if not any(message.attachments for message in path):
            return {}
        senses = await senses_of(self._services, job.model)
        long_hashes = {file.hash for file in long_files}
        return await attachment_parts(self._services.chats, path, senses=senses, left_out=long_hashes)


class _Round(NamedTuple):
    """What one request of an answer is made of."""

    path: Sequence[Message]
    parts: AttachmentParts
    tools: tuple[canonical.ToolDefinition, ...]
    may_be_cut: bool = True
    """Whether the beginning of the conversation may be left out, as the chat's rule says, if it is too long."""


async def _offer(job: AnswerJob, tools: ToolSession) -> tuple[canonical.ToolDefinition, ...]:
    """Return the tools that an answer may call: none where it is held to a form, or goes on with another."""
    sampling = job.chat.sampling
    if job.continues is not None or sampling.grammar or sampling.json_schema:
        return ()
    return await tools.list_definitions()


class _LiveAnswerSink:
    """Takes an engine's events for a `LiveAnswer`, whose readers have each their own pace."""

    def __init__(self, live: LiveAnswer, observation: Observation) -> None:
        self._live, self._observation = live, observation
        self.calls = ToolCallAssembler()

    async def open(self) -> None:
        """Note that the engine has the prompt."""
        if self._live.cost.load_s is None:
            self._live.cost.load_s = self._observation.load_s
        self._live.report_progress("Reading the prompt")

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Append what they say."""
        for event in events:
            if isinstance(event, ToolCallDelta):
                self.calls.add_delta(event)
            else:
                self._live.add(event)
        return ReadFlow.MORE

    async def drain(self) -> None:
        """Go on."""


@asynccontextmanager
async def _report_loading(
    supervisor: Supervisor, events: EventHub, load: LoadRequest, live: LiveAnswer
) -> AsyncIterator[None]:
    """Tell the answer's readers how loading goes."""
    tellers = [
        asyncio.create_task(_follow_loading(supervisor, events, load.source.name, live)),
        asyncio.create_task(_watch_memory(supervisor, load.source.name, live)),
    ]
    try:
        yield
    finally:
        for teller in tellers:
            teller.cancel()


async def _watch_memory(supervisor: Supervisor, model: str, live: LiveAnswer) -> None:
    """Say which models hold the memory that this one waits for: they answer first, one after another."""
    while not live.content:
        await asyncio.sleep(_LOOK_AT_MEMORY_S)
        waiting_models = (await supervisor.read_memory()).waiting
        others = next((load.waits_for for load in waiting_models if load.model == model), [])
        if others:
            live.report_progress(f"Waiting until {', '.join(others)} is done: both do not fit into memory")


async def _follow_loading(supervisor: Supervisor, events: EventHub, model: str, live: LiveAnswer) -> None:
    with events.subscribe() as event_stream:
        for status in supervisor.list_statuses():
            _report_status(status, model, live)
        async for event in event_stream:
            if isinstance(event, EngineChanged):
                _report_status(event.status, model, live)


def _report_status(status: EngineStatus, model: str, live: LiveAnswer) -> None:
    if status.model == model and status.state in _LOADING:
        live.report_progress(status.stage or "Loading the model", status.progress)


def error_for_reader(error: RoundhouseError) -> RoundhouseError:
    """Return an error as the reader of a chat can do something about it."""
    is_engines = isinstance(error, ContextOverflow) or error.code in _ENGINES_WORDS
    return error_from_engine(failure_event(error)) if is_engines else error


def error_from_engine(end: AnswerFailed) -> EngineFailed:
    """Return the error that an answer ended with; an engine's own words are quoted."""
    if end.overflow is not None:
        return _overflow_error(end.overflow)
    body = end.error
    if body.code not in _ENGINES_WORDS:
        return EngineFailed(body.sentence, hint=body.hint, code=body.code)
    reason = "it did not say why." if body.sentence == NO_REASON else body.sentence[:_LONGEST_TEXT]
    return EngineFailed(
        f"The engine refused to answer: {reason}",
        hint="See the model's log for more.",
        code="engine_refused",
    )


def _overflow_error(overflow: Overflow) -> EngineFailed:
    sentence = "This conversation is longer than the model's context."
    hint = "Have the oldest messages left out or summarised, start a new chat, or raise Context in the settings."
    if overflow.prompt is not None and overflow.context is not None:
        answer = "" if overflow.answer is None else f", its answer may take {overflow.answer:,}"
        sentence = (
            f"This conversation is {overflow.prompt:,} tokens long{answer}, "
            f"and the model has a context of {overflow.context:,} tokens."
        )
    if overflow.answer is not None:
        hint = "Lower Longest answer in the chat's settings, or start a new chat."
    return EngineFailed(sentence, hint=hint, code="context_too_long")
