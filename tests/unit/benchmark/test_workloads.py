"""The prompts of a benchmark: equal for a seed, different in each round, and no longer than the model takes."""

import itertools

import msgspec
import pytest

from app.benchmark.answers import satisfies_schema
from app.benchmark.workloads import (
    AGENT_TURNS,
    estimate_context,
    hash_prompts,
    longest_prompt,
    make_workload,
    mark_conversation,
    pick_conversations,
    prompt_characters,
)
from app.core.benchmarks import BUILT_IN_WORKLOADS, BenchmarkMessage, BenchmarkPrompt, BenchmarkSettings, Workload


@pytest.mark.parametrize("workload", BUILT_IN_WORKLOADS)
def test_equal_settings_are_equal_prompts_and_another_seed_is_others(workload: Workload) -> None:
    first = make_workload(BenchmarkSettings(workload=workload, seed=7))
    assert hash_prompts(first) == hash_prompts(make_workload(BenchmarkSettings(workload=workload, seed=7)))
    assert hash_prompts(first) != hash_prompts(make_workload(BenchmarkSettings(workload=workload, seed=8)))
    assert all(prompt.answer_tokens > 1 for conversation in first for prompt in conversation)


def test_an_agents_prompts_grow_and_each_begins_as_the_one_before() -> None:
    for conversation in make_workload(BenchmarkSettings(workload=Workload.AGENT)):
        assert len(conversation) == AGENT_TURNS
        for before, after in itertools.pairwise(conversation):
            assert after.messages[: len(before.messages)] == before.messages
            assert prompt_characters(after) > prompt_characters(before) + 1000


def test_a_mark_is_the_first_thing_of_every_prompt_of_a_conversation() -> None:
    (conversation, *_) = make_workload(BenchmarkSettings(workload=Workload.AGENT))
    texts = {prompt.messages[0].content for prompt in mark_conversation(conversation, "f00")}
    assert len(texts) == 1, "or nothing could be kept from one turn to the next"
    assert texts.pop().startswith("(f00) ")


@pytest.mark.parametrize("workload", [Workload.RAG, Workload.AGENT])
@pytest.mark.parametrize("context", [1024, 2048, 4096])
def test_long_prompts_are_made_as_short_as_the_model_takes(workload: Workload, context: int) -> None:
    settings = BenchmarkSettings(workload=workload)
    cut = make_workload(settings, context=context)
    assert estimate_context(cut) <= context
    assert prompt_characters(longest_prompt(cut)) <= prompt_characters(longest_prompt(make_workload(settings)))


@pytest.mark.parametrize("level", [1, 3, 9])
def test_a_level_has_enough_requests_and_as_many_conversations_as_run_at_once(level: int) -> None:
    for workload in (Workload.CHAT, Workload.AGENT):
        settings = BenchmarkSettings(workload=workload, requests=6, concurrency=[1, 9])
        picks = pick_conversations(make_workload(settings), settings, level)
        assert len(picks) >= level
        assert sum(map(len, picks)) >= 6


def test_own_prompts_are_used_as_they_are() -> None:
    own = [BenchmarkPrompt(messages=[BenchmarkMessage(role="user", content=text)], answer_tokens=9) for text in "ab"]
    settings = BenchmarkSettings(workload=Workload.FILE, requests=3)
    assert [conversation[0] for conversation in make_workload(settings, own)] == [own[0], own[1], own[0]]
    longer = msgspec.structs.replace(settings, answer_tokens=50)
    assert {conversation[0].answer_tokens for conversation in make_workload(longer, own)} == {50}
    with pytest.raises(ValueError, match="there are none"):
        make_workload(settings)


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('{"item": "lamp", "quantity": 2, "town": "Northam", "is_urgent": false}', True),
        ('{"item": "lamp", "quantity": 2, "town": "Northam"}', False),
        ('{"item": "lamp", "quantity": true, "town": "Northam", "is_urgent": false}', False),
        ('{"item": "lamp", "quantity": 2.5, "town": "Northam", "is_urgent": false}', False),
        ('{"item": "lamp", "quantity": 2, "town": "Northam", "is_urgent": false, "more": 1}', False),
        ('{"item": "lamp", "quanti', False),
        ("[]", False),
    ],
)
def test_an_answer_satisfies_its_schema_or_not(text: str, *, is_valid: bool) -> None:
    ((prompt,), *_) = make_workload(BenchmarkSettings(workload=Workload.STRUCTURED))
    assert prompt.json_schema is not None
    assert satisfies_schema(text, prompt.json_schema) is is_valid


def test_schemas_are_followed_into_lists_and_values() -> None:
    schema = {name: msgspec.Raw(value) for name, value in SCHEMA.items()}
    assert satisfies_schema('[{"kind": "a"}, null]', schema) is False
    assert satisfies_schema('[{"kind": "a"}, {"kind": "b"}]', schema)
    assert satisfies_schema('[{"kind": "c"}]', schema) is False


SCHEMA = {"type": b'"array"', "items": b'{"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}}'}
