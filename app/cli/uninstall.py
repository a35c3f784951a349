"""`roundhouse uninstall`: say goodbye. Every path is listed before anything goes, and nothing is removed unasked."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.cli.service import stopped
from app.config import at_login, background
from app.config.belongings import Belonging, Kind, belongings, remove, remove_empty
from app.config.home import this_home
from app.config.hub_token import HubToken
from app.config.paths import Paths, default_paths
from app.config.programs import how_to_remove
from app.core import words
from app.core.errors import BadRequest, RoundhouseError, StorageFault
from app.core.tools import ToolChange, ToolInfo


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list. `leaves` says whether this call removes it."""

    what: str
    path: str
    kind: str
    size_bytes: int
    leaves: bool


class Goodbye(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and whether it was removed."""

    owned: list[Owned]
    removed: bool
    program: str
    """How the program itself is removed."""


@click.command()
@click.option("--purge", is_flag=True, help="Also remove settings, keys and conversations.")
@click.option("--models", is_flag=True, help="Also remove the models, without asking.")
@click.option("--dry-run", is_flag=True, help="List everything without removing anything.")
@click.option("--yes", is_flag=True, help="Do not ask. Models stay, unless --models says otherwise.")
@json_option
def uninstall(*, purge: bool, models: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """List every path that belongs to Roundhouse, and remove them after confirmation.

    Conversations and settings stay without --purge; models are asked for separately. The settings of connected
    tools are restored. The program itself is removed the way it was installed; the last line says how.
    """
    paths = default_paths()
    kinds = {Kind.MADE} | ({Kind.KEPT} if purge else set()) | ({Kind.MODELS} if models else set())
    found = _all(paths)
    if not dry_run and found:
        _confirm(found, kinds, is_sure=yes, is_program=as_json)
    owned = [_row(one, kinds) for one in found]
    if not dry_run and found:
        _remove(paths, found, kinds)
    told = Goodbye(owned=owned, removed=not dry_run, program=how_to_remove())
    show("goodbye", told, as_json=as_json, text=_lines)


def _all(paths: Paths) -> list[Belonging]:
    """Return everything of ours, and the files by which the system starts it."""
    service, window = background.this_keeper(paths), at_login.place(this_home())
    kept = {"what starts the service at log-in": service.file} if background.is_ours(service) else {}
    if window is not None and window.exists():
        kept["what opens the window at log-in"] = window
    return [*(Belonging(what=what, path=path, kind=Kind.MADE) for what, path in kept.items()), *belongings(paths)]


def _confirm(found: list[Belonging], kinds: set[Kind], *, is_sure: bool, is_program: bool) -> None:
    """Show the list and ask; adds models to `kinds` where the person wants them gone."""
    if is_sure:
        return
    if is_program or not _can_ask():
        raise BadRequest(
            "There is no terminal to ask for confirmation.", hint="--yes removes without asking; --dry-run only lists."
        )
    for line in _table([_row(one, kinds) for one in found]):
        talk(line)
    if Kind.MODELS not in kinds and any(one.kind is Kind.MODELS for one in found):
        size = words.size(sum(one.size_bytes for one in found if one.kind is Kind.MODELS))
        if click.confirm(f"Remove the models too ({size})?", default=False, err=True):
            kinds.add(Kind.MODELS)
    click.confirm("Remove everything listed for removal?", default=False, abort=True, err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _remove(paths: Paths, found: list[Belonging], kinds: set[Kind]) -> None:
    """Put tools back, stop the service, then remove. Raises StorageFault with what could not be removed."""
    if (paths.data / "connect").is_dir():
        _put_tools_back()
    try:
        background.remove(background.this_keeper(paths))
    except RoundhouseError as error:
        talk(f"{error} {error.body.detail}")
    at_login.arrange(this_home(), is_wanted=False)
    stopped(paths)
    if Kind.KEPT in kinds:
        HubToken(paths.hub_token_file).forget()
    failed: list[str] = []
    for one in [*found, *belongings(paths)]:  # stopping writes a last time
        if one.kind in kinds:
            failed += _removed(one)
    remove_empty(paths)
    if failed:
        raise StorageFault("Not everything could be removed.", hint="Check who owns it.", detail="\n".join(failed))


def _removed(one: Belonging) -> list[str]:
    try:
        remove(one)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{one.path}: {error.strerror or error}"]
    return []


def _put_tools_back() -> None:
    """Undo what `roundhouse connect` wrote; what was changed since is left alone and said."""
    client = connected()
    for tool in client.get("/tools", list[ToolInfo]):
        if tool.can_undo:
            try:
                client.post(f"/tools/{tool.id}/undo", None, ToolChange)
                talk(f"{tool.name}'s settings were restored.")
            except RoundhouseError as error:
                talk(f"{tool.name}: {error} {tool.file} still names Roundhouse.")


def _row(one: Belonging, kinds: set[Kind]) -> Owned:
    return Owned(what=one.what, path=str(one.path), kind=one.kind, size_bytes=one.size_bytes, leaves=one.kind in kinds)


def _lines(told: Goodbye) -> Iterator[str]:
    if not told.owned:
        yield "There is nothing of Roundhouse's on this computer."
    elif told.removed:
        gone = [row for row in told.owned if row.leaves]
        yield f"Removed {len(gone)} folders and files, {words.size(sum(row.size_bytes for row in gone))}."
        yield from (f"Left: {row.path} ({row.what})" for row in told.owned if Path(row.path).exists())
    else:
        yield from _table(told.owned)
    yield told.program


def _table(rows: list[Owned]) -> list[str]:
    cells = (("leaves" if row.leaves else "stays", words.size(row.size_bytes), row.what, row.path) for row in rows)
    return table(("", "SIZE", "WHAT", "PATH"), cells)
