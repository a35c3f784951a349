"""`roundhouse tunnel`: the machines over which a model may be shared out, and the certificate that each knows by."""

from collections.abc import Iterator
from pathlib import Path

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import quote_segment
from app.core import words
from app.core.across import AcrossPlan, MemberState, TunnelMember, TunnelState
from app.core.errors import BadRequest

_PATIENCE_S = 60.0
"""Every machine is asked, and the way to it measured."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def tunnel(ctx: click.Context, *, as_json: bool) -> None:
    """Show the machines over which models may be shared out, and what each answers now.

    On each machine: `roundhouse tunnel certificate > NAME.pem`, carry the file over, and
    `roundhouse tunnel add NAME ADDRESS NAME.pem` on the other. A machine lends memory where `gateway.lend_address` is
    set.
    """
    if ctx.invoked_subcommand is None:
        state = connect_gateway().get("/tunnel", TunnelState, timeout_s=_PATIENCE_S)
        show_result("tunnel", state, as_json=as_json, text=_tunnel_lines)


@tunnel.command("certificate")
@json_option
def show_certificate(*, as_json: bool) -> None:
    """Write this machine's certificate, for others to know it by. It is no secret."""
    state = connect_gateway().get("/tunnel", TunnelState, timeout_s=_PATIENCE_S)
    show_result("certificate", state.certificate, as_json=as_json, text=lambda text: [text.rstrip()])


@tunnel.command("add")
@click.argument("name")
@click.argument("address")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def add_machine(name: str, address: str, file: Path, *, as_json: bool) -> None:
    """Know the machine NAME, at ADDRESS (10.0.0.2:7437), by its certificate in FILE.

    ADDRESS is "-" for a machine that only uses this one's memory.
    """
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{file} cannot be read: {error}", code="invalid_value") from None
    member = TunnelMember(name=name, address="" if address == "-" else address, certificate=text)
    known = connect_gateway().post("/tunnel/members", member, TunnelMember)
    show_result("member", known, as_json=as_json, text=lambda member: [f"{member.name} is known."])


@tunnel.command("remove")
@click.argument("name")
@json_option
def remove_machine(name: str, *, as_json: bool) -> None:
    """Forget the machine NAME."""
    connect_gateway().delete(f"/tunnel/members/{quote_segment(name)}")
    show_result("removed", name, as_json=as_json, text=lambda name: [f"{name} is not known any more."])


def _tunnel_lines(state: TunnelState) -> Iterator[str]:
    yield f"Memory is lent at {state.listens}." if state.listens else "This machine lends no memory."
    if not state.members:
        print_note("No machine is known. `roundhouse tunnel add` adds one.")
        return
    rows = map(_member_row, state.members)
    yield from format_table(("MACHINE", "ADDRESS", "FREE", "MEMORY", "THERE AND BACK", "LINK", "STATE"), rows)


def _member_row(member: MemberState) -> tuple[str, ...]:
    if member.latency_ms is None:
        return (member.name, member.address, "", "", "", "", member.problem)
    bandwidth = "" if member.bandwidth_gb_s is None else f"{member.bandwidth_gb_s:.0f} GB/s"
    return (
        member.name,
        member.address,
        words.format_bytes(member.free_bytes),
        bandwidth,
        f"{member.latency_ms:.2f} ms",
        f"{member.link_mb_s or 0:.0f} MB/s",
        member.problem or "answers",
    )


def across_lines(plan: AcrossPlan) -> Iterator[str]:
    """Yield which machine holds what, with the arithmetic, and why."""
    yield click.style(plan.sentence, bold=True)
    rows = (
        (
            share.name,
            str(share.layers),
            f"{words.format_bytes(share.needed_bytes)} of {words.format_bytes(share.free_bytes)}",
            "" if share.token_ms is None else f"{share.token_ms:.2f} ms",
            share.arithmetic,
        )
        for share in plan.shares
    )
    yield from format_table(("MACHINE", "LAYERS", "MEMORY", "A TOKEN", "ARITHMETIC"), rows)
    yield from (f"  - {reason}" for reason in plan.reasons)
