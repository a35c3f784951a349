"""What of a whole answer is new, where the engine repeats the turn that it goes on with."""

import json

import pytest

from app.gateway.canonical.assistant_prefill import NOTHING, AssistantPrefill
from app.gateway.dialects.anthropic import answers
from app.gateway.dialects.anthropic.answers import AnthropicAnswerParams
from app.gateway.dialects.openai.answers import OpenAIChatForm
from app.gateway.dialects.openai.chat_request import OpenAIChatRequest, OpenAIMessage, to_canonical_request
from app.gateway.exchange.engine.capability import RequestNeed, needs_of


@pytest.mark.parametrize(
    ("texts", "output", "new"),
    [
        ((), "Hi", "Hi"),
        (("",), "Hi", "Hi"),
        (("It is ",), "It is raining", "raining"),
        (("It ", "is"), "It \n\nis raining", " raining"),
        (("\nIt is",), "\nIt is raining", " raining"),
        (("It is",), "It rains", "It rains"),
        (("It", "was"), "It is", "It is"),
        (("a",), "aa", "a"),
    ],
)
def test_what_follows_the_text(texts: tuple[str, ...], output: str, new: str) -> None:
    assert AssistantPrefill(texts=texts).new_text(output) == new


def test_what_follows_the_reasoning() -> None:
    assert AssistantPrefill(thinking="Hm").new_thinking("Hm\n\n") == ""
    assert AssistantPrefill(thinking="Hm").new_thinking("Hm, so") == ", so"
    assert NOTHING.new_thinking("Hm") == "Hm"


def test_a_chat_that_went_on() -> None:
    body = json.dumps({"choices": [{"message": {"content": "It rains", "reasoning_content": "Hm\n"}}]}).encode()
    form = OpenAIChatForm(prefilled=AssistantPrefill(texts=("It ",), thinking="Hm"))
    assert json.loads(form.whole(body))["choices"][0]["message"] == {"content": "rains"}


def test_a_message_that_went_on() -> None:
    content = [{"type": "thinking", "thinking": "Hm\n"}, {"type": "text", "text": "It rains"}]
    wishes = AnthropicAnswerParams(prefilled=AssistantPrefill(texts=("It ",), thinking="Hm"))
    body = json.loads(answers.whole_message(json.dumps({"content": content}).encode(), wishes))
    assert body["content"] == [{"type": "text", "text": "rains"}]


@pytest.mark.parametrize("flag", [True, False, None])
def test_the_clients_wish_to_go_on_reaches_engines_that_are_asked_for_it(*, flag: bool | None) -> None:
    messages = [OpenAIMessage(role="user", content="Hi"), OpenAIMessage(role="assistant", content="Once")]
    request = to_canonical_request(OpenAIChatRequest(messages=messages, continue_final_message=flag))
    assert request.continues is bool(flag)
    assert (RequestNeed.PREFILL in needs_of(request)) is bool(flag)
