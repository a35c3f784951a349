"""One session with a coding agent: its process, its transcript, and who follows them.

    starting ──> ready ──prompt──> working <──> asking        a turn ends: ready
        └──────────┴──────────────────┴── ended, failed ──resume──> starting

Every change goes through this object, on the event loop. An agent that is not ready in time, does not stop when it is
told to, tells too much or breaks the protocol is ended, and the session says so; what happened until then stays.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from app.confinement.rules import LaunchOrder
from app.core.agents import (
    RUNNING_AGENT_STATES,
    AgentAsks,
    AgentEvent,
    AgentFailure,
    AgentOrder,
    AgentQuestionOver,
    AgentReady,
    AgentReply,
    AgentSession,
    AgentSessionChanged,
    AgentState,
    AgentTitle,
    AgentTurnEnd,
    AnswerPermission,
    CancelPrompt,
    PromptAgent,
)
from app.core.errors import BadRequest, Conflict, NotFound
from app.gateway.agents.transcript import Transcript, TranscriptReader
from app.gateway.hosting.line_process import LineProcess

log = logging.getLogger(__name__)

READY_S = 120.0
"""An agent may unpack itself, or look for updates, before it answers."""
CANCEL_S = 15.0
"""How long an agent may take to stop what it does."""
_CLOSE_S = 8.0
"""The program that talks to an agent ends it within six seconds, or is killed with it."""
_GATHER_S = 0.05
"""Words come one at a time; whoever follows is told of those that came meanwhile together."""
_TITLE_CHARACTERS = 80
_REPLIES: msgspec.json.Decoder[AgentReply] = msgspec.json.Decoder(AgentReply)
_BUSY = frozenset({AgentState.WORKING, AgentState.ASKING})
_REASONS = {
    "max_tokens": "The answer was cut off: the model's limit of tokens was reached.",
    "max_turn_requests": "The agent stopped: it may ask the model no more often in one turn.",
    "refusal": "The agent refuses to go on with this.",
    "cancelled": "Stopped.",
}


class HostedSession:
    """One session. `on_change` is called whenever how it stands, or what happened, is not what it was."""

    def __init__(self, about: AgentSession, transcript: Transcript, on_change: Callable[[AgentSession], None]) -> None:
        self.about = about
        self.transcript = transcript
        self._on_change = on_change
        self._process: LineProcess | None = None
        self._read_task: asyncio.Task[None] | None = None
        self._end_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._followers: set[asyncio.Event] = set()
        self.end_loan: Callable[[], None] = lambda: None
        """Takes back the key that the agent was given."""

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self.about.state in RUNNING_AGENT_STATES

    async def start_agent(self, launch: LaunchOrder, order: AgentOrder) -> None:
        """Start the agent, and return before it is ready. Raises OSError."""
        self._change_state(state=AgentState.STARTING, problem="", hint="")
        process = self._process = LineProcess()
        try:
            await process.start(launch)
        except OSError as error:
            self.end_with_problem(f"It could not be started: {error}.")
            return
        process.send(order)
        self._read_task = asyncio.create_task(self._read_replies(process))
        self._set_timer(READY_S, AgentState.STARTING, f"It did not become ready within {READY_S:.0f} seconds.")

    def send_prompt(self, text: str) -> None:
        """Ask the agent. Raises Conflict while it does something else, or is not there."""
        if self.about.state is not AgentState.READY:
            raise Conflict(self._describe_state(), code="agent_busy" if self.is_running else "agent_not_running")
        self.transcript.begin_turn(text)
        title = self.about.title or " ".join(text.split())[:_TITLE_CHARACTERS]
        self._change_state(state=AgentState.WORKING, title=title)
        self._send(PromptAgent(text=text))

    def cancel_turn(self) -> None:
        """Have the agent stop what it does. Raises Conflict where it does nothing."""
        if self.about.state not in _BUSY:
            raise Conflict(f"{self.about.name} does nothing that could be stopped.", code="agent_idle")
        self._send(CancelPrompt())
        self._set_timer(CANCEL_S, AgentState.WORKING, "It did not stop when it was told to.")

    def decide_permission(self, entry: int, option: str) -> None:
        """Answer a request for permission. Raises NotFound, Conflict, or BadRequest for an option there is not."""
        question = self.transcript.find_question(entry)
        if question is None:
            raise NotFound("There is no such request for permission.", code="permission_not_found")
        if not question.is_open:
            raise Conflict("This has been decided, or the agent does not wait for it any more.", code="already_decided")
        if option not in {each.id for each in question.options}:
            raise BadRequest("This request has no such answer.", code="invalid_value")
        self.transcript.answer_question(question, option)
        self._send(AnswerPermission(request=question.request, option=option))
        self._show_questions()

    async def end_agent(self) -> None:
        """End the agent; the transcript stays."""
        if self.is_running:
            self.transcript.end_turn()
            self._change_state(state=AgentState.ENDED)
        await self._stop_process()

    def end_with_problem(self, sentence: str) -> None:
        """Say why the agent cannot go on, and end what is left of it."""
        if not self.is_running:
            return
        hint = self._process.last_words if self._process is not None else ""
        problem = f"{self.about.name} cannot go on. {sentence}"
        self.transcript.end_turn()
        self.transcript.add_note("\n".join(filter(None, (problem, hint))), is_problem=True)
        self._change_state(state=AgentState.FAILED, problem=problem, hint=hint)
        self._end_task = asyncio.create_task(self._stop_process())

    async def follow_events(self) -> AsyncGenerator[AgentEvent, None]:
        """Yield all that happened, and then what happens, until there is no process any more."""
        reader, about = TranscriptReader(), None
        with self._subscribe() as news:
            while True:
                news.clear()
                if self.about is not about:
                    about = self.about
                    yield AgentSessionChanged(session=about)
                for event in list(self.transcript.news_since(reader)):
                    yield event
                if not news.is_set() and self.about is about:
                    if not self.is_running:
                        return
                    await news.wait()
                    await asyncio.sleep(_GATHER_S)

    @contextlib.contextmanager
    def _subscribe(self) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        self._followers.add(news)
        try:
            yield news
        finally:
            self._followers.discard(news)

    def _change_state(self, **changes: Any) -> None:  # noqa: ANN401 -- fields of AgentSession
        self.about = replace(self.about, **changes)
        self._tell_followers()

    def _tell_followers(self) -> None:
        for news in self._followers:
            news.set()
        self._on_change(self.about)

    def _send(self, message: PromptAgent | CancelPrompt | AnswerPermission) -> None:
        if self._process is not None:
            self._process.send(message)

    def _describe_state(self) -> str:
        if not self.is_running:
            return f"{self.about.name} does not run any more."
        words = {AgentState.STARTING: "is being started", AgentState.ASKING: "waits for your decision"}
        return f"{self.about.name} {words.get(self.about.state, 'works on something')}."

    def _set_timer(self, seconds: float, state: AgentState, sentence: str) -> None:
        """End the agent if the session does not leave `state` in time; working includes asking."""
        self._drop_timer()
        states = _BUSY if state in _BUSY else {state}

        def end_if_same() -> None:
            if self.about.state in states:
                self.end_with_problem(sentence)

        self._timer = asyncio.get_running_loop().call_later(seconds, end_if_same)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _read_replies(self, process: LineProcess) -> None:
        try:
            async for line in process.read_lines():
                self._take_reply(_REPLIES.decode(line))
                if self.transcript.is_too_large:
                    self.end_with_problem("It told more than can be kept of one session.")
                if not self.is_running:
                    return
        except (ValueError, msgspec.MsgspecError):  # a line that is too long, or none of ours
            self.end_with_problem("It answered more than can be taken, or nonsense.")
        await process.wait_for_words()
        self.end_with_problem("It ended.")

    def _take_reply(self, reply: AgentReply) -> None:
        match reply:
            case AgentReady(session=session, version=version, can_load=can_load):
                self._drop_timer()
                self._change_state(state=AgentState.READY, agent_session=session, version=version, can_resume=can_load)
            case AgentAsks():
                self.transcript.add_question(reply)
                self._show_questions()
            case AgentQuestionOver(request=request):
                self.transcript.close_question(request)
                self._show_questions()
            case AgentTurnEnd(reason=reason, problem=problem):
                self._end_turn(reason, problem)
            case AgentFailure(sentence=sentence):
                self.end_with_problem(sentence)
            case AgentTitle(title=title):
                self._change_state(title=title)
            case _:
                self.transcript.take_update(reply)
                self._tell_followers()

    def _show_questions(self) -> None:
        if self.about.state in _BUSY:
            state = AgentState.ASKING if self.transcript.has_questions else AgentState.WORKING
            if state is not self.about.state:
                self._change_state(state=state)
                return
        self._tell_followers()

    def _end_turn(self, reason: str, problem: str) -> None:
        self._drop_timer()
        self.transcript.end_turn()
        if problem:
            self.transcript.add_note(f"{self.about.name} could not answer. {problem}", is_problem=True)
        elif reason in _REASONS:
            self.transcript.add_note(_REASONS[reason])
        if self.is_running:
            self._change_state(state=AgentState.READY)

    async def _stop_process(self) -> None:
        self._drop_timer()
        self.end_loan()
        process, self._process = self._process, None
        reader, self._read_task = self._read_task, None
        if process is not None:
            await process.stop(_CLOSE_S)
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def close_agent(self) -> None:
        """End the agent, and wait until nothing of it goes on."""
        await self.end_agent()
        if self._end_task is not None:
            await asyncio.gather(self._end_task, return_exceptions=True)
