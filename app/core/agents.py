"""Coding agents that are hosted over the Agent Client Protocol: which there are, sessions, and what happens in them.

A session's transcript is a list of entries; each has a number by which it is known, and which never changes.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

MOST_SESSIONS = 100
"""Sessions that are kept; the oldest that is over makes room."""
LONGEST_PROMPT = 400_000
LONGEST_PART = 100_000
"""Characters of one tool call's text, diff or terminal output; the rest is left out."""
_Text = Annotated[str, msgspec.Meta(max_length=4096)]


class AgentState(StrEnum):
    """What a session does.

    starting  its agent is being started, or takes the session up again
    ready     it waits for a prompt
    working   it works on a prompt
    asking    it waits until a person allows or refuses something
    ended     a person ended it, or the service did
    failed    the agent ended by itself or broke the protocol: `problem` says how
    """

    STARTING = "starting"
    READY = "ready"
    WORKING = "working"
    ASKING = "asking"
    ENDED = "ended"
    FAILED = "failed"


RUNNING_AGENT_STATES = frozenset({AgentState.STARTING, AgentState.READY, AgentState.WORKING, AgentState.ASKING})
"""In these a session has a process."""


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A coding agent that speaks the protocol."""

    id: str
    name: str
    is_installed: bool
    program: str
    """What starts it, on PATH."""
    install: str
    """The command that installs it."""
    tried: str = ""
    """The version that did a task here; empty where its documentation is followed."""


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """The agents, those that are installed first."""

    is_on: bool
    """Whether the setting agents.enabled is on; nothing is started while it is off."""
    is_confined: bool
    """Whether the system holds an agent to its folder."""
    agents: list[AgentInfo]


class NewAgentSession(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start an agent in a folder. Without `model` a usual one is taken."""

    agent: _Text
    folder: _Text
    model: _Text = ""
    network: bool = False
    """Whether it may connect to other computers."""


class AgentSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session and how it stands. Times in Unix seconds."""

    id: str
    agent: str
    name: str
    """What the agent is called."""
    folder: str
    model: str
    network: bool = False
    is_confined: bool = False
    title: str = ""
    state: AgentState = AgentState.STARTING
    problem: str = ""
    hint: str = ""
    version: str = ""
    created_at: float = 0.0
    changed_at: float = 0.0
    agent_session: str = ""
    """What the agent calls the session."""
    can_resume: bool = False
    """Whether the agent takes sessions up again."""


class AgentPromptText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person asks of an agent."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_PROMPT)]


class AgentOptionKind(StrEnum):
    """What an answer to a request for permission means."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class AgentOption(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that may be given; `name` is in the agent's words."""

    id: str
    name: str
    kind: AgentOptionKind


class DecideAgentPermission(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer a request for permission with one of its options."""

    option: _Text


class AgentDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one file, unified. `path` is within the session's folder where it can be."""

    path: str
    diff: str
    is_new: bool = False


class AgentCallStatus(StrEnum):
    """How far a call of a tool is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """The turn was over before it was."""


class AgentPlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of what an agent means to do. `status`: pending, in_progress or completed."""

    text: str
    status: AgentCallStatus = AgentCallStatus.PENDING


class AgentPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="prompt"):
    """What a person asked."""

    id: int
    text: str


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """What the agent says, in Markdown; it grows."""

    id: int
    text: str


class AgentThought(msgspec.Struct, frozen=True, kw_only=True, tag="thought"):
    """What the agent thinks; it grows."""

    id: int
    text: str


