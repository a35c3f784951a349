"""`roundhouse update-models`: whether the hub has newer files of the models here, and fetching them."""

from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
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
    client = connected()
    found = client.get("/library/updates", list[ModelUpdate], timeout_s=_HUB_S)
    show("updates", found, as_json=as_json, text=_lines)
    if check:
        return
    for one in found:
        if one.state is Freshness.NEWER:
            name = one.repository if one.revision == "main" else f"{one.repository}@{one.revision}"
            wanted = Pull(model=name, quantization=one.quantization)
            begun = client.post("/downloads", wanted, Download, timeout_s=_CHOOSING_S)
            talk(f"{begun.title} is downloading: roundhouse downloads")


def _lines(found: list[ModelUpdate]) -> Iterator[str]:
    if not found:
        yield "None of your models came from a hub."
        return
    yield from table(("NAME", "STATE", "DOWNLOAD", "NOTE"), map(_row, found))


def _row(one: ModelUpdate) -> tuple[str, ...]:
    size = words.size(one.download_bytes) if one.state is Freshness.NEWER else ""
    changed = f"{len(one.files)} files changed; the hub's version is from {one.modified[:10] or 'an unknown day'}."
    return (one.model, one.state.value, size, changed if one.state is Freshness.NEWER else one.note)
