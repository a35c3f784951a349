"""Our reading of grammars held against llama.cpp's, and what a chat asks of its answers against the real engine."""

from collections.abc import Sequence

import pytest

from app.cli.answer_options import check_answer_choices
from app.client.endpoint import AnswerStream, EndpointMessage
from app.client.http import GatewayClient
from app.core.chats import Sampling
from app.core.errors import BadRequest, EngineFailed
from app.core.grammars import check_grammar
from app.core.thinking import ThinkingLevel
from tests.unit.core.test_grammars import RIGHT, WRONG

pytestmark = pytest.mark.real_engine

GUIDE = "guide"
STRICTER = ("cannot be repeated without end", "a rule may not begin with itself", "more than")
"""What we refuse before llama.cpp does, or although it does not."""
HI = [EndpointMessage("user", "Is four bits much?")]


def answer(client: GatewayClient, sampling: Sampling, messages: Sequence[EndpointMessage] = HI) -> str:
    return "".join(AnswerStream(client.gateway, GUIDE, messages, sampling))


@pytest.mark.parametrize("grammar", RIGHT)
def test_what_we_take_llama_cpp_takes(client: GatewayClient, grammar: str) -> None:
    check_grammar(grammar)
    if "<[" not in grammar:  # which tokens there are is the model's
        answer(client, Sampling(grammar=grammar, max_tokens=4))


@pytest.mark.parametrize("grammar", [grammar for grammar, words in WRONG if not words.startswith(STRICTER)])
def test_what_llama_cpp_refuses_we_refuse(client: GatewayClient, grammar: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        check_grammar(grammar)
    if any(words in str(refusal.value) for words in STRICTER):
        return
    with pytest.raises(EngineFailed):
        answer(client, Sampling(grammar=grammar, max_tokens=4))


def test_answers_keep_to_a_grammar_and_a_schema(client: GatewayClient) -> None:
    sampling = Sampling(grammar='root ::= "yes" | "no"', thinking=ThinkingLevel.HIGH)
    check_answer_choices(client, GUIDE, sampling)
    assert answer(client, sampling) in {"yes", "no"}
    assert answer(client, Sampling(json_schema='{"enum": ["small", "big"]}')).strip() in {'"small"', '"big"'}


def test_an_answer_ends_at_a_stop_text(client: GatewayClient) -> None:
    whole = answer(client, Sampling(temperature=0, max_tokens=40))
    word = whole.split()[3]
    assert answer(client, Sampling(temperature=0, max_tokens=40, stops=[word])) == whole[: whole.index(word)]
