"""What is set for single models: pin, unpin, tune. And the memory they share: room."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connected
from app.cli.output import json_option, show
from app.client.http import Client
from app.core import words
from app.core.memory import MemoryHolder, MemoryPool, MemoryState, WaitingLoad
from app.core.models import ModelInfo, ModelSettings, SetModel

_NOT_SET = "as for all models"


@click.command()
@click.argument("model")
@json_option
def pin(model: str, *, as_json: bool) -> None:
    """Keep MODEL loaded: neither time nor another model unloads it."""
    _change(model, {"pinned": True}, as_json=as_json, said=f"{model} stays loaded once it is.")


@click.command()
@click.argument("model")
@json_option
def unpin(model: str, *, as_json: bool) -> None:
    """Let MODEL be unloaded again when it is not used."""
    _change(model, {"pinned": False}, as_json=as_json, said=f"{model} makes room for others again.")


@click.command()
@click.argument("model")
@click.option("--idle-minutes", type=click.IntRange(0, 10_080), help="Unload it after so long; 0 keeps it.")
@click.option("--context", type=click.IntRange(256, 4_194_304), help="Tokens of context per request.")
@click.option("--slots", type=click.IntRange(1, 64), help="Requests answered at once.")
@click.option("--kv-type", type=click.Choice(["f16", "q8_0", "q4_0"]), help="Type of the KV cache.")
@click.option("--reset", is_flag=True, help="Forget what was set, pin included, before anything else.")
@json_option
def tune(model: str, *, reset: bool, as_json: bool, **chosen: int | str | None) -> None:
    """Show or set what counts for MODEL however it is loaded."""
    changes = {name: value for name, value in chosen.items() if value is not None}
    if not (changes or reset):
        show("model_settings", _set_for(connected(), model), as_json=as_json, text=_tuned)
        return
    _change(model, changes, as_json=as_json, resets=reset)


@click.command()
@json_option
def room(*, as_json: bool) -> None:
    """Show the memory that models share: what there is, who holds it, who waits for it."""
    show("memory", connected().get("/memory", MemoryState), as_json=as_json, text=_lines)


def _change(
    model: str, changes: dict[str, int | str | bool], *, as_json: bool, said: str = "", resets: bool = False
) -> None:
    client = connected()
    before = ModelSettings() if resets else _set_for(client, model)
    wanted = SetModel(model=model, settings=msgspec.structs.replace(before, **changes))
    done = client.post("/model-settings", wanted, ModelSettings)
    show("model_settings", done, as_json=as_json, text=lambda found: [said] if said else _tuned(found))


def _set_for(client: Client, model: str) -> ModelSettings:
    """Return what is set for a model; names are compared as the gateway would find them, by its list."""
    kept = client.get("/model-settings", dict[str, ModelSettings])
    if model in kept:
        return kept[model]
    known = {info.name.casefold(): info.name for info in client.get("/models", list[ModelInfo])}
    return kept.get(known.get(model.casefold(), model), ModelSettings())


def _tuned(settings: ModelSettings) -> Iterator[str]:
    minutes = settings.idle_minutes
    kept = _NOT_SET if minutes is None else f"after {minutes} minutes" if minutes else "never"
    yield f"Pinned        {'yes' if settings.pinned else 'no'}"
    yield f"Unload        {kept}"
    yield f"Context       {settings.context or _NOT_SET}"
    yield f"At once       {settings.slots or _NOT_SET}"
    yield f"KV cache      {settings.kv_type or _NOT_SET}"


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
