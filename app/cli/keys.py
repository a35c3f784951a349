"""`roundhouse keys`: list, make, limit, rename and revoke the keys that open the endpoint.

A key is printed once, when it is made.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.discovery import KEY_REQUIRED, ensure_gateway
from app.client.http import GatewayClient, quote_segment
from app.config.paths import default_paths
from app.config.table import BY_NAME
from app.core import words
from app.core.errors import BadRequest, GatewayGone
from app.core.keys import NAME_RULE, NO_LIMITS, KeyInfo, KeyLimits, KeyRename, KeyUsage, KeyWithSecret, NewKey, Scope

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"(\d{1,6})([mhdw])")


_LimitOption = int | tuple[str, ...] | None


def _limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for limits."""
    number = click.IntRange(min=0)
    for option in (
        click.option(
            "--model", "models", multiple=True, help="A model it may use, and no others; can be repeated, and * fits."
        ),
        click.option("--concurrent-requests", type=number, help="Requests it may have answered at once."),
        click.option("--tokens-per-day", type=number, help="Tokens in 24 hours, prompts and answers together."),
        click.option("--tokens-per-minute", type=number, help="Tokens in a minute, prompts and answers together."),
        click.option("--requests-per-minute", type=number, help="Requests in a minute."),
    ):
        command = option(command)
    return command


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def keys(ctx: click.Context, *, as_json: bool) -> None:
    """List, create and revoke access keys."""
    if ctx.invoked_subcommand is None:
        _print_keys(as_json=as_json)


@keys.command("list")
@json_option
def list_keys(*, as_json: bool) -> None:
    """List the keys; the keys themselves are not shown again."""
    _print_keys(as_json=as_json)


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
@_limit_options
@json_option
def new(name: str, *, scopes: tuple[str, ...], expires: str, as_json: bool, **limits: _LimitOption) -> None:
    """Create the key NAME and print it, only this once."""
    request = _new_key(name, scopes, _expiry(expires) if expires else None)
    request = msgspec.structs.replace(request, limits=_change_limits(NO_LIMITS, limits))
    new_key = _connect_without_key().post("/keys", request, KeyWithSecret)
    show_result("key", new_key, as_json=as_json, text=_key_lines)


@keys.command()
@click.argument("name")
@_limit_options
@click.option("--any-model", is_flag=True, help="Let it use every model again.")
@click.option("--none", "lift_all", is_flag=True, help="Lift all its limits.")
@json_option
def limit(name: str, *, any_model: bool, lift_all: bool, as_json: bool, **limits: _LimitOption) -> None:
    """Change the limits of the key NAME: those not given stay, and 0 lifts one."""
    gateway = connect_gateway()
    before = next((key.limits for key in gateway.get("/keys", list[KeyInfo]) if key.name == name), None) or NO_LIMITS
    if any_model:
        before = msgspec.structs.replace(before, models=[])
    after = _change_limits(NO_LIMITS if lift_all else before, limits)
    info = gateway.post(f"/keys/{quote_segment(name)}/limits", after, KeyInfo)
    show_result("key", info, as_json=as_json, text=_limited_lines)


@keys.command()
@click.argument("name")
@click.argument("new_name")
@json_option
def rename(name: str, new_name: str, *, as_json: bool) -> None:
    """Call the key NAME NEW_NAME: it opens what it did, with its limits and its usage."""
    try:
        body = msgspec.convert({"name": new_name}, KeyRename)
    except msgspec.ValidationError:
        raise _name_error(new_name) from None
    info = connect_gateway().post(f"/keys/{quote_segment(name)}/rename", body, KeyInfo)
    show_result("key", info, as_json=as_json, text=lambda key: [f"The key {name} is called {key.name} now."])


@keys.command()
@click.argument("name")
@json_option
def revoke(name: str, *, as_json: bool) -> None:
    """Revoke the key NAME: it stops working at once."""
    connect_gateway().delete(f"/keys/{quote_segment(name)}")
    show_result("revoked", name, as_json=as_json, text=lambda key_name: [f"The key {key_name} was revoked."])


