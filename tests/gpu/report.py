"""What came of the parts, as lines for a terminal and as a table for the documentation."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.parts import PartResult
from tests.gpu.places import ROOT, Card

PAGE = ROOT / "docs" / "internals" / "gpu-runs.md"
BEGIN, END = "<!-- gpu runs -->", "<!-- end -->"


def terminal_line(result: PartResult) -> str:
    """Return one part's line."""
    figures = ""
    if result.answers is not None:
        answers = result.answers
        figures = f"ready in {answers.ready_s:.0f} s, {answers.alone:.0f} and {answers.together:.0f} tokens/s. "
    return f"{result.name}: {result.state}. {figures}{result.sentence}".rstrip()


def table_of(results: Sequence[PartResult], cards: Sequence[Card], day: dt.date) -> str:
    """Return the table of one run, with the day and the card above it."""
    names = ", ".join(f"{card.name} ({card.memory}, driver {card.driver}, compute {card.compute})" for card in cards)
    head = "| engine | version | result | ready | alone | 8 at once | of the card |\n|---|---|---|---|---|---|---|\n"
    return f"{day.isoformat()}, {names}\n\n{head}" + "".join(map(_row, results))


def _row(result: PartResult) -> str:
    figures: tuple[str, ...] = ("-",) * 4
    if result.answers is not None:
        answers = result.answers
        card = "-" if answers.card_mib is None else f"{answers.card_mib} MiB"
        rates = (f"{rate:.0f} tokens/s" for rate in (answers.alone, answers.together))
        figures = (f"{answers.ready_s:.0f} s", *rates, card)
    state = f"{result.state}: {result.sentence}" if result.sentence else result.state
    return f"| {result.name} | {result.version or '-'} | {state.replace('|', '/')} | {' | '.join(figures)} |\n"


def write_table(table: str, page: Path = PAGE) -> None:
    """Put a run's table in the place of the one before."""
    text = page.read_text(encoding="utf-8")
    before, after = text.index(BEGIN) + len(BEGIN), text.index(END)
    page.write_text(f"{text[:before]}\n\n{table}\n{text[after:]}", encoding="utf-8")
