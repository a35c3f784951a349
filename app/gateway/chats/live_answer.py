"""One answer while it is written: its text so far, who reads along, what it costs, and the engine that writes it.

Readers come and go; each has its own place in the text and gets what is new at most fifty times a second, however fast
the engine writes. The last event of every reader is the finished message.

The `AnswerWriter` has an engine answer the way every client's request is answered, in a task of its own. Cancelling it
closes the connection, which is how an engine learns to stop. The request holds the system prompt and the one path that
leads to the question. Neither reasoning nor the other branches are sent back: the first is meant for one answer, the
second were left behind.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from app.core.chats import (
    AnswerDelta,
    AnswerDone,
    AnswerEvent,
    AnswerProgress,
    Chat,
    Message,
    MessageStatus,
    Role,
    Sampling,
    Timings,
)
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, RoundhouseError
from app.core.events import EngineChanged
from app.core.models import ModelInfo
from app.core.thinking import ThinkingLevel
from app.gateway.attachments.prompt import attachment_parts, senses_of
from app.gateway.canonical import request as canonical
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    ContextOverflow,
    Event,
    Overflow,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
    failure_event,
)
from app.gateway.chats.model_requests import ModelRequests
from app.gateway.chats.overflow import Omission, OverflowTrimming, overflow_rule
from app.gateway.events import EventHub
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.connections import ReadFlow
from app.gateway.exchange.engine.error_document import NO_REASON
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import translate_answer
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from app.supervisor.pool import Supervisor
from engines.api import Route

COALESCE_S = 0.02
"""Text is sent to a reader at most this often: 200 tokens/s become 50 events/s, and the eye sees no difference."""
_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_ROLES = {Role.USER: canonical.MessageRole.USER, Role.ASSISTANT: canonical.MessageRole.ASSISTANT}
_LOOK_AT_MEMORY_S = 0.5
_ENGINES_WORDS = frozenset({"engine_refused", "engine_error", "engine_busy"})
_LONGEST_TEXT = 500

AttachmentParts = Mapping[str, tuple[canonical.Part, ...]]


class LiveAnswer:
    """The answer `message` is going to be. Belongs to the event loop's thread."""

    def __init__(self, message: Message, clock: Callable[[], float] = time.monotonic) -> None:
        self._message = message
        self._cost = AnswerCost(clock)
        self._progress: AnswerProgress | None = None
        self._readers: set[asyncio.Event] = set()
        self._finished = asyncio.Event()
        self.content = message.content
        """What is written; an answer that goes on with another begins with its text."""
        self.reasoning = message.reasoning
        self.finish_reason = ""
        self.omitted = Omission()
        """What it is made without, because the context is full."""
        self.ending: MessageStatus | None = None
        """Why it ends early, if it does: `stopped` by a reader, `interrupted` by the gateway going down."""
        self._writing: asyncio.Task[None] | None = None

    @property
    def chat(self) -> str:
        """The chat it belongs to."""
        return self._message.chat

    @property
    def message(self) -> Message:
        """The message as it is now."""
        if self._finished.is_set():
            return self._message
        return replace(self._message, content=self.content, reasoning=self.reasoning)

    @property
    def cost(self) -> "AnswerCost":
        """What it has cost so far."""
        return self._cost

    def begin_writing(self, message: Message, writing: "asyncio.Task[None]") -> None:
        """Take over what the store made of the message, and the task that writes it."""
        self._message = message
        self._writing = writing
        if self.ending is not None:
            writing.cancel()

    def end_early(self, status: MessageStatus) -> None:
        """Have it end now, with what is written. The first who asks decides how that is called."""
        self.ending = self.ending or status
        if self._writing is not None:
            self._writing.cancel()

    def report_progress(self, stage: str, fraction: float | None = None) -> None:
        """Say what goes on before there is anything to read."""
        self._progress = AnswerProgress(stage=stage, fraction=fraction)
        self._wake()

    def add(self, event: Event) -> None:
        """Append what the engine wrote."""
        match event:
            case PromptProgress(fraction):
                self.report_progress("Reading the prompt", fraction)
            case TextDelta(text=text):
                self._append(text, "")
            case ReasoningDelta(text=text):
                self._append("", text)
            case _:
                pass

    def note_omitted(self, omitted: Omission) -> None:
        """Note what it is made without."""
        self.omitted = omitted

    def note_finish(self, end: AnswerFinished, timings: Mapping[str, float]) -> None:
        """Note how the engine ended it, and what it says of its own times, by its names."""
        self.finish_reason = str(end.reason)
        self._cost.note_usage(end.usage, timings)

    def _append(self, content: str, reasoning: str) -> None:
        self._cost.note_token()
        self._progress = None
        self.content += content
        self.reasoning += reasoning
        self._wake()

    def final_message(self, status: MessageStatus, *, error: str = "") -> Message:
        """Return the message as it is to be stored, ended this way."""
        return replace(
            self.message,
            status=status,
            error=error,
            finish_reason=self.finish_reason,
            left_out=self.omitted.count,
            summary=self.omitted.summary,
            timings=self._cost.timings(),
        )

    def publish_final(self, message: Message) -> None:
        """Give every reader the finished message. Only the first call counts."""
        if not self._finished.is_set():
            self._message = message
            self._finished.set()
            self._wake()

    async def wait_until_final(self) -> Message:
        """Wait for the end and return the finished message."""
        await self._finished.wait()
        return self._message

    async def follow(self, offset: int) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the text from `offset` characters on, then what comes, then the finished message.

        The reasoning is yielded from its start to who reads from the start; others have it already.
        """
        reader = asyncio.Event()
        self._readers.add(reader)
        content_sent, reasoning_sent = min(offset, len(self.content)), 0 if offset == 0 else len(self.reasoning)
        last_progress: AnswerProgress | None = None
        try:
            while True:
                reader.clear()
                is_last = self._finished.is_set()
                if len(self.content) > content_sent or len(self.reasoning) > reasoning_sent:
                    new = AnswerDelta(
                        content=self.content[content_sent:],
                        reasoning=self.reasoning[reasoning_sent:],
                        offset=content_sent,
                    )
                    content_sent, reasoning_sent = len(self.content), len(self.reasoning)
                    yield new
                elif self._progress is not None and self._progress != last_progress:
                    last_progress = self._progress
                    yield last_progress
                if is_last:
                    yield AnswerDone(message=self._message)
                    return
                await asyncio.sleep(COALESCE_S)
                await reader.wait()
        finally:
            self._readers.discard(reader)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.set()


_MS = 1e3


class AnswerCost:
    """Times on the monotonic clock, and what the engine says about its tokens, which is preferred where it says it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._first: float | None = None
        self._last = self._began
        self._usage = TokenUsage()
        self._engine: Mapping[str, float] = {}
        self.load_s: float | None = None

    def note_token(self) -> None:
        """Note that text arrived."""
        self._last = self._clock()
        if self._first is None:
            self._first = self._last

    def note_usage(self, usage: TokenUsage, engine: Mapping[str, float]) -> None:
        """Keep what the engine says at the end."""
        self._usage, self._engine = usage, engine

    def timings(self) -> Timings:
        """Return what is known now."""
        usage = self._usage
        return Timings(
            ttft_s=None if self._first is None else self._first - self._began,
            load_s=self.load_s,
            total_s=self._clock() - self._began,
            prompt_tokens=usage.prompt,
            cached_tokens=usage.cached,
            completion_tokens=usage.completion,
            decode_tokens_per_s=self._rate("predicted") or self._clock_rate(usage.completion),
            prefill_tokens_per_s=self._rate("prompt"),
        )

    def _rate(self, what: str) -> float | None:
        """Return tokens per second by llama-server's own clock, if that is whose it is."""
        tokens, spent_ms = self._engine.get(f"{what}_n"), self._engine.get(f"{what}_ms")
        return tokens * _MS / spent_ms if tokens and spent_ms else None

    def _clock_rate(self, tokens: int | None) -> float | None:
        """Return tokens per second after the first one."""
        if tokens is None or tokens <= 1 or self._first is None or self._last <= self._first:
            return None
        return (tokens - 1) / (self._last - self._first)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerJob:
    """What is to be answered: a question of a chat (whose own `messages` are not looked at), and with what."""

    chat: Chat
    question: str
    model: ModelInfo
    load: LoadRequest
    continues: str | None = None
    """The answer whose text is gone on with."""


