"""Chat templates in their sandbox: those of real models are rendered, and none gets out or lasts for ever."""

import json
from pathlib import Path

import pytest

from app.config.paths import RESOURCES
from engines.serving.answer_request import TemplateInput, parse_template_input
from engines.serving.refusals import RequestRefused
from engines.serving.templates import ChatTemplate, read_template

HELLO = TemplateInput(messages=[{"role": "user", "content": "hello"}])
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def render_template(text: str, template_input: TemplateInput = HELLO, limit_s: float = 5.0) -> str:
    return ChatTemplate(text, {"bos_token": "<s>", "eos_token": "</s>"}).render(template_input, limit_s)


def test_a_conversation_becomes_a_prompt() -> None:
    assert render_template(CHATML) == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_it_may_name_special_tokens_tools_and_what_a_client_adds() -> None:
    given_input = TemplateInput(
        messages=[], tools=[{"name": "f", "text": "<é>"}], arguments={"enable_thinking": False, "messages": "x"}
    )
    text = "{{ bos_token }}{{ tools | tojson }}{{ enable_thinking }}{{ messages | length }}"
    assert render_template(text, given_input) == '<s>[{"name": "f", "text": "<é>"}]False0'


def test_what_model_makers_use_beyond_jinja_is_there() -> None:
    text = (
        "{% for x in range(9) %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}"
        "{% generation %}said{% endgeneration %}{{ strftime_now('%Y') | length }}"
        "{%- set ns = namespace(n=1) -%}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ {'a': 1} | tojson(indent=1) }}"
    )
    assert render_template(text) == '01said42{\n "a": 1\n}'


def test_what_a_template_raises_is_told_to_the_client() -> None:
    with pytest.raises(RequestRefused, match="roles must alternate") as error:
        render_template("{{ raise_exception('roles must alternate') }}")
    assert error.value.status == 400


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages.append(1) }}",
        "{{ 'x' * 10 ** 9 }}",
        "{{ 2 ** 100000 }}",
        "{% for x in range(100001) %}x{% endfor %}",
        "{{ 'x'.ljust(10 ** 8) }}",
        "{{ 'x' | center(100000000) }}",
        "{{ '%0100000000d' | format(1) }}",
        "{{ '%0100000000d' % 1 }}",
        "{{ '{:0100000000d}'.format(1) }}",
        "{% set ns = namespace(s='x' * 100000) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% for a in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
        "{{ lipsum() }}",
    ],
)
def test_nothing_gets_out_or_fills_the_memory(text: str) -> None:
    with pytest.raises(RequestRefused, match="chat template cannot be applied"):
        render_template(text)


def test_one_that_takes_too_long_is_stopped() -> None:
    loops = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"
    with pytest.raises(RequestRefused, match="takes longer than"):
        render_template(loops, limit_s=0.05)
    assert render_template(CHATML)


def test_long_numbers_in_what_people_say_are_no_reason_to_refuse() -> None:
    given_input = TemplateInput(messages=[{"role": "user", "content": "100 % of 10000000 {:9999999}"}])
    text = "{% macro say(m) %}{{ m['content'] | trim }}{% endmacro %}{{ say(messages[0]) }}"
    text += "{{ messages[0].content.split('x')[0] }}"
    assert render_template(text, given_input).count("10000000") == 2


def test_one_with_a_mistake_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(RuntimeError, match="chat template parsing error"):
        ChatTemplate("{% for x in %}", {})


def test_the_guide_s_own_is_found_in_each_of_its_folders() -> None:
    for form in ("hf", "openvino", "onnx"):
        text, specials = read_template(RESOURCES / "guide" / form)
        assert text is not None
        assert render_template(text).endswith("<|im_start|>assistant\n")
        assert specials["eos_token"] == "<|im_end|>"


def test_a_template_is_looked_for_in_every_place_it_may_be(tmp_path: Path) -> None:
    assert read_template(tmp_path)[0] is None
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": "one", "bos_token": {"content": "<s>"}}))
    assert read_template(tmp_path) == ("one", {"bos_token": "<s>", "eos_token": "", "pad_token": "", "unk_token": ""})
    templates = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "two"}]
    config.write_text(json.dumps({"chat_template": templates}))
    assert read_template(tmp_path)[0] == "two"
    (tmp_path / "chat_template.jinja").write_text("three")
    assert read_template(tmp_path)[0] == "three"
    config.write_text("{")
    assert read_template(tmp_path)[0] == "three"


TRIMMING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim if trims else m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def continuing_input(words: str, **arguments: object) -> TemplateInput:
    messages = [{"role": "user", "content": "It is a b"}, {"role": "assistant", "content": words}]
    return TemplateInput(messages=messages, continues=True, arguments=arguments)


@pytest.mark.parametrize(
    ("words", "end"),
    [("It is a", "It is a"), ("It is a ", "It is a "), ("\n It is a\n", "It is a\n"), ("It is a b", "It is a b")],
)
def test_a_prompt_ends_with_the_words_that_are_gone_on_with(words: str, end: str) -> None:
    prompt = ChatTemplate(TRIMMING, {}).render(continuing_input(words))
    assert prompt.startswith("<|im_start|>user\nIt is a b<|im_end|>\n<|im_start|>assistant\n")
    assert prompt.endswith(f"{end}")
    assert prompt.count("<|im_end|>") == 1
    trimmed_prompt = ChatTemplate(TRIMMING, {}).render(continuing_input(words, trims=True))
    assert trimmed_prompt.endswith(f"assistant\n{words.strip()}")


def test_a_template_that_hides_or_changes_the_last_message_cannot_go_on_with_it() -> None:
    for text in ("{{ messages[0].content }}", "{{ messages[-1].content | upper }}"):
        with pytest.raises(RequestRefused, match="gone on with"):
            ChatTemplate(text, {}).render(continuing_input("Once upon"))


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": " "}],
        [{"role": "assistant", "content": None}],
    ],
)
def test_only_words_of_the_assistant_are_gone_on_with(messages: list[dict[str, object]]) -> None:
    assert not parse_template_input({"messages": messages}).continues
    with pytest.raises(RequestRefused, match="words of the assistant"):
        parse_template_input({"messages": messages, "continue_final_message": True})
