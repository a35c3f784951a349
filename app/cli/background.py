"""`roundhouse service`: have the system start the service when you log in, and start it again when it dies."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.output import json_option, show
from app.cli.service import stopped
from app.config.background import Keeper, install, is_kept, remove, this_keeper
from app.config.paths import default_paths


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands."""

    kept: bool
    file: str


@click.group()
def service() -> None:
    """Keep the service running: install, remove, status.

    The system then starts it when you log in, and again if it dies. Models are loaded when requested, so an
    idle service takes little memory. `roundhouse down` still stops it until the next log-in. Each takes --json.
    """


@service.command("install")
@json_option
def install_service(*, as_json: bool) -> None:
    """Start the service now and whenever you log in."""
    found = this_keeper(default_paths())
    stopped(default_paths())  # the keeper's own takes its place
    install(found)
    show("service", _told(found, kept=True), as_json=as_json, text=_lines)


@service.command("remove")
@json_option
def remove_service(*, as_json: bool) -> None:
    """Undo `install`, and stop the service."""
    found = this_keeper(default_paths())
    remove(found)
    show("service", _told(found, kept=False), as_json=as_json, text=_lines)


@service.command("status")
@json_option
def service_status(*, as_json: bool) -> None:
    """Show whether the service starts automatically."""
    found = this_keeper(default_paths())
    show("service", _told(found, kept=is_kept(found)), as_json=as_json, text=_lines)


def _told(found: Keeper, *, kept: bool) -> Kept:
    return Kept(kept=kept, file=str(found.file))


def _lines(told: Kept) -> Iterator[str]:
    if told.kept:
        yield f"The service starts when you log in ({told.file}). `roundhouse service remove` undoes this."
    else:
        yield "The service starts only when it is needed. `roundhouse service install` has it start when you log in."