class AnswerWriter:
    """Has answers written."""

    def __init__(self, services: Services, engines: EngineAccess, requests: ModelRequests) -> None:
        self._services, self._engines, self._requests = services, engines, requests

    async def write(self, job: AnswerJob, live: LiveAnswer, observation: Observation) -> None:
        """Fill `live`. Raises EngineFailed or Unavailable; what was written until then is in `live`."""
        live.report_progress("Waiting for the model")
        try:
            async with _report_loading(self._services.supervisor, self._services.events, job.load, live):
                path = await self._services.chats.read_path(job.chat.id, job.continues or job.question)
                parts = await self._read_attachments(job, path)
                request = chat_request(job.chat, path, parts, continues=job.continues is not None)
                upstream = await self._make_upstream_request(job, request)
                sink, trimming = (
                    _LiveAnswerSink(live, observation),
                    self._make_trimming(job, path, live).options(request),
                )
                end = await translate_answer(self._engines, upstream, observation, sink, trimming)
        except RoundhouseError as error:
            raise error_for_reader(error) from error
        if isinstance(end, AnswerFailed):
            raise error_from_engine(end)
        live.note_finish(end, observation.tokens.timings)

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
        return await with_plan(services, blank, ResolvedModel(job.model, job.load), request)

    async def _read_attachments(self, job: AnswerJob, path: Sequence[Message]) -> AttachmentParts:
        if not any(message.attachments for message in path):
            return {}
        senses = await senses_of(self._services, job.model)
        return await attachment_parts(self._services.chats, path, senses=senses)


