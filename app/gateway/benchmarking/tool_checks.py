"""What a preflight asks beside times: whether the model answers tasks by calls of an agent's tools that can be made."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import cache

import msgspec

from app.benchmark.tool_tasks import INSTRUCTIONS, list_tasks
from app.config.paths import RESOURCES
from app.gateway.benchmarking.system_watch import ReadCounters
from app.gateway.benchmarking.targets import OpenTarget
from app.gateway.benchmarking.trial_requests import TrialAsker
from app.gateway.canonical.request import ConversationMessage, ConversationRequest, MessageRole, Text, ToolDefinition
from app.gateway.services import Services

FILE = RESOURCES / "tool-forms.json"
"""The tools of coding agents as recorded from the real programs, without their words."""
MOST_S = 600.0
"""After so long no more tasks are set: on a slow processor a hundred take an hour."""
_ANSWER_TOKENS = 256
"""A call that writes a short file has less."""


class ToolForm(msgspec.Struct, frozen=True, kw_only=True):
    """One tool; `parameters` is its JSON schema."""

    name: str
    parameters: msgspec.Raw


async def count_valid_calls(
    services: Services, target: OpenTarget, read: ReadCounters, *, tool: str, publish: Callable[[int, int], None]
) -> tuple[int, int]:
    """Return how many tasks were set, and how many were answered by calls that the agent's tools would take.

    The model is free to call or not, as agents leave it; an answer without a call counts as none. None are set for an
    agent without tools. `publish` is told how many of how many are done.
    """
    tools = await asyncio.to_thread(list_tools, tool)
    tasks = list_tasks() if tools else []
    asker, begun_at = TrialAsker(services, target, _ANSWER_TOKENS, read), time.monotonic()
    done_count = valid = 0
    for task in tasks:
        if time.monotonic() - begun_at > MOST_S:
            break
        publish(done_count, len(tasks))
        about = (await asker.ask(_make_conversation(task, tools))).about
        valid += about.calls > 0 and about.valid_calls == about.calls
        done_count += 1
    return done_count, valid


def _make_conversation(task: str, tools: Sequence[ToolDefinition]) -> ConversationRequest:
    return ConversationRequest(
        messages=(
            ConversationMessage(MessageRole.SYSTEM, (Text(INSTRUCTIONS),)),
            ConversationMessage(MessageRole.USER, (Text(task),)),
        ),
        tools=tuple(tools),
    )


def list_tools(tool: str) -> tuple[ToolDefinition, ...]:
    """Return the tools that an agent offers, by its id; none for one that has none, or was not recorded. Reads a file.

    Their names and parameters have to say what they do.
    """
    return tuple(
        ToolDefinition(name=form.name, description=form.name.replace("_", " "), parameters=form.parameters)
        for form in _read_forms().get(tool, ())
    )


@cache
def _read_forms() -> dict[str, list[ToolForm]]:
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, list[ToolForm]])
