"""A context that is too short, as each engine says it, in the words of every dialect's clients."""

import json

import pytest

from app.gateway.dialects.anthropic.form import Messages
from app.gateway.dialects.openai.form import OPENAI
from app.gateway.exchange.engine.overflow import Counts, counts_in
from app.gateway.exchange.engine.refusals import ContextOverflow, refused

PROMPT = "Input validation error: `inputs` must have less than 1024 tokens. Given: 1872"
BOTH = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. "
    "Given: 1218 `inputs` tokens and 1500 `max_new_tokens`"
)


def tgi(sentence: str) -> bytes:
    return json.dumps({"error": sentence, "error_type": "validation"}).encode()


@pytest.mark.parametrize(
    ("sentence", "context", "prompt", "answer"),
    [
        (PROMPT, 1024, 1872, None),
        (BOTH, 2048, 1218, 1500),
        (BOTH.replace("1218", "9000"), 2048, 9000, None),
        ("input (4000 tokens) is too large to process. raise it (current batch size: 600)", 600, 4000, None),
        (
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
                "(4000 in the messages, 1000 in the completion). Please reduce the length of the messages."
            ),
            4096,
            4000,
            1000,
        ),
        (
            (
                "This model's maximum context length is 4096 tokens. However, you requested 1000 output tokens and "
                "your prompt contains at least 4000 input tokens, for a total of at least 5000 tokens."
            ),
            4096,
            4000,
            1000,
        ),
        (
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 900. This model's maximum context length is "
                "1000 tokens and your request has 200 input tokens (900 > 1000 - 200)."
            ),
            1000,
            200,
            900,
        ),
        (
            (
                "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. "
                "Please reduce the length of the input messages."
            ),
            4096,
            5000,
            None,
        ),
        ("This model's maximum context length is 4096 tokens. Please shorten it.", 4096, None, None),
        ("The input (43028 tokens) is longer than the model's context length (40960 tokens).", 40960, 43028, None),
        (
            (
                "Requested token count exceeds the model's maximum context length of 32768 tokens. You requested a "
                "total of 40000 tokens: 30000 tokens from the input messages and 10000 tokens for the completion."
            ),
            32768,
            30000,
            10000,
        ),
    ],
)
def test_each_engines_words_are_known(sentence: str, context: int, prompt: int | None, answer: int | None) -> None:
    assert counts_in(sentence) == Counts(context=context, prompt=prompt, answer=answer)


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
    assert counts_in(sentence) is None
    refusal = OPENAI.refusal(tgi(sentence), 422)
    error = json.loads(refusal.body)["error"]
    assert (refusal.status, error["code"]) == (422, "engine_error")
    assert sentence in error["message"]
    assert not isinstance(refused(tgi(sentence), 422), ContextOverflow)


def test_openais_clients_find_the_code_and_openais_words() -> None:
    for sentence, words in (
        (PROMPT, "maximum context length is 1024 tokens. However, your prompt has 1872 tokens."),
        (BOTH, "2048 tokens. However, you requested 2718 tokens (1218 in the messages, 1500 in the completion)."),
    ):
        refusal = OPENAI.refusal(tgi(sentence), 422)
        error = json.loads(refusal.body)["error"]
        assert (refusal.status, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
        assert error["type"] == "invalid_request_error"
        assert words in error["message"]


def test_anthropics_clients_find_the_sentence_they_read() -> None:
    form = Messages(request_id="req_1")
    for sentence, words in (
        (PROMPT, "prompt is too long: 1872 tokens > 1024 maximum"),
        (BOTH, "input length and `max_tokens` exceed context limit: 1218 + 1500 > 2048"),
    ):
        refusal = form.refusal(tgi(sentence), 422)
        said = json.loads(refusal.body)
        assert (refusal.status, said["error"]["type"]) == (400, "invalid_request_error")
        assert said["error"]["message"].startswith(words)


def test_the_others_are_told_both_counts_and_what_helps() -> None:
    too_long, both = refused(tgi(PROMPT), 422), refused(tgi(BOTH), 422)
    assert isinstance(too_long, ContextOverflow)
    assert isinstance(both, ContextOverflow)
    assert (too_long.prompt_tokens, too_long.context, too_long.code) == (1872, 1024, "context_length_exceeded")
    assert (both.prompt_tokens, both.context) == (1218, 2048)
    assert "1218 and 1500 tokens" in str(both)
    assert "shorter answer" in both.hint
