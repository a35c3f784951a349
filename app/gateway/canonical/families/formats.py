"""The forms tool calls come in: what begins one, what ends it, and how it is read.

A form without an end lasts to the end of the answer. One that may stand only at an answer's beginning looks like
ordinary text, so `looks_like` says as early as it can that it is none.
"""

import re
from collections.abc import Callable

import msgspec

from app.gateway.canonical.families.calls import (
    Reader,
    deepseek_calls,
    gemma_calls,
    json_calls,
    kimi_calls,
    named_calls,
)
from app.gateway.canonical.families.markup import function_calls, invoke_calls, tagged_calls
from app.gateway.canonical.families.pythonic import pythonic_calls


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One form. `opens` and `closes` are marks around what `read` is given, `opens` with it if `keeps_open`."""

    read: Reader
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    keeps_open: bool = False
    looks_like: Callable[[str], bool] | None = None
    """At an answer's beginning only: whether a beginning may be one, however little of it is there yet."""


_CALL_KEYS = ("name", "function", "tool_name", "type", "tool_calls", "id", "arguments", "parameters")
_FENCES = ("```json", "```tool_call", "```")
_PYTHONIC_START = re.compile(r"\[\s*(?:[A-Za-z_][\w.]*\s*(?:\(.*)?)?\Z", re.DOTALL)


def begins_json(text: str) -> bool:
    """Tell whether an answer that begins so may be a call in JSON, fenced or not."""
    if any(fence.startswith(text) for fence in _FENCES):
        return True
    fence = next((fence for fence in _FENCES if text.startswith(fence)), "")
    inner = text[len(fence) :].lstrip().lstrip("[").lstrip()
    if not inner.startswith("{"):
        return not inner
    key = inner[1:].lstrip()
    quoted = [f"{quote}{word}{quote}" for word in _CALL_KEYS for quote in "\"'"]
    return any(word.startswith(key) or key.startswith(word) for word in quoted)


def begins_pythonic(text: str) -> bool:
    """Tell whether an answer that begins so may be a list of Python's calls."""
    return _PYTHONIC_START.match(text) is not None


TAGGED = Form(read=tagged_calls, opens=("<tool_call>",), closes=("</tool_call>",))
"""Hermes, Qwen, GLM, Granite 4, MiMo, Nemotron, Seed and many more."""
FUNCTION = Form(read=function_calls, opens=("<function=",), closes=("</function>",), keeps_open=True)
"""Qwen3-Coder and Llama 3.1 where they leave out the tag around it."""
STRAY_TAG = Form(read=lambda _: [], opens=("</tool_call>",), closes=("",))
"""What is left where the tag before was left out."""
PIPED = Form(read=json_calls, opens=("<|tool_call|>",), closes=("<|/tool_call|>",))
"""Phi-4 mini, and Granite 3, which does not close it."""
FUNCTOOLS = Form(read=json_calls, opens=("functools",))
MISTRAL = Form(read=named_calls, opens=("[TOOL_CALLS]",))
PYTHON_TAG = Form(read=json_calls, opens=("<|python_tag|>",))
PYTHON_MARKED = Form(read=pythonic_calls, opens=("<|python_start|>",), closes=("<|python_end|>",))
PYTHONIC = Form(read=pythonic_calls, looks_like=begins_pythonic)
TOOL_CODE = Form(read=pythonic_calls, opens=("```tool_code",), closes=("```",))
DEEPSEEK = Form(read=deepseek_calls, opens=("<｜tool▁calls▁begin｜>",), closes=("<｜tool▁calls▁end｜>",))
DSML = Form(read=invoke_calls, opens=("<｜DSML｜function_calls>",), closes=("</｜DSML｜function_calls>",))
KIMI = Form(read=kimi_calls, opens=("<|tool_calls_section_begin|>",), closes=("<|tool_calls_section_end|>",))
MINIMAX = Form(read=invoke_calls, opens=("<minimax:tool_call>",), closes=("</minimax:tool_call>",))
TOOL_CALLS = Form(read=json_calls, opens=("<tool_calls>",), closes=("</tool_calls>",))
"""MiniMax M1."""
GEMMA_4 = Form(read=gemma_calls, opens=("<|tool_call>",), closes=("<tool_call|>",))
FUNCTION_GEMMA = Form(read=gemma_calls, opens=("<start_function_call>",), closes=("<end_function_call>",))
COMMAND = Form(read=json_calls, opens=("<|START_ACTION|>",), closes=("<|END_ACTION|>",))
COMMAND_R = Form(read=json_calls, opens=("Action: ```json",), closes=("```",))
PLAIN_JSON = Form(read=json_calls, looks_like=begins_json)
"""Llama 3 by design, and others that lost their way."""
