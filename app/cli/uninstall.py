"""`roundhouse uninstall`: say goodbye. Every path is listed before anything goes, and nothing is removed unasked."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from app.cli.completion import completion_files
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.cli.service import stop_service
from app.config import service_unit
from app.config.hub_token import HubToken
from app.config.kept_secret import KeptSecret
from app.config.keyring_secrets import SERVICE, delete_secret, has_secret
from app.config.owned_paths import (
    OwnedPath,
    OwnedPathKind,
    list_foreign_paths,
    list_owned_paths,
    remove_empty_folders,
    remove_owned_path,
    was_used,
)
from app.config.paths import Paths, default_paths, this_home
from app.config.privacy import check_owner
from app.config.programs import removal_instructions
from app.core import words
from app.core.errors import BadRequest, RoundhouseError, StorageFault
from app.core.tools import ToolChange, ToolInfo


class UninstallRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list. `leaves` says whether this call removes it."""

    what: str
    path: str
    kind: str
    size_bytes: int
    leaves: bool


class UninstallReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and whether it was removed."""

    owned: list[UninstallRow]
    removed: bool
    foreign: list[str]
    """What lies in folders that somebody chose for Roundhouse and is not its own: it stays."""
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
    kinds = (
        {OwnedPathKind.MADE}
        | ({OwnedPathKind.KEPT} if purge else set())
        | ({OwnedPathKind.MODELS} if models else set())
    )
    check_owner(paths)
    _require_used(paths)
    belongings_found = _find_belongings(paths)
    if not dry_run and belongings_found:
        _confirm(belongings_found, kinds, is_sure=yes, is_program=as_json)
    rows = [_row(owned_path, kinds) for owned_path in belongings_found]
    if not dry_run and belongings_found:
        _remove_belongings(paths, belongings_found, kinds)
    foreign = [str(path) for path in list_foreign_paths(paths)]
    report = UninstallReport(owned=rows, removed=not dry_run, foreign=foreign, program=removal_instructions())
    show_result("goodbye", report, as_json=as_json, text=_report_lines)


def _require_used(paths: Paths) -> None:
    """Raise BadRequest for folders that Roundhouse never ran in: what lies there is somebody else's."""
    if was_used(paths):
        return
    foreign = list_foreign_paths(paths)
    if foreign:
        raise BadRequest(
            f"Roundhouse never ran in {paths.data.parent}, so nothing there is removed.",
            hint="ROUNDHOUSE_HOME names that folder; check whether it is the right one.",
            code="not_ours",
            detail="\n".join(map(str, foreign)),
        )


def _find_belongings(paths: Paths) -> list[OwnedPath]:
    """Return everything of ours, and the files by which the system starts it."""
    service, window = service_unit.this_service_unit(paths), service_unit.autostart_file(this_home())
    service_files = {"what starts the service at log-in": service.file} if service_unit.is_unit_ours(service) else {}
    if window is not None and window.exists():
        service_files["what opens the window at log-in"] = window
    completions = [file for file in completion_files() if file.is_file()]
    return [
        *(OwnedPath(what="completion in a shell", path=path, kind=OwnedPathKind.MADE) for path in completions),
        *(OwnedPath(what=what, path=path, kind=OwnedPathKind.MADE) for what, path in service_files.items()),
        *list_owned_paths(paths),
    ]


