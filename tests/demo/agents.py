"""Coding agents in pictures and tests of the window: one that asks, one that is over, one that broke off."""

from app.core.agents import (
    AgentAnswer,
    AgentCallStatus,
    AgentDiff,
    AgentEntry,
    AgentEntryChanged,
    AgentInfo,
    AgentList,
    AgentOption,
    AgentOptionKind,
    AgentPermission,
    AgentPlan,
    AgentPlanStep,
    AgentPrompt,
    AgentSession,
    AgentSessionChanged,
    AgentState,
    AgentTerminal,
    AgentThought,
    AgentToolCall,
)

OPENCODE = AgentInfo(
    id="opencode", name="OpenCode", is_installed=True, program="opencode", install="npm install -g opencode-ai"
)
CODEX = AgentInfo(
    id="codex",
    name="Codex CLI",
    is_installed=False,
    program="codex-acp",
    install="npm install -g @zed-industries/codex-acp",
)
LISTED = AgentList(is_on=True, is_confined=True, agents=[OPENCODE, CODEX])
ASKING = AgentSession(
    id="a1",
    agent="opencode",
    name="OpenCode",
    folder="/home/ada/notes",
    model="qwen3-8b",
    is_confined=True,
    title="Give greet a docstring",
    state=AgentState.ASKING,
    version="OpenCode 1.18.33",
    can_resume=True,
)
ENDED = AgentSession(
    id="b2",
    agent="opencode",
    name="OpenCode",
    folder="/home/ada/site",
    model="qwen3-8b",
    title="Why does the menu flicker?",
    state=AgentState.ENDED,
    can_resume=True,
)
FAILED = AgentSession(
    id="c3",
    agent="codex",
    name="Codex CLI",
    folder="/home/ada/site",
    model="qwen3-8b",
    state=AgentState.FAILED,
    problem="Codex CLI cannot go on. It ended with exit code 3.",
)
DIFF = AgentDiff(
    path="greet.py",
    diff="--- greet.py\n+++ greet.py\n@@ -1,2 +1,3 @@\n def greet(name):\n"
    '+    """Return a greeting."""\n     return f"Hello {name}"',
)
QUESTION = AgentPermission(
    id=6,
    request=1,
    title="greet.py",
    kind="edit",
    diffs=[DIFF],
    options=[
        AgentOption(id="once", name="Allow once", kind=AgentOptionKind.ALLOW_ONCE),
        AgentOption(id="always", name="Always allow", kind=AgentOptionKind.ALLOW_ALWAYS),
        AgentOption(id="reject", name="Reject", kind=AgentOptionKind.REJECT_ONCE),
    ],
)
STEPS = [
    AgentPlanStep(text="Read greet.py", status=AgentCallStatus.COMPLETED),
    AgentPlanStep(text="Write the docstring", status=AgentCallStatus.IN_PROGRESS),
    AgentPlanStep(text="Run the tests"),
]
ENTRIES: list[AgentEntry] = [
    AgentPrompt(id=0, text="Give greet a docstring"),
    AgentThought(id=1, text="The function is short; one line will do."),
    AgentPlan(id=2, steps=STEPS),
    AgentToolCall(id=3, call="c1", title="Read greet.py", kind="read", status=AgentCallStatus.COMPLETED),
    AgentTerminal(id=4, terminal="t1", command="python -m pytest -q", output="2 passed in 0.12s\n", exit_code=0),
    AgentAnswer(id=5, text="`greet` returns a **greeting**. I would add:\n\n1. a docstring\n2. nothing else"),
    QUESTION,
]
EVENTS = [AgentSessionChanged(session=ASKING), *(AgentEntryChanged(entry=entry) for entry in ENTRIES)]


def agent_replies() -> dict[str, object]:
    """Return what the gateway answers about them."""
    return {
        "GET /agents": LISTED,
        "GET /agents/sessions": [ASKING, ENDED, FAILED],
        "POST /agents/sessions": ASKING,
        **{f"POST /agents/sessions/a1/{action}": ASKING for action in ("prompts", "cancel", "end", "permissions/6")},
        "POST /agents/sessions/b2/resume": ENDED,
        "DELETE /agents/sessions/b2": None,
    }
