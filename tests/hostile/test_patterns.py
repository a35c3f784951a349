"""Every compiled pattern of the gateway's takes time in proportion to what it reads, however it was made to fail."""

import ast
import importlib
import re
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest

from tests.hostile.adversarial import strings_for

ROOT = Path(__file__).resolve().parents[2]
SIZES = (24, 256, 4096)
"""A pattern of exponential time shows at the first, one of the third power next, one of the square at the last."""
ENOUGH_S = 0.001
"""CPU time that is no sign of anything: a linear pattern takes a tenth of it for 4096 characters."""
GLANCE_S = 0.02
"""CPU time above which twice the size may take for ever."""
MOST_RATIO = 2.9
"""Of the times for 2n and n: 2 for a linear pattern, 4 for one of the square."""
STALL_S = 0.2
"""CPU time of one string that is a fault by itself, and that ends the doubling."""
MOST_SIZE = 16_384
"""Where the square has long shown, and the bounded repeats of a linear pattern have long been reached."""
ALL_METHODS = frozenset({"search", "fullmatch"})
METHODS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "split"})


class Named(NamedTuple):
    """A pattern, where it stands, and the methods it is used by."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


MAKERS = ("re.compile(", "compile_clues(", "stage_row(", "buffer_row(")
"""What compiles patterns, by its text: a module without any of it need not be imported."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for top in ("app", "engines"):
        for path in sorted((ROOT / top).rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            text = path.read_text(encoding="utf-8")
            if any(maker in text for maker in MAKERS):
                yield name, ast.parse(text)


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a value: in its items, and in those that a function was made with."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from patterns_in(item)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            yield from patterns_in(cell.cell_contents)


@lru_cache(maxsize=1)
def loaded_names(tree: ast.Module) -> list[tuple[ast.Name, ast.AST]]:
    """Return the names that a module reads, and what each is a part of."""
    parts = ((child, parent) for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent))
    return [
        (child, parent) for child, parent in parts if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)
    ]


def methods_of(tree: ast.Module, name: str) -> frozenset[str]:
    """Return how a module uses its pattern of that name; every way if it hands the pattern on."""
    used_methods, is_elsewhere = set(), False
    for node, parent in loaded_names(tree):
        if node.id == name:
            if isinstance(parent, ast.Attribute) and parent.attr in METHODS:
                used_methods.add(parent.attr)
            else:
                is_elsewhere = True
    return ALL_METHODS if is_elsewhere or not used_methods else frozenset(used_methods)


def collect() -> list[Named]:
    pattern_by_key: dict[tuple[object, int, frozenset[str]], Named] = {}
    for module_name, tree in modules():
        try:
            module = importlib.import_module(module_name)
        except ImportError:  # another system's, or a worker's of an engine that is not installed
            continue
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                methods = methods_of(tree, name)
                named_pattern = Named(f"{module_name}.{name}", pattern, methods)
                pattern_by_key.setdefault((pattern.pattern, pattern.flags, methods), named_pattern)
    return list(pattern_by_key.values())


def cpu_s(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def use(named_pattern: Named, method: str, text: str) -> Callable[[], object]:
    subject: Any = text.encode("latin-1", "replace") if isinstance(named_pattern.pattern.pattern, bytes) else text
    if method == "sub":
        return lambda: named_pattern.pattern.sub(b"" if isinstance(subject, bytes) else "", subject)
    if method == "finditer":
        return lambda: sum(1 for _ in named_pattern.pattern.finditer(subject))
    call = getattr(named_pattern.pattern, method)
    return lambda: call(subject)


def slow_on(named_pattern: Named) -> str:
    """Return on which string, and how, a pattern is not linear; "" for one that is."""
    suspects = {
        (method, at) for method in named_pattern.methods for at, _ in enumerate(strings_for(named_pattern.pattern, 8))
    }
    for size in SIZES:
        texts = list(strings_for(named_pattern.pattern, size))
        for method, at in sorted(suspects):
            if at >= len(texts) or (glance_s := cpu_s(use(named_pattern, method, texts[at]))) < ENOUGH_S:
                continue
            if is_steep(named_pattern, method, at, size, glance_s) and (
                growth := steep_growth(named_pattern, method, at, size)
            ):
                return f"{named_pattern.place}.{method}: {growth}: {texts[at][:40]!r}"
    return ""


def steep_growth(named_pattern: Named, method: str, at: int, size: int) -> str:
    """Return how the time grows with every doubling from a size on; "" once it grows in proportion.

    One steep doubling proves nothing: of two bounded repeats each is still being filled, or the machine was busy.
    """
    once = least_s(named_pattern, method, at, size)
    times = [once]
    while once > ENOUGH_S and size < MOST_SIZE and once < STALL_S:
        size *= 2
        twice = least_s(named_pattern, method, at, size)
        if twice <= MOST_RATIO * once:
            return ""
        times.append(twice)
        once = twice
    if len(times) == 1 and once < STALL_S:
        return ""
    return ", then ".join(f"{time_s * 1000:.1f} ms" for time_s in times)


def is_steep(named_pattern: Named, method: str, at: int, size: int, glance_s: float) -> bool:
    """Tell at a glance whether the time may grow too fast: what does not stand out is not worth measuring thrice."""
    return glance_s > GLANCE_S or cpu_s(make_work(named_pattern, method, at, 2 * size)) > MOST_RATIO * glance_s


def make_work(named_pattern: Named, method: str, at: int, size: int) -> Callable[[], object]:
    return use(named_pattern, method, next(islice(strings_for(named_pattern.pattern, size), at, None)))


def least_s(named_pattern: Named, method: str, at: int, size: int) -> float:
    """Return the least CPU time of three for one string of a size; once is enough for a stall."""
    work = make_work(named_pattern, method, at, size)
    least = cpu_s(work)
    for _ in range(2):
        if least < STALL_S:
            least = min(least, cpu_s(work))
    return least


@pytest.mark.slow
@pytest.mark.parametrize("text", [r"(a+)+b", r"a*a*b", r"\s+$", r"x{0,99}.*y.*z"])
def test_a_slow_pattern_is_noticed(text: str) -> None:
    assert slow_on(Named("here", re.compile(text), ALL_METHODS))


PATTERNS = collect()


@pytest.mark.slow(cases=13)
@pytest.mark.parametrize("named_pattern", PATTERNS, ids=lambda named_pattern: named_pattern.place)
def test_a_pattern_is_linear(named_pattern: Named) -> None:
    assert not slow_on(named_pattern)
