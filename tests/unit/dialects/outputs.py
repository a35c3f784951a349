"""What models of each family write when they reason and call tools, as their chat templates and manuals show it."""

from typing import NamedTuple

import msgspec

from app.gateway.canonical.request import ToolDefinition

WEATHER = ToolDefinition(
    name="get_weather",
    description="Tell the weather",
    parameters=msgspec.Raw(
        b'{"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, '
        b'"exact": {"type": "boolean"}, "hours": {"type": "array", "items": {"type": "integer"}}}, '
        b'"required": ["city"]}'
    ),
)
NOW = ToolDefinition(name="now", parameters=msgspec.Raw(b'{"type": "object", "properties": {}}'))
TOOLS = (WEATHER, NOW)

PARIS = {"city": "Paris", "days": 2}


class Output(NamedTuple):
    """What a model wrote, what its chat template shows, and what that means."""

    family: str
    raw_text: str
    template: str
    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, object]], ...] = (("get_weather", PARIS),)


_JSON = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}'
_THINKS = "{{ tools }} <think> </think> {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
_OPENS = "{{ tools }} </think> {% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
_TAGS = "{{ tools }} <tool_call> <think> </think>{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

OUTPUTS = (
    Output("hermes", f"Let me look.\n<tool_call>\n{_JSON}\n</tool_call>", _TAGS, text="Let me look."),
    Output("hermes, ended by its mark", f"<tool_call>\n{_JSON}\n</tool_call><|im_end|>", _TAGS),
    Output(
        "qwen3, which thinks, and calls twice",
        f"<think>\nWhere? Paris.\n</think>\n\n<tool_call>\n{_JSON}\n</tool_call>\n"
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        _TAGS,
        thinking="Where? Paris.",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "qwen3-thinking, whose prompt opens",
        f"Hm. <b>\n</think>\n\nYes.\n\n<tool_call>\n{_JSON}\n</tool_call>",
        _TAGS.replace("assistant\n", "assistant\n<think>\n"),
        text="Yes.",
        thinking="Hm. <b>",
    ),
    Output("hermes, unclosed", f"<tool_call>\n{_JSON}", _TAGS),
    Output("hermes, a brace short", f"<tool_call>\n{_JSON[:-1]}\n</tool_call>", _TAGS),
    Output("hermes, single quotes", f"<tool_call>\n{_JSON.replace(chr(34), chr(39))}\n</tool_call>", _TAGS),
    Output("hermes, a comma more", f"<tool_call>\n{_JSON[:-2]},}},}}\n</tool_call>", _TAGS),
    Output("hermes, types as text", f"<tool_call>{_JSON.replace('2', chr(34) + '2' + chr(34))}</tool_call>", _TAGS),
    Output(
        "hermes, arguments as text",
        '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\", \\"days\\": 2}"}</tool_call>',
        _TAGS,
    ),
    Output(
        "hermes, a tool there is not",
        'A <tool_call>{"name": "launch", "arguments": {}}</tool_call>',
        _TAGS,
        text='A <tool_call>{"name": "launch", "arguments": {}}</tool_call>',
        calls=(),
    ),
    Output(
        "qwen3-coder",
        "I look.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n"
        "</parameter>\n</function>\n</tool_call>",
        "{{ tools }} <tool_call> <function=",
        text="I look.",
    ),
    Output(
        "qwen3-coder, without its tag",
        "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
        "</function>\n</tool_call>",
        "{{ tools }} <tool_call> <function=",
    ),
    Output(
        "llama 3 json",
        '{"name": "get_weather", "parameters": {"city": "Paris", "days": "2"}}',
        "{{ tools }} <|python_tag|>",
    ),
    Output(
        "llama 3 json, two",
        '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}; '
        '{"name": "now", "parameters": {}}<|eom_id|>',
        "{{ tools }} <|python_tag|>",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "llama 4 pythonic",
        '[get_weather(city="Paris", days=2), now()]<|eot_id|>',
        "{{ tools }} [func_name1(params_name1=...",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "llama 4 pythonic, marked",
        '<|python_start|>[get_weather(city="Paris", days=2)]<|python_end|>',
        "{{ tools }} <|python_start|>",
    ),
    Output(
        "mistral, a list",
        'So.[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}, "id": "abcdefghi"}]</s>',
        "{{ tools }} [TOOL_CALLS]",
        text="So.",
    ),
    Output(
        "mistral, names",
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]now{}',
        "{{ tools }} [TOOL_CALLS]",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "magistral",
        "[THINK]Hm.[/THINK]It rains.",
        "{{ tools }} [TOOL_CALLS] [THINK]",
        text="It rains.",
        thinking="Hm.",
        calls=(),
    ),
    Output(
        "deepseek v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris", "days": 2}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n"
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
        "{{ tools }} <｜tool▁calls▁begin｜>",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "deepseek v3.1, thinking",
        "Hm.</think>Yes.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
        '{"city": "Paris", "days": 2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
        "<｜tool▁calls▁begin｜>{% if add_generation_prompt %}<｜Assistant｜><think>\n{% endif %}",
        text="Yes.",
        thinking="Hm.",
    ),
    Output(
        "deepseek v3.2",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">'
        "Paris"
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        "{{ tools }} <｜DSML｜",
    ),
    Output(
        "glm 4",
        "<think>Hm.</think>\nI look.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call><|observation|>",
        "{{ tools }} <tool_call> <arg_key> <think></think>",
        text="I look.",
        thinking="Hm.",
    ),
    Output(
        "kimi k2, out of its thoughts",
        "Hm. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris", "days": 2}<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        "{{ tools }} <|tool_calls_section_begin|> {% if add_generation_prompt %}<think>{% endif %}",
        thinking="Hm.",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output(
        "minimax m2",
        'Hm.\n</think>\n\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">2</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>[e~[',
        "{{ tools }} <minimax:tool_call> {% if add_generation_prompt %}]~b]ai\n<think>\n{% endif %}",
        thinking="Hm.",
        calls=(("get_weather", PARIS), ("now", {})),
    ),
    Output("minimax m1", f"<tool_calls>\n{_JSON}\n</tool_calls>", "{{ tools }} <tool_calls>"),
    Output(
        "gpt-oss",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
        "<|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        '{"city": "Paris", "days": 2}<|call|>',
        "<|start|> <|channel|>",
        text="I look.",
        thinking="Hm.",
    ),
    Output(
        "gpt-oss, an answer",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It rains.<|return|>",
        "<|start|> <|channel|>",
        text="It rains.",
        thinking="Hm.",
        calls=(),
    ),
    Output(
        "gemma 3",
        '```tool_code\nprint(get_weather(city="Paris", days=2))\n```',
        "tool_code",
    ),
    Output(
        "gemma 4",
        '<|channel>thought\nHm.<channel|><|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|>',
        "{{ tools }} <|tool_call> <|channel>",
        thinking="Hm.",
    ),
    Output(
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
        "{{ tools }} <start_function_call>",
    ),
    Output("granite 3", f"<|tool_call|>[{_JSON}]<|end_of_text|>", "{{ tools }} <|tool_call|>"),
    Output(
        "granite 3.2, thinking",
        "Here is my thought process:\nHm.\n\nHere is my response:\nIt rains.",
        "{{ tools }} Here is my thought process: <|tool_call|>",
        text="It rains.",
        thinking="Hm.",
        calls=(),
    ),
    Output(
        "granite 3.3, thinking",
        "<think>Hm.</think>\n<response>It rains.</response>",
        "<think></think><response></response> <|tool_call|>",
        text="It rains.",
        thinking="Hm.",
        calls=(),
    ),
    Output("phi-4 mini", f"<|tool_call|>[{_JSON}]<|/tool_call|><|end|>", "{{ tools }} <|tool_call|>"),
    Output("phi-4, functools", f"functools[{_JSON}]", "{{ tools }} functools["),
    Output(
        "command r7b",
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_ACTION|>[\n"
        '    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": {"city": "Paris", "days": 2}}\n]'
        "<|END_ACTION|>",
        "{{ tools }} <|START_ACTION|> <|START_THINKING|>",
        thinking="Hm.",
    ),
    Output(
        "command r7b, an answer",
        "<|START_RESPONSE|>It rains.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>",
        "<|START_ACTION|> <|START_THINKING|>",
        text="It rains.",
        calls=(),
    ),
    Output(
        "command r",
        'Action: ```json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": '
        '{"city": "Paris", "days": 2}\n'
        "    }\n]```",
        "{{ tools }} Action: ```json",
    ),
    Output("plain json, fenced", f"```json\n{_JSON}\n```", "{{ tools }}"),
    Output(
        "json that is an answer",
        '{"name": "Ada", "born": 1815}',
        _TAGS,
        text='{"name": "Ada", "born": 1815}',
        calls=(),
    ),
    Output(
        "text about marks",
        "Write <think> or [1] and <tool_ first.",
        _THINKS,
        text="Write <think> or [1] and <tool_ first.",
        calls=(),
    ),
    Output("thoughts without an end", "Hm, so", _OPENS, thinking="Hm, so", calls=()),
    Output("an answer at once", "</think>\n\nYes.", _OPENS, text="Yes.", calls=()),
)
