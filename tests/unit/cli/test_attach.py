"""Attaching from the command line: where the key comes from, and what is said of it."""

from typing import Any

import pytest
from click.testing import CliRunner

from app.cli import attach, main
from app.config.environment import attach_key
from app.core.capabilities import Capability
from app.core.models import AttachEndpoint, CorrectAttached, ModelInfo


class Gateway:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[AttachEndpoint] = []
        self.corrections: list[tuple[str, CorrectAttached]] = []

    def patch(self, path: str, body: CorrectAttached, reply: Any, *, timeout_s: float) -> ModelInfo:  # noqa: ANN401 -- any type
        assert reply is ModelInfo
        assert timeout_s > 20
        self.corrections.append((path, body))
        can = [Capability.EMBEDDING]
        return ModelInfo(name="big", title="big", path="", format="remote", size_bytes=0, capabilities=can)

    def post(self, path: str, body: AttachEndpoint, reply: Any, *, timeout_s: float) -> list[ModelInfo]:  # noqa: ANN401 -- any type
        assert (path, reply) == ("/attached", list[ModelInfo])
        assert timeout_s > 20
        self.requests.append(body)
        return [ModelInfo(name="big", title="big", path="", format="remote", size_bytes=0)]


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    monkeypatch.setattr(attach, "connect_gateway", lambda: played_gateway)
    monkeypatch.delenv("ROUNDHOUSE_ATTACH_KEY", raising=False)
    return played_gateway


def run(*arguments: str, stdin: str = "") -> Any:  # noqa: ANN401 -- click's
    return CliRunner().invoke(main.roundhouse, ["attach", *arguments], input=stdin)


def test_without_a_key_none_is_sent_and_nothing_is_said_of_one(gateway: Gateway) -> None:
    result = run("http://box:8000/v1", "--name", "big", "--model", "a", "--model", "b")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "big was added.\n", "")
    assert gateway.requests == [AttachEndpoint(url="http://box:8000/v1", name="big", models=["a", "b"])]


def test_a_key_comes_from_standard_input_the_environment_or_a_prompt(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("https://box", "--key-stdin", stdin="sk-1\n")
    monkeypatch.setattr(attach, "getpass", lambda _prompt: "sk-2")
    run("https://box", "--ask-key")
    monkeypatch.setenv("ROUNDHOUSE_ATTACH_KEY", "sk-3")
    result = run("https://box")
    assert [request.key for request in gateway.requests] == ["sk-1", "sk-2", "sk-3"]
    assert result.stderr == ""
    assert attach_key({"ROUNDHOUSE_ATTACH_KEY": " x "}) == "x"


def test_a_key_on_the_command_line_or_in_the_clear_is_warned_of_and_never_repeated(gateway: Gateway) -> None:
    result = run("http://box", "--key", "sk-secret")
    assert "other programs" in result.stderr
    assert "unencrypted" in result.stderr
    assert "sk-secret" not in result.output
    assert "sk-secret" not in repr(gateway.requests[0])
    assert gateway.requests[0].key == "sk-secret"


def test_two_ways_at_once_are_refused_before_anything_is_asked(gateway: Gateway) -> None:
    assert run("http://box", "--key", "a", "--key-stdin", stdin="b").exit_code == 2
    assert gateway.requests == []


def test_what_its_models_can_do_is_said_with_it(gateway: Gateway) -> None:
    run("http://box", "--can", "embeddings,rerank", "--context", "32768")
    stated_capabilities = [Capability.EMBEDDING, Capability.RERANK]
    assert gateway.requests == [AttachEndpoint(url="http://box", can=stated_capabilities, context=32768)]
    assert "fly" in run("http://box", "--can", "fly").stderr


@pytest.mark.parametrize(
    ("options", "correction"),
    [
        (("--can", "embedding"), CorrectAttached(can=[Capability.EMBEDDING])),
        (("--can", "auto"), CorrectAttached(can=None)),
        (("--context", "512"), CorrectAttached(context=512)),
        (("--context", "0"), CorrectAttached(context=None)),
        ((), CorrectAttached()),
    ],
)
def test_one_that_is_attached_is_corrected_by_its_name(
    gateway: Gateway, options: tuple[str, ...], correction: CorrectAttached
) -> None:
    result = run("big", *options)
    assert gateway.corrections == [("/attached/big", correction)]
    assert "embedding" in result.stdout


def test_an_address_without_its_scheme_is_no_name_where_more_is_said(gateway: Gateway) -> None:
    assert "http://" in run("box:8000", "--name", "big").stderr
    assert gateway.corrections == []
