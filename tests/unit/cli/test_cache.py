"""`roundhouse cache` as a person reads it, and what it asks the service."""

import json
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from app.cli import cache as command
from app.cli.cache import note_lines, prompt_lines
from app.cli.main import roundhouse
from app.core.kept_prompts import SealKeyState, WarmPrompt, WarmPromptModel, WarmPrompts

AGENT = WarmPrompt(
    id="0123456789abcdef",
    model="qwen3-8b",
    engine="llama.cpp",
    key="agent",
    is_chat=False,
    tokens=31_020,
    place="disk",
    size_bytes=3 << 30,
    saves_s=38.0,
    created_at=0.0,
    used_at=0.0,
)
CHAT = msgspec.structs.replace(AGENT, id="0999", key="", is_chat=True, place="memory")
KEPT = WarmPrompts(
    prompts=[AGENT, CHAT],
    disk_bytes=3 << 30,
    disk_limit_bytes=4 << 30,
    memory_bytes=0,
    memory_limit_bytes=0,
    keyring=SealKeyState.HOLDS_KEY,
    models=[
        WarmPromptModel(model="qwen3-8b", engine="llama.cpp", is_kept=True),
        WarmPromptModel(model="phi", engine="vllm", is_kept=False, reason="Not on this engine."),
    ],
)


class PromptService:
    """Answers as the gateway does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def get(self, path: str, _kind: type) -> WarmPrompts:
        self.calls.append(f"GET {path}")
        return KEPT

    def delete(self, path: str) -> None:
        self.calls.append(f"DELETE {path}")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> PromptService:
    service = PromptService()
    monkeypatch.setattr(command, "connect_gateway", lambda: service)
    return service


def run_cache(*args: str) -> Any:  # noqa: ANN401 -- click's Result
    return CliRunner().invoke(roundhouse, ["cache", *args])


def test_a_prompt_is_a_line_with_what_it_saves_and_whose_it_is() -> None:
    head, agent, chat = (" ".join(click.unstyle(line).split()) for line in prompt_lines(KEPT))
    assert head == "ID MODEL TOKENS SAVES SIZE WHERE OF LAST USED"
    assert agent.startswith("0123456789ab qwen3-8b 31,020 38 s 3.0 GiB disk agent ")
    assert "memory the window's chats" in chat


def test_notes_say_the_limits_the_keyring_and_which_models_are_not_kept() -> None:
    notes = list(note_lines(KEPT))
    assert notes[0] == "Disk: 3.0 GiB of 4.0 GiB. Memory: switched off."
    assert "keyring holds" in notes[1]
    assert notes[2:] == ["phi: Not on this engine."]
    empty = msgspec.structs.replace(KEPT, prompts=[], keyring=SealKeyState.REFUSED, models=[])
    assert "No prompt is kept." in next(note_lines(empty))
    assert "nothing is kept on the disk" in list(note_lines(empty))[-1]
    assert not list(prompt_lines(empty))


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_it_lists_and_is_json_for_programs(service: PromptService, arguments: tuple[str, ...]) -> None:
    assert "qwen3-8b" in run_cache(*arguments).output
    listing = json.loads(run_cache(*arguments, "--json").stdout)
    assert listing["version"] == 1
    assert [prompt["tokens"] for prompt in listing["prompts"]] == [31_020, 31_020]
    assert service.calls == ["GET /kept-prompts"] * 2


def test_one_is_removed_by_the_beginning_of_its_id(service: PromptService) -> None:
    result = run_cache("remove", "0123")
    assert result.output == "1 kept prompt was removed.\n"
    assert service.calls[-1] == "DELETE /kept-prompts/0123456789abcdef"


@pytest.mark.parametrize(
    ("arguments", "query", "count"),
    [
        (("--model", "qwen3-8b"), "model=qwen3-8b&key=", 2),
        (("--key", "agent"), "model=&key=agent", 1),
        (("--all",), "model=&key=", 2),
    ],
)
def test_many_are_removed_at_once(service: PromptService, arguments: tuple[str, ...], query: str, count: int) -> None:
    result = run_cache("remove", *arguments, "--json")
    assert len(json.loads(result.stdout)["removed"]) == count
    assert service.calls[-1] == f"DELETE /kept-prompts?{query}"


@pytest.mark.parametrize("arguments", [(), ("0",), ("none",), ("0123", "--all"), ("--all", "--model", "m")])
def test_what_is_not_clear_removes_nothing(service: PromptService, arguments: tuple[str, ...]) -> None:
    assert run_cache("remove", *arguments).exit_code == 2
    assert not any(call.startswith("DELETE") for call in service.calls)
