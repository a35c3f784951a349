"""What a preflight asks beside times: whether the model answers tasks by calls of tools that can be made."""

from app.benchmark.tool_tasks import INSTRUCTIONS, TASK_TOOLS, TASKS
from app.gateway.benchmarking.system_watch import ReadCounters
from app.gateway.benchmarking.targets import OpenTarget
from app.gateway.benchmarking.trial_requests import TrialAsker
from app.gateway.canonical.request import (
    ConversationMessage,
    ConversationRequest,
    MessageRole,
    Text,
    ToolDefinition,
)
from app.gateway.services import Services

_ANSWER_TOKENS = 256
"""A call that writes a short file has less."""


async def count_valid_calls(services: Services, target: OpenTarget, read: ReadCounters) -> tuple[int, int]:
    """Return how many tasks were set, and how many were answered by calls that their tools would take.

    The model is free to call or not, as agents leave it; an answer without a call counts as none.
    """
    asker = TrialAsker(services, target, _ANSWER_TOKENS, read)
    valid = 0
    for task in TASKS:
        about = (await asker.ask(_make_conversation(task))).about
        valid += about.calls > 0 and about.valid_calls == about.calls
    return len(TASKS), valid


def _make_conversation(task: str) -> ConversationRequest:
    return ConversationRequest(
        messages=(
            ConversationMessage(MessageRole.SYSTEM, (Text(INSTRUCTIONS),)),
            ConversationMessage(MessageRole.USER, (Text(task),)),
        ),
        tools=tuple(
            ToolDefinition(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in TASK_TOOLS
        ),
    )
