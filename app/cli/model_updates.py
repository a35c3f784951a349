"""`roundhouse update-models`: whether the hub has newer files of the models here, and fetching them."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.core import words
from app.core.downloads import Download, Pull
from app.core.library import Freshness, ModelUpdate

_HUB_S = 600.0
"""A hundred repositories over a slow line."""
_CHOOSING_S = 120.0


@click.command("update-models")
@click.option("--check", is_flag=True, help="Only show what is newer, without downloading.")
@json_option
def update_models(*, check: bool, as_json: bool) -> None:
    """Check the hub for newer files of the models that came from it, and download them.

    Existing files are kept beside the new ones; remove them with `roundhouse rm`.
    """
    client = connect_gateway()
    updates = client.get("/library/updates", list[ModelUpdate], timeout_s=_HUB_S)
    show_result("updates", updates, as_json=as_json, text=_update_lines)
    if check:
        return
    for update in updates:
        if update.state is Freshness.NEWER:
            name = update.repository if update.revision == "main" else f"{update.repository}@{update.revision}"
            request = Pull(model=name, quantization=update.quantization)
            begun = client.post("/downloads", request, Download, timeout_s=_CHOOSING_S)
            print_note(f"{begun.title} is downloading: roundhouse downloads")


def _update_lines(updates: list[ModelUpdate]) -> Iterator[str]:
    if not updates:
        yield "None of your models came from a hub."
        return
    yield from format_table(("NAME", "STATE", "DOWNLOAD", "NOTE"), map(_row, updates))


def _row(update: ModelUpdate) -> tuple[str, ...]:
    size = words.format_bytes(update.download_bytes) if update.state is Freshness.NEWER else ""
    changed = (
        f"{len(update.files)} files changed; the hub's version is from {update.modified[:10] or 'an unknown day'}."
    )
    return (update.model, update.state.value, size, changed if update.state is Freshness.NEWER else update.note)
