"""One request of a trial, asked as a client's would be: planned for the engine, streamed, its tool calls read."""

import asyncio
import contextlib
import time
from http import HTTPStatus

import aiohttp
import msgspec

from app.benchmark.answers import satisfies_schema
from app.benchmark.trials import WrittenAnswer
from app.core.benchmarks import BenchmarkMemory
from app.core.errors import RoundhouseError
from app.core.trials import TrialAnswer
from app.gateway.benchmarking.client import WARM_UP_TOKENS
from app.gateway.benchmarking.system_watch import ReadCounters
from app.gateway.benchmarking.targets import OpenTarget
from app.gateway.canonical.events import (
    AnswerFailed,
    AnswerFinished,
    Event,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    aggregate_events,
)
from app.gateway.canonical.families.answer import AnswerReader
from app.gateway.canonical.families.call_check import check_call
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    GenerationLimits,
    MessageRole,
    ResponseFormat,
    ResponseShape,
    SamplingParams,
    Text,
)
from app.gateway.exchange.capability_fallback import plan_fallbacks
from app.gateway.exchange.engine.error_document import error_from_refusal
from app.gateway.exchange.engine.planning import UpstreamPlan
from app.gateway.exchange.engine.stream import StreamReader
from app.gateway.exchange.upstream import with_fields
from app.gateway.loading.requested_model import ResolvedModel
from app.gateway.services import Services

_TIMEOUT = aiohttp.ClientTimeout(total=1800)
"""A prompt of 100,000 tokens on a slow processor takes half an hour."""
_MOST_REFUSAL = 64 << 10
_ANY_OBJECT: dict[str, msgspec.Raw] = {"type": msgspec.Raw(b'"object"')}


class TrialAsker:
    """Asks one side, one request after the other. Belongs to the event loop's thread."""

    def __init__(self, services: Services, target: OpenTarget, answer_tokens: int, read: ReadCounters) -> None:
        self._services, self._target, self._answer_tokens, self._read = services, target, answer_tokens, read
        self._end = ""
        """Why the engine answers nothing more."""
        self._busiest = 0.0

    @property
    def disturbances(self) -> list[str]:
        """What speaks against the speeds."""
        from app.advisor.speed.disturbance import is_quiet  # noqa: PLC0415 -- the advisor is brought in once it is needed

        if is_quiet(self._busiest, self._target.backend or "cpu"):
            return []
        name, share = self._target.about.model, self._busiest * 100
        return [f"While {name} answered, other programs used {share:.0f} % of the CPU: speeds are not compared."]

    async def ask(self, conversation: ConversationRequest) -> WrittenAnswer:
        """Return the answer; one that did not come says why. Once the engine has ended nothing more is asked."""
        if self._end:
            return _failure(self._end)
        limits = conversation.limits
        most = min(self._answer_tokens, limits.max_tokens or self._answer_tokens)
        greedy = msgspec.structs.replace(
            conversation,
            sampling=SamplingParams(temperature=0.0),
            limits=msgspec.structs.replace(limits, max_tokens=most, logprobs=None),
        )
        before = await asyncio.to_thread(self._read, self._target.pids)
        try:
            return await self._ask_engine(greedy)
        except RoundhouseError as error:
            return _failure(str(error))
        except (OSError, aiohttp.ClientError, TimeoutError) as error:
            self._end = f"The engine ended: {str(error) or type(error).__name__}."
            return _failure(self._end)
        finally:
            after = await asyncio.to_thread(self._read, self._target.pids)
            self._busiest = max(self._busiest, after.other_share(before) if self._target.pids else 0.0)

    async def warm_up(self) -> None:
        """Have the engine do once what it will be timed at; what goes wrong then is said by the first request."""
        hello = ConversationMessage(MessageRole.USER, (Text("Hello"),))
        limits = GenerationLimits(max_tokens=WARM_UP_TOKENS)
        with contextlib.suppress(RoundhouseError, OSError, aiohttp.ClientError):
            await self._ask_engine(ConversationRequest(messages=(hello,), limits=limits))

    async def read_memory(self) -> BenchmarkMemory:
        """Return what the side takes now."""
        counters = await asyncio.to_thread(self._read, self._target.pids)
        return msgspec.structs.replace(self._target.memory, peak_bytes=counters.engine_bytes or None)

    async def _ask_engine(self, conversation: ConversationRequest) -> WrittenAnswer:
        endpoint, resolved_model = self._target.endpoint, self._target.resolved or _no_model()
        plan = await plan_fallbacks(self._services, resolved_model, conversation)
        body = with_fields(plan.body, {"model": endpoint.model, "temperature": 0})
        # llama-server closes idle connections whenever it likes: each answer gets one of its own.
        headers = {"Content-Type": "application/json", "Connection": "close", "Authorization": f"Bearer {endpoint.key}"}
        collector = _TimedEvents(plan)
        async with self._services.http.post(endpoint.url, data=body, headers=headers, timeout=_TIMEOUT) as response:
            if response.status != HTTPStatus.OK:
                raise error_from_refusal(await response.content.read(_MOST_REFUSAL), response.status)
            async for piece in response.content.iter_any():
                collector.feed(piece)
        return collector.make_answer(conversation)


