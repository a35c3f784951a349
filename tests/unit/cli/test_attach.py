"""Attaching from the command line: where the key comes from, and what is said of it."""

from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import attach, main
from app.config.environment import attach_key
from app.core.attached import AttachEndpoint
from app.core.models import ModelInfo


class Gateway:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[AttachEndpoint] = []

    def post(self, path: str, body: AttachEndpoint, reply: Any, *, timeout_s: float) -> list[ModelInfo]:  # noqa: ANN401 -- any type
        assert (path, reply) == ("/attached", list[ModelInfo])
        assert timeout_s > 20
        self.asked.append(body)
        return [ModelInfo(name="big", title="big", path="", format="remote", size_bytes=0)]


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    made = Gateway()
    monkeypatch.setattr(attach, "connected", lambda: made)
    monkeypatch.delenv("ROUNDHOUSE_ATTACH_KEY", raising=False)
    return made


def run(*arguments: str, stdin: str = "") -> Any:  # noqa: ANN401 -- click's
    return CliRunner().invoke(main.roundhouse, ["attach", *arguments], input=stdin)


def test_without_a_key_none_is_sent_and_nothing_is_said_of_one(gateway: Gateway) -> None:
    done = run("http://box:8000/v1", "--name", "big", "--model", "a", "--model", "b")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "big is here now.\n", "")
    assert gateway.asked == [AttachEndpoint(url="http://box:8000/v1", name="big", models=["a", "b"])]


def test_a_key_comes_from_standard_input_the_environment_or_a_prompt(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("https://box", "--key-stdin", stdin="sk-1\n")
    monkeypatch.setattr(attach, "getpass", lambda _prompt: "sk-2")
    run("https://box", "--ask-key")
    monkeypatch.setenv("ROUNDHOUSE_ATTACH_KEY", "sk-3")
    done = run("https://box")
    assert [one.key for one in gateway.asked] == ["sk-1", "sk-2", "sk-3"]
    assert done.stderr == ""
    assert attach_key({"ROUNDHOUSE_ATTACH_KEY": " x "}) == "x"


def test_a_key_on_the_command_line_or_in_the_clear_is_warned_of_and_never_repeated(gateway: Gateway) -> None:
    done = run("http://box", "--key", "sk-secret")
    assert "other programs" in done.stderr
    assert "unencrypted" in done.stderr
    assert "sk-secret" not in done.output
    assert "sk-secret" not in repr(gateway.asked[0])
    assert gateway.asked[0].key == "sk-secret"


def test_two_ways_at_once_are_refused_before_anything_is_asked(gateway: Gateway) -> None:
    assert run("http://box", "--key", "a", "--key-stdin", stdin="b").exit_code == 2
    assert gateway.asked == []
