"""Models that stay: pin, unpin. And the memory that models share: room."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connected
from app.cli.output import json_option, show
from app.client.http import segment
from app.core import words
from app.core.memory import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.core.models import ModelChoices, ModelSettings, SetModel


@click.command()
@click.argument("model")
@json_option
def pin(model: str, *, as_json: bool) -> None:
    """Keep MODEL loaded: it is not unloaded when idle or to make room for another model."""
    _change(model, is_pinned=True, as_json=as_json, said=f"{model} stays loaded from now on.")


@click.command()
@click.argument("model")
@json_option
def unpin(model: str, *, as_json: bool) -> None:
    """Allow MODEL to be unloaded again when it is not used."""
    _change(model, is_pinned=False, as_json=as_json, said=f"{model} can be unloaded again.")


@click.command()
@json_option
def room(*, as_json: bool) -> None:
    """Show the memory that models share: how much there is, which models hold it, and which wait for it."""
    show("memory", connected().get("/memory", MemoryState), as_json=as_json, text=_lines)


def _change(model: str, *, is_pinned: bool, as_json: bool, said: str) -> None:
    client = connected()
    before = client.get(f"/model-settings/{segment(model)}", ModelChoices).settings
    wanted = SetModel(model=model, settings=msgspec.structs.replace(before, pinned=is_pinned))
    done = client.post("/model-settings", wanted, ModelSettings)
    show("model_settings", done, as_json=as_json, text=lambda _: [said])


def _lines(state: MemoryState) -> Iterator[str]:
    for pool in state.pools:
        yield from _pool(pool)
    if state.max_loaded:
        yield f"At most {state.max_loaded} models at once."
    yield from map(_waiting, state.waiting)


def _pool(pool: MemoryPool) -> Iterator[str]:
    yield f"{pool.name}: {words.size(pool.taken)} of {words.size(max(0, pool.limit))} taken"
    for holder in pool.holders:
        yield f"  {words.size(holder.bytes):>10}  {holder.model}{_how(holder)}"


def _how(holder: MemoryHolder) -> str:
    state = "" if holder.is_idle else " in use" if holder.is_busy else " loading or stopping"
    return f"{',' if holder.is_pinned or state else ''}{' pinned' if holder.is_pinned else ''}{state}"


def _waiting(load: WaitingLoad) -> str:
    for_whom = f" for {', '.join(load.waits_for)}" if load.waits_for else ""
    return f"{load.model} has waited{for_whom} {words.seconds(load.seconds)}."
