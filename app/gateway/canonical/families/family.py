"""Which family's forms a model writes, told by its chat template, and where that says nothing by its architecture.

A template shows how earlier calls and reasoning are put before the model, which is how it was taught to write them.
"""

import re
from collections.abc import Sequence

import msgspec

from app.gateway.canonical.families import formats
from app.gateway.canonical.families.formats import Form
from app.gateway.canonical.families.thoughts import Style


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """How a model writes. `thoughts` is None for one that does not mark reasoning."""

    forms: tuple[Form, ...] = ()
    thoughts: Style | None = None
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
    id_length: int = 0
    """Letters and digits its template wants in a call's id; 0 for any number."""


_TAGS = (formats.TAGGED, formats.FUNCTION, formats.STRAY_TAG)
_SHOWN: tuple[tuple[str, tuple[Form, ...]], ...] = (
    ("[TOOL_CALLS]", (formats.MISTRAL,)),
    ("<｜DSML｜", (formats.DSML,)),
    ("<｜tool▁calls▁begin｜>", (formats.DEEPSEEK,)),
    ("<|tool_calls_section_begin|>", (formats.KIMI,)),
    ("<minimax:tool_call>", (formats.MINIMAX,)),
    ("<tool_calls>", (formats.TOOL_CALLS,)),
    ("<|START_ACTION|>", (formats.COMMAND,)),
    ("Action: ```json", (formats.COMMAND_R,)),
    ("<|tool_call>", (formats.GEMMA_4,)),
    ("<start_function_call>", (formats.FUNCTION_GEMMA,)),
    ("<|tool_call|>", (formats.PIPED,)),
    ("functools[", (formats.FUNCTOOLS,)),
    ("<tool_call>", _TAGS),
    ("<function=", _TAGS),
    ("<|python_start|>", (formats.PYTHON_MARKED, formats.PYTHONIC)),
    ("[func_name1(", (formats.PYTHONIC,)),
    ("<|python_tag|>", (formats.PYTHON_TAG, formats.PYTHONIC, formats.FUNCTION)),
    ("tool_code", (formats.TOOL_CODE,)),
)
"""What a template holds, and the forms its model then writes."""
_BY_ARCHITECTURE: tuple[tuple[str, tuple[Form, ...]], ...] = (
    ("mistral", (formats.MISTRAL,)),
    ("deepseek", (formats.DEEPSEEK,)),
    ("llama4", (formats.PYTHON_MARKED, formats.PYTHONIC)),
    ("llama", (formats.PYTHON_TAG, formats.PYTHONIC, formats.FUNCTION)),
    ("phi", (formats.PIPED, formats.FUNCTOOLS)),
    ("granite", (formats.PIPED, formats.TAGGED)),
    ("gemma", (formats.TOOL_CODE, *_TAGS)),
    ("command", (formats.COMMAND, formats.COMMAND_R)),
    ("cohere", (formats.COMMAND, formats.COMMAND_R)),
)
_USES_TOOLS = re.compile(r"\btools\b")
_THINK = Style()
_STYLES: tuple[tuple[str, Style], ...] = (
    ("[THINK]", Style(opens=("[THINK]",), closes=("[/THINK]",))),
    ("<seed:think>", Style(opens=("<seed:think>",), closes=("</seed:think>",))),
    (
        "<|START_THINKING|>",
        Style(
            opens=("<|START_THINKING|>",),
            closes=("<|END_THINKING|>",),
            dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        ),
    ),
    ("<|channel>", Style(opens=("<|channel>thought",), closes=("<channel|>",))),
    (
        "Here is my thought process:",
        Style(opens=("Here is my thought process:",), closes=("Here is my response:",)),
    ),
    ("<response>", Style(dropped=("<response>", "</response>"))),
)
"""What a template holds, and how its model marks reasoning where that is not with `<think>`."""
_CHANNELS = "<|channel|>"
_GENERATION = re.compile(r"add_generation_prompt")
_OPEN = re.compile(
    r"(<think>|\[THINK\]|<seed:think>|<\|START_THINKING\|>)(?!(?:\s|\\n)*(?:</think>|\[/THINK\]|</seed:think>))"
)
_OFF_BY_DEFAULT = re.compile(r"\bif\s+(?:not\s+)?thinking\b|thinking\s+is\s+defined\s+and\s+thinking\b")
_SWITCH = re.compile(r"\benable_thinking\b|\bthinking\b")
_MISTRAL_ID = 9
"""Its templates refuse every other length."""


def family_of(template: str, architecture: str = "") -> Family:
    """Return how a model with this chat template writes; `architecture` helps where there is no template."""
    if _CHANNELS in template and "<|start|>" in template:
        return Family(channels=True, renders_tools=True)
    forms = _forms(template, architecture.lower())
    tail = _generation(template)
    is_open = _OPEN.search(tail) is not None
    is_off = is_open and _OFF_BY_DEFAULT.search(tail) is not None
    return Family(
        forms=(*forms, formats.PLAIN_JSON),
        thoughts=_style(template, forms),
        opens=is_open and not is_off,
        opens_when_on=is_open,
        can_switch=_SWITCH.search(template) is not None,
        renders_tools=_USES_TOOLS.search(template) is not None,
        id_length=_MISTRAL_ID if formats.MISTRAL in forms else 0,
    )


def _forms(template: str, architecture: str) -> tuple[Form, ...]:
    shown = [form for mark, forms in _SHOWN if mark in template for form in forms]
    if not shown:
        shown = list(next((forms for name, forms in _BY_ARCHITECTURE if name in architecture), _TAGS))
    return tuple(dict.fromkeys(shown))


def _style(template: str, forms: Sequence[Form]) -> Style:
    style = next((style for mark, style in _STYLES if mark in template), _THINK)
    marks = tuple(mark for form in forms for mark in form.opens if mark.startswith(("<|", "<｜", "<minimax", "[")))
    return msgspec.structs.replace(style, ended_by=marks)


def _generation(template: str) -> str:
    """Return what a template does once the conversation has been written."""
    found = list(_GENERATION.finditer(template))
    return template[found[-1].end() :] if found else ""
