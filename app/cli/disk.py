"""`roundhouse disk`: what models take of the disks, the folders they are looked for in, and those in the trash."""

from collections.abc import Iterator, Sequence

import click

from app.cli.gateway import connected
from app.cli.library_job import carry_out
from app.cli.output import json_option, show, table, talk
from app.client.http import Client
from app.core import words
from app.core.disk import DiskUse, Drive, EmptyTrash, Folder, Holding, Trashed
from app.core.library import JobKind, LibraryJob

_DISK_S = 60.0
"""A drive that sleeps takes its time to spin up."""
_LARGEST = 10


@click.command("disk")
@click.option("--all", "is_all", is_flag=True, help="List every model, not only the ten largest.")
@click.option("--empty-trash", is_flag=True, help="Permanently delete the models in the trash, and nothing else.")
@click.option("--yes", is_flag=True, help="With --empty-trash: do not ask.")
@json_option
def disk(*, is_all: bool, empty_trash: bool, yes: bool, as_json: bool) -> None:
    """Show how much of each disk models use, in which folders, and how much is in the trash.

    With --empty-trash, models in the trash are deleted permanently, after a confirmation: those that Roundhouse
    removed, and those deleted by anyone from a folder that is searched for models. Everything else in the trash
    stays.
    """
    if yes and not empty_trash:
        raise click.UsageError("--yes answers the question of --empty-trash: use both.")
    client = connected()
    use = client.get("/library/disk", DiskUse, timeout_s=_DISK_S)
    if empty_trash:
        _empty(client, use, yes=yes, as_json=as_json)
        return
    show("disk", use, as_json=as_json, text=lambda found: _lines(found, None if is_all else _LARGEST))
    for folder in use.folders if not as_json else ():
        if folder.problem:
            talk(f"{folder.path}: {folder.problem}")


def _empty(client: Client, use: DiskUse, *, yes: bool, as_json: bool) -> None:
    found = [drive.trashed for drive in use.drives if drive.trashed is not None]
    if not found and any(drive.trash_bytes is not None for drive in use.drives):
        none = LibraryJob(id="", kind=JobKind.EMPTY, is_done=True)
        show("job", none, as_json=as_json, text=lambda _: ["There are no removed models in the trash."])
        return
    for path in (path for one in found for path in one.paths):
        talk(f"  {path}")
    if found and not yes:
        talk(f"{_trashed(found)} to be deleted for good. This cannot be undone.")
        click.confirm("Delete them?", abort=True, err=True)
    job = carry_out(client, "/library/empty-trash", EmptyTrash(digests=[one.digest for one in found]))
    show("job", job, as_json=as_json, text=lambda done: [words.emptied(done.deleted_files, done.reclaimed_bytes)])


def _trashed(found: Sequence[Trashed]) -> str:
    return words.trashed(sum(one.files for one in found), sum(one.size_bytes for one in found))


def _lines(use: DiskUse, most: int | None) -> Iterator[str]:
    yield from table(("DRIVE", "SIZE", "FREE", "MODELS", "TRASH", "REMOVED MODELS"), map(_drive, use.drives))
    yield ""
    yield from table(("FOLDER", "MODELS", "SIZE", "PATH"), map(_folder, use.folders))
    if use.holdings:
        yield ""
        yield from table(("MODEL", "SIZE", "SHARED", "IN"), map(_holding, use.holdings[:most]))
    if use.saved_bytes:
        yield ""
        yield f"Models that share their space save {words.size(use.saved_bytes)}."
    if trashed := [drive.trashed for drive in use.drives if drive.trashed is not None]:
        yield ""
        yield f"{_trashed(trashed)} in the trash. To delete them for good: roundhouse disk --empty-trash"


def _drive(one: Drive) -> tuple[str, ...]:
    known = None if one.trash_bytes is None else 0
    trashed = known if one.trashed is None else one.trashed.size_bytes
    figures = (one.total_bytes, one.free_bytes, one.models_bytes, one.trash_bytes, trashed)
    return (one.path, *map(words.size, figures))


def _folder(one: Folder) -> tuple[str, ...]:
    return (one.title, str(one.models), words.size(one.size_bytes), one.path)


def _holding(one: Holding) -> tuple[str, ...]:
    return (one.model, words.size(one.size_bytes), words.size(one.shared_bytes) if one.shared_bytes else "", one.place)
