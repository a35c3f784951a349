"""`roundhouse disk`: what models take of the disks, the folders they are looked for in, and those in the trash."""

from collections.abc import Iterator, Sequence

import click

from app.cli.gateway import connect_gateway
from app.cli.library_job import carry_out
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient
from app.core import words
from app.core.disk import DiskUse, Drive, EmptyTrash, Folder, Holding, TrashContents
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
    client = connect_gateway()
    use = client.get("/library/disk", DiskUse, timeout_s=_DISK_S)
    if empty_trash:
        _empty_trash(client, use, yes=yes, as_json=as_json)
        return
    show_result("disk", use, as_json=as_json, text=lambda disk_use: _disk_lines(disk_use, None if is_all else _LARGEST))
    for folder in use.folders if not as_json else ():
        if folder.problem:
            print_note(f"{folder.path}: {folder.problem}")


def _empty_trash(client: GatewayClient, use: DiskUse, *, yes: bool, as_json: bool) -> None:
    trashed_models = [drive.trashed for drive in use.drives if drive.trashed is not None]
    if not trashed_models and any(drive.trash_bytes is not None for drive in use.drives):
        none = LibraryJob(id="", kind=JobKind.EMPTY, is_done=True)
        show_result("job", none, as_json=as_json, text=lambda _: ["There are no removed models in the trash."])
        return
    for path in (path for trashed in trashed_models for path in trashed.paths):
        print_note(f"  {path}")
    if trashed_models and not yes:
        print_note(f"{_trash_text(trashed_models)} to be deleted for good. This cannot be undone.")
        click.confirm("Delete them?", abort=True, err=True)
    job = carry_out(client, "/library/empty-trash", EmptyTrash(digests=[trashed.digest for trashed in trashed_models]))
    show_result(
        "job",
        job,
        as_json=as_json,
        text=lambda done: [words.describe_emptying(done.deleted_files, done.reclaimed_bytes)],
    )


def _trash_text(trashed_models: Sequence[TrashContents]) -> str:
    return words.describe_trash(
        sum(trashed.files for trashed in trashed_models), sum(trashed.size_bytes for trashed in trashed_models)
    )


def _disk_lines(use: DiskUse, most: int | None) -> Iterator[str]:
    yield from format_table(("DRIVE", "SIZE", "FREE", "MODELS", "TRASH", "REMOVED MODELS"), map(_drive, use.drives))
    yield ""
    yield from format_table(("FOLDER", "MODELS", "SIZE", "PATH"), map(_folder, use.folders))
    if use.holdings:
        yield ""
        yield from format_table(("MODEL", "SIZE", "SHARED", "IN"), map(_model_row, use.holdings[:most]))
    if use.saved_bytes:
        yield ""
        yield f"Models that share their space save {words.format_bytes(use.saved_bytes)}."
    if trashed := [drive.trashed for drive in use.drives if drive.trashed is not None]:
        yield ""
        yield f"{_trash_text(trashed)} in the trash. To delete them for good: roundhouse disk --empty-trash"


def _drive(drive: Drive) -> tuple[str, ...]:
    known = None if drive.trash_bytes is None else 0
    trashed = known if drive.trashed is None else drive.trashed.size_bytes
    figures = (drive.total_bytes, drive.free_bytes, drive.models_bytes, drive.trash_bytes, trashed)
    return (drive.path, *map(words.format_bytes, figures))


def _folder(folder: Folder) -> tuple[str, ...]:
    return (folder.title, str(folder.models), words.format_bytes(folder.size_bytes), folder.path)


def _model_row(holding: Holding) -> tuple[str, ...]:
    return (
        holding.model,
        words.format_bytes(holding.size_bytes),
        words.format_bytes(holding.shared_bytes) if holding.shared_bytes else "",
        holding.place,
    )
