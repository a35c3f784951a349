"""`roundhouse service`: have the system start the service when you log in, and start it again when it dies."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.output import json_option, show_result
from app.cli.service import stop_service
from app.config.paths import default_paths
from app.config.service_unit import ServiceUnit, install_unit, is_unit_enabled, remove_unit, this_service_unit


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
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
    keeper = this_service_unit(default_paths())
    stop_service(default_paths())  # the keeper's own takes its place
    install_unit(keeper)
    show_result("service", _service_state(keeper, is_kept=True), as_json=as_json, text=_state_lines)


@service.command("remove")
@json_option
def remove_service(*, as_json: bool) -> None:
    """Undo `install`, and stop the service."""
    keeper = this_service_unit(default_paths())
    remove_unit(keeper)
    show_result("service", _service_state(keeper, is_kept=False), as_json=as_json, text=_state_lines)


@service.command("status")
@json_option
def service_status(*, as_json: bool) -> None:
    """Show whether the service starts automatically."""
    keeper = this_service_unit(default_paths())
    show_result("service", _service_state(keeper, is_kept=is_unit_enabled(keeper)), as_json=as_json, text=_state_lines)


def _service_state(keeper: ServiceUnit, *, is_kept: bool) -> ServiceState:
    return ServiceState(kept=is_kept, file=str(keeper.file))


def _state_lines(state: ServiceState) -> Iterator[str]:
    if state.kept:
        yield f"The service starts when you log in ({state.file}). `roundhouse service remove` undoes this."
    else:
        yield "The service starts only when it is needed. `roundhouse service install` has it start when you log in."