class AgentToolCall(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """A call of one of the agent's tools."""

    id: int
    call: str
    title: str = ""
    kind: str = ""
    """The agent's word for it: read, edit, execute, …"""
    status: AgentCallStatus = AgentCallStatus.PENDING
    arguments: str = ""
    text: str = ""
    """What came of it."""
    diffs: list[AgentDiff] = []
    paths: list[str] = []


class AgentPlan(msgspec.Struct, frozen=True, kw_only=True, tag="plan"):
    """What the agent means to do, as it last said."""

    id: int
    steps: list[AgentPlanStep]


class AgentPermission(msgspec.Struct, frozen=True, kw_only=True, tag="permission"):
    """A request for permission. `answer` is the option that was taken; empty with `is_open` while nobody decided."""

    id: int
    request: int
    title: str
    kind: str = ""
    arguments: str = ""
    text: str = ""
    diffs: list[AgentDiff] = []
    options: list[AgentOption]
    is_open: bool = True
    answer: str = ""
    """Empty for a request that was called off."""


class AgentTerminal(msgspec.Struct, frozen=True, kw_only=True, tag="terminal"):
    """A command that the agent had us run, and its output."""

    id: int
    terminal: str
    command: str
    output: str = ""
    exit_code: int | None = None
    """None while it runs; negative for a signal that ended it."""


class AgentNote(msgspec.Struct, frozen=True, kw_only=True, tag="note"):
    """Something about the session itself."""

    id: int
    text: str
    is_problem: bool = False


AgentEntry = (
    AgentPrompt | AgentAnswer | AgentThought | AgentToolCall | AgentPlan | AgentPermission | AgentTerminal | AgentNote
)


class AgentTranscript(msgspec.Struct, frozen=True, kw_only=True):
    """A session with all that happened in it."""

    session: AgentSession
    entries: list[AgentEntry]


class AgentSessionChanged(msgspec.Struct, frozen=True, kw_only=True, tag="session"):
    """How the session stands now."""

    session: AgentSession


class AgentEntryChanged(msgspec.Struct, frozen=True, kw_only=True, tag="entry"):
    """An entry that is new, or another than before."""

    entry: AgentEntry


class AgentTextAdded(msgspec.Struct, frozen=True, kw_only=True, tag="text"):
    """More of an answer or a thought, from the character `offset` on."""

    entry: int
    offset: int
    text: str


AgentEvent = AgentSessionChanged | AgentEntryChanged | AgentTextAdded


# What the gateway and the program that talks to one agent (`app.agent_host`) tell each other, a line of JSON each.


class AgentOrder(msgspec.Struct, frozen=True, kw_only=True):
    """How the agent is started; the first line."""

    command: str
    args: list[str] = []
    env: dict[str, str] = {}
    folder: str
    load: str = ""
    """The session to take up again; empty for a new one."""
    has_terminals: bool = False
    """Whether commands may be run for it: only where both are confined."""
    version: str = ""
    """Roundhouse's own."""


class PromptAgent(msgspec.Struct, frozen=True, kw_only=True, tag="prompt"):
    """Ask the agent."""

    text: str


class CancelPrompt(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """Have the agent stop what it does."""


class AnswerPermission(msgspec.Struct, frozen=True, kw_only=True, tag="permission"):
    """Answer the request for permission of this number; without an option it is called off."""

    request: int
    option: str = ""


AgentRequest = PromptAgent | CancelPrompt | AnswerPermission


class AgentReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The agent takes prompts."""

    session: str
    version: str = ""
    can_load: bool = False


class AgentWords(msgspec.Struct, frozen=True, kw_only=True, tag="words"):
    """More of what the agent says or thinks."""

    text: str
    is_thought: bool = False


class AgentCallUpdate(msgspec.Struct, frozen=True, kw_only=True, tag="call"):
    """News of a call; what is None stays as it was."""

    call: str
    title: str | None = None
    kind: str | None = None
    status: AgentCallStatus | None = None
    arguments: str | None = None
    text: str | None = None
    diffs: list[AgentDiff] | None = None
    paths: list[str] | None = None


class AgentPlanUpdate(msgspec.Struct, frozen=True, kw_only=True, tag="plan"):
    """The plan, whole."""

    steps: list[AgentPlanStep]


class AgentAsks(msgspec.Struct, frozen=True, kw_only=True, tag="asks"):
    """The agent asks for permission."""

    request: int
    title: str
    kind: str = ""
    arguments: str = ""
    text: str = ""
    diffs: list[AgentDiff] = []
    options: list[AgentOption]


class AgentQuestionOver(msgspec.Struct, frozen=True, kw_only=True, tag="question_over"):
    """The agent waits no longer for an answer."""

    request: int


class AgentTerminalUpdate(msgspec.Struct, frozen=True, kw_only=True, tag="terminal"):
    """More output of a command, or its end."""

    terminal: str
    command: str = ""
    output: str = ""
    exit_code: int | None = None


class AgentTitle(msgspec.Struct, frozen=True, kw_only=True, tag="title"):
    """What the agent calls the session, for a person."""

    title: str


class AgentRemark(msgspec.Struct, frozen=True, kw_only=True, tag="remark"):
    """Something a person should know of the session."""

    text: str


class AgentTurnEnd(msgspec.Struct, frozen=True, kw_only=True, tag="turn_end"):
    """The agent has done with a prompt. `reason` is the protocol's; `problem` why it failed."""

    reason: str = ""
    problem: str = ""


class AgentFailure(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """The agent did not start, ended, or broke the protocol; the program ends."""

    sentence: str


AgentUpdate = AgentWords | AgentCallUpdate | AgentPlanUpdate | AgentTerminalUpdate | AgentTitle | AgentRemark
AgentReply = AgentUpdate | AgentReady | AgentAsks | AgentQuestionOver | AgentTurnEnd | AgentFailure
