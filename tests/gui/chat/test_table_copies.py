"""A table leaves the conversation whole: as CSV for spreadsheets, as Markdown for everything else."""

import csv
import io

import pytest
from pytestqt.qtbot import QtBot

from app.gui.screens.chat.transcript.box import Spot, Verb
from app.gui.screens.chat.transcript.transcript import Transcript
from app.gui.screens.chat.turns import TurnView
from app.gui.theme.theme import Theme
from tests.demo import long_chat

TABLE = '| Name | Price, in EUR |\n|:---|---:|\n| **Tea** | 3 |\n| "Earl" \\| Grey | $x^2$<br>less |'


@pytest.fixture
def area(qtbot: QtBot, theme: Theme) -> Transcript:
    area = Transcript(theme)
    qtbot.addWidget(area)
    area.resize(900, 700)
    area.show()
    return area


def copies(area: Transcript, text: str) -> list[Spot]:
    area.show_turns([TurnView(message=long_chat.make_answer(1, text))])
    area.grab()
    turn = area.document.turns[0]
    turn.lay_out_between(0, turn.height)
    return [spot for spot in turn.spots_between(0, turn.height) if spot.verb in {Verb.COPY_CSV, Verb.COPY_TABLE}]


def copy_text(area: Transcript, qtbot: QtBot, spot: Spot) -> str:
    with qtbot.waitSignal(area.copy_requested) as signal:
        area.perform_action(0, spot)
    return str(signal.args[0])


def test_a_table_is_copied_as_csv_that_spreadsheets_read(area: Transcript, qtbot: QtBot) -> None:
    (spot,) = [spot for spot in copies(area, f"Prices:\n\n{TABLE}\n\nMore.") if spot.verb is Verb.COPY_CSV]
    assert spot.name == "Copy table as CSV"
    rows = list(csv.reader(io.StringIO(copy_text(area, qtbot, spot))))
    assert rows == [["Name", "Price, in EUR"], ["Tea", "3"], ['"Earl" | Grey', "$x^2$\nless"]]


def test_a_table_is_copied_as_markdown_as_it_was_written(area: Transcript, qtbot: QtBot) -> None:
    (spot,) = [spot for spot in copies(area, f"Prices:\n\n{TABLE}\n\nMore.") if spot.verb is Verb.COPY_TABLE]
    assert copy_text(area, qtbot, spot) == TABLE


def test_a_long_table_is_copied_whole_and_has_its_buttons_once(area: Transcript, qtbot: QtBot) -> None:
    rows = "\n".join(f"| {number} | row {number} |" for number in range(500))
    table = f"| A | B |\n|---|---|\n{rows}"
    markdown, sheet = copies(area, table)
    assert len(area.document.turns[0].boxes) > 2, "it is of several boxes"
    assert copy_text(area, qtbot, markdown) == table
    lines = list(csv.reader(io.StringIO(copy_text(area, qtbot, sheet))))
    assert (len(lines), lines[0], lines[-1]) == (501, ["A", "B"], ["499", "row 499"])


def test_each_table_copies_itself(area: Transcript, qtbot: QtBot) -> None:
    other = "| X |\n|---|\n| y |"
    spots = copies(area, f"{TABLE}\n\nAnd:\n\n{other}\n\n> | Q |\n> |---|\n> | r |")
    tables = [copy_text(area, qtbot, spot) for spot in spots if spot.verb is Verb.COPY_TABLE]
    assert tables == [TABLE, other, "| Q |\n|---|\n| r |"]


def test_the_buttons_of_a_wide_table_stay_in_the_column(area: Transcript) -> None:
    wide = "| " + " | ".join(f"a column with many words {number}" for number in range(9)) + " |"
    row = wide.replace("column", "cell")
    for spot in copies(area, f"{wide}\n|{'---|' * 9}\n{row}"):
        assert spot.area.right() <= area.viewport().width() - 2 * area.column_left + 1
