"""`roundhouse settings`: show all, show one, change one, reset one."""

import json
from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.config.store import find_setting, parse_setting
from app.core.api import SettingInfo, SettingValue
from app.core.errors import BadRequest, NotFound


@click.command()
@click.argument("name", default="")
@click.argument("value", default=None, required=False)
@click.option("--reset", is_flag=True, help="Go back to the default.")
@json_option
def settings(name: str, value: str | None, *, reset: bool, as_json: bool) -> None:
    """Show all settings, or the one called NAME; with VALUE, change it."""
    if reset and (value is not None or not name):
        raise BadRequest("--reset takes the name of one setting, and no value.")
    client = connect_gateway()
    if not name:
        show_result("settings", client.get("/settings", list[SettingInfo]), as_json=as_json, text=_setting_lines)
        return
    row = find_setting(name)
    if value is not None or reset:
        change = {row.name: None if reset else parse_setting(row, value or "")}
        rows = client.patch("/settings", change, list[SettingInfo])
    else:
        rows = client.get("/settings", list[SettingInfo])
    show_result("setting", _row_called(rows, row.name), as_json=as_json, text=_detail_lines)


def _row_called(rows: list[SettingInfo], name: str) -> SettingInfo:
    for row in rows:
        if row.name == name:
            return row
    raise NotFound(f"There is no setting called {name!r}.")


def _setting_lines(rows: list[SettingInfo]) -> Iterator[str]:
    yield from format_table(
        ("SETTING", "VALUE", "FROM", ""), ((r.name, format_value(r.value), r.source, r.title) for r in rows)
    )


def _detail_lines(row: SettingInfo) -> Iterator[str]:
    yield f"{row.name} = {format_value(row.value)} {row.unit}".rstrip()
    yield f"  {row.title}. {row.help}"
    choices = f" One of {', '.join(row.choices)}." if row.choices else ""
    yield f"  Default {format_value(row.default)}; now from {row.source}.{choices}"
    if row.needs_restart:
        print_note("A change takes effect when the service restarts: `roundhouse down`, `roundhouse up`.")


def format_value(value: SettingValue) -> str:
    """Return a value as it is typed in the settings file."""
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)
