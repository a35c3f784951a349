"""The advisor beside people who measure, in the docs: `python -m tests.expert_docs --write`.

What is recommended on twelve described machines, and speeds and sizes that people published.
"""

import csv
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median

import msgspec

from app.advisor.memory.estimate import SpeedModel, estimate_memory
from app.advisor.memory.setting import RunSetting
from app.advisor.speed.estimate import decode_rate
from app.core.advice import Rate
from app.core.hub import HubPick, HubUse
from app.gateway.advising.advice import ObservedSpeeds
from app.gateway.advising.engine_table import engine_table
from app.gateway.hub.model_picks import pick_models
from app.gateway.hub.repositories import FitContext
from app.hardware.description import machine_from
from app.hub.repositories.catalogue_entry import CatalogueEntry
from app.hub.repositories.catalogue_facts import catalogue_facts, download_bytes
from tests.catalogue_docs import shipped_entries
from tests.engine_docs import DOCS, heading, line
from tests.unit.advisor.engines import engines_on

PAGE = DOCS / "internals" / "accuracy.md"
DATA = Path(__file__).parent / "data"
_SPAN = re.compile(r"(?P<begin><!-- experts: (?P<table>\w+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
TALK = 10.0
"""Tokens per second from which on a model is one to talk to, as the settings have it."""


class ExpertMachine(msgspec.Struct, frozen=True):
    """One machine: how it is described, what people run there in words, and models named with tok/s (0: not told)."""

    title: str
    machine: dict[str, object]
    people: str
    speeds: dict[str, float]


class ExpertSpeed(msgspec.Struct, frozen=True):
    """One published speed, a range where the source gives one, without a draft head."""

    machine: str
    model: str
    format: str
    quantization: str
    engine: str
    backend: str
    low: float
    high: float
    source: str


class ExpertSize(msgspec.Struct, frozen=True):
    """One download that somebody weighed; `parts` are what it holds beside the text model, as its size tells."""

    model: str
    format: str
    quantization: str
    parts: str
    gb: float
    note: str


class SpeedComparison(msgspec.Struct, frozen=True):
    """A published speed beside what is predicted."""

    row: ExpertSpeed
    rate: Rate

    @property
    def error(self) -> float:
        """How far the prediction is from the nearer end of the range, as a share."""
        rate = self.rate.tokens_per_second
        if self.row.low <= rate <= self.row.high:
            return 0.0
        return min(abs(rate / self.row.low - 1), abs(rate / self.row.high - 1))

    @property
    def is_inside(self) -> bool:
        """Whether the stated interval holds it."""
        return self.rate.low <= self.row.high and self.row.low <= self.rate.high


@cache
def entries() -> dict[str, CatalogueEntry]:
    """Return the catalogue by title."""
    return {entry.title: entry for entry in shipped_entries()}


def expert_machines() -> list[ExpertMachine]:
    """Return the twelve."""
    return msgspec.json.decode((DATA / "expert-picks.json").read_bytes(), type=list[ExpertMachine])


@cache
def list_picks(title: str) -> list[HubPick]:
    """Return what is recommended for chat on one of them."""
    description = next(machine.machine for machine in expert_machines() if machine.title == title)
    machine = machine_from(msgspec.json.encode(description))
    ground = FitContext(machine, [], ObservedSpeeds(calibrations=[]), engines_on(machine))
    return pick_models(list(entries().values()), HubUse.CHAT, ground, TALK)


def is_named_or_better(machine: ExpertMachine, pick: HubPick) -> bool:
    """Whether people run that model there, or it is ranked above all of theirs that one can talk to."""
    if pick.name in machine.speeds:
        return True
    ranks = (entries()[name].ranks.get("chat", 0) for name, speed in machine.speeds.items() if speed >= TALK)
    return pick.quality > max(ranks, default=0)


@cache
def compare_speeds() -> list[SpeedComparison]:
    """Return every published speed with its prediction."""
    return [_compare_speed(row) for row in _read_speeds()]


def _read_speeds() -> list[ExpertSpeed]:
    with (DATA / "expert-speeds.csv").open(encoding="utf-8", newline="") as file:
        return [msgspec.convert(row, ExpertSpeed, strict=False) for row in csv.DictReader(file)]


@cache
def _read_machines() -> dict[str, object]:
    machines: dict[str, object] = json.loads((DATA / "expert-speed-machines.json").read_text(encoding="utf-8"))
    return machines


def _compare_speed(row: ExpertSpeed) -> SpeedComparison:
    machine = machine_from(msgspec.json.encode(_read_machines()[row.machine]))
    facts = catalogue_facts(entries()[row.model], row.quantization, format=row.format)
    assert facts is not None
    setting = RunSetting(engine=engine_table()[row.engine], backend=row.backend)
    speed = SpeedModel(rates=lambda run_setting, depth: (decode_rate(facts, machine, run_setting, depth=depth), None))
    rate = estimate_memory(facts, machine, setting, speed=speed).decode
    assert rate is not None
    return SpeedComparison(row, rate)


def expert_sizes() -> list[ExpertSize]:
    """Return every measured download."""
    with (DATA / "expert-sizes.csv").open(encoding="utf-8", newline="") as file:
        return [msgspec.convert(row, ExpertSize, strict=False) for row in csv.DictReader(file)]


def estimate_size(size: ExpertSize) -> int:
    """Return what the catalogue takes a build to weigh."""
    entry = entries()[size.model]
    facts = catalogue_facts(entry, size.quantization, format=size.format)
    assert facts is not None
    return download_bytes(entry, facts, has_vision="vision" in size.parts, has_draft="draft" in size.parts)


def is_stated(size: ExpertSize) -> bool:
    """Whether the catalogue states this size, since it does not follow from the bits."""
    return f"{size.format} {size.quantization}" in entries()[size.model].build_bytes


def as_generated(page: str, *names: str) -> str:
    """Return the page with these of its tables as they would be written now."""
    tables = {"picks": _pick_lines, "speeds": _speed_lines, "sizes": _size_lines}

    def write_table(match: re.Match[str]) -> str:
        if match["table"] not in names:
            return match[0]
        return "\n".join((match["begin"], *tables[match["table"]](), "", match["end"]))

    return _SPAN.sub(write_table, page)


def _pick_lines() -> Iterator[str]:
    yield from heading("machine", "first, tok/s predicted", "fast", "what people run there, tok/s")
    yield from map(pick_line, expert_machines())


def pick_line(machine: ExpertMachine) -> str:
    """Return a machine's line of the table."""
    picks = list_picks(machine.title)
    fast = next((pick for pick in picks if pick.is_fast), None)
    return line(machine.title, _pick_words(picks[0]), _pick_words(fast) if fast else "none", machine.people)


def _pick_words(pick: HubPick) -> str:
    decode = pick.card.decode
    rate = f", {decode.tokens_per_second:.0f}" if decode else ""
    return f"{pick.name} {pick.card.quantization}{rate}"


def _speed_lines() -> Iterator[str]:
    rows = compare_speeds()
    errors, inside = median(row.error for row in rows), sum(row.is_inside for row in rows) / len(rows)
    yield f"{len(rows)} rows: median error {errors:.0%}, inside the interval {inside:.0%}."
    yield ""
    yield from heading("machine", "model", "", "engine", "measured", "predicted")
    for device_row in rows:
        row = device_row.row
        measurement = f"{row.low:g}" if row.low == row.high else f"{row.low:g} to {row.high:g}"
        engine = f"{row.engine} {row.backend}"
        prediction = f"{device_row.rate.tokens_per_second:.3g}{'' if device_row.is_inside else ' (outside)'}"
        yield line(row.machine, row.model, row.quantization, engine, measurement, prediction)


def _size_lines() -> Iterator[str]:
    yield from heading("model", "format", "", "with", "measured", "estimated")
    for size in expert_sizes():
        estimate = "stated" if is_stated(size) else f"{estimate_size(size) / 1e9:.2f} GB"
        yield line(size.model, size.format, size.quantization, size.parts, f"{size.gb:.2f} GB", estimate)


def main() -> int:
    """Write the tables, or return 1 if the page has others than it should."""
    text = PAGE.read_text(encoding="utf-8")
    new_text = as_generated(text, "picks", "speeds", "sizes")
    if "--write" in sys.argv:
        PAGE.write_text(new_text, encoding="utf-8")
        return 0
    return int(new_text != text)


if __name__ == "__main__":
    sys.exit(main())
