"""Answers in rounds: a model writes, the tools that it called are run, and it goes on with what came of them."""

from collections.abc import Awaitable, Callable, Sequence

from app.core.errors import EngineFailed
from app.core.tool_calls import MOST_ROUNDS
from app.gateway.canonical.request import ToolCall


async def answer_in_rounds(
    write_round: Callable[[], Awaitable[Sequence[ToolCall]]],
    answer_calls: Callable[[Sequence[ToolCall]], Awaitable[bool]],
) -> None:
    """Have a model write until it calls no tool any more, or `answer_calls` says that it is not to go on.

    Raises EngineFailed for a model that never stops.
    """
    calls = await write_round()
    for _ in range(MOST_ROUNDS):
        if not calls or not await answer_calls(calls):
            return
        calls = await write_round()
    raise EngineFailed(
        f"The model called tools {MOST_ROUNDS} times in a row without an answer.",
        hint="Ask more precisely, or try another model.",
        code="tool_loop",
    )
