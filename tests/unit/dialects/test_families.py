"""What models write is read the same, whole and in pieces, whatever their family."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.gateway.canonical.events import (
    AnswerFinished,
    Event,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenAlternative,
    TokenLogprob,
    ToolCallDelta,
    WholeAnswer,
    aggregate_events,
)
from app.gateway.canonical.families.answer import AnswerReader, ReadingOptions, new_id
from app.gateway.canonical.families.arguments import fit_arguments, parse_json
from app.gateway.canonical.families.family import family_of
from app.gateway.exchange.engine.stream import StreamReader
from tests.depth import trials
from tests.unit.dialects.outputs import OUTPUTS, TOOLS, Output

DONE = AnswerFinished(reason=FinishReason.STOP)
MARKS = ("<think", "tool_call", "<|", "<｜", "[TOOL", "[THINK", "<function", "<invoke", "tool_code", "[e~[", "</s>")
each_output = pytest.mark.parametrize("output", OUTPUTS, ids=[output.family for output in OUTPUTS])


def options_for(output: Output) -> ReadingOptions:
    family = family_of(output.template)
    return ReadingOptions(family=family, tools=TOOLS, is_open=family.opens)


def events(reader: AnswerReader, pieces: list[str], end: AnswerFinished = DONE) -> list[Event]:
    return [event for piece in pieces for event in reader.take_events([TextDelta(piece)])] + reader.take_events([end])


def read_answer(output: Output, pieces: list[str]) -> WholeAnswer:
    return aggregate_events(events(AnswerReader(options_for(output), lambda _: "id"), pieces))


@each_output
def test_what_a_family_writes_is_understood(output: Output) -> None:
    answer = read_answer(output, [output.raw_text])
    calls = tuple((call.name, json.loads(call.arguments)) for call in answer.calls)
    assert (answer.text, answer.thinking, calls) == (output.text, output.thinking, output.calls)
    assert isinstance(answer.end, AnswerFinished)
    assert answer.end.reason is (FinishReason.TOOL_CALLS if output.calls else FinishReason.STOP)
    assert all(call.id for call in answer.calls)


@pytest.mark.slow(cases=10)
@each_output
def test_it_is_the_same_in_pieces(output: Output) -> None:
    whole = read_answer(output, [output.raw_text])
    assert read_answer(output, list(output.raw_text)) == whole
    for at in range(len(output.raw_text)):
        assert read_answer(output, [output.raw_text[:at], output.raw_text[at:]]) == whole, output.raw_text[:at]


@pytest.mark.slow(cases=6)
@each_output
def test_it_is_the_same_cut_at_every_byte_of_the_engines_stream(output: Output) -> None:
    whole = read_answer(output, [output.raw_text])
    chunk = {"choices": [{"delta": {"content": output.raw_text}, "finish_reason": "stop"}]}
    stream = f"data: {json.dumps(chunk, ensure_ascii=False)}\n\ndata: [DONE]\n\n".encode()
    for at in range(len(stream)):
        engine, reader = StreamReader(), AnswerReader(options_for(output), lambda _: "id")
        all_events = [event for part in (stream[:at], stream[at:]) for event in reader.take_events(engine.feed(part))]
        assert aggregate_events(all_events) == whole


@pytest.mark.slow(cases=5)
@each_output
def test_it_is_the_same_however_it_is_cut(output: Output) -> None:
    whole = read_answer(output, [output.raw_text])

    @settings(max_examples=trials(30, deep=500))
    @given(st.lists(st.integers(0, len(output.raw_text)), max_size=12))
    def check(places: list[int]) -> None:
        at = [0, *sorted(places), len(output.raw_text)]
        assert read_answer(output, [output.raw_text[begin:end] for begin, end in pairwise(at)]) == whole

    check()


@pytest.mark.parametrize("output", [output for output in OUTPUTS if output.calls], ids=lambda output: output.family)
def test_marks_never_reach_the_client(output: Output) -> None:
    reader = AnswerReader(options_for(output), lambda _: "id")
    for event in events(reader, list(output.raw_text)):
        text = event.text if isinstance(event, TextDelta | ReasoningDelta) else ""
        assert not any(mark in text for mark in MARKS)


@each_output
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_a_call_cut_off_by_the_limit_is_not_made(output: Output, share: float) -> None:
    cut = output.raw_text[: int(len(output.raw_text) * share)]
    answer = aggregate_events(
        events(AnswerReader(options_for(output)), [cut], AnswerFinished(reason=FinishReason.LENGTH))
    )
    assert all(json.loads(call.arguments) in [call for _, call in output.calls] for call in answer.calls)
    assert isinstance(answer.end, AnswerFinished)
    assert answer.end.reason is FinishReason.LENGTH


@given(st.lists(st.text(alphabet='<|>{}[]"/=_:, abcdeforlntu\n｜▁`', max_size=12) | st.sampled_from(
    ["<think>", "</think>", "<tool_call>", "</tool_call>", '{"name": "now", "arguments": {}}', "<function=now>"]
), max_size=12), st.integers(1, 7))  # fmt: skip
def test_anything_a_model_may_write_is_read_the_same_in_pieces(parts: list[str], size: int) -> None:
    text = "".join(parts)
    for output in (OUTPUTS[0], OUTPUTS[3], OUTPUTS[15]):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert read_answer(output, pieces) == read_answer(output, [text])


@pytest.mark.parametrize("size", [1, 7, 300])
def test_a_call_after_much_space_and_what_looked_like_one_is_read_the_same(size: int) -> None:
    text = " " * 400 + '{"nam' + "x" * 300 + OUTPUTS[0].raw_text
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    answer = read_answer(OUTPUTS[0], pieces)
    assert answer == read_answer(OUTPUTS[0], [text])
    assert [call.name for call in answer.calls] == ["get_weather"]


def test_a_long_call_is_read_piece_by_piece() -> None:
    arguments = json.dumps({"city": "x" * 50_000})
    text = f'<tool_call>{{"name": "get_weather", "arguments": {arguments}}}</tool_call>Done.'
    answer = read_answer(OUTPUTS[0], [text[at : at + 3] for at in range(0, len(text), 3)])
    assert (answer.calls[0].arguments, answer.text) == (
        json.dumps(json.loads(arguments), separators=(",", ":")),
        "Done.",
    )


def test_text_goes_on_at_once() -> None:
    reader = AnswerReader(options_for(OUTPUTS[0]))
    assert reader.take_events([TextDelta("Hel")]) == [TextDelta("Hel")]
    assert reader.take_events([TextDelta("lo <to")]) == [TextDelta("lo")], "what may be a mark waits"
    assert reader.take_events([TextDelta("y>")]) == [TextDelta(" <toy>")]


def test_reasoning_goes_on_at_once() -> None:
    reader = AnswerReader(options_for(OUTPUTS[3]))
    assert reader.take_events([TextDelta("Hm")]) == [ReasoningDelta("Hm")]
    assert reader.take_events([TextDelta(" so</thi")]) == [ReasoningDelta(" so")]


@pytest.mark.parametrize("pieces", [["a b STOP c"], list("a b STOP c"), ["a b ST", "OP c"]])
def test_a_stop_sequence_ends_the_answer(pieces: list[str]) -> None:
    reader = AnswerReader(ReadingOptions(family=family_of(""), stops=("never", "STOP")))
    all_events = reader.take_events([TextDelta(piece) for piece in pieces])
    assert aggregate_events(all_events).text == "a b "
    assert all_events[-1] == AnswerFinished(reason=FinishReason.STOP, stop="STOP")
    assert reader.is_over
    assert reader.take_events([TextDelta("more"), DONE]) == []


def test_a_stop_sequence_does_not_end_reasoning() -> None:
    reader = AnswerReader(ReadingOptions(family=family_of("<think>"), stops=("STOP",)))
    answer = aggregate_events(events(reader, ["<think>STOP</think>So STO"]))
    assert (answer.thinking, answer.text) == ("STOP", "So STO")


def test_of_several_calls_one_at_a_time_is_the_first() -> None:
    output = OUTPUTS[2]
    reader = AnswerReader(ReadingOptions(family=family_of(output.template), tools=TOOLS, one_at_a_time=True))
    assert [call.name for call in aggregate_events(events(reader, [output.raw_text])).calls] == ["get_weather"]


def test_calls_have_ids_of_their_own_and_as_templates_want_them() -> None:
    two = OUTPUTS[2]
    calls = aggregate_events(events(AnswerReader(options_for(two)), [two.raw_text])).calls
    assert len({call.id for call in calls}) == 2
    mistral = next(output for output in OUTPUTS if output.family == "mistral, names")
    calls = aggregate_events(events(AnswerReader(options_for(mistral)), [mistral.raw_text])).calls
    assert all(len(call.id) == 9 and call.id.isalnum() for call in calls)
    assert new_id(0).startswith("call_")
    kimi = next(output for output in OUTPUTS if output.family.startswith("kimi"))
    assert [call.id for call in aggregate_events(events(AnswerReader(options_for(kimi)), [kimi.raw_text])).calls] == [
        "functions.get_weather:0",
        "functions.now:1",
    ]


def test_what_an_engine_tells_apart_itself_goes_by() -> None:
    reader = AnswerReader(options_for(OUTPUTS[0]))
    call = ToolCallDelta(index=0, id="a", name="now", arguments="{}")
    assert reader.take_events([ReasoningDelta("Hm."), call, DONE]) == [
        ReasoningDelta("Hm."),
        call,
        AnswerFinished(reason=FinishReason.TOOL_CALLS),
    ]


def test_probabilities_stay_with_the_text_and_not_with_marks() -> None:
    def token(text: str) -> TokenLogprob:
        return TokenLogprob(token=text, logprob=-0.5, top_logprobs=(TokenAlternative(token=text, logprob=-0.5),))

    reader = AnswerReader(options_for(OUTPUTS[2]))
    pieces = ["<think>", "Hm", "</think>", "So", " it", " is"]
    answer = aggregate_events(reader.take_events([*(TextDelta(piece, (token(piece),)) for piece in pieces), DONE]))
    assert [logprob.token for logprob in answer.logprobs][-3:] == ["So", " it", " is"]
    assert "Hm" not in [logprob.token for logprob in answer.logprobs]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{'a': 'it\\'s', b: True, 'c': None,}", {"a": "it's", "b": True, "c": None}),
        ('{"a": [1, 2,], "b": {"c": "x', {"a": [1, 2], "b": {"c": "x"}}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": "\\u00e9\\n"', {"a": "é\n"}),
        ("[1, 2", [1, 2]),
        ('{"a": -1.5e3,', {"a": -1500.0}),
        ('{"a', {}),
    ],
)
def test_json_is_repaired(text: str, value: object) -> None:
    assert parse_json(text) == value


@pytest.mark.parametrize(
    "text", ["", "no", '{"a" "b"}', '{"a": 1} x', '{"a": oops}', "[" * 100, '{"a": "\\uZZZZ"}', "1.2.3"]
)
def test_what_is_in_doubt_is_no_json(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- that it is refused counts, not the words
        parse_json(text)


SCHEMA = {
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
    "properties": {
        "n": {"type": "integer"},
        "s": {"type": "string"},
        "b": {"type": ["boolean", "null"]},
        "l": {"type": "array", "items": {"type": "integer"}},
        "p": {"$ref": "#/$defs/point"},
        "e": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "f": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
}


@pytest.mark.parametrize(
    ("arguments", "expected_arguments"),
    [
        ({"n": "5"}, {"n": 5}),
        ({"n": 5.0}, {"n": 5}),
        ({"n": "five"}, {"n": "five"}),
        ({"n": "5.5"}, {"n": "5.5"}),
        ({"s": 5}, {"s": "5"}),
        ({"s": "5"}, {"s": "5"}),
        ({"b": "true"}, {"b": True}),
        ({"b": "null"}, {"b": None}),
        ({"l": '["1", 2]'}, {"l": [1, 2]}),
        ({"p": '{"x": "1.5"}'}, {"p": {"x": 1.5}}),
        ({"e": "7"}, {"e": 7}),
        ({"f": "7"}, {"f": "7"}),
        ({"unknown": "7"}, {"unknown": "7"}),
    ],
)
def test_arguments_get_the_types_their_tool_wants(
    arguments: dict[str, object], expected_arguments: dict[str, object]
) -> None:
    assert fit_arguments(arguments, SCHEMA) == expected_arguments


def test_a_schema_that_goes_in_circles_is_left() -> None:
    circle = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}
    assert fit_arguments({"n": {"n": "5"}}, {**circle, "properties": {"n": {"$ref": "#/$defs/a"}}}) == {"n": {"n": "5"}}


@pytest.mark.parametrize(
    ("tail", "opens", "opens_when_on"),
    [
        ("{{ '<|im_start|>assistant\\n<think>\\n' }}", True, True),
        ("{% if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}", False, False),
        ("{% if enable_thinking is false %}<think></think>{% else %}{{ '<think>\\n' }}{% endif %}", True, True),
        ("{%- if not thinking %}{{'</think>'}}{%- else %}{{'<think>'}}{%- endif %}", False, True),
        ("{{ '<|im_start|>assistant\\n' }}", False, False),
    ],
)
def test_a_template_tells_whether_its_prompt_opens_the_reasoning(
    tail: str,
    opens: bool,  # noqa: FBT001 -- a column of a table
    opens_when_on: bool,  # noqa: FBT001 -- as above
) -> None:
    family = family_of(f"{{% if add_generation_prompt %}}{tail}{{% endif %}}")
    assert (family.opens, family.opens_when_on) == (opens, opens_when_on)


@pytest.mark.parametrize(
    "architecture", ["qwen2", "llama", "MistralForCausalLM", "phi3", "gemma3", "deepseek2", "cohere2"]
)
def test_without_a_template_the_architecture_says_something(architecture: str) -> None:
    family = family_of("", architecture)
    assert family.forms
    assert not family.renders_tools
