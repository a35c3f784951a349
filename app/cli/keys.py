"""`roundhouse keys`: list, make and revoke the keys that open the endpoint. A key is printed once, when it is made."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import msgspec

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.client.discovery import KEY_REQUIRED, ensure_gateway
from app.client.http import Client, segment
from app.config.paths import default_paths
from app.config.table import BY_NAME
from app.core.errors import BadRequest, GatewayGone
from app.core.keys import NAME_RULE, KeyInfo, MadeKey, NewKey, Scope

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,6})([mhdw])")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def keys(ctx: click.Context, *, as_json: bool) -> None:
    """List, create and revoke access keys."""
    if ctx.invoked_subcommand is None:
        _list(as_json=as_json)


@keys.command("list")
@json_option
def list_keys(*, as_json: bool) -> None:
    """List the keys; the keys themselves are not shown again."""
    _list(as_json=as_json)


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    default=[Scope.INFERENCE.value],
    show_default=True,
    help="What the key may do: use models, or also manage Roundhouse. Can be given twice.",
)
@click.option(
    "--expires", default="", help="How long it is valid, such as 12h, 30d or 8w, or its last day, such as 2027-01-31."
)
@json_option
def new(name: str, *, scopes: tuple[str, ...], expires: str, as_json: bool) -> None:
    """Create the key NAME and print it, only this once."""
    wanted = _new_key(name, scopes, _expiry(expires) if expires else None)
    made = _client().post("/keys", wanted, MadeKey)
    show("key", made, as_json=as_json, text=_made)


@keys.command()
@click.argument("name")
@json_option
def revoke(name: str, *, as_json: bool) -> None:
    """Revoke the key NAME: it stops working at once."""
    connected().delete(f"/keys/{segment(name)}")
    show("revoked", name, as_json=as_json, text=lambda gone: [f"The key {gone} was revoked."])


def _list(*, as_json: bool) -> None:
    show("keys", connected().get("/keys", list[KeyInfo]), as_json=as_json, text=_lines)


def _client() -> Client:
    """Return a client of the gateway; one that will not start for want of a key is started for this computer only."""
    try:
        return connected()
    except GatewayGone as error:
        if error.code != KEY_REQUIRED:
            raise
        found = ensure_gateway(default_paths(), extra={BY_NAME["gateway.host"].variable: "127.0.0.1"})
        talk("The service listens on this computer only, until it restarts: `roundhouse down`, `roundhouse up`.")
        return Client(found)


def _new_key(name: str, scopes: tuple[str, ...], expires_at: float | None) -> NewKey:
    try:
        return msgspec.convert({"name": name, "scopes": list(dict.fromkeys(scopes)), "expires_at": expires_at}, NewKey)
    except msgspec.ValidationError:
        raise BadRequest(f"A key cannot be called {name!r}.", hint=NAME_RULE, code="invalid_value") from None


def _expiry(text: str) -> float:
    """Return the moment a key ends, in Unix seconds: a span from now, or the end of a day in UTC. Raises BadRequest."""
    span = _SPAN.fullmatch(text.strip())
    if span:
        return time.time() + int(span[1]) * _UNITS_S[span[2]]
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC).timestamp() + _UNITS_S["d"]
    except ValueError:
        raise BadRequest(
            f"{text!r} is neither a duration nor a date.", hint="Write 12h, 30d, 8w or 2027-01-31."
        ) from None


def _made(made: MadeKey) -> Iterator[str]:
    yield made.key
    talk("Save it now: only its hash is stored, so it cannot be shown again.")


def _lines(found: list[KeyInfo]) -> Iterator[str]:
    if not found:
        talk("There are no keys. `roundhouse keys new NAME` creates one.")
        return
    rows = ((key.name, " ".join(key.scopes), _end(key), _day(key.last_used_at, "never")) for key in found)
    yield from table(("NAME", "MAY", "UNTIL", "LAST USED"), rows)


def _end(key: KeyInfo) -> str:
    has_ended = key.expires_at is not None and key.expires_at <= time.time()
    return "expired" if has_ended else _day(key.expires_at, "revoked")


def _day(at: float | None, otherwise: str) -> str:
    return otherwise if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
