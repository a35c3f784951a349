"""`litellm` and `llm` on an engine that answers, breaks and hangs by the script."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.dialects.test_scripted_clients import ALL, ARGUMENTS, WEATHER, says, script
from tests.gateway.played import Gateway
from tests.gateway.scripted import ERROR, TEXT, THOUGHT, Script
from tests.other_clients import base_url, litellm, llm_settings, programs_folder, run
from tests.patience import PATIENCE_S

__all__ = ["script"]

IMPATIENT_S = 2.0


@pytest.fixture
def programs() -> Path:
    return programs_folder()


async def ask_client(programs: Path, gateway: Gateway, provider: str, *asks: dict[str, Any]) -> list[dict[str, Any]]:
    where = f"{provider}/guide", base_url(gateway.url, provider)
    return await asyncio.to_thread(litellm, programs, *where, *({"max_tokens": 99, **request} for request in asks))


@pytest.mark.parametrize("provider", ["openai", "ollama_chat", "anthropic"])
async def test_litellm(programs: Path, gateway: Gateway, script: Script, provider: str) -> None:
    ways = [{"stream": True}, {"stream": False}]
    kinds = ["text", "tool", "think", "broken", "hang"]
    wishes: dict[str, dict[str, Any]] = {"tool": {"tools": [WEATHER]}, "hang": {"timeout": IMPATIENT_S}}
    asks = [{"messages": says(kind), **way, **wishes.get(kind, {})} for way in ways for kind in kinds]
    answers = await ask_client(programs, gateway, provider, *asks)
    for text, tool, think, is_broken, hang in (answers[: len(kinds)], answers[len(kinds) :]):
        assert text["text"] == ALL, str(text)
        assert tool["tool"] == "weather", str(tool)
        assert json.loads(tool["arguments"]) == ARGUMENTS
        assert (think["thoughts"], think["text"]) == ("".join(THOUGHT), ALL), str(think)
        assert ERROR in is_broken["message"], str(is_broken)
        assert is_broken["text"] in {"", TEXT[0]}
        assert hang["error"] == "Timeout", str(hang)
    await asyncio.wait_for(script.disconnect.wait(), PATIENCE_S)


@pytest.mark.parametrize("model", ["guide-openai", "guide:latest"])
async def test_llm(programs: Path, gateway: Gateway, script: Script, tmp_path: Path, model: str) -> None:
    del script
    env = llm_settings(gateway.url, tmp_path)
    for way in ([], ["--no-stream"]):
        output = await asyncio.to_thread(run, programs / "llm", "-m", model, *way, "text", env=env)
        assert output.strip() == ALL
        with pytest.raises(AssertionError, match=ERROR):
            await asyncio.to_thread(run, programs / "llm", "-m", model, *way, "broken", env=env)
