"""How a family of models writes tool calls and reasoning, told by the chat template, else by the architecture.

A template shows how earlier calls and reasoning are put before the model, which is how it was taught to write them. A
form without an end lasts to the end of the answer. One that may stand only at an answer's beginning looks like ordinary
text, so `looks_like` says as early as it can that it is none.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from app.gateway.canonical.families.calls import (
    MINIMAX_M3_MARK,
    CallReader,
    deepseek_calls,
    function_calls,
    gemma_calls,
    invoke_calls,
    json_calls,
    kimi_calls,
    mistral_calls,
    name_key_calls,
    namespace_calls,
    pythonic_calls,
    tag_calls,
)
from app.gateway.canonical.families.marks import CHANNEL_MARKS, ReasoningStyle


class CallForm(msgspec.Struct, frozen=True, kw_only=True):
    """One form. `opens` and `closes` are marks around what `read` is given, `opens` with it if `keeps_open`."""

    read: CallReader
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
    quoted_keys = [f"{quote}{word}{quote}" for word in _CALL_KEYS for quote in "\"'"]
    return any(word.startswith(key) or key.startswith(word) for word in quoted_keys)


def begins_pythonic(text: str) -> bool:
    """Tell whether an answer that begins so may be a list of Python's calls."""
    return _PYTHONIC_START.match(text) is not None


TAGGED = CallForm(read=tag_calls, opens=("<tool_call>",), closes=("</tool_call>",))
"""Hermes, Qwen, GLM, Granite 4, MiMo, Nemotron, Seed and many more."""
FUNCTION = CallForm(read=function_calls, opens=("<function=",), closes=("</function>",), keeps_open=True)
"""Qwen3-Coder and Llama 3.1 where they leave out the tag around it."""
STRAY_TAG = CallForm(read=lambda _: [], opens=("</tool_call>",), closes=("",))
"""What is left where the tag before was left out."""
PIPED = CallForm(read=json_calls, opens=("<|tool_call|>",), closes=("<|/tool_call|>",))
"""Phi-4 mini, and Granite 3, which does not close it."""
FUNCTOOLS = CallForm(read=json_calls, opens=("functools",))
MISTRAL = CallForm(read=mistral_calls, opens=("[TOOL_CALLS]",))
PYTHON_TAG = CallForm(read=json_calls, opens=("<|python_tag|>",))
PYTHON_MARKED = CallForm(read=pythonic_calls, opens=("<|python_start|>",), closes=("<|python_end|>",))
PYTHONIC = CallForm(read=pythonic_calls, looks_like=begins_pythonic)
TOOL_CODE = CallForm(read=pythonic_calls, opens=("```tool_code",), closes=("```",))
DEEPSEEK = CallForm(read=deepseek_calls, opens=("<｜tool▁calls▁begin｜>",), closes=("<｜tool▁calls▁end｜>",))
DSML = CallForm(
    read=invoke_calls,
    opens=("<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"),
    closes=("</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"),
)
"""DeepSeek V3.2, and V4 with the second name."""
KIMI = CallForm(read=kimi_calls, opens=("<|tool_calls_section_begin|>",), closes=("<|tool_calls_section_end|>",))
MINIMAX = CallForm(read=invoke_calls, opens=("<minimax:tool_call>",), closes=("</minimax:tool_call>",))
MINIMAX_M3 = CallForm(
    read=namespace_calls, opens=(f"{MINIMAX_M3_MARK}<tool_call>",), closes=(f"{MINIMAX_M3_MARK}</tool_call>",)
)
SEED = CallForm(read=function_calls, opens=("<seed:tool_call>",), closes=("</seed:tool_call>",))
LFM2 = CallForm(read=pythonic_calls, opens=("<|tool_call_start|>",), closes=("<|tool_call_end|>",))
APERTUS = CallForm(read=name_key_calls, opens=("<|tools_prefix|>",), closes=("<|tools_suffix|>",))
GIGACHAT = CallForm(read=json_calls, opens=("<|function_call|>", "<|message_sep|>\n\nfunction call<|role_sep|>\n"))
MINICPM = CallForm(read=function_calls, opens=("<function name=",), closes=("</function>",), keeps_open=True)
TOOL_CALLS = CallForm(read=json_calls, opens=("<tool_calls>",), closes=("</tool_calls>",))
"""MiniMax M1."""
GEMMA_4 = CallForm(read=gemma_calls, opens=("<|tool_call>",), closes=("<tool_call|>",))
FUNCTION_GEMMA = CallForm(read=gemma_calls, opens=("<start_function_call>",), closes=("<end_function_call>",))
COMMAND = CallForm(read=json_calls, opens=("<|START_ACTION|>",), closes=("<|END_ACTION|>",))
COMMAND_R = CallForm(read=json_calls, opens=("Action: ```json", "Action:\n```json", "Action:```json"), closes=("```",))
PLAIN_JSON = CallForm(read=json_calls, looks_like=begins_json)
"""Llama 3 by design, and others that lost their way."""


