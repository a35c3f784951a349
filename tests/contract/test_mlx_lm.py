"""MLX-LM's adapter, and the parts of its worker that need no MLX: command line, limits, errors, whose fault it was."""

import array
import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines import worker_base
from engines.api import (
    Draft,
    EngineInstallation,
    Failure,
    FailureKind,
    LaunchOptions,
    ListenOptions,
    ModelFormat,
    ModelSource,
    ReadyWhen,
)
from engines.mlx_lm.batches import StepLogprobs, batch_class, look_after_each_step, read_figure
from engines.mlx_lm.handler import GuardedHandler, WatchedGenerator, error_body
from engines.mlx_lm.launch import ADAPTER, TABLE
from engines.mlx_lm.worker import WITHOUT_LIMIT
from engines.mlx_lm.worker import build_arguments as command_line

HERE = EngineInstallation(engine="mlx-lm", version="0.32.2", backend="cpu", python=Path("/e/python"))
MODEL = ModelSource(name="tiny", path=Path("/models/tiny"), format=ModelFormat.MLX)
NET = ListenOptions(host="127.0.0.1", port=50_001, key="secret")


def worker_config(**options: Any) -> dict[str, Any]:  # noqa: ANN401 -- any field of the options
    (worker,) = ADAPTER.plan(MODEL, LaunchOptions(**options), NET, HERE).processes
    config: dict[str, Any] = json.loads(worker.env[worker_base.CONFIG_VARIABLE])
    return config


def test_what_health_says_is_not_believed() -> None:
    assert ADAPTER.plan(MODEL, LaunchOptions(), NET, HERE).readiness.when is ReadyWhen.COMPLETION


def test_without_a_place_it_is_not_installed() -> None:
    failure = ADAPTER.probe()
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.NOT_INSTALLED


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"slots": 4}, ["--decode-concurrency", "4"]),
        ({"kv_type": "q8_0"}, ["--kv-bits", "8"]),
        ({"kv_type": "f16"}, []),
        ({"draft": Draft(path=Path("/d"), tokens=3)}, ["--draft-model", "/d", "--num-draft-tokens", "3"]),
        ({"lora": (Path("/l"),)}, ["--adapter-path", "/l"]),
        ({"prefix_cache": False}, ["--prompt-cache-size", "1"]),
        ({"trust_remote_code": True, "threads": 8}, ["--trust-remote-code"]),
    ],
    ids=str,
)
def test_options_become_its_flags(options: dict[str, Any], arguments: list[str]) -> None:
    assert worker_config(**options)["arguments"] == arguments


@pytest.mark.parametrize(
    "options",
    [
        {"kv_type": "q3"},
        {"draft": Draft(kind="mtp")},
        {"lora": (Path("/a"), Path("/b"))},
        {"task": "embed"},
        {"tensor_parallel": 2},
        {"extra_args": ("--host", "198.51.100.1")},
        {"extra_args": ("--pipeline",)},
    ],
    ids=str,
)
def test_what_it_cannot_honour_is_refused_with_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        worker_config(**options)


def test_answers_are_as_long_as_the_context_not_512_tokens() -> None:
    words = command_line({**worker_config(context=4096, slots=2)})
    assert words[words.index("--max-tokens") + 1] == "4096"
    assert words[-2:] == ["--decode-concurrency", "2"]
    assert str(WITHOUT_LIMIT) in command_line(worker_config())
    assert words[words.index("--allowed-origins") + 1] == "https://nobody.invalid"


def test_the_table_names_flags_once() -> None:
    names = [name for row in TABLE.flags for name in row.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("body", "status", "message", "kind"),
    [
        (b'{"error": "no"}', 400, "no", "invalid_request_error"),
        (b"Not Found", 404, "Not Found", "invalid_request_error"),
        (b'{"error": "broke"}', 500, "broke", "server_error"),
        (
            b'{"error": "full (exceed_context_size_error)."}',
            400,
            "full (exceed_context_size_error).",
            "exceed_context_size_error",
        ),
    ],
)
def test_errors_get_openai_s_form(body: bytes, status: int, message: str, kind: str) -> None:
    assert json.loads(error_body(body, status)) == {"error": {"message": message, "type": kind, "code": status}}


@dataclass
class Piece:
    text: str
    finish_reason: str | None = None


@dataclass
class Begun:
    prompt: list[int]
    is_stopped: bool = False

    def stop(self) -> None:
        self.is_stopped = True


@dataclass
class Generator:
    """Stands in for mlx_lm's: writes on and on."""

    answer: Begun
    error: Exception | None = None
    begun_with: list[object] = field(default_factory=list)

    def generate(self, *arguments: object) -> tuple[Begun, Iterator[Piece]]:
        self.begun_with.extend(arguments)
        if self.error:
            raise self.error
        return self.answer, (Piece(f"{number} ") for number in range(1000))


@dataclass
class Handler:
    connection: socket.socket


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    server, client = socket.socketpair()
    with server, client:
        yield server, client


Ends = tuple[socket.socket, socket.socket]


def watch_answer(
    ends: Ends, prompt: int = 3, context: int | None = None, error: Exception | None = None
) -> WatchedGenerator:
    return WatchedGenerator(Generator(Begun(list(range(prompt))), error), Handler(ends[0]), context)


