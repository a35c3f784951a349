"""Tool calls as models of each family write them, with several arguments, and as they write them when they slip.

Every entry says what was written and what it means. The slips are those that logs of agents are full of: quotes of the
wrong kind, a comma too many, a brace or a mark missing, numbers as text, Python's words, arguments as text, a prefix
before the tool's name, and marks of the turn left in the text.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.gateway.canonical.request import ToolDefinition

Arguments = Mapping[str, object]


class CorpusCall(NamedTuple):
    """A call: the tool's name and its arguments."""

    name: str
    arguments: Arguments


class CorpusEntry(NamedTuple):
    """What a model wrote, and what it means. `slip` names what is wrong with it."""

    family: str
    template: str
    slip: str
    raw_text: str
    calls: tuple[CorpusCall, ...]
    text: str = ""
    thinking: str = ""


CORPUS_TOOLS = tuple(
    ToolDefinition(name=name, parameters=msgspec.Raw(json.dumps({"type": "object", **schema}).encode()))
    for name, schema in (
        (
            "get_weather",
            {
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "exact": {"type": "boolean"},
                    "wind": {"type": "number"},
                },
                "required": ["city"],
            },
        ),
        (
            "write_file",
            {
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"],
            },
        ),
        (
            "plan",
            {
                "properties": {
                    "steps": {"type": "array", "items": {"type": "string"}},
                    "limits": {"type": "object", "properties": {"hours": {"type": "integer"}}},
                }
            },
        ),
        ("now", {"properties": {}}),
    )
)
CORPUS_CALLS = (
    CorpusCall("get_weather", {"city": "Paris", "days": 2}),
    CorpusCall("get_weather", {"city": "São Paulo", "days": 14, "exact": True, "wind": 2.5}),
    CorpusCall("write_file", {"path": "src/main.py", "content": 'def greet():\n    print("hi")\n    return {}'}),
    CorpusCall("write_file", {"path": "a b.txt", "content": "It is 5 > 3, isn't it? [1], {x}, 100 %"}),
    CorpusCall("plan", {"steps": ["read", "write"], "limits": {"hours": 3}}),
    CorpusCall("now", {}),
)
_BEFORE = "I will look at it."
_THOUGHT = "The user wants this; a tool can do it."


def _json(call: CorpusCall, key: str = "arguments", name: str = "name") -> str:
    return json.dumps({name: call.name, key: call.arguments}, ensure_ascii=False)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _python(call: CorpusCall) -> str:
    return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"


def _function_tags(call: CorpusCall) -> str:
    lines = [f"<parameter={key}>\n{_value(value)}\n</parameter>" for key, value in call.arguments.items()]
    return "\n".join([f"<function={call.name}>", *lines, "</function>"])


def _invoke_tags(call: CorpusCall, mark: str = "") -> str:
    lines = [_named_parameter(key, value, mark) for key, value in call.arguments.items()]
    return "\n".join([f'<{mark}invoke name="{call.name}">', *lines, f"</{mark}invoke>"])


def _named_parameter(key: str, value: object, mark: str) -> str:
    is_text = str(isinstance(value, str)).lower()
    return f'<{mark}parameter name="{key}" string="{is_text}">{_value(value)}</{mark}parameter>'


def _glm(call: CorpusCall) -> str:
    pairs = [
        f"<arg_key>{key}</arg_key>\n<arg_value>{_value(value)}</arg_value>" for key, value in call.arguments.items()
    ]
    return "\n".join([call.name, *pairs])


def _gemma(call: CorpusCall, quote: str) -> str:
    return f"call:{call.name}{_gemma_value(call.arguments, quote)}"


def _gemma_value(value: object, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_gemma_value(entry, quote)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_gemma_value(entry, quote) for entry in value) + "]"
    return json.dumps(value)


def _minicpm(call: CorpusCall) -> str:
    lines = [f'<param name="{key}">{_value(value)}</param>' for key, value in call.arguments.items()]
    return f'<function name="{call.name}">{"".join(lines)}</function>'


class _Notation(NamedTuple):
    """How a family writes calls: what stands around all of them, around each, and between them."""

    family: str
    template: str
    write: Callable[[CorpusCall], str]
    opens: str = ""
    closes: str = ""
    between: str = ""
    is_json: bool = False
    """Slips in JSON are possible."""
    is_open_ended: bool = False
    """Its last mark may be missing."""
    several: bool = True
    turn_end: str = ""
    takes_text: bool = True
    """Text may stand before the calls."""
    thought: tuple[str, str] = ("", "")