class ModelFamily(msgspec.Struct, frozen=True, kw_only=True):
    """How a model writes. `thoughts` is None for one that does not mark reasoning."""

    forms: tuple[CallForm, ...] = ()
    thoughts: ReasoningStyle | None = None
    opens: bool = False
    """Its prompt opens the reasoning, unless that is switched off."""
    opens_when_on: bool = False
    """Its prompt opens the reasoning where that is switched on."""
    can_switch: bool = False
    """Its template can be told not to think."""
    channels: bool = False
    """It writes gpt-oss's channels."""
    renders_tools: bool = False
    """Its template tells it of the tools; else the gateway has to."""
    inner_marks: tuple[str, ...] = ()
    """Marks within its calls, and of its channels."""
    id_length: int = 0
    """Letters and digits its template wants in a call's id; 0 for any number."""


_TAGS = (TAGGED, FUNCTION, STRAY_TAG)
_FORMS_BY_MARK: tuple[tuple[str, tuple[CallForm, ...]], ...] = (
    ("[TOOL_CALLS]", (MISTRAL,)),
    ("｜DSML｜", (DSML,)),
    ("<｜tool▁calls▁begin｜>", (DEEPSEEK,)),
    ("<|tool_calls_section_begin|>", (KIMI,)),
    ("<minimax:tool_call>", (MINIMAX,)),
    (MINIMAX_M3_MARK, (MINIMAX_M3,)),
    ("<seed:tool_call>", (SEED, FUNCTION)),
    ("<|tool_call_start|>", (LFM2,)),
    ("<|tool_list_start|>", (LFM2,)),
    ("<|tools_prefix|>", (APERTUS,)),
    ("<|function_call|>", (GIGACHAT,)),
    ("function call<|role_sep|>", (GIGACHAT,)),
    ("'function call'", (GIGACHAT,)),
    ('<function name="', (MINICPM,)),
    ("<tool_calls>", (TOOL_CALLS,)),
    ("<|START_ACTION|>", (COMMAND,)),
    ("Action: ```json", (COMMAND_R,)),
    ("Action:\\n```json", (COMMAND_R,)),
    ("<|tool_call>", (GEMMA_4,)),
    ("<start_function_call>", (FUNCTION_GEMMA,)),
    ("<|tool_call|>", (PIPED,)),
    ("functools[", (FUNCTOOLS,)),
    ("<tool_call>", _TAGS),
    ("<function=", _TAGS),
    ("<|python_start|>", (PYTHON_MARKED, PYTHONIC)),
    ("[func_name1(", (PYTHONIC,)),
    ("<|python_tag|>", (PYTHON_TAG, PYTHONIC, FUNCTION)),
    ("tool_code", (TOOL_CODE,)),
)
"""What a template holds, and the forms its model then writes."""
_BY_ARCHITECTURE: tuple[tuple[str, tuple[CallForm, ...]], ...] = (
    ("mistral", (MISTRAL,)),
    ("deepseek", (DEEPSEEK,)),
    ("lfm2", (LFM2,)),
    ("apertus", (APERTUS,)),
    ("llama4", (PYTHON_MARKED, PYTHONIC)),
    ("llama", (PYTHON_TAG, PYTHONIC, FUNCTION)),
    ("phi", (PIPED, FUNCTOOLS)),
    ("granite", (PIPED, TAGGED)),
    ("gemma", (TOOL_CODE, *_TAGS)),
    ("command", (COMMAND, COMMAND_R)),
    ("cohere", (COMMAND, COMMAND_R)),
)
_USES_TOOLS = re.compile(r"\btools\b")
_THINK = ReasoningStyle()
_STYLES: tuple[tuple[str, ReasoningStyle], ...] = (
    ("[THINK]", ReasoningStyle(opens=("[THINK]",), closes=("[/THINK]",))),
    ("<mm:think>", ReasoningStyle(opens=("<mm:think>",), closes=("</mm:think>",))),
    ("<seed:think>", ReasoningStyle(opens=("<seed:think>",), closes=("</seed:think>",))),
    (
        "<|START_THINKING|>",
        ReasoningStyle(
            opens=("<|START_THINKING|>",),
            closes=("<|END_THINKING|>",),
            dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        ),
    ),
    ("<|channel>", ReasoningStyle(opens=("<|channel>thought",), closes=("<channel|>",))),
    (
        "Here is my thought process:",
        ReasoningStyle(opens=("Here is my thought process:",), closes=("Here is my response:",)),
    ),
    ("<response>", ReasoningStyle(dropped=("<response>", "</response>"))),
)
"""What a template holds, and how its model marks reasoning where that is not with `<think>`."""
_CHANNELS = "<|channel|>"
_GENERATION = re.compile(r"add_generation_prompt")
_OPEN = re.compile(
    r"(<think>|\[THINK\]|<seed:think>|<\|START_THINKING\|>)(?!(?:\s|\\n)*(?:</think>|\[/THINK\]|</seed:think>))"
)
_OFF_BY_DEFAULT = re.compile(r"\bif\s+(?:not\s+)?thinking\b|thinking\s+is\s+defined\s+and\s+thinking\b")
_SWITCH = re.compile(r"\benable_thinking\b|\bthinking\b")
_INNER_MARKS = (
    "[ARGS]",
    "[CALL_ID]",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "｜DSML｜",
    '<|"|>',
    "<escape>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    MINIMAX_M3_MARK,
)
_MISTRAL_ID = 9
"""Its templates refuse every other length."""


