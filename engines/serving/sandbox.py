"""What a chat template may do: Jinja's sandbox, without the ways it leaves open to fill the memory.

The sandbox keeps a template from Python's internals and from long ranges. Beyond it, numbers that repeat or widen text
are small here, and texts that are added up have a limit. Joining with `~` is bounded by the time a rendering has.
"""

import datetime as dt
import functools
import json
import re
from collections.abc import Callable
from typing import Any

import jinja2.ext
import jinja2.sandbox

MOST_CHARS = 16 * 1024 * 1024
MOST_REPEATS = 100_000
"""As many as Jinja's own limit for `range`."""
_LARGEST_POWER = 1000
_WIDE = re.compile(r"\d{6,}")
_WIDENING = ("center", "indent", "format", "wordwrap", "truncate")


class GenerationTag(jinja2.ext.Extension):
    """The tag `generation`, with which model makers mark what the model itself writes; it changes nothing here."""

    tags = frozenset({"generation"})  # type: ignore[assignment]  # Jinja declares a set, and only looks into it

    def parse(self, parser: Any) -> Any:  # noqa: ANN401 -- as Jinja calls it
        """Return what stands between the tags."""
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


class BoundedSandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The sandbox with small numbers."""

    intercepted_binops = frozenset({"*", "**", "+", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 -- as Jinja's
        """Compute what the operator says, unless its result would be huge."""
        if operator == "**":
            _check_numbers((left, right), _LARGEST_POWER)
        elif operator == "%" and isinstance(left, str):
            _check_format(left)
        elif operator in {"*", "+"}:
            _check_size(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 -- as Jinja's
        """Call a function or method, unless a number among its arguments is huge."""
        _check_numbers((*args, *kwargs.values()), MOST_REPEATS)
        formatted = getattr(
            getattr(obj, "__wrapped__", None), "__self__", None
        )  # "...".format, as the sandbox wraps it
        if isinstance(formatted, str):
            _check_format(formatted)
        return super().call(context, obj, *args, **kwargs)


def make_environment() -> BoundedSandbox:
    """Return what templates are compiled in, with the names that transformers gives them."""
    sandbox = BoundedSandbox(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, GenerationTag])
    for name in _WIDENING:
        sandbox.filters[name] = _limit_filter(sandbox.filters[name])
    sandbox.filters["tojson"] = _to_json
    sandbox.globals.update({"raise_exception": _raise_exception, "strftime_now": _strftime_now})
    sandbox.globals.pop("lipsum", None)
    return sandbox


def _limit_filter(wide: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(wide)
    def call_checked(*args: object, **kwargs: object) -> Any:  # noqa: ANN401 -- as the filter's
        _check_numbers((*args, *kwargs.values()), MOST_REPEATS)
        if wide.__name__ == "do_format" and args and isinstance(args[0], str):
            _check_format(args[0])
        return wide(*args, **kwargs)

    return call_checked


def _check_numbers(values: tuple[object, ...], most: int) -> None:
    if any(isinstance(value, int | float) and abs(value) > most for value in values):
        raise ValueError("it reckons with a number this large")


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise ValueError("it asks for text this wide")


def _check_size(operator: str, left: object, right: object) -> None:
    sizes = [len(value) for value in (left, right) if isinstance(value, str | list | tuple)]
    if not sizes:
        return
    numbers = [value for value in (left, right) if isinstance(value, int)]
    size = sum(sizes) if operator == "+" else sizes[0] * max(numbers, default=0)
    if size > MOST_CHARS:
        raise ValueError("it makes a text this long")


def _raise_exception(message: object) -> None:
    raise ValueError(str(message))


def _strftime_now(form: str) -> str:
    return dt.datetime.now().astimezone().strftime(form)


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 -- the filter's arguments, as model makers use them
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002 -- as above
) -> str:
    """Write JSON as transformers' templates expect it: without HTML escapes."""
    _check_numbers((indent or 0,), MOST_REPEATS)
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