class _TimedEvents:
    """Takes a stream in; the clock runs from when it is made."""

    def __init__(self, plan: UpstreamPlan) -> None:
        self._reader = StreamReader()
        self._splitter = None if plan.reading is None else AnswerReader(plan.reading)
        self._events: list[Event] = []
        self._pieces: list[str] = []
        self._begun_at = self._last_at = time.monotonic()
        self._first_at: float | None = None

    def feed(self, piece: bytes) -> None:
        self._take_events(self._reader.feed(piece))

    def make_answer(self, conversation: ConversationRequest) -> WrittenAnswer:
        """Return the answer, judged by what was asked for."""
        self._take_events(self._reader.end_stream())
        whole = aggregate_events(self._events)
        if isinstance(whole.end, AnswerFailed):
            return _failure(whole.end.error.sentence)
        if whole.end is None:
            return _failure("The engine cut off its answer.")
        valid_calls = sum(not check_call(call, conversation.tools).faults for call in whole.calls)
        is_missing = conversation.tool_choice.is_required and not whole.calls
        first_at = self._last_at if self._first_at is None else self._first_at
        return WrittenAnswer(
            pieces=self._pieces,
            about=TrialAnswer(
                tokens=whole.end.usage.completion or len(self._pieces),
                ttft_s=first_at - self._begun_at,
                e2e_s=self._last_at - self._begun_at,
                calls=len(whole.calls) + is_missing,
                valid_calls=valid_calls,
                is_valid_json=_judge_format(whole.text, conversation.response_format),
            ),
        )

    def _take_events(self, events: list[Event]) -> None:
        if self._splitter is not None:
            events = self._splitter.take_events(events)
        pieces = [text for event in events if (text := _written_text(event))]
        now = time.monotonic()
        if pieces:
            self._first_at = now if self._first_at is None else self._first_at
        if pieces or any(isinstance(event, AnswerFinished) for event in events):
            self._last_at = now
        self._pieces += pieces
        self._events += events


def _written_text(event: Event) -> str:
    match event:
        case TextDelta() | ReasoningDelta():
            return event.text
        case ToolCallDelta():
            return f"{event.name}{event.arguments}"
        case _:
            return ""


def _judge_format(text: str, response_format: ResponseFormat) -> bool | None:
    if response_format.shape is ResponseShape.SCHEMA and response_format.schema is not None:
        return satisfies_schema(text, msgspec.json.decode(response_format.schema, type=dict[str, msgspec.Raw]))
    return satisfies_schema(text, _ANY_OBJECT) if response_format.shape is ResponseShape.JSON else None


def _failure(sentence: str) -> WrittenAnswer:
    return WrittenAnswer(about=TrialAnswer(error=sentence))


def _no_model() -> ResolvedModel:
    raise AssertionError("A trial asks models of this computer only.")
