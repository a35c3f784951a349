"""Tools in front of llama.cpp, which reads calls itself and leaves tools out where a template knows none."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from app.core.model_facts import ModelFacts
from app.core.models import Preset
from app.gateway.loading import draft_choice, launch
from app.gateway.loading.draft_choice import DraftChoice
from app.gateway.services import Services
from tests.gateway.exchange.test_supplied import CALLS, CHAT, TOOL, read_body, writes
from tests.gateway.exchange.test_supplied import Facts as Templates
from tests.gateway.played import Gateway


class Facts(Templates):
    """What is read of the model: templates that know no tools."""

    template = "{{ messages }}"
    tool_template = ""

    def read(self, path: Path) -> ModelFacts:  # noqa: ARG002
        return cast("ModelFacts", _Written(self.template, self.tool_template))


class _Written(msgspec.Struct):
    chat_template: str
    tool_template: str
    capabilities: tuple[str, ...] = ("chat",)
    architecture: str = "llama"
    has_draft_head: bool = False


@pytest.fixture
def services(services: Services) -> Services:
    return replace(services, facts=Facts())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v0/chat/completions"])
async def test_an_engine_that_reads_calls_is_not_left_to_pass_over_tools(gateway: Gateway, path: str) -> None:
    gateway.upstream.play = writes(CALLS)
    async with gateway.http.post(gateway.url + path, json={"model": "guide", **CHAT, "tools": [TOOL]}) as reply:
        choice = (await reply.json())["choices"][0]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    assert '"get_weather"' in read_body(gateway, 0)["messages"][0]["content"]
    assert "tools" not in read_body(gateway, 0)


async def test_requests_without_tools_pass_and_nobody_reads_the_model(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_choice, "_predict_draft", lambda *_: DraftChoice())  # which asks for a head of its own
    monkeypatch.setattr(Facts, "read", None)
    monkeypatch.setattr(launch, "check_template_of", lambda *_: None)
    gateway.upstream.play = writes("hello")
    for body in ({**CHAT, "stream": True}, {**CHAT, "stream": True, "tools": []}):
        async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json={"model": "guide", **body}) as reply:
            assert b"hel" in await reply.read()
        assert read_body(gateway) == {"model": "guide", **body}


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("name", ["template", "tool_template"])
async def test_tools_are_left_to_a_template_that_tells_of_them(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Facts, name, "{{ tools }}")
    gateway.upstream.play = writes("hello")
    body = {"model": "guide", **CHAT, "stream": True, "tools": [TOOL]}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert b"hel" in await reply.read()
    assert (read_body(gateway)["tools"], read_body(gateway)["messages"]) == ([TOOL], body["messages"])


async def test_a_made_models_system_prompt_stands_beside_the_tools(gateway: Gateway) -> None:
    library: Any = gateway.services.library
    guide = library.find_model("guide")
    library._models.append(msgspec.structs.replace(guide, name="made", preset=Preset(base="guide", system="Rhyme.")))
    gateway.upstream.play = writes(CALLS)
    body = {"model": "made", **CHAT, "tools": [TOOL]}
    async with gateway.http.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
        assert reply.status == 200
    assert read_body(gateway, 0)["messages"][0]["content"].startswith("Rhyme.\n\nYou can call these tools")