def test_an_answer_ends_where_the_context_does(ends: Ends) -> None:
    begun_answer, pieces = watch_answer(ends, prompt=6, context=10).generate(None, None)
    written_pieces = list(pieces)
    assert [piece.finish_reason for piece in written_pieces] == [None, None, None, "length"]
    assert begun_answer.is_stopped


@pytest.mark.parametrize(
    ("finish", "texts"),
    [(None, ["0 ", "", "", "1 2 3 "]), ("length", ["0 ", "", "", "1 2 3 "]), ("stop", ["0 ", "", "1 2 ", "3 "])],
)
def test_what_comes_together_is_one_event(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, finish: str | None, texts: list[str]
) -> None:
    """The first at once. What comes with a stop is never shown: what came before it is not among that."""
    monkeypatch.setattr("engines.mlx_lm.handler.share_time", lambda _streams: 3600.0)
    pieces = [Piece("0 "), Piece("1 "), Piece("2 "), Piece("3 ", finish)]
    passed_on = list(watch_answer(ends)._follow_pieces(Begun([]), iter(pieces), None))
    assert [piece.text for piece in passed_on] == texts
    assert passed_on[-1].finish_reason == finish


def test_a_prompt_that_fills_the_context_is_the_client_s_fault(ends: Ends) -> None:
    model = watch_answer(ends, prompt=10, context=10)
    with pytest.raises(ValueError, match="10 tokens, and the context holds 10"):
        model.generate(None, None)
    assert model.status(404) == 400
    assert model._generator.answer.is_stopped


def test_a_client_that_has_gone_stops_the_work(ends: Ends) -> None:
    begun_answer, pieces = watch_answer(ends).generate(None, None)
    next(pieces)
    ends[1].close()
    with pytest.raises(Exception, match=r"^$") as error:
        list(pieces)
    assert type(error.value).__name__ == "_ClientGone"
    assert begun_answer.is_stopped


def test_a_client_that_has_gone_is_noticed_while_the_prompt_is_read(ends: Ends) -> None:
    model = watch_answer(ends)
    model.generate(None, None)
    progress = model._generator.begun_with[2]
    progress(1, 2)
    ends[1].close()
    with pytest.raises(Exception, match=r"^$"):
        progress(2, 2)


@pytest.mark.parametrize(("error", "status"), [(ValueError(), 400), (KeyError(), 400), (RuntimeError(), 500)])
def test_only_the_client_s_mistakes_are_the_client_s(ends: Ends, error: Exception, status: int) -> None:
    model = watch_answer(ends, error=error)
    with pytest.raises(type(error)):
        model.generate(None, None)
    assert model.status(404) == status


def test_nothing_is_wrong_before_anything_went_wrong(ends: Ends) -> None:
    assert watch_answer(ends).status(200) == 200


class Upstream:
    """As much of mlx_lm's handler as one wrapped method needs."""

    body: dict[str, Any]

    def validate_model_parameters(self) -> None:
        self.requested_model = self.body.get("model")


class Wrapped(GuardedHandler, Upstream):  # type: ignore[misc]  # Handling has no typed base
    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body


def test_whatever_model_is_named_the_loaded_one_answers() -> None:
    handler = Wrapped({"model": "somebody/else"})
    handler.validate_model_parameters()
    assert (handler.requested_model, handler.requested_draft_model) == ("default_model", "default_model")


@pytest.mark.parametrize(
    "body", [{"adapters": "x"}, {"draft_model": "x"}, {"response_format": {"type": "json_object"}}], ids=str
)
def test_fields_that_would_act_behind_our_back_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        Wrapped(body).validate_model_parameters()


class Figures(array.array):  # type: ignore[type-arg]  # Any: of either kind
    """Stands in for mlx's array: has its figures in memory, and gives each as an array of one."""

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 -- as mlx's
        return SimpleNamespace(item=lambda: super(Figures, self).__getitem__(index))


@pytest.mark.parametrize("kind", ["f", "d"])
def test_a_figure_is_read_where_it_lies_or_as_the_library_does(kind: str) -> None:
    figures = StepLogprobs(Figures(kind, [-0.5, -1.25, -3.5]))
    assert [figures[index].item() for index in range(3)] == [-0.5, -1.25, -3.5]


@pytest.mark.parametrize(
    ("form", "data"), [("f", struct.pack("=f", -7.125)), ("e", struct.pack("=e", -7.125)), ("bfloat16", b"\xe4\xc0")]
)
def test_figures_are_read_in_each_precision(form: str, data: bytes) -> None:
    assert read_figure(memoryview(data), form) == -7.125


def test_several_figures_are_left_to_the_library() -> None:
    class Sorted:
        def __neg__(self) -> str:
            return "sorted the other way"

        def __getitem__(self, index: list[int]) -> str:
            return f"those at {index}"

    figures = StepLogprobs(Sorted())
    assert -figures == "sorted the other way"
    assert figures[[2, 0]] == "those at [2, 0]"


def test_each_answer_of_a_step_has_figures_to_be_read() -> None:
    class Batch:
        def next(self) -> tuple[list[str], list[SimpleNamespace]]:
            return ["prompt"], [SimpleNamespace(logprobs=Figures("f", [-4.0, -0.25]))]

    prompts, (answer,) = batch_class(Batch)().next()
    assert prompts == ["prompt"]
    assert answer.logprobs[1].item() == -0.25


def test_the_queue_is_looked_at_after_each_step() -> None:
    generator = SimpleNamespace(_time_budget=range(1000))
    look_after_each_step(generator)
    assert len(list(generator._time_budget)) == 1
