"""A context that is too short, as each engine says it, in the words of every dialect's clients."""

import json
from collections.abc import Mapping

import pytest

from app.gateway.canonical.events import ContextOverflow, Overflow, failure_event
from app.gateway.chats.answer_writer import error_for_reader
from app.gateway.dialects.anthropic.answers import AnthropicMessageForm
from app.gateway.dialects.openai.answers import CHAT
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.dialects.registry import dialect_of
from app.gateway.exchange.engine.error_document import error_from_refusal, overflow_in, parse_refusal
from tests.overflow_wordings import WORDINGS, WORDS, Wording

EACH = pytest.mark.parametrize("wording", WORDINGS, ids=[wording.id for wording in WORDINGS])


def tgi(sentence: str) -> bytes:
    return json.dumps({"error": sentence, "error_type": "validation"}).encode()


@EACH
def test_each_engines_words_are_known(wording: Wording) -> None:
    body = json.dumps(wording.document).encode()
    refusal = parse_refusal(body, wording.status)
    assert (refusal.status, refusal.code, refusal.overflow) == (400, "context_length_exceeded", wording.overflow)
    error = error_from_refusal(body, wording.status)
    assert isinstance(error, ContextOverflow)
    assert failure_event(error).overflow == wording.overflow
    assert (error.prompt_tokens, error.context, error.overflow.answer) == (
        wording.overflow.prompt,
        wording.overflow.context,
        wording.overflow.answer,
    )


def test_counts_with_commas_are_counts() -> None:
    sentence = (
        "This model's maximum context length is 1,048,576 tokens. However, your request has 2,000,000 input tokens."
    )
    assert overflow_in(sentence) == Overflow(context=1048576, prompt=2000000)


def test_no_shorter_answer_is_asked_for_where_none_would_help() -> None:
    sentence = (
        "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens (8000 in the "
        "messages, 1000 in the completion)."
    )
    assert overflow_in(sentence) == Overflow(context=4096, prompt=8000)


@pytest.mark.parametrize(
    "sentence",
    [
        "Input validation error: `max_new_tokens` must be <= 192. Given: 500",
        "Input validation error: `inputs` cannot be empty",
        "Input validation error: `temperature` must be strictly positive",
        "Tool error: no tool was chosen among 4096 tokens",
        "Template error: template not found",
        "",
    ],
)
def test_what_is_refused_for_something_else_stays_so(sentence: str) -> None:
    assert overflow_in(sentence) is None
    refusal = OPENAI.refusal(tgi(sentence), 422)
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["code"]) == (422, "engine_error")
    assert sentence in error["message"]
    assert not isinstance(error_from_refusal(tgi(sentence), 422), ContextOverflow)


@pytest.mark.parametrize(("path", "words"), WORDS.items(), ids=list(WORDS))
def test_every_dialect_has_its_vendors_words(path: str, words: Mapping[Overflow, str]) -> None:
    for overflow, sentence in words.items():
        assert dialect_of(path, {}).word_message("x", overflow) == sentence


def test_the_windows_chats_say_it_in_theirs() -> None:
    assert str(error_for_reader(ContextOverflow(Overflow(context=1024, prompt=1872)))) == (
        "This conversation is 1,872 tokens long, and the model has a context of 1,024 tokens."
    )
    both = error_for_reader(ContextOverflow(Overflow(context=1024, prompt=900, answer=500)))
    assert "900 tokens long, its answer may take 500, and" in str(both)
    assert "Longest answer" in both.hint


EVENT = (
    b'data: {"error": {"message": "The input (1872 tokens) is longer than the model\'s context length (1024 tokens).",'
    b' "type": "BadRequestError", "code": 400}}\n\n'
)


def test_an_engine_that_says_so_in_its_stream_says_it_in_the_dialects_words() -> None:
    stream = CHAT.editor()(b": waiting\n\n" + EVENT + b"data: [DONE]\n\n")
    assert stream.startswith(b': waiting\n\ndata: {"error":{"message":"This model\'s maximum context length is 1024')
    assert stream.endswith(b'"code":"context_length_exceeded","param":"messages"}}\n\ndata: [DONE]\n\n')
    assert OPENAI.is_complete(stream)
    data = AnthropicMessageForm(request_id="req_1").editor()(b"event: error\n" + EVENT)
    assert b"prompt is too long: 1872 tokens > 1024 maximum" in data


@pytest.mark.parametrize(
    "chunk",
    [
        b'data: {"error": {"message": "The sampler gave up.", "type": "server_error", "code": 500}}\n\n',
        b'data: {"choices":[{"delta":{"content":"an \\"error\\": exceeds the context size"}}]}\n\n',
        EVENT[:-3],
    ],
)
def test_what_else_is_in_a_stream_keeps_its_bytes(chunk: bytes) -> None:
    assert OPENAI.editor()(chunk) == chunk