def _piped_json(call: CorpusCall) -> str:
    return json.dumps([{"name": call.name, "arguments": call.arguments}], ensure_ascii=False)


def _deepseek_v3(call: CorpusCall) -> str:
    body = json.dumps(call.arguments, ensure_ascii=False)
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n{body}\n```<｜tool▁call▁end｜>"


def _deepseek_v31(call: CorpusCall) -> str:
    body = json.dumps(call.arguments, ensure_ascii=False)
    return f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{body}<｜tool▁call▁end｜>"


def _kimi(call: CorpusCall) -> str:
    body = json.dumps(call.arguments, ensure_ascii=False)
    return f"<|tool_call_begin|>functions.{call.name}:0<|tool_call_argument_begin|>{body}<|tool_call_end|>"


def _command(call: CorpusCall) -> str:
    fields = {"tool_call_id": "0", "tool_name": call.name, "parameters": call.arguments}
    return json.dumps(fields, ensure_ascii=False)


def _harmony(call: CorpusCall) -> str:
    body = json.dumps(call.arguments, ensure_ascii=False)
    head = f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>"
    return f"{head}{body}<|call|>"


def _minimax_m3(call: CorpusCall) -> str:
    mark = "]<]minimax[>["
    values = [f"{mark}<{key}>{_value(value)}{mark}</{key}>" for key, value in call.arguments.items()]
    return f'{mark}<invoke name="{call.name}">{"".join(values)}{mark}</invoke>'


_THINK = ("<think>\n", "\n</think>\n\n")
_NOTATIONS = (
    _Notation(
        "hermes",
        "{{ tools }} <tool_call>",
        _json,
        "<tool_call>\n",
        "\n</tool_call>",
        "\n</tool_call>\n<tool_call>\n",
        is_json=True,
        is_open_ended=True,
        turn_end="<|im_end|>",
        thought=_THINK,
    ),
    _Notation(
        "qwen3-coder",
        "{{ tools }} <tool_call> <function=",
        _function_tags,
        "<tool_call>\n",
        "\n</tool_call>",
        "\n</tool_call>\n<tool_call>\n",
        is_open_ended=True,
        turn_end="<|im_end|>",
        thought=_THINK,
    ),
    _Notation(
        "qwen3-coder, bare",
        "{{ tools }} <tool_call> <function=",
        _function_tags,
        "",
        "",
        "\n",
        turn_end="<|im_end|>",
    ),
    _Notation(
        "seed",
        "{{ tools }} <seed:tool_call> <seed:think>",
        _function_tags,
        "<seed:tool_call>\n",
        "\n</seed:tool_call>",
        "\n</seed:tool_call>\n<seed:tool_call>\n",
        is_open_ended=True,
        thought=("<seed:think>", "</seed:think>\n"),
    ),
    _Notation(
        "llama 3",
        "{{ tools }} <|python_tag|>",
        lambda call: _json(call, "parameters"),
        "",
        "",
        "; ",
        is_json=True,
        turn_end="<|eot_id|>",
        takes_text=False,
    ),
    _Notation(
        "llama 4",
        "{{ tools }} [func_name1(params_name1=...",
        _python,
        "[",
        "]",
        ", ",
        turn_end="<|eot|>",
        takes_text=False,
    ),
    _Notation(
        "lfm2",
        "{{ tools }} <|tool_list_start|> <|tool_call_start|>",
        _python,
        "<|tool_call_start|>[",
        "]<|tool_call_end|>",
        ", ",
        turn_end="<|im_end|>",
        thought=_THINK,
    ),
    _Notation(
        "mistral, a list",
        "{{ tools }} [TOOL_CALLS] [THINK]",
        _json,
        "[TOOL_CALLS] [",
        "]",
        ", ",
        is_json=True,
        is_open_ended=True,
        turn_end="</s>",
        thought=("[THINK]", "[/THINK]"),
    ),
    _Notation(
        "mistral, names",
        "{{ tools }} [TOOL_CALLS] [ARGS]",
        lambda call: f"[TOOL_CALLS]{call.name}[ARGS]{json.dumps(call.arguments, ensure_ascii=False)}",
        turn_end="</s>",
    ),
    _Notation(
        "deepseek v3",
        "{{ tools }} <｜tool▁calls▁begin｜>",
        _deepseek_v3,
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "\n",
        is_open_ended=True,
        turn_end="<｜end▁of▁sentence｜>",
        thought=_THINK,
    ),
    _Notation(
        "deepseek v3.1",
        "{{ tools }} <｜tool▁calls▁begin｜>",
        _deepseek_v31,
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        is_open_ended=True,
        turn_end="<｜end▁of▁sentence｜>",
        thought=_THINK,
    ),
    _Notation(
        "deepseek v3.2",
        "{% set token = '｜DSML｜' %} {{ tools }}",
        lambda call: _invoke_tags(call, "｜DSML｜"),
        "<｜DSML｜function_calls>\n",
        "\n</｜DSML｜function_calls>",
        "\n",
        is_open_ended=True,
        turn_end="<｜end▁of▁sentence｜>",
        thought=_THINK,
    ),
    _Notation(
        "deepseek v4",
        "{% set token = '｜DSML｜' %} {{ tools }}",
        lambda call: _invoke_tags(call, "｜DSML｜"),
        "<｜DSML｜tool_calls>\n",
        "\n</｜DSML｜tool_calls>",
        "\n",
        is_open_ended=True,
        thought=_THINK,
    ),
    _Notation(
        "glm 4",
        "{{ tools }} <tool_call> <arg_key> <think></think>",
        _glm,
        "<tool_call>",
        "\n</tool_call>",
        "\n</tool_call>\n<tool_call>",
        is_open_ended=True,
        turn_end="<|observation|>",
        thought=_THINK,
    ),
    _Notation(
        "kimi k2",
        "{{ tools }} <|tool_calls_section_begin|>",
        _kimi,
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        is_open_ended=True,
        turn_end="<|im_end|>",
        thought=_THINK,
    ),
    _Notation(
        "minimax m2",
        "{{ tools }} <minimax:tool_call>",
        _invoke_tags,
        "<minimax:tool_call>\n",
        "\n</minimax:tool_call>",
        "\n",
        is_open_ended=True,
        turn_end="[e~[",
        thought=_THINK,
    ),
    _Notation(
        "minimax m3",
        "{{ tools }} ]<]minimax[>[ <mm:think>",
        _minimax_m3,
        "]<]minimax[>[<tool_call>\n",
        "\n]<]minimax[>[</tool_call>",
        "\n",
        is_open_ended=True,
        thought=("<mm:think>", "</mm:think>"),
    ),
    _Notation(
        "minimax m1",
        "{{ tools }} <tool_calls>",
        _json,
        "<tool_calls>\n",
        "\n</tool_calls>",
        "\n",
        is_json=True,
        is_open_ended=True,
        thought=_THINK,
    ),
    _Notation(
        "gemma 3",
        "tool_code",
        _python,
        "```tool_code\n",
        "\n```",
        "\n```\n```tool_code\n",
        turn_end="<end_of_turn>",
    ),
    _Notation(
        "gemma 4",
        "{{ tools }} <|tool_call> <|channel>",
        lambda call: _gemma(call, '<|"|>'),
        "<|tool_call>",
        "<tool_call|>",
        "<tool_call|><|tool_call>",
        is_open_ended=True,
        turn_end="<turn|>",
        thought=("<|channel>thought\n", "<channel|>"),
    ),
    _Notation(
        "functiongemma",
        "{{ tools }} <start_function_call>",
        lambda call: _gemma(call, "<escape>"),
        "<start_function_call>",
        "<end_function_call>",
        "<end_function_call><start_function_call>",
        is_open_ended=True,
    ),
    _Notation(
        "granite 3",
        "{{ tools }} <|tool_call|>",
        _piped_json,
        "<|tool_call|>",
        "",
        is_json=True,
        several=False,
        turn_end="<|end_of_text|>",
    ),
    _Notation(
        "phi 4",
        "{{ tools }} <|tool_call|>",
        _piped_json,
        "<|tool_call|>",
        "<|/tool_call|>",
        is_json=True,
        is_open_ended=True,
        several=False,
        turn_end="<|end|>",
    ),
    _Notation(
        "command r7b",
        "{{ tools }} <|START_ACTION|> <|START_THINKING|>",
        _command,
        "<|START_ACTION|>[\n",
        "\n]<|END_ACTION|>",
        ",\n",
        is_json=True,
        is_open_ended=True,
        takes_text=False,
        turn_end="<|END_OF_TURN_TOKEN|>",
        thought=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    _Notation(
        "command r",
        "{{ tools }} '\\nAction:\\n```json\\n'",
        _command,
        "Action:\n```json\n[\n",
        "\n]\n```",
        ",\n",
        is_json=True,
    ),
    _Notation(
        "apertus",
        "{{ tools }} <|tools_prefix|>",
        lambda call: json.dumps({call.name: call.arguments}, ensure_ascii=False),
        "<|tools_prefix|>[",
        "]<|tools_suffix|>",
        ", ",
        is_open_ended=True,
    ),
    _Notation(
        "gigachat",
        "{{ tools }} <|function_call|>",
        _json,
        "<|function_call|>",
        "",
        is_json=True,
        several=False,
    ),
    _Notation("minicpm", '{{ tools }} <function name="', _minicpm, thought=_THINK, turn_end="<|im_end|>"),
    _Notation(
        "gpt-oss",
        "<|start|> <|channel|>",
        _harmony,
        between="<|start|>assistant",
        takes_text=False,
        thought=("<|channel|>analysis<|message|>", "<|end|><|start|>assistant"),
    ),
)


