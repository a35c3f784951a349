"""A child that answers each line, and what becomes of one that does not."""

import io
import sys

import msgspec
import pytest

from app.hardware.child_answers import answer_each_line
from app.hardware.standing_child import StandingChild

COUNTING = "import sys\nfor at, _ in enumerate(sys.stdin): print(at, flush=True)"


async def test_it_stays_and_is_started_anew_once_it_was_closed() -> None:
    child = StandingChild(int, subject="A number")
    argv = [sys.executable, "-c", COUNTING]
    assert [await child.ask(argv), await child.ask(argv)] == [0, 1]
    await child.close()
    assert await child.ask(argv) == 0
    await child.close()


@pytest.mark.parametrize("program", ["pass", "input(); print('nonsense', flush=True); input()"])
async def test_what_cannot_be_read_is_logged_with_its_subject(program: str, caplog: pytest.LogCaptureFixture) -> None:
    child = StandingChild(int, subject="A number")
    assert await child.ask([sys.executable, "-c", program]) is None
    assert "A number could not be read" in caplog.text
    caplog.clear()


async def test_a_program_that_is_not_there_costs_the_answer_only(caplog: pytest.LogCaptureFixture) -> None:
    assert await StandingChild(int, subject="A number").ask(["/nowhere/program"]) is None
    caplog.clear()


def test_each_line_has_an_answer_of_its_own() -> None:
    output, answers = io.BytesIO(), iter([{"a": 1}, {"a": 2}])
    answer_each_line(lambda: next(answers), [b"\n", b"\n"], output)
    assert [msgspec.json.decode(line) for line in output.getvalue().splitlines()] == [{"a": 1}, {"a": 2}]
