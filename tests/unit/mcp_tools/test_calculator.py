"""Arithmetic and dates for models: exact, bounded, and no way to run anything."""

import re
from datetime import date

import pytest

from app.mcp_tools.calculator import (
    TOOLS,
    Calculate,
    DateDifference,
    DateSum,
    Now,
    calculate,
    measure_days,
    read_clock,
    shift_date,
)
from app.mcp_tools.toolbox import ToolMistake


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 + 3 * 4", "14"),
        ("2^10 - 1", "1023"),
        ("-(7 // 2)", "-3"),
        ("10 / 4", "2.5"),
        ("8 / 2", "4"),
        ("5 \N{MULTIPLICATION SIGN} 3 \N{DIVISION SIGN} 2", "7.5"),
        ("123456789 * 987654321", "121932631112635269"),
        ("factorial(20)", "2432902008176640000"),
        ("round(sqrt(2), 4) + max(1, 2) + abs(-1)", "4.4142"),
        ("2 ** -2", "0.25"),
        ("1e308 * 10", "inf"),
        ("10 ** 5000", "about 1.000000e+5000"),
        ("17 % 5 + pi * 0", "2"),
    ],
)
def test_an_expression_is_calculated(expression: str, value: str) -> None:
    assert calculate(Calculate(expression)) == value


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("9 ** 9 ** 9", "too large"),
        ("factorial(10 ** 9)", "factorial takes"),
        ("1 / 0", "division by zero"),
        ("(-8) ** (1 / 3)", "no real number"),
        ("sqrt(-1)", "no such number"),
        ("gcd(1.5, 2)", "no such number"),
        ("__import__('os').system('true')", "cannot be calculated"),
        ("(1).__class__", "cannot be calculated"),
        ("'a' * 3", "cannot be calculated"),
        ("True + 1", "cannot be calculated"),
        ("[x for x in (1,)]", "cannot be calculated"),
        ("2 +", "no expression"),
        ("", "no expression"),
        ("(" * 500 + ")" * 500, "no expression"),
    ],
)
def test_anything_else_is_a_mistake_with_a_sentence(expression: str, sentence: str) -> None:
    with pytest.raises(ToolMistake, match=sentence):
        calculate(Calculate(expression))


def test_products_are_bounded_too() -> None:
    with pytest.raises(ToolMistake, match="too large"):
        calculate(Calculate("*".join(["(2 ** 60000)"] * 4)))


def test_dates_are_counted_and_shifted() -> None:
    between = measure_days(DateDifference(date(2024, 2, 28), date(2024, 3, 1)))
    assert between == "2 days (0.3 weeks), from a Wednesday to a Friday"
    assert shift_date(DateSum(date(2024, 1, 31), months=1)) == "2024-02-29, a Thursday"
    assert shift_date(DateSum(date(2026, 11, 26), years=-1, weeks=1, days=-7)) == "2025-11-26, a Wednesday"
    with pytest.raises(ToolMistake, match="9999"):
        shift_date(DateSum(date(2026, 1, 1), years=9000))
    with pytest.raises(ToolMistake, match="9999"):
        shift_date(DateSum(date(2026, 1, 1), days=10**12))


def test_the_clock_is_told_here_and_elsewhere() -> None:
    assert re.fullmatch(r"\w+day, \d{4}-\d\d-\d\dT[\d:]+\+00:00 \(UTC\), week \d+", read_clock(Now("UTC")))
    assert read_clock(Now())
    for zone in ("Middle/Earth", "../../etc/passwd", "/etc/passwd"):
        with pytest.raises(ToolMistake, match="no time zone"):
            read_clock(Now(zone))


def test_arguments_have_a_schema_and_are_checked() -> None:
    tools = {tool.name: tool for tool in TOOLS}
    schema = tools["add_to_date"].schema
    assert schema["properties"]["start"] == {"type": "string", "format": "date"}
    assert schema["required"] == ["start"]
    wrong = tools["add_to_date"].call({"start": "soon"})
    assert wrong.is_error
    right = tools["calculate"].call({"expression": "1 + 1"})
    assert not right.is_error
    assert right.text == "2"