def _entries_of(notation: _Notation) -> Iterator[CorpusEntry]:
    for call in CORPUS_CALLS:
        body = notation.write(call)
        blank = CorpusEntry(notation.family, notation.template, "", notation.opens + body + notation.closes, (call,))
        yield blank
        yield from _surroundings(notation, blank)
        if notation.is_open_ended:
            yield blank._replace(slip="no end", raw_text=notation.opens + body)
        for slip, written_body in _json_slips(body, call) if notation.is_json else ():
            yield blank._replace(slip=slip, raw_text=notation.opens + written_body + notation.closes)
    if notation.several:
        calls = (CORPUS_CALLS[0], CORPUS_CALLS[2], CORPUS_CALLS[-1])
        bodies = notation.between.join(notation.write(call) for call in calls)
        written_body = notation.opens + bodies + notation.closes
        yield CorpusEntry(notation.family, notation.template, "three calls", written_body, calls)


def _surroundings(notation: _Notation, blank: CorpusEntry) -> Iterator[CorpusEntry]:
    """Yield the same call with something around it."""
    whole = blank.raw_text
    yield blank._replace(slip="space around", raw_text=f"\n{whole}\n\n")
    if notation.takes_text:
        yield blank._replace(slip="text before", raw_text=f"{_BEFORE}\n\n{whole}", text=_BEFORE)
    if notation.takes_text and notation.closes:
        yield blank._replace(slip="text after", raw_text=f"{whole}\nDone.", text="Done.")
    if notation.turn_end:
        yield blank._replace(slip="the turn's mark", raw_text=whole + notation.turn_end)
    if notation.thought[0]:
        opens, closes = notation.thought
        yield blank._replace(slip="reasoning before", raw_text=f"{opens}{_THOUGHT}{closes}{whole}", thinking=_THOUGHT)


