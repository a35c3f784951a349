"""`roundhouse machine`: what this computer has, and which engine it deserves."""

from collections.abc import Iterator

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import json_option, show_result, write_json
from app.core import words
from app.core.engines import EngineChoice
from app.core.machine import Fact, Gpu, Machine


@click.command()
@click.option("--fresh", is_flag=True, help="Detect again instead of using earlier results.")
@click.option("--sources", is_flag=True, help="Show where each figure comes from.")
@json_option
def machine(*, fresh: bool, sources: bool, as_json: bool) -> None:
    """Show this computer's hardware and the engine that suits it best."""
    client = connect_gateway()
    machine_found = client.get("/machine?fresh=1" if fresh else "/machine", Machine)
    choice = client.get("/choice", EngineChoice)
    if as_json:
        write_json("machine", {**msgspec.to_builtins(machine_found), "choice": msgspec.to_builtins(choice)})
        return
    for line in machine_lines(machine_found, with_sources=sources):
        click.echo(line)
    click.echo()
    show_result("choice", choice, as_json=False, text=choice_lines)


def machine_lines(machine_found: Machine, *, with_sources: bool = False) -> Iterator[str]:
    """Yield the machine as aligned rows; an unknown figure says why it is unknown."""
    for label, fact, text in _machine_rows(machine_found):
        source = f"   [{fact.source}, {fact.confidence}]" if with_sources and fact.source else ""
        yield f"{label:<12}{text}{source}"
    for probe in machine_found.probes:
        if probe.outcome in {"timeout", "crashed"}:
            yield f"{'Probe':<12}{probe.name} {probe.outcome}: {probe.detail}"


def choice_lines(choice: EngineChoice) -> Iterator[str]:
    """Yield the engine chosen, the facts behind it, and what would be better if it could run."""
    yield click.style(choice.sentence, bold=True)
    for reason in choice.reasons:
        source = click.style(f"  [{reason.source}]", dim=True) if reason.source else ""
        yield f"  - {reason.text}{source}"
    if choice.wanted:
        yield f"  {choice.wanted_why}"


def _machine_rows(machine_found: Machine) -> Iterator[tuple[str, Fact[object], str]]:
    system, cpu, memory = machine_found.os, machine_found.cpu, machine_found.memory
    yield (
        "System",
        _any_fact(system.version),
        f"{_fact_text(system.version)}, {_fact_text(system.architecture)}{_environment_text(machine_found)}",
    )
    yield "Processor", _any_fact(cpu.model), _fact_text(cpu.model)
    yield "Cores", _any_fact(cpu.physical_cores), _cores(machine_found)
    isa = " ".join(cpu.isa.value) if cpu.isa.value else cpu.isa.note
    yield "Extensions", _any_fact(cpu.isa), isa
    yield "Memory", _any_fact(memory.total), _memory(machine_found)
    for gpu in machine_found.gpus:
        yield "GPU", _any_fact(gpu.memory_total), _gpu(gpu)
    if not machine_found.gpus:
        yield "GPU", Fact(), "none found"


def _environment_text(machine_found: Machine) -> str:
    place = machine_found.os.environment.value
    return f", in a {place}" if place in {"container", "vm"} else ", in WSL" if place == "wsl" else ""


def _cores(machine_found: Machine) -> str:
    cpu = machine_found.cpu
    usable = cpu.usable_cores.value
    text = f"{_fact_text(cpu.physical_cores)} physical, {_fact_text(cpu.logical_cores)} logical"
    return f"{text}, {usable:g} usable" if usable is not None else text


def _memory(machine_found: Machine) -> str:
    memory = machine_found.memory
    text = f"{words.format_bytes(memory.total.value)}, {words.format_bytes(memory.available.value)} available"
    return f"{text}, limited to {words.format_bytes(memory.limit.value)}" if memory.limit.value else text


def _gpu(gpu: Gpu) -> str:
    if gpu.memory_total.value is None:
        return f"{_fact_text(gpu.name)}, memory unknown: {gpu.memory_total.note}"
    free = f", {words.format_bytes(gpu.memory_free.value)} free" if gpu.memory_free.value is not None else ""
    return f"{_fact_text(gpu.name)}, {words.format_bytes(gpu.memory_total.value)}{free}"


def _fact_text(fact: Fact[str] | Fact[int]) -> str:
    return str(fact.value) if fact.value is not None else "unknown"


def _any_fact(fact: Fact[str] | Fact[int] | Fact[list[str]]) -> Fact[object]:
    return Fact(source=fact.source, confidence=fact.confidence)
