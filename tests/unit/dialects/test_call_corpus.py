"""Of what models of many families write, slips and all, nearly everything is read as it was meant."""

import json
import random

import msgspec
import pytest

from app.gateway.canonical.events import AnswerFinished, FinishReason, TextDelta, WholeAnswer, aggregate_events
from app.gateway.canonical.families.answer import AnswerReader, ReadingOptions
from app.gateway.canonical.families.call_check import check_call
from app.gateway.canonical.families.family import family_of
from app.gateway.canonical.request import ToolDefinition
from tests.call_cases import CALL_CASES, CallCase, schemas_of
from tests.unit.dialects.call_corpus import CORPUS_TOOLS, CorpusCall, CorpusEntry, corpus_entries, write_answers

_SMALLEST_CORPUS = 500
_FAMILIES = 15
_RIGHT = 0.99
"""Today all are right but those of Mistral's older notation, which has no end, with text after the calls."""


def read_pieces(entry: CorpusEntry, pieces: list[str], tools: tuple[ToolDefinition, ...] = CORPUS_TOOLS) -> WholeAnswer:
    family = family_of(entry.template)
    reader = AnswerReader(ReadingOptions(family=family, tools=tools, is_open=family.opens), lambda _: "id")
    events = [event for piece in pieces for event in reader.take_events([TextDelta(piece)])]
    return aggregate_events([*events, *reader.take_events([AnswerFinished(reason=FinishReason.STOP)])])


def is_right(entry: CorpusEntry, answer: WholeAnswer) -> bool:
    calls = [(call.name, json.loads(call.arguments)) for call in answer.calls]
    expected_calls = [(call.name, dict(call.arguments)) for call in entry.calls]
    return calls == expected_calls and (answer.text.strip(), answer.thinking.strip()) == (entry.text, entry.thinking)


def cut_into_pieces(text: str, seed: int) -> list[str]:
    dice, pieces = random.Random(seed), list[str]()  # noqa: S311 -- only has to differ
    while text:
        size = dice.randint(1, 9)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


def test_nearly_all_of_the_corpus_is_read_as_it_was_meant() -> None:
    entries = corpus_entries()
    wrong = [entry for entry in entries if not is_right(entry, read_pieces(entry, [entry.raw_text]))]
    assert len(entries) >= _SMALLEST_CORPUS
    assert len({entry.family for entry in entries}) >= _FAMILIES
    listing = "\n".join(f"{entry.family}: {entry.slip}: {entry.raw_text!r}" for entry in wrong[:40])
    assert len(entries) - len(wrong) >= _RIGHT * len(entries), f"{len(wrong)} of {len(entries)}\n{listing}"


@pytest.mark.slow
def test_it_is_read_the_same_in_pieces_of_any_size() -> None:
    for number, entry in enumerate(corpus_entries()):
        whole = read_pieces(entry, [entry.raw_text])
        assert read_pieces(entry, cut_into_pieces(entry.raw_text, number)) == whole, entry


def read_case(case: CallCase, entry: CorpusEntry) -> tuple[list[tuple[str, object]], str]:
    """Return the calls, checked against their tools, and the text that a family's answer is read as."""
    tools = tuple(
        ToolDefinition(name=name, parameters=msgspec.Raw(json.dumps(schema).encode()))
        for name, schema in schemas_of(case).items()
    )
    answer = read_pieces(entry, [entry.raw_text], tools)
    calls = [check_call(call, tools).call for call in answer.calls]
    return [(call.name, json.loads(call.arguments)) for call in calls], answer.text.strip()


@pytest.mark.slow
def test_cases_are_read_as_they_are_meant_in_the_notation_of_every_family() -> None:
    wrong, count = list[str](), 0
    for case in CALL_CASES:
        for entry in write_answers([CorpusCall(*call) for call in case.calls], case.text):
            count += 1
            calls, text = read_case(case, entry)
            if (calls, text) != (case.result, entry.text):
                wrong.append(f"{entry.family}: {case.kind}: {entry.raw_text!r}: {calls} {text!r}")
    assert count > len(CALL_CASES) * _FAMILIES
    assert not wrong, f"{len(wrong)} of {count}\n" + "\n".join(wrong[:40])