def _print_keys(*, as_json: bool) -> None:
    show_result("keys", connect_gateway().get("/keys", list[KeyInfo]), as_json=as_json, text=_list_lines)


def _connect_without_key() -> GatewayClient:
    """Return a client of the gateway; one that will not start for want of a key is started for this computer only."""
    try:
        return connect_gateway()
    except GatewayGone as error:
        if error.code != KEY_REQUIRED:
            raise
        gateway = ensure_gateway(default_paths(), extra={BY_NAME["gateway.host"].variable: "127.0.0.1"})
        print_note("The service listens on this computer only, until it restarts: `roundhouse down`, `roundhouse up`.")
        return GatewayClient(gateway)


def _new_key(name: str, scopes: tuple[str, ...], expires_at: float | None) -> NewKey:
    try:
        return msgspec.convert({"name": name, "scopes": list(dict.fromkeys(scopes)), "expires_at": expires_at}, NewKey)
    except msgspec.ValidationError:
        raise _name_error(name) from None


def _name_error(name: str) -> BadRequest:
    return BadRequest(f"A key cannot be called {name!r}.", hint=NAME_RULE, code="invalid_value")


def _change_limits(before: KeyLimits, options: Mapping[str, _LimitOption]) -> KeyLimits:
    """Return the limits with what was given on the command line. Raises BadRequest."""
    changes = {name: value or None for name, value in options.items() if value is not None and name != "models"}
    if models := options.get("models"):
        changes["models"] = models
    try:
        return msgspec.convert({**msgspec.structs.asdict(before), **changes}, KeyLimits)
    except msgspec.ValidationError as error:
        raise BadRequest(f"These limits are not possible: {error}.", code="invalid_value") from None


def _limited_lines(key: KeyInfo) -> Iterator[str]:
    if key.limits is None:
        yield f"The key {key.name} has no limits."
    else:
        yield f"The key {key.name}: {limits_text(key)}."


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


def _key_lines(new_key: KeyWithSecret) -> Iterator[str]:
    yield new_key.key
    print_note("Save it now: only its hash is stored, so it cannot be shown again.")


def _list_lines(keys_found: list[KeyInfo]) -> Iterator[str]:
    if not keys_found:
        print_note("There are no keys. `roundhouse keys new NAME` creates one.")
        return
    rows = (
        (key.name, " ".join(key.scopes), _end_text(key), _day(key.last_used_at, "never"), limits_text(key))
        for key in keys_found
    )
    yield from format_table(("NAME", "MAY", "UNTIL", "LAST USED", "LIMITS (USED)"), rows)


def limits_text(key: KeyInfo) -> str:
    """Return the limits of a key, each with what is used of it."""
    limits, usage = key.limits, key.usage
    if limits is None or usage is None:
        return ""
    counts = (
        (limits.requests_per_minute, usage.requests_last_minute, "requests a minute"),
        (limits.tokens_per_minute, usage.tokens_last_minute, "tokens a minute"),
        (limits.tokens_per_day, usage.tokens_last_day, "tokens a day"),
        (limits.concurrent_requests, usage.requests_in_flight, "requests at once"),
    )
    texts = [f"{most:,} {what} ({used_count:,})" for most, used_count, what in counts if most is not None]
    models = [f"only {' '.join(limits.models)}"] if limits.models else []
    return ", ".join(texts + models + list(_hold_texts(usage)))


def _hold_texts(usage: KeyUsage) -> Iterator[str]:
    if usage.limit_reached is not None:
        yield "held back now" if usage.wait_s is None else f"held back for {words.format_duration(usage.wait_s)}"
    if usage.refused_last_hour:
        yield f"{usage.refused_last_hour:,} refused in the last hour"


def _end_text(key: KeyInfo) -> str:
    has_ended = key.expires_at is not None and key.expires_at <= time.time()
    return "expired" if has_ended else _day(key.expires_at, "no end")


def _day(at: float | None, otherwise: str) -> str:
    return otherwise if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
