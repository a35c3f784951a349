"""A pause: pause, resume. All memory goes to other programs meanwhile."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_running
from app.cli.output import json_option, show_result
from app.core.memory import Pause


@click.command()
@json_option
def pause(*, as_json: bool) -> None:
    """Free all memory, and load nothing until resumed.

    Answers that have begun are finished first; pinned models are unloaded too. Requests get the answer that
    Roundhouse is paused.
    """
    show_result("pause", connect_running().post("/pause", None, Pause), as_json=as_json, text=_pause_lines)


@click.command()
@json_option
def resume(*, as_json: bool) -> None:
    """Load models again after a pause: models that were loaded are loaded again, others when requested."""
    client = connect_running()
    before = client.get("/pause", Pause)
    client.delete("/pause")
    show_result("pause", client.get("/pause", Pause), as_json=as_json, text=lambda _: _resume_lines(before))


def _pause_lines(state: Pause) -> Iterator[str]:
    yield "Paused: no model is loaded until `roundhouse resume`."
    for model in state.finishing:
        yield f"{model} is finishing its answers first."


def _resume_lines(before: Pause) -> Iterator[str]:
    if not before.is_paused:
        yield "Roundhouse was not paused."
    elif before.comes_back:
        yield f"Resumed: {', '.join(before.comes_back)} {'is' if len(before.comes_back) == 1 else 'are'} loaded again."
    else:
        yield "Resumed: models are loaded when requested."