def family_of(template: str, architecture: str = "") -> ModelFamily:
    """Return how a model with this chat template writes; `architecture` helps where there is no template."""
    if _CHANNELS in template and "<|start|>" in template:
        return ModelFamily(channels=True, renders_tools=True, inner_marks=CHANNEL_MARKS)
    forms = _forms(template, architecture.lower())
    tail = _generation(template)
    is_open = _OPEN.search(tail) is not None
    is_off = is_open and _OFF_BY_DEFAULT.search(tail) is not None
    return ModelFamily(
        forms=(*forms, PLAIN_JSON),
        thoughts=_style(template, forms),
        opens=is_open and not is_off,
        opens_when_on=is_open,
        can_switch=_SWITCH.search(template) is not None,
        renders_tools=_USES_TOOLS.search(template) is not None,
        inner_marks=tuple(mark for mark in _INNER_MARKS if mark in template),
        id_length=_MISTRAL_ID if MISTRAL in forms else 0,
    )


def _forms(template: str, architecture: str) -> tuple[CallForm, ...]:
    forms_shown = [form for mark, forms in _FORMS_BY_MARK if mark in template for form in forms]
    if not forms_shown:
        forms_shown = list(next((forms for name, forms in _BY_ARCHITECTURE if name in architecture), _TAGS))
    return tuple(dict.fromkeys(forms_shown))


def _style(template: str, forms: Sequence[CallForm]) -> ReasoningStyle:
    style = next((style for mark, style in _STYLES if mark in template), _THINK)
    marks = tuple(mark for form in forms for mark in form.opens if mark.startswith(("<|", "<｜", "<minimax", "[")))
    return msgspec.structs.replace(style, ended_by=marks)


def _generation(template: str) -> str:
    """Return what a template does once the conversation has been written."""
    matches = list(_GENERATION.finditer(template))
    return template[matches[-1].end() :] if matches else ""
