"""One answer while it is written: its text so far, who reads along, and what it costs.

Readers come and go; each has its own place in the text and gets what is new at most fifty times a second, however fast
the engine writes. The last event of every reader is the finished message.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from msgspec.structs import replace

from app.core.chats import (
    AnswerCallChanged,
    AnswerDelta,
    AnswerDone,
    AnswerEvent,
    AnswerProgress,
    Message,
    MessageStatus,
    Timings,
)
from app.core.documents import AnswerSource, WholeFile
from app.core.errors import Conflict, NotFound
from app.core.tool_calls import AnswerToolCall, ToolDecision, end_open_calls
from app.gateway.canonical.events import (
    AnswerFinished,
    Event,
    PromptProgress,
    ReasoningDelta,
    TextDelta,
    TokenUsage,
)
from app.gateway.chats.overflow import Omission

COALESCE_S = 0.02
"""Text is sent to a reader at most this often: 200 tokens/s become 50 events/s, and the eye sees no difference."""


class LiveAnswer:
    """The answer `message` is going to be. Belongs to the event loop's thread."""

    def __init__(self, message: Message, clock: Callable[[], float] = time.monotonic) -> None:
        self._message = message
        self._cost = AnswerCost(clock)
        self._progress: AnswerProgress | None = None
        self._readers: set[asyncio.Event] = set()
        self._end_event = asyncio.Event()
        self.content = message.content
        """What is written; an answer that goes on with another begins with its text."""
        self.reasoning = message.reasoning
        self.calls = {call.id: call for call in message.calls}
        """Calls of tools, by their ids."""
        self.attachments = list(message.attachments)
        """Pictures that were drawn for it."""
        self.finish_reason = ""
        self.omitted = Omission()
        """What it is made without, because the context is full."""
        self.ending: MessageStatus | None = None
        """Why it ends early, if it does: `stopped` by a reader, `interrupted` by the gateway going down."""
        self._write_task: asyncio.Task[None] | None = None
        self._decisions: dict[str, asyncio.Future[ToolDecision]] = {}
        self.actions = message.actions
        """What it offers to do."""
        self.documents = message.documents
        """Files and passages that it is given."""
        self._is_new_text = self._is_new_thought = False

    @property
    def chat(self) -> str:
        """The chat it belongs to."""
        return self._message.chat

    @property
    def message(self) -> Message:
        """The message as it is now."""
        if self._end_event.is_set():
            return self._message
        return replace(
            self._message,
            content=self.content,
            reasoning=self.reasoning,
            calls=list(self.calls.values()),
            attachments=list(self.attachments),
            documents=self.documents,
            actions=self.actions,
        )

    @property
    def cost(self) -> "AnswerCost":
        """What it has cost so far."""
        return self._cost

    def begin_writing(self, message: Message, write_task: "asyncio.Task[None]") -> None:
        """Take over what the store made of the message, and the task that writes it."""
        self._message = message
        self.attachments = list(message.attachments)
        self._write_task = write_task
        if self.ending is not None:
            write_task.cancel()

    def end_early(self, status: MessageStatus) -> None:
        """Have it end now, with what is written. The first who asks decides how that is called."""
        self.ending = self.ending or status
        if self._write_task is not None:
            self._write_task.cancel()

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

    def begin_round(self) -> None:
        """Have what is written from now on stand apart from what is there: calls of tools are between them."""
        self._is_new_text = self._is_new_thought = True
        self._cost.note_pause()

    def note_call(self, call: AnswerToolCall) -> None:
        """Add a call, or note how far one has come."""
        self.calls[call.id] = call
        self._progress = None
        self._wake()

    async def wait_for_decision(self, call: AnswerToolCall) -> ToolDecision:
        """Show a call that waits, and return what a person says to it."""
        self._decisions[call.id] = asyncio.get_running_loop().create_future()
        self.note_call(call)
        try:
            return await self._decisions[call.id]
        finally:
            del self._decisions[call.id]

    def decide_call(self, call: str, decision: ToolDecision) -> None:
        """Answer a call that waits. Raises NotFound, and Conflict for one that was decided."""
        if call not in self.calls:
            raise NotFound("There is no such call in this answer.", code="call_not_found")
        open_decision = self._decisions.get(call)
        if open_decision is None or open_decision.done():
            raise Conflict("That call was decided already.", code="call_decided")
        open_decision.set_result(decision)

    def note_omitted(self, omission: Omission) -> None:
        """Note what it is made without."""
        self.omitted = omission

    def note_files(self, files: Sequence[WholeFile]) -> None:
        """Note which files it is given whole."""
        self.documents = replace(self.documents, files=list(files))

    def note_sources(self, sources: Sequence[AnswerSource]) -> None:
        """Note what it is given of documents."""
        self.documents = replace(self.documents, sources=list(sources))

    def note_source_problem(self, sentence: str) -> None:
        """Note why it is not given more of documents, or could have been given better passages."""
        if sentence not in self.documents.note:
            self.documents = replace(self.documents, note=f"{self.documents.note} {sentence}".strip())

    def note_finish(self, end: AnswerFinished, timings: Mapping[str, float]) -> None:
        """Note how the engine ended it, and what it says of its own times, by its names."""
        self.finish_reason = str(end.reason)
        self._cost.note_usage(end.usage, timings)

    def _append(self, content: str, reasoning: str) -> None:
        self._cost.note_token()
        self._progress = None
        if self._is_new_text and content:
            self._is_new_text = False
            self.content += _break_after(self.content)
        if self._is_new_thought and reasoning:
            self._is_new_thought = False
            self.reasoning += _break_after(self.reasoning)
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
            calls=end_open_calls(list(self.calls.values())),
            left_out=self.omitted.count,
            summary=self.omitted.summary,
            timings=self._cost.timings(),
        )

    def publish_final(self, message: Message) -> None:
        """Give every reader the finished message. Only the first call counts."""
        if not self._end_event.is_set():
            self._message = message
            self._end_event.set()
            self._wake()

    async def wait_until_final(self) -> Message:
        """Wait for the end and return the finished message."""
        await self._end_event.wait()
        return self._message

    async def follow(self, offset: int) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the text from `offset` characters on, then what comes, then the finished message.

        The reasoning is yielded from its start to who reads from the start; others have it already.
        """
        reader = asyncio.Event()
        self._readers.add(reader)
        content_sent, reasoning_sent = min(offset, len(self.content)), 0 if offset == 0 else len(self.reasoning)
        last_progress: AnswerProgress | None = None
        calls_sent: dict[str, AnswerToolCall] = {}
        try:
            while True:
                reader.clear()
                is_last = self._end_event.is_set()
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
                for call in [call for call in self.calls.values() if calls_sent.get(call.id) is not call]:
                    calls_sent[call.id] = call
                    yield call_event(call, self.message)
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


def call_event(call: AnswerToolCall, message: Message) -> AnswerCallChanged:
    """Return what readers are told of a call: how far it is, and the files that it made."""
    drawn_files = [file for file in message.attachments if file.hash in call.files]
    return AnswerCallChanged(call=call, attachments=drawn_files)


def _break_after(text: str) -> str:
    """Return what parts a text from the next paragraph; nothing where it is parted."""
    if not text.strip():
        return ""
    return "\n\n"[len(text) - len(text.rstrip("\n")) :]


_MS = 1e3


class AnswerCost:
    """Times on the monotonic clock, and what the engine says about its tokens, which is preferred where it says it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._first: float | None = None
        self._last = self._began
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._usage = TokenUsage()
        self._engine: Mapping[str, float] = {}
        self.load_s: float | None = None

    def note_token(self) -> None:
        """Note that text arrived."""
        self._last = self._clock()
        if self._first is None:
            self._first = self._last
        if self._paused_at is not None:
            self._paused_s += self._last - self._paused_at
            self._paused_at = None

    def note_pause(self) -> None:
        """Note that the model waits for what it called."""
        self._paused_at = self._paused_at or self._clock()

    def note_usage(self, usage: TokenUsage, engine: Mapping[str, float]) -> None:
        """Keep what the engine says at the end."""
        before, self._usage, self._engine = self._usage.completion, usage, engine
        if before is not None and usage.completion is not None:  # of an earlier round
            self._usage = replace(usage, completion=before + usage.completion)

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
        if tokens is None or tokens <= 1 or self._first is None:
            return None
        spent_s = self._last - self._first - self._paused_s
        return (tokens - 1) / spent_s if spent_s > 0 else None
