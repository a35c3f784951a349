"""Have an engine write one answer, the way every client's request is answered, and put it into the `LiveAnswer`.

Runs as a task of its own. Cancelling it closes the connection, which is how an engine learns to stop. The request holds
the system prompt and the one path that leads to the question. Neither reasoning nor the other branches are sent back:
the first is meant for one answer, the second were left behind.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.core.chats import Chat, Message, Role
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, RoundhouseError
from app.core.events import EngineChanged
from app.core.models import ModelInfo
from app.gateway.canonical import request as canonical
from app.gateway.canonical.events import Event, Failed, failed
from app.gateway.canonical.overflow import ContextOverflow, Overflow
from app.gateway.chats.live_answer import LiveAnswer
from app.gateway.exchange.capability_fallback import with_plan
from app.gateway.exchange.connections import Flow
from app.gateway.exchange.engine.error_document import NO_REASON
from app.gateway.exchange.observer import Observation
from app.gateway.exchange.translating import translate
from app.gateway.exchange.upstream import EngineAccess, UpstreamRequest
from app.gateway.loading.requested_model import Found
from app.gateway.services import Services
from app.supervisor.policy import LoadRequest
from engines.api import Route

_LOADING = frozenset({EngineState.STARTING, EngineState.LOADING})
_ROLES = {Role.USER: canonical.Role.USER, Role.ASSISTANT: canonical.Role.ASSISTANT}
_ENGINES_WORDS = frozenset({"engine_refused", "engine_error", "engine_busy"})
_LONGEST_TEXT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be answered: a question of a chat (whose own `messages` are not looked at), and with what."""

    chat: Chat
    question: str
    model: ModelInfo
    load: LoadRequest


class Writer:
    """Has answers written."""

    def __init__(self, services: Services, engines: EngineAccess) -> None:
        self._services, self._engines = services, engines

    async def write(self, job: Job, live: LiveAnswer, observed: Observation) -> None:
        """Fill `live`. Raises EngineFailed or Unavailable; what was written until then is in `live`."""
        live.progress("Waiting for the model")
        try:
            async with _loading_told(self._services, job.load, live):
                upstream = await self._upstream(job)
                end = await translate(self._engines, upstream, observed, _Written(live, observed))
        except RoundhouseError as error:
            raise said_to_reader(error) from error
        if isinstance(end, Failed):
            raise from_engine(end)
        live.complete(end, observed.tokens.timings)

    async def _upstream(self, job: Job) -> UpstreamRequest:
        services, found = self._services, Found(job.model, job.load)
        path = await services.chats.path(job.chat.id, job.question)
        blank = UpstreamRequest(
            load=job.load,
            path=services.adapters[job.load.engine].descriptor.routes[Route.CHAT],
            body=b"",
            model=job.model.name,
        )
        return await with_plan(services, blank, found, chat_request(job.chat, path))


class _Written:
    """Takes an engine's events for a `LiveAnswer`, whose readers have each their own pace."""

    def __init__(self, live: LiveAnswer, observed: Observation) -> None:
        self._live, self._observed = live, observed

    async def open(self) -> None:
        """Note that the engine has the prompt."""
        self._live.cost.load_s = self._observed.load_s
        self._live.progress("Reading the prompt")

    def take(self, events: Sequence[Event]) -> Flow:
        """Append what they say."""
        for event in events:
            self._live.add(event)
        return Flow.MORE

    async def drain(self) -> None:
        """Go on."""


@asynccontextmanager
async def _loading_told(services: Services, load: LoadRequest, live: LiveAnswer) -> AsyncIterator[None]:
    """Tell the answer's readers how loading goes."""
    teller = asyncio.create_task(_tell(services, load.source.name, live))
    try:
        yield
    finally:
        teller.cancel()


async def _tell(services: Services, model: str, live: LiveAnswer) -> None:
    with services.events.subscribe() as events:
        for status in services.supervisor.statuses():
            _tell_one(status, model, live)
        async for event in events:
            if isinstance(event, EngineChanged):
                _tell_one(event.status, model, live)


def _tell_one(status: EngineStatus, model: str, live: LiveAnswer) -> None:
    if status.model == model and status.state in _LOADING:
        live.progress(status.stage or "Loading the model", status.progress)


def chat_request(chat: Chat, path: Iterable[Message]) -> canonical.Generate:
    """Return what an answer is asked for with."""
    sampling = chat.sampling
    return canonical.Generate(
        messages=messages_for(chat.system_prompt, path),
        sampling=canonical.Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repeat_penalty=sampling.repeat_penalty,
            seed=sampling.seed,
        ),
        limits=canonical.Limits(max_tokens=sampling.max_tokens),
        wants_progress=True,
    )


def messages_for(system_prompt: str, path: Iterable[Message]) -> tuple[canonical.Message, ...]:
    """Return the turns in order, roles alternating: chat templates refuse anything else.

    An answer that came to nothing is left out, and the questions around it become one.
    """
    turns = [(canonical.Role.SYSTEM, system_prompt)] if system_prompt.strip() else []
    for message in path:
        if message.role is Role.ASSISTANT and not message.content.strip():
            continue
        role = _ROLES[message.role]
        if turns and turns[-1][0] is role:
            turns[-1] = (role, f"{turns[-1][1]}\n\n{message.content}")
        else:
            turns.append((role, message.content))
    return tuple(canonical.Message(role, (canonical.Text(text),)) for role, text in turns)


def said_to_reader(error: RoundhouseError) -> RoundhouseError:
    """Return an error as the reader of a chat can do something about it."""
    is_engines = isinstance(error, ContextOverflow) or error.code in _ENGINES_WORDS
    return from_engine(failed(error)) if is_engines else error


def from_engine(end: Failed) -> EngineFailed:
    """Return the error that an answer ended with; an engine's own words are quoted."""
    if end.overflow is not None:
        return _too_long(end.overflow)
    body = end.error
    if body.code not in _ENGINES_WORDS:
        return EngineFailed(body.sentence, hint=body.hint, code=body.code)
    reason = "it did not say why." if body.sentence == NO_REASON else body.sentence[:_LONGEST_TEXT]
    return EngineFailed(
        f"The engine refused to answer: {reason}",
        hint="The model's log may say more.",
        code="engine_refused",
    )


def _too_long(overflow: Overflow) -> EngineFailed:
    sentence = "This conversation is longer than the model's context."
    hint = "Begin a new chat, or raise Context in the settings if the model was made for more."
    if overflow.prompt is not None and overflow.context is not None:
        answer = "" if overflow.answer is None else f", its answer may have {overflow.answer:,}"
        sentence = (
            f"This conversation is {overflow.prompt:,} tokens long{answer}, "
            f"and the model keeps {overflow.context:,} tokens at once."
        )
    if overflow.answer is not None:
        hint = "Lower Longest answer in the chat's settings, or begin a new chat."
    return EngineFailed(sentence, hint=hint, code="context_too_long")
