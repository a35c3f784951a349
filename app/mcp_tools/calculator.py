"""Arithmetic, and dates: what models are bad at. Nothing is evaluated but numbers, operators and these functions."""

import ast
import calendar
import math
import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from app.mcp_tools.toolbox import BuiltinTool, ToolMistake

_LONGEST_EXPRESSION = 2000
_MOST_BITS = 200_000
"""Of a result: a power is refused before it is worked out."""
_LARGEST_FACTORIAL = 5000
_MOST_DIGITS = 4000
_SIGNS = str.maketrans({"^": "**", "\N{MULTIPLICATION SIGN}": "*", "\N{DIVISION SIGN}": "/"})
_EXACT = 1e15
"""Up to here, whole numbers that were divided are written without a point."""
Number = int | float

_CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e, "tau": math.tau}


class Calculate(msgspec.Struct, frozen=True):
    """An expression such as `(3 + 4) * sqrt(2) ** 3`."""

    expression: Annotated[str, msgspec.Meta(max_length=_LONGEST_EXPRESSION)]


class Now(msgspec.Struct, frozen=True):
    """A time zone by its IANA name, such as Europe/Vienna; empty for this computer's."""

    timezone: str = ""


class DateDifference(msgspec.Struct, frozen=True):
    """Two dates as YYYY-MM-DD."""

    start: date
    end: date


class DateSum(msgspec.Struct, frozen=True):
    """A date as YYYY-MM-DD, and what to add to it; negative numbers go back."""

    start: date
    days: int = 0
    weeks: int = 0
    months: int = 0
    years: int = 0


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent > 0 and max(1, abs(base).bit_length()) * exponent > _MOST_BITS:
            raise ToolMistake("The number is too large.")
        power: Number = base**exponent
        return power
    value: object = base**exponent
    if not isinstance(value, float):
        raise ToolMistake("The result is no real number.")
    return value


def _factorial(value: Number) -> int:
    if not isinstance(value, int) or not 0 <= value <= _LARGEST_FACTORIAL:
        raise ToolMistake(f"factorial takes a whole number from 0 to {_LARGEST_FACTORIAL}.")
    return math.factorial(value)


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_SIGN_OPERATORS: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: getattr(math, name) for name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin")},
    **{name: getattr(math, name) for name in ("acos", "atan", "atan2", "floor", "ceil", "degrees", "radians")},
    **{name: getattr(math, name) for name in ("gcd", "lcm", "hypot", "trunc")},
    "abs": abs,
    "min": min,
    "max": max,
    "round": round,
    "factorial": _factorial,
}


def calculate(request: Calculate) -> str:
    """Return the value of an expression. Raises ToolMistake."""
    try:
        tree = ast.parse(request.expression.strip().translate(_SIGNS), mode="eval")
        value = _evaluate(tree.body)
        words = _write_number(value)
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolMistake("This is no expression of numbers, operators and functions.") from None
    except ZeroDivisionError:
        raise ToolMistake("A division by zero.") from None
    except (ValueError, OverflowError, TypeError) as error:
        raise ToolMistake(f"There is no such number: {error}.") from None
    return words


def _write_number(value: Number) -> str:
    if isinstance(value, int):
        if value.bit_length() * math.log10(2) > _MOST_DIGITS:
            return f"about {Decimal(value):.6e}"
        return str(value)
    return repr(int(value)) if value.is_integer() and abs(value) < _EXACT else repr(value)


def _evaluate(node: ast.expr) -> Number:
    value: Number | None = None
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            value = number
        case ast.Name(id=name):
            value = _CONSTANTS.get(name)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _SIGN_OPERATORS:
            value = _SIGN_OPERATORS[type(sign)](_evaluate(operand))
        case ast.BinOp(left=left_operand, op=operation, right=right) if type(operation) in _OPERATORS:
            value = _OPERATORS[type(operation)](_evaluate(left_operand), _evaluate(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            value = _FUNCTIONS[name](*map(_evaluate, arguments))
    if value is None:
        raise ToolMistake(f"{ast.unparse(node)[:80]} cannot be calculated.")
    return _check_size(value)


def _check_size(value: Number) -> Number:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ToolMistake("The number is too large.")
    return value


def read_clock(request: Now) -> str:
    """Return the date and the time now. Raises ToolMistake for a zone that is not known."""
    now = datetime.now(UTC)
    try:
        there = now.astimezone(ZoneInfo(request.timezone)) if request.timezone else now.astimezone()
    except (KeyError, ValueError, OSError):
        raise ToolMistake(f"There is no time zone {request.timezone!r}. Names are like Europe/Vienna.") from None
    week = there.isocalendar().week
    return f"{there:%A}, {there.isoformat(timespec='seconds')} ({there.tzname()}), week {week}"


def measure_days(request: DateDifference) -> str:
    """Return how many days lie between two dates."""
    days = (request.end - request.start).days
    return f"{days} days ({days / 7:.1f} weeks), from a {request.start:%A} to a {request.end:%A}"


def shift_date(request: DateSum) -> str:
    """Return a date so much later. Months keep the day, or take the last that there is. Raises ToolMistake."""
    try:
        month = request.start.month - 1 + request.months + 12 * request.years
        year, month = request.start.year + month // 12, month % 12 + 1
        day = min(request.start.day, calendar.monthrange(year, month)[1])
        moved_date = date(year, month, day) + timedelta(days=request.days, weeks=request.weeks)
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        raise ToolMistake("Dates go from the year 1 to the year 9999.") from None
    return f"{moved_date.isoformat()}, a {moved_date:%A}"


TOOLS = (
    BuiltinTool(
        name="calculate",
        description=(
            "Calculate an expression exactly: + - * / // % ** and brackets, pi, e, and functions such as sqrt, log, "
            "sin, round, min, max, gcd, factorial. Use it for every calculation with more than two digits."
        ),
        arguments=Calculate,
        run=calculate,
    ),
    BuiltinTool(
        name="now",
        description="Tell the date, the weekday and the time now, here or in another time zone.",
        arguments=Now,
        run=read_clock,
    ),
    BuiltinTool(
        name="days_between", description="Count the days between two dates.", arguments=DateDifference, run=measure_days
    ),
    BuiltinTool(
        name="add_to_date",
        description="Add days, weeks, months or years to a date, and tell its weekday.",
        arguments=DateSum,
        run=shift_date,
    ),
)
