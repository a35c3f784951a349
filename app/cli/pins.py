"""The memory that models share: room; models that stay in it: pin, unpin; and all of it given back: pause, resume."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connect_gateway, connect_running
from app.cli.output import json_option, show_result
from app.client.http import quote_segment
from app.core import words
from app.core.engines import MemoryHolder, MemoryPool, MemoryState, Pause, WaitingLoad
from app.core.models import ModelChoices, ModelSettings, SetModel


@click.command()
@click.argument("model")
@json_option
def pin(model: str, *, as_json: bool) -> None:
    """Keep MODEL loaded: it is not unloaded when idle or to make room for another model."""
    _change_pin(model, is_pinned=True, as_json=as_json, sentence=f"{model} stays loaded from now on.")


@click.command()
@click.argument("model")
@json_option
def unpin(model: str, *, as_json: bool) -> None:
    """Allow MODEL to be unloaded again when it is not used."""
    _change_pin(model, is_pinned=False, as_json=as_json, sentence=f"{model} can be unloaded again.")


@click.command()
@json_option
def room(*, as_json: bool) -> None:
    """Show the memory that models share: how much there is, which models hold it, and which wait for it."""
    show_result("memory", connect_gateway().get("/memory", MemoryState), as_json=as_json, text=_memory_lines)


def _change_pin(model: str, *, is_pinned: bool, as_json: bool, sentence: str) -> None:
    client = connect_gateway()
    before = client.get(f"/model-settings/{quote_segment(model)}", ModelChoices).settings
    request = SetModel(model=model, settings=msgspec.structs.replace(before, pinned=is_pinned))
    settings = client.post("/model-settings", request, ModelSettings)
    show_result("model_settings", settings, as_json=as_json, text=lambda _: [sentence])


def _memory_lines(state: MemoryState) -> Iterator[str]:
    for pool in state.pools:
        yield from _pool_lines(pool)
    if state.max_loaded:
        yield f"At most {state.max_loaded} models at once."
    yield from map(_wait_line, state.waiting)


def _pool_lines(pool: MemoryPool) -> Iterator[str]:
    yield f"{pool.name}: {words.format_bytes(pool.bytes_in_use)} of {words.format_bytes(max(0, pool.limit))} taken"
    for holder in pool.holders:
        yield f"  {words.format_bytes(holder.bytes):>10}  {holder.model}{_holder_state(holder)}"


def _holder_state(holder: MemoryHolder) -> str:
    state = "" if holder.is_idle else " in use" if holder.is_busy else " loading or stopping"
    return f"{',' if holder.is_pinned or state else ''}{' pinned' if holder.is_pinned else ''}{state}"


def _wait_line(load: WaitingLoad) -> str:
    for_whom = f" for {', '.join(load.waits_for)}" if load.waits_for else ""
    return f"{load.model} has waited{for_whom} {words.format_duration(load.seconds)}."


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
