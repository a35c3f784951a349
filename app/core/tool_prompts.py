"""What coding agents send: how large their first prompt and tools are, as recorded, and what that means for a model.

Sizes are of what reaches a model through the endpoint, as `tests/end_to_end/test_agents.py` records it from the real
programs; no words of theirs are kept.
"""

from typing import Annotated

import msgspec

from app.core.tokens import BYTES_PER_TOKEN

_ROOM_FACTOR = 2
"""An agent's files and results come to as much as what it begins with, before anything useful is done."""
_LEAST_CONTEXT = 8192


class ToolPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The first request of a tool for its smallest task."""

    tool: str
    version: str
    prompt_bytes: int
    """Of all messages' texts."""
    tools: int
    tool_bytes: int
    """Of its tools' descriptions, as JSON."""
    turn_bytes: int
    """What the next request adds: a call and its result."""

    @property
    def prompt_tokens(self) -> int:
        """About how many tokens a model reads first."""
        return (self.prompt_bytes + self.tool_bytes) // BYTES_PER_TOKEN

    @property
    def turn_tokens(self) -> int:
        """About how many tokens each later request adds."""
        return max(1, self.turn_bytes // BYTES_PER_TOKEN)

    @property
    def context(self) -> int:
        """The context that it can work with: a power of two with room for as much again."""
        return max(_LEAST_CONTEXT, 1 << (_ROOM_FACTOR * self.prompt_tokens - 1).bit_length())


class ToolPreflight(msgspec.Struct, frozen=True, kw_only=True):
    """How a model would do with a tool here. Times are seconds, None where nothing is known."""

    tool: str
    name: str
    version: str
    model: str
    prompt_tokens: int
    tools: int
    context_needed: int
    context: int | None
    """With which the model is loaded as it is set."""
    largest_context: int | None = None
    """That fits here and that the model was trained for."""
    calls_tools: bool = True
    cold_s: float | None = None
    """To the first token of the first answer."""
    warm_s: float | None = None
    """To that of later answers, when what was sent before is kept."""
    is_measured: bool = False
    tool_tasks: int = 0
    """Tasks that only a call of a tool begins, as they were set to the model here; 0 where nobody measured."""
    valid_calls: int = 0
    """Those that it answered by calls as their tools take them."""
    suggestion: str = ""
    """A model of this computer that would do, where this one does not."""
    sentence: str


class PreflightQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which model, and of which tool; all of them without one."""

    model: Annotated[str, msgspec.Meta(max_length=500)] = ""
    tool: Annotated[str, msgspec.Meta(max_length=100)] = ""


def find_tool_prompt(tool: str) -> ToolPrompt | None:
    """Return what was recorded of a tool; None where nothing was."""
    return next((prompt for prompt in TOOL_PROMPTS if prompt.tool == tool), None)


TOOL_PROMPTS = (
    ToolPrompt(tool="claude-code", version="2.1.197", prompt_bytes=12_320, tools=25, tool_bytes=74_069, turn_bytes=404),
    ToolPrompt(tool="codex", version="0.169.0", prompt_bytes=20_176, tools=12, tool_bytes=17_834, turn_bytes=324),
    ToolPrompt(tool="opencode", version="1.18.33", prompt_bytes=9_666, tools=10, tool_bytes=21_144, turn_bytes=248),
    ToolPrompt(tool="gemini-cli", version="0.61.0", prompt_bytes=30_946, tools=15, tool_bytes=17_722, turn_bytes=404),
    ToolPrompt(tool="qwen-code", version="0.24.4", prompt_bytes=36_721, tools=14, tool_bytes=39_215, turn_bytes=356),
    ToolPrompt(tool="copilot-cli", version="1.0.102", prompt_bytes=21_822, tools=17, tool_bytes=26_243, turn_bytes=339),
    ToolPrompt(tool="aider", version="0.86.2", prompt_bytes=2_485, tools=0, tool_bytes=0, turn_bytes=0),
    ToolPrompt(tool="gptme", version="0.35.1", prompt_bytes=23_444, tools=14, tool_bytes=12_114, turn_bytes=312),
    ToolPrompt(tool="pi", version="0.87.1", prompt_bytes=2_761, tools=4, tool_bytes=2_956, turn_bytes=239),
    ToolPrompt(tool="kimi-code", version="2.1.0", prompt_bytes=9_015, tools=26, tool_bytes=79_714, turn_bytes=235),
    ToolPrompt(tool="mistral-vibe", version="3.0.2", prompt_bytes=18_592, tools=10, tool_bytes=13_553, turn_bytes=288),
    ToolPrompt(tool="cline", version="3.0.65", prompt_bytes=4_321, tools=25, tool_bytes=18_107, turn_bytes=332),
    ToolPrompt(tool="continue", version="1.5.47", prompt_bytes=1_330, tools=11, tool_bytes=6_214, turn_bytes=248),
    ToolPrompt(tool="droid", version="0.215.0", prompt_bytes=12_971, tools=12, tool_bytes=31_090, turn_bytes=263),
    ToolPrompt(tool="hermes", version="0.19.0", prompt_bytes=6_815, tools=18, tool_bytes=48_462, turn_bytes=419),
    ToolPrompt(tool="openclaw", version="2026.9.6", prompt_bytes=48_917, tools=12, tool_bytes=10_289, turn_bytes=247),
)
"""Recorded on 26 November 2026, each for writing one file into an empty folder."""