class _LiveAnswerSink:
    """Takes an engine's events for a `LiveAnswer`, whose readers have each their own pace."""

    def __init__(self, live: LiveAnswer, observation: Observation) -> None:
        self._live, self._observation = live, observation

    async def open(self) -> None:
        """Note that the engine has the prompt."""
        self._live.cost.load_s = self._observation.load_s
        self._live.report_progress("Reading the prompt")

    def take_events(self, events: Sequence[Event]) -> ReadFlow:
        """Append what they say."""
        for event in events:
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
        waiting = (await supervisor.read_memory()).waiting
        others = next((load.waits_for for load in waiting if load.model == model), [])
        if others:
            live.report_progress(f"Waiting until {', '.join(others)} is done: both do not fit into memory")


async def _follow_loading(supervisor: Supervisor, events: EventHub, model: str, live: LiveAnswer) -> None:
    with events.subscribe() as happening:
        for status in supervisor.list_statuses():
            _report_status(status, model, live)
        async for event in happening:
            if isinstance(event, EngineChanged):
                _report_status(event.status, model, live)


def _report_status(status: EngineStatus, model: str, live: LiveAnswer) -> None:
    if status.model == model and status.state in _LOADING:
        live.report_progress(status.stage or "Loading the model", status.progress)


def chat_request(
    chat: Chat, path: Iterable[Message], parts: AttachmentParts = MappingProxyType({}), *, continues: bool = False
) -> canonical.ConversationRequest:
    """Return what an answer is asked for with. `parts` are the attachments of messages, by message.

    One that `continues` thinks no more and keeps to no form: both begin with the first word.
    """
    sampling = chat.sampling
    return canonical.ConversationRequest(
        messages=messages_for(chat.system_prompt, path, parts),
        sampling=canonical.SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repeat_penalty,
            seed=sampling.seed,
        ),
        response_format=canonical.ResponseFormat() if continues else _response_format(sampling),
        # A grammar begins with the first word, and thoughts keep to none.
        thinking=ThinkingLevel.OFF if sampling.grammar or continues else sampling.thinking,
        thinking_budget=sampling.thinking_budget,
        limits=canonical.GenerationLimits(max_tokens=sampling.max_tokens, stops=tuple(sampling.stops)),
        continues=continues,
        wants_progress=True,
    )


def _response_format(sampling: Sampling) -> canonical.ResponseFormat:
    if sampling.grammar:
        return canonical.ResponseFormat(shape=canonical.ResponseShape.GRAMMAR, grammar=sampling.grammar)
    if sampling.json_schema:
        schema = msgspec.Raw(sampling.json_schema.strip().encode())
        return canonical.ResponseFormat(shape=canonical.ResponseShape.SCHEMA, schema=schema)
    return canonical.ResponseFormat()


def messages_for(
    system_prompt: str, path: Iterable[Message], parts: AttachmentParts = MappingProxyType({})
) -> tuple[canonical.ConversationMessage, ...]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one. Files come before the words.
    """
    turns: list[tuple[canonical.MessageRole, list[canonical.Part]]] = []
    if system_prompt.strip():
        turns.append((canonical.MessageRole.SYSTEM, [canonical.Text(system_prompt)]))
    for message in path:
        if message.role is Role.ASSISTANT and not message.content.strip():
            continue
        role = _ROLES[message.role]
        files = parts.get(message.id, ())
        words = [canonical.Text(message.content)] if message.content.strip() or not files else []
        if turns and turns[-1][0] is role:
            turns[-1][1].extend([*files, *words])
        else:
            turns.append((role, [*files, *words]))
    return tuple(canonical.ConversationMessage(role, _join_texts(content)) for role, content in turns)


def _join_texts(parts: Iterable[canonical.Part]) -> tuple[canonical.Part, ...]:
    """Return the parts with texts that follow each other made one, a blank line between them: templates put none."""
    joined: list[canonical.Part] = []
    for part in parts:
        if joined and isinstance(part, canonical.Text) and isinstance(last := joined[-1], canonical.Text):
            joined[-1] = canonical.Text(f"{last.text}\n\n{part.text}")
        else:
            joined.append(part)
    return tuple(joined)


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
