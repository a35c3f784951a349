"""`roundhouse cache`: the prompts that engines need not read again, what they save, and their removal."""

import time
from collections.abc import Iterator
from urllib.parse import urlencode

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result, write_fields
from app.client.http import quote_segment
from app.core.errors import BadRequest
from app.core.kept_prompts import SealKeyState, WarmPrompt, WarmPrompts
from app.core.words import format_bytes, format_duration

_HEAD = ("ID", "MODEL", "TOKENS", "SAVES", "SIZE", "WHERE", "OF", "LAST USED")
_ID_CHARS = 12
"""Of an id: nobody has so many prompts that two begin alike."""
_KEYRING_TEXTS = {
    SealKeyState.NOT_ASKED: "",
    SealKeyState.HOLDS_KEY: "Those on the disk are sealed with a key that your keyring holds.",
    SealKeyState.REFUSED: "No keyring holds a key here, or it is locked: nothing is kept on the disk.",
}


@click.group("cache", invoke_without_command=True)
@json_option
@click.pass_context
def cache(ctx: click.Context, *, as_json: bool) -> None:
    """Show and remove the prompts that models need not read again."""
    if ctx.invoked_subcommand is None:
        _show_prompts(as_json=as_json)


@cache.command("list")
@json_option
def list_prompts(*, as_json: bool) -> None:
    """List the prompts that are kept, the last used first; their words are not shown."""
    _show_prompts(as_json=as_json)


@cache.command("remove")
@click.argument("prompts", nargs=-1, metavar="[ID]...")
@click.option("--model", default="", help="Remove all of a model.")
@click.option("--key", default="", help="Remove all of an access key.")
@click.option("--all", "is_all", is_flag=True, help="Remove everything that is kept.")
@json_option
def remove_prompts(prompts: tuple[str, ...], *, model: str, key: str, is_all: bool, as_json: bool) -> None:
    """Remove kept prompts: by the beginnings of their ids, by model, by key, or all."""
    if bool(prompts) + bool(model or key) + is_all != 1:
        raise BadRequest("Say which: ids, --model or --key, or --all.", hint="`roundhouse cache list` lists them.")
    client = connect_gateway()
    warm_prompts = client.get("/kept-prompts", WarmPrompts).prompts
    if prompts:
        removals = [_find_prompt(warm_prompts, prompt) for prompt in prompts]
        for prompt in removals:
            client.delete(f"/kept-prompts/{quote_segment(prompt.id)}")
    else:
        removals = [prompt for prompt in warm_prompts if model in ("", prompt.model) and key in ("", prompt.key)]
        client.delete(f"/kept-prompts?{urlencode({'model': model, 'key': key})}")
    show_result("removed", [prompt.id for prompt in removals], as_json=as_json, text=_removal_lines)


def _find_prompt(warm_prompts: list[WarmPrompt], prefix: str) -> WarmPrompt:
    """Return the prompt whose id begins so. Raises BadRequest if none or several do."""
    matches = [prompt for prompt in warm_prompts if prompt.id.startswith(prefix)]
    if len(matches) != 1:
        problem = "No kept prompt has" if not matches else "Several kept prompts have"
        raise BadRequest(f"{problem} an id that begins with {prefix!r}.", hint="`roundhouse cache list` lists them.")
    return matches[0]


def _show_prompts(*, as_json: bool) -> None:
    warm_prompts = connect_gateway().get("/kept-prompts", WarmPrompts)
    if as_json:
        write_fields(warm_prompts)
        return
    for line in prompt_lines(warm_prompts):
        click.echo(line)
    for note in note_lines(warm_prompts):
        print_note(note)


def prompt_lines(warm_prompts: WarmPrompts) -> Iterator[str]:
    """Yield a table of what is kept."""
    if warm_prompts.prompts:
        yield from format_table(_HEAD, map(_row, warm_prompts.prompts))


def note_lines(warm_prompts: WarmPrompts) -> Iterator[str]:
    """Yield what else there is to know: the limits, the keyring, and loaded models of which nothing is kept."""
    if not warm_prompts.prompts:
        yield "No prompt is kept. Long ones are, once a model has read them and is idle or unloaded."
    yield (
        f"Disk: {_use_text(warm_prompts.disk_bytes, warm_prompts.disk_limit_bytes)}. "
        f"Memory: {_use_text(warm_prompts.memory_bytes, warm_prompts.memory_limit_bytes)}."
    )
    if text := _KEYRING_TEXTS[warm_prompts.keyring]:
        yield text
    yield from (f"{model.model}: {model.reason}" for model in warm_prompts.models if not model.is_kept)


def _use_text(use_count: int, limit: int) -> str:
    return f"{format_bytes(use_count)} of {format_bytes(limit)}" if limit else "switched off"


def _row(prompt: WarmPrompt) -> tuple[str, ...]:
    return (
        prompt.id[:_ID_CHARS],
        prompt.model,
        f"{prompt.tokens:,}",
        format_duration(prompt.saves_s),
        format_bytes(prompt.size_bytes),
        prompt.place,
        "the window's chats" if prompt.is_chat else prompt.key or "programs without a key",
        time.strftime("%Y-%m-%d %H:%M", time.localtime(prompt.used_at)),
    )


def _removal_lines(removed_ids: list[str]) -> Iterator[str]:
    yield f"{len(removed_ids):,} kept {'prompt was' if len(removed_ids) == 1 else 'prompts were'} removed."