def _json_slips(body: str, call: CorpusCall) -> Iterator[tuple[str, str]]:
    value = json.loads(body)
    yield "indented", json.dumps(value, indent=2, ensure_ascii=False)
    yield "escaped", json.dumps(value)
    yield "a comma too many", _with_comma(body)
    yield "a brace missing", _without_brace(body)
    yield "a prefix", body.replace(call.name, f"functions.{call.name}", 1)
    numbers = {key: json.dumps(entry) for key, entry in call.arguments.items() if isinstance(entry, int | float)}
    if numbers:
        for key, number in numbers.items():
            body = body.replace(f'"{key}": {number}', f'"{key}": "{number}"')
        yield "numbers as text", body
    if "'" not in body and "\\" not in body:
        yield "quotes of the wrong kind", repr(value)
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    if call.arguments:
        yield "arguments as text", body.replace(arguments, json.dumps(arguments, ensure_ascii=False))


def _with_comma(body: str) -> str:
    """Return JSON with a comma before its last brace."""
    at = body.rindex("}")
    return body[:at] + "," + body[at:]


def _without_brace(body: str) -> str:
    """Return JSON that lacks its last brace."""
    at = body.rindex("}")
    return body[:at] + body[at + 1 :]


def corpus_entries() -> tuple[CorpusEntry, ...]:
    """Return all of them."""
    return tuple(entry for notation in _NOTATIONS for entry in _entries_of(notation))


def write_answers(calls: Sequence[CorpusCall], text: str) -> Iterator[CorpusEntry]:
    """Yield an answer as each family writes it: text, or calls where it can write so many."""
    for notation in _NOTATIONS:
        if len(calls) > 1 and not notation.several:
            continue
        bodies = notation.between.join(notation.write(call) for call in calls)
        written_text = f"{notation.opens}{bodies}{notation.closes}" if calls else text
        yield CorpusEntry(notation.family, notation.template, "", written_text, tuple(calls), "" if calls else text)
