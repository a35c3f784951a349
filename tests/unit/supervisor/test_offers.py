"""What may help against a failure: each remedy with a command that there is."""

import shlex
from pathlib import Path

import click
import pytest

from app.cli.main import roundhouse
from app.supervisor.policy import APPLICABLE, LoadRequest
from app.supervisor.status import list_remedy_offers
from engines.api import Failure, FailureKind, LaunchOptions, ModelFormat, ModelSource, Remedy, RemedyKind

PULLED = Path("/cache/models--maker--tiny/snapshots/abc/sub/tiny-q4.gguf")
FOLDER = Path("/cache/models--maker--tiny/snapshots/abc")
APPLIED = {kind: {"context": 4096} for kind in APPLICABLE}


def request(path: Path = PULLED, format_: ModelFormat = ModelFormat.GGUF) -> LoadRequest:
    source = ModelSource(name="my model", path=path, format=format_)
    return LoadRequest(engine="vllm", source=source, options=LaunchOptions())


def command(kind: RemedyKind, path: Path = PULLED, cause: FailureKind = FailureKind.UNKNOWN) -> str:
    remedy = Remedy(kind=kind, label="x", options=APPLIED.get(kind, {}))
    (offer,) = list_remedy_offers("my model", Failure(kind=cause, sentence="No.", remedies=(remedy,)), request(path))
    return offer.command


@pytest.mark.parametrize("kind", RemedyKind)
def test_every_remedy_has_a_command_that_there_is(kind: RemedyKind) -> None:
    program, *words = shlex.split(command(kind))
    assert program == "roundhouse"
    called_command: click.Command = roundhouse
    while isinstance(called_command, click.Group) and words:
        _, subcommand, words = called_command.resolve_command(click.Context(called_command), words)
        assert subcommand is not None
        called_command = subcommand
    called_command.make_context("x", words)


def test_a_load_names_what_it_changes() -> None:
    share = Remedy(kind=RemedyKind.LESS_GPU_MEMORY, label="Load", options={"gpu_memory_fraction": 0.5})
    again = Remedy(kind=RemedyKind.LOAD_AGAIN, label="Load again")
    unknown = Remedy(kind=RemedyKind.LESS_GPU_MEMORY, label="Load", options={"no_such_option": 1})
    failure = Failure(kind=FailureKind.UNKNOWN, sentence="No.", remedies=(share, again, unknown))
    offers = [(offer.command, offer.options) for offer in list_remedy_offers("my model", failure, request())]
    assert offers == [
        ("roundhouse load 'my model' --gpu-memory-fraction 0.5", {"gpu_memory_fraction": 0.5}),
        ("roundhouse load 'my model'", {}),
        ("", {}),
    ]


def test_what_is_about_a_model_or_an_engine_names_it() -> None:
    assert command(RemedyKind.ALLOW_CODE) == "roundhouse tune 'my model' --allow-code"
    assert command(RemedyKind.RESET_OPTIONS) == "roundhouse tune 'my model' --reset"
    assert command(RemedyKind.UPDATE_ENGINE) == "roundhouse engines update vllm"
    assert command(RemedyKind.SIGN_IN) == "roundhouse token set"
    assert command(RemedyKind.FREE_DISK) == "roundhouse disk"


def test_a_download_names_where_it_is_from_and_makes_way_for_what_is_whole_again() -> None:
    pull = "roundhouse pull maker/tiny/sub/tiny-q4.gguf"
    assert command(RemedyKind.DOWNLOAD_AGAIN) == pull
    assert command(RemedyKind.DOWNLOAD_AGAIN, FOLDER) == "roundhouse pull maker/tiny"
    damaged_command = command(RemedyKind.DOWNLOAD_AGAIN, cause=FailureKind.MODEL_CORRUPT)
    assert damaged_command == f"roundhouse rm 'my model' && {pull}"
    assert command(RemedyKind.DOWNLOAD_AGAIN, Path("/mine/tiny.gguf")) == "roundhouse search 'my model'"


def test_before_anything_was_asked_for_there_is_still_a_way() -> None:
    remedy = Remedy(kind=RemedyKind.FREE_MEMORY, label="x")
    (offer,) = list_remedy_offers("m", Failure(kind=FailureKind.UNKNOWN, sentence="No.", remedies=(remedy,)), None)
    assert offer.command == "roundhouse ps"
