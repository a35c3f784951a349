"""An answer that goes on with the assistant's last turn holds what is new, at once as in pieces, in every dialect."""

from collections.abc import Callable
from typing import Any, cast

import anthropic
import ollama
import openai
import pytest

from app.client.http import GatewayClient

pytestmark = pytest.mark.real_engine

BEGUN: list[Any] = [
    {"role": "user", "content": "What is Roundhouse?"},
    {"role": "assistant", "content": "Roundhouse is a"},
]


def _chat(url: str, *, streams: bool, base: str = "/v1") -> str:
    with openai.OpenAI(base_url=url + base, api_key="any", max_retries=0, timeout=60) as api:
        arguments: dict[str, Any] = {"model": "guide", "messages": BEGUN, "max_tokens": 12, "temperature": 0}
        if streams:
            chunks = api.chat.completions.create(**arguments, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        return api.chat.completions.create(**arguments).choices[0].message.content or ""


def _lm_studio(url: str, *, streams: bool) -> str:
    return _chat(url, streams=streams, base="/api/v0")


def _messages(url: str, *, streams: bool) -> str:
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0, timeout=60) as api:
        arguments: dict[str, Any] = {"model": "guide", "messages": BEGUN, "max_tokens": 12}
        arguments["extra_body"] = {"temperature": 0}
        if streams:
            with api.messages.stream(**arguments) as stream:
                return stream.get_final_text()
        return str(cast("Any", api.messages.create(**arguments).content[0]).text)


def _responses(url: str, *, streams: bool) -> str:
    with openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0, timeout=60) as api:
        arguments: dict[str, Any] = {"model": "guide", "input": BEGUN, "max_output_tokens": 12, "temperature": 0}
        if streams:
            events = api.responses.create(**arguments, stream=True)
            return "".join(event.delta for event in events if event.type == "response.output_text.delta")
        return str(api.responses.create(**arguments).output_text)


def _ollama(url: str, *, streams: bool) -> str:
    with ollama.Client(host=url, timeout=60) as api:
        arguments: dict[str, Any] = {"messages": BEGUN, "options": {"num_predict": 12, "temperature": 0}}
        if streams:
            return "".join(line.message.content or "" for line in api.chat("guide", **arguments, stream=True))
        return api.chat("guide", **arguments).message.content or ""


@pytest.mark.parametrize("ask", [_chat, _lm_studio, _messages, _responses, _ollama])
def test_only_what_is_new(client: GatewayClient, ask: Callable[..., str]) -> None:
    whole = ask(client.gateway.url, streams=False)
    assert whole == ask(client.gateway.url, streams=True)
    assert whole.startswith(" desktop app")
