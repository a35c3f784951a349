"""`roundhouse disk`: what models take of the disks, and the folders they are looked for in."""

from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.core import words
from app.core.disk import DiskUse, Drive, Folder, Holding

_DISK_S = 60.0
"""A drive that sleeps takes its time to spin up."""
_LARGEST = 10


@click.command("disk")
@click.option("--all", "is_all", is_flag=True, help="Name every model, not the ten largest.")
@json_option
def disk(*, is_all: bool, as_json: bool) -> None:
    """Say what models take of each disk, in which folders, and what the trash still holds."""
    use = connected().get("/library/disk", DiskUse, timeout_s=_DISK_S)
    show("disk", use, as_json=as_json, text=lambda found: _lines(found, None if is_all else _LARGEST))
    for folder in use.folders if not as_json else ():
        if folder.problem:
            talk(f"{folder.path}: {folder.problem}")


def _lines(use: DiskUse, most: int | None) -> Iterator[str]:
    yield from table(("DRIVE", "SIZE", "FREE", "MODELS", "TRASH"), map(_drive, use.drives))
    yield ""
    yield from table(("FOLDER", "MODELS", "SIZE", "PATH"), map(_folder, use.folders))
    if use.holdings:
        yield ""
        yield from table(("MODEL", "SIZE", "SHARED", "IN"), map(_holding, use.holdings[:most]))
    if use.saved_bytes:
        yield ""
        yield f"Models that share their space save {words.size(use.saved_bytes)}."


def _drive(one: Drive) -> tuple[str, ...]:
    figures = (one.total_bytes, one.free_bytes, one.models_bytes, one.trash_bytes)
    return (one.path, *map(words.size, figures))


def _folder(one: Folder) -> tuple[str, ...]:
    return (one.title, str(one.models), words.size(one.size_bytes), one.path)


def _holding(one: Holding) -> tuple[str, ...]:
    return (one.model, words.size(one.size_bytes), words.size(one.shared_bytes) if one.shared_bytes else "", one.place)
