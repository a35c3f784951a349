"""`roundhouse machines`: a person's other computers, paired by a code that one shows and the other is given."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import quote_segment
from app.core import words
from app.core.across import MachineMemory
from app.core.machines import (
    ChangeMachine,
    MachineCode,
    MachineList,
    MachineStanding,
    NearbyMachine,
    PairMachine,
    WakeMachine,
)

_PAIR_S = 60.0
"""Two messages each way, and a look at what the other machine has; or what each lends, and the way to it measured."""
_MEMORY = {
    (False, False): "not lent",
    (True, False): "lent to it",
    (False, True): "lent by it",
    (True, True): "lent both ways",
}
"""By whether this computer lends the other its memory, and the other way round."""


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def machines(ctx: click.Context, *, as_json: bool) -> None:
    """Use the models of your other computers: `code` on one of them, `pair HOST CODE` on the other.

    Both need `roundhouse settings machines.enabled true` first.
    """
    if ctx.invoked_subcommand is None:
        _show_machines(as_json=as_json)


@machines.command("list")
@json_option
def list_machines(*, as_json: bool) -> None:
    """List the paired machines, and what this one is called."""
    _show_machines(as_json=as_json)


@machines.command("code")
@json_option
def show_code(*, as_json: bool) -> None:
    """Show a code by which one other computer can be paired with this one."""
    code = connect_gateway().post("/machines/code", None, MachineCode)
    show_result("pairing_code", code, as_json=as_json, text=_code_lines)


@machines.command("pair")
@click.argument("host")
@click.argument("code", default="")
@json_option
def pair(host: str, code: str, *, as_json: bool) -> None:
    """Pair with the computer at HOST, which shows CODE."""
    typed_code = code or click.prompt("Code on the other screen", err=True)
    request = PairMachine(host=host, code=typed_code)
    machine = connect_gateway().post("/machines", request, MachineStanding, timeout_s=_PAIR_S)
    show_result("machine", machine, as_json=as_json, text=_pair_lines)


@machines.command("discover")
@json_option
def list_nearby(*, as_json: bool) -> None:
    """List computers on this network that announce themselves. Who each is, pairing proves."""
    nearby = connect_gateway().get("/machines", MachineList).nearby
    show_result("nearby_machines", nearby, as_json=as_json, text=_nearby_lines)


@machines.command("wake")
@click.argument("name")
@json_option
def wake(name: str, *, as_json: bool) -> None:
    """Wake the computer NAME from sleep, over the network (Wake-on-LAN)."""
    connect_gateway().post("/machines/wake", WakeMachine(name=name), type(None))
    show_result("woken", name, as_json=as_json, text=lambda woken: [f"The packet that wakes {woken} was sent."])


@machines.command("memory")
@click.option("--for", "model", default="", help="A model of this computer that would lie there; else any GGUF file.")
@json_option
def list_memory(*, model: str, as_json: bool) -> None:
    """Ask each paired computer what memory it lends this one, and measure the way to it.

    `roundhouse plan MODEL --across NAME` says how a model would lie over them.
    """
    path = f"/machines/memory?model={quote_segment(model)}" if model else "/machines/memory"
    lenders = connect_gateway().get(path, list[MachineMemory], timeout_s=_PAIR_S)
    show_result("machine_memory", lenders, as_json=as_json, text=_memory_lines)


@machines.command("lend")
@click.argument("name")
@click.option("--off", "is_off", is_flag=True, help="Lend it no longer: what it holds here ends at once.")
@json_option
def lend_memory(name: str, *, is_off: bool, as_json: bool) -> None:
    """Lend memory to the computer NAME: parts of models too large for it alone are held and computed here."""
    change = ChangeMachine(lends_memory=not is_off)
    machine = connect_gateway().patch(f"/machines/{quote_segment(name)}", change, MachineStanding)
    show_result("machine", machine, as_json=as_json, text=_lend_lines)


@machines.command("revoke")
@click.argument("name")
@json_option
def revoke(name: str, *, as_json: bool) -> None:
    """Trust the computer NAME no longer. Its connections end at once."""
    connect_gateway().delete(f"/machines/{quote_segment(name)}")
    show_result("revoked", name, as_json=as_json, text=lambda machine_name: [f"{machine_name} is no longer paired."])


def _show_machines(*, as_json: bool) -> None:
    listing = connect_gateway().get("/machines", MachineList)
    show_result("machines", listing, as_json=as_json, text=_machine_lines)


def _code_lines(code: MachineCode) -> Iterator[str]:
    yield code.code
    print_note(
        f"Type it on the other computer within {code.seconds / 60:.0f} minutes: "
        f"roundhouse machines pair HOST {code.code}"
    )


def _pair_lines(machine: MachineStanding) -> Iterator[str]:
    yield f"{machine.name} is paired. Its certificate is {machine.fingerprint[:16]}."
    if machine.problem:
        print_note(machine.problem)
    yield from (f"  {model.name}" for model in machine.models)


def _lend_lines(machine: MachineStanding) -> Iterator[str]:
    if machine.lends_memory:
        yield f"This computer lends memory to {machine.name}."
    else:
        yield f"This computer lends no memory to {machine.name}."


def _memory_lines(lenders: list[MachineMemory]) -> Iterator[str]:
    if not lenders:
        print_note("No other machine is paired. `roundhouse machines code` shows a code for that.")
        return
    yield from format_table(
        ("NAME", "ADDRESS", "FREE", "MEMORY", "THERE AND BACK", "LINK", "STATE"), map(_memory_row, lenders)
    )
    for hint in dict.fromkeys(lender.hint for lender in lenders if lender.hint):
        print_note(hint)


def _memory_row(lender: MachineMemory) -> tuple[str, ...]:
    if lender.latency_ms is None:
        return (lender.name, lender.address, "", "", "", "", lender.problem)
    bandwidth = "" if lender.bandwidth_gb_s is None else f"{lender.bandwidth_gb_s:.0f} GB/s"
    return (
        lender.name,
        lender.address,
        words.format_bytes(lender.free_bytes),
        bandwidth,
        f"{lender.latency_ms:.2f} ms",
        f"{lender.link_mb_s or 0:.0f} MB/s",
        lender.problem or "lends memory",
    )


def _nearby_lines(nearby: list[NearbyMachine]) -> Iterator[str]:
    if not nearby:
        print_note("No other computer announces itself here. Both need machines.enabled, and the same network.")
        return
    rows = [(machine.name, f"{machine.host}:{machine.port}", machine.fingerprint[:16]) for machine in nearby]
    yield from format_table(("NAME", "ADDRESS", "CERTIFICATE"), rows)


def _machine_lines(listing: MachineList) -> Iterator[str]:
    where = f"listens at port {listing.port}" if listing.port else "is off (machines.enabled)"
    print_note(f"This machine is {listing.name}; it {where}. {listing.problem}".rstrip())
    if not listing.machines:
        print_note("No other machine is paired. `roundhouse machines code` shows a code for that.")
        return
    rows = [
        (
            machine.name,
            f"{machine.host}:{machine.port}",
            {True: "yes", False: "no", None: "not asked yet"}[machine.is_reachable],
            str(len(machine.models)),
            _MEMORY[machine.lends_memory, machine.is_lender],
            "given" if machine.shares_files else "not given",
            machine.fingerprint[:16],
        )
        for machine in listing.machines
    ]
    yield from format_table(("NAME", "ADDRESS", "ANSWERS", "MODELS", "MEMORY", "FILES", "CERTIFICATE"), rows)
    for machine in listing.machines:
        if machine.problem:
            print_note(f"{machine.name}: {machine.problem}")
    loads = [
        (
            model.name,
            "loaded" if model.is_loaded else "not loaded",
            str(model.in_flight),
            words.format_rate(model.tokens_per_s),
        )
        for machine in listing.machines
        for model in machine.models
    ]
    if loads:
        yield ""
        yield from format_table(("MODEL", "STATE", "REQUESTS", "MEASURED"), loads)