def _confirm(belongings_found: list[OwnedPath], kinds: set[OwnedPathKind], *, is_sure: bool, is_program: bool) -> None:
    """Show the list and ask; adds models to `kinds` where the person wants them gone."""
    if is_sure:
        return
    if is_program or not _can_ask():
        raise BadRequest(
            "There is no terminal to ask for confirmation.", hint="--yes removes without asking; --dry-run only lists."
        )
    for line in _row_lines([_row(owned_path, kinds) for owned_path in belongings_found]):
        print_note(line)
    if OwnedPathKind.MODELS not in kinds and any(
        owned_path.kind is OwnedPathKind.MODELS for owned_path in belongings_found
    ):
        size = words.format_bytes(
            sum(owned_path.size_bytes for owned_path in belongings_found if owned_path.kind is OwnedPathKind.MODELS)
        )
        if click.confirm(f"Remove the models too ({size})?", default=False, err=True):
            kinds.add(OwnedPathKind.MODELS)
    click.confirm("Remove everything listed for removal?", default=False, abort=True, err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _remove_belongings(paths: Paths, belongings_found: list[OwnedPath], kinds: set[OwnedPathKind]) -> None:
    """Put tools back, stop the service, then remove. Raises StorageFault with what could not be removed."""
    if (paths.data / "connect").is_dir():
        _put_tools_back()
    try:
        service_unit.remove_unit(service_unit.this_service_unit(paths))
    except RoundhouseError as error:
        print_note(f"{error} {error.body.detail}")
    service_unit.set_autostart(this_home(), is_enabled=False)
    stop_service(paths)
    _delete_secrets(paths, kinds)
    failures: list[str] = []
    for owned_path in [*belongings_found, *list_owned_paths(paths)]:  # stopping writes a last time
        if owned_path.kind in kinds:
            failures += _remove_path(owned_path)
    remove_empty_folders(paths)
    if failures:
        raise StorageFault("Not everything could be removed.", hint="Check who owns it.", detail="\n".join(failures))


def _delete_secrets(paths: Paths, kinds: set[OwnedPathKind]) -> None:
    """Take out of the keyring what opens the files that go. It may ask to be unlocked, so only where they are there."""
    if OwnedPathKind.KEPT in kinds:
        HubToken(paths.hub_token_file).forget_token()
        KeptSecret(paths.trace_headers_file, "the headers for traces").forget_secret()
    secret_kinds = {paths.machine_identity_file: OwnedPathKind.KEPT, paths.warm_prompts: OwnedPathKind.MADE}
    names = [str(path) for path, kind in secret_kinds.items() if kind in kinds and path.exists()]
    for name in names:
        delete_secret(name)
    if any(map(has_secret, names)):
        print_note(f"The keyring kept what it was to forget: remove its entries of the service {SERVICE!r} there.")


def _remove_path(owned_path: OwnedPath) -> list[str]:
    try:
        remove_owned_path(owned_path)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{owned_path.path}: {error.strerror or error}"]
    return []


def _put_tools_back() -> None:
    """Undo what `roundhouse connect` wrote; what was changed since is left alone and said."""
    client = connect_gateway()
    for tool in client.get("/tools", list[ToolInfo]):
        if tool.can_undo:
            try:
                client.post(f"/tools/{tool.id}/undo", None, ToolChange)
                print_note(f"{tool.name}'s settings were restored.")
            except RoundhouseError as error:
                print_note(f"{tool.name}: {error} {tool.file} still names Roundhouse.")


def _row(owned_path: OwnedPath, kinds: set[OwnedPathKind]) -> UninstallRow:
    return UninstallRow(
        what=owned_path.what,
        path=str(owned_path.path),
        kind=owned_path.kind,
        size_bytes=owned_path.size_bytes,
        leaves=owned_path.kind in kinds,
    )


def _report_lines(report: UninstallReport) -> Iterator[str]:
    if not report.owned:
        yield "There is nothing of Roundhouse's on this computer."
    elif report.removed:
        rows = [row for row in report.owned if row.leaves]
        yield f"Removed {len(rows)} folders and files, {words.format_bytes(sum(row.size_bytes for row in rows))}."
        yield from (f"Left: {row.path} ({row.what})" for row in report.owned if Path(row.path).exists())
    else:
        yield from _row_lines(report.owned)
    yield from (f"Left: {path} (not Roundhouse's)" for path in report.foreign)
    yield report.program


def _row_lines(rows: list[UninstallRow]) -> list[str]:
    cells = (
        ("leaves" if row.leaves else "stays", words.format_bytes(row.size_bytes), row.what, row.path) for row in rows
    )
    return format_table(("", "SIZE", "WHAT", "PATH"), cells)
