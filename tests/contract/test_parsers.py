"""Which parser of tool calls an engine is given for a model, and what it can do with one and without."""

import pytest

from engines.api import Descriptor, Feature, LaunchOptions
from engines.dynamo.descriptor import DESCRIPTOR as DYNAMO
from engines.llama_cpp.descriptor import DESCRIPTOR as LLAMA_CPP
from engines.lmdeploy.descriptor import DESCRIPTOR as LMDEPLOY
from engines.parsers import ToolCallFormat, parser_for, tool_call_format_of, with_parser_features
from engines.registry import ADAPTERS
from engines.sglang.descriptor import DESCRIPTOR as SGLANG
from engines.tensorrt_llm.descriptor import DESCRIPTOR as TENSORRT_LLM
from engines.vllm.descriptor import DESCRIPTOR as VLLM

PARTS = {
    ToolCallFormat.HERMES: '{{ \'<tool_call>\\n{"name": "\' + call.name }}',
    ToolCallFormat.QWEN_CODER: "{{ '<tool_call>\\n<function=' + call.name + '>' }}",
    ToolCallFormat.GLM_45: "{{ '\\n<tool_call>' + tc.name }}\n<arg_key>{{ k }}</arg_key>",
    ToolCallFormat.GLM_47: "{{- '<tool_call>' + tc.name -}}<arg_key>{{ k }}</arg_key>",
    ToolCallFormat.MISTRAL: "{{ '[TOOL_CALLS]' + name }}",
    ToolCallFormat.LLAMA_3: "{{ '<|python_tag|>' }}",
    ToolCallFormat.LLAMA_4: "{{ '<|python_start|>' }}",
    ToolCallFormat.DEEPSEEK_V3: "{{ '<｜tool▁calls▁begin｜>function<｜tool▁sep｜>' + name + '\\n```json' }}",
    ToolCallFormat.DEEPSEEK_V31: "{{ '<｜tool▁calls▁begin｜>' + name + '<｜tool▁sep｜>' }}",
    ToolCallFormat.DEEPSEEK_V32: "{{ '<｜DSML｜function_calls>' }}",
    ToolCallFormat.KIMI_K2: "<|tool_calls_section_begin|>",
    ToolCallFormat.MINIMAX_M2: "<minimax:tool_call>",
    ToolCallFormat.SEED_OSS: "<seed:tool_call>",
    ToolCallFormat.LFM_2: "<|tool_list_start|>",
    ToolCallFormat.GEMMA_4: "{{ '<|tool_call>call:' }}",
    ToolCallFormat.FUNCTION_GEMMA: "<start_function_call>",
    ToolCallFormat.GPT_OSS: "<|start|>assistant<|channel|>",
}
UNSURE = ("", "{{ messages }}", "{{ '<|tool_call|>' }}", "functools[", "<tool_calls>")
TAKES_ONE = (VLLM, SGLANG, LMDEPLOY, TENSORRT_LLM, DYNAMO)


@pytest.mark.parametrize(("calls", "template"), PARTS.items(), ids=list(PARTS))
def test_a_template_shows_how_its_model_calls(calls: ToolCallFormat, template: str) -> None:
    assert tool_call_format_of(f"{{% for m in messages %}}{template}{{% endfor %}}") is calls


@pytest.mark.parametrize("template", UNSURE)
def test_what_is_not_certain_gets_no_parser(template: str) -> None:
    assert tool_call_format_of(template) is None
    assert parser_for(VLLM.tool_parsers, template) is None


def test_all_ways_are_tried_and_engines_name_no_others() -> None:
    assert set(PARTS) == set(ToolCallFormat)
    for adapter in ADAPTERS.values():
        assert set(adapter.descriptor.tool_parsers) <= set(ToolCallFormat), adapter.descriptor.id


def test_each_engine_names_it_in_its_own_way() -> None:
    template = "<tool_call>"
    assert [parser_for(descriptor.tool_parsers, template) for descriptor in (VLLM, SGLANG, LMDEPLOY)] == [
        "hermes",
        "qwen",
        "qwen3",
    ]
    assert parser_for(LMDEPLOY.tool_parsers, PARTS[ToolCallFormat.MISTRAL]) is None, "it has none for these"


@pytest.mark.parametrize("about", TAKES_ONE, ids=lambda about: about.id)
def test_without_a_parser_calls_are_read_here_and_with_one_there(about: Descriptor) -> None:
    assert Feature.TOOLS not in with_parser_features(about, LaunchOptions()).features
    assert Feature.TOOLS in with_parser_features(about, LaunchOptions(tool_parser="hermes")).features
    assert Feature.REASONING not in with_parser_features(about, LaunchOptions()).features
    assert Feature.REASONING in with_parser_features(about, LaunchOptions(reasoning_parser="qwen3")).features


def test_an_engine_that_takes_none_is_as_it_is() -> None:
    assert with_parser_features(LLAMA_CPP, LaunchOptions()) is LLAMA_CPP


def test_no_other_engine_says_that_it_takes_one() -> None:
    engines_with_one = {
        adapter.descriptor.id for adapter in ADAPTERS.values() if Feature.TOOL_PARSER in adapter.descriptor.features
    }
    assert engines_with_one == {about.id for about in TAKES_ONE}
