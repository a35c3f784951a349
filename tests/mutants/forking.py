"""A plug-in of pytest that tries mutants in forks of the process that has collected the tests, without starting anew.

In each fork the code of the changed function is exchanged, and a mutant's tests run until one fails. What is not
noticed so may still be: what a module does while it is imported is not done again, and programs that tests start have
the code as it is. So only a failure counts, and only of a quick test; the rest is tried as a whole (`trying`).

`--try-mutants FILE` names a JSON list of `ForkOrder`s; the names of the tests that failed are written beside it.
"""

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

import msgspec
import pytest
from _pytest.runner import runtestprotocol  # pytest has no public way to run one test

from tests.mutants.mutation import Mutant

RESULTS = ".noticed"
"""What the name of the file with the results ends with: a list of tests, "" where none failed."""
_LOOK_S = 0.01


class ForkOrder(msgspec.Struct, frozen=True):
    """A mutant, the tests that may notice it, and how long they may take."""

    mutant: Mutant
    tests: list[str]
    limit_s: float


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--try-mutants", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--try-mutants")
    if path is not None and sys.platform != "win32":
        config.pluginmanager.register(ForkTester(config.rootpath, path))


class ForkTester:
    """Takes the place of running the tests that were collected."""

    def __init__(self, root: Path, path: Path) -> None:
        self._root, self._path = root, path

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        orders = msgspec.json.decode(self._path.read_bytes(), type=list[ForkOrder])
        items = {item.nodeid: item for item in session.items}
        for order in orders:
            import_module(order.mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        functions = [each for each in gc.get_objects() if type(each) is FunctionType]
        gc.freeze()  # what is collected in a fork would be copied
        noticed = []
        for order in orders:
            code_pairs = changed_code(self._root, order.mutant, functions)
            tests = [items[test] for test in order.tests if test in items]
            noticed.append(_try_in_fork(code_pairs, tests, order.limit_s) if code_pairs and tests else "")
        self._path.with_suffix(RESULTS).write_bytes(msgspec.json.encode(noticed))
        return True


def changed_code(root: Path, mutant: Mutant, functions: Sequence[FunctionType]) -> list[tuple[FunctionType, CodeType]]:
    """Return those of the functions that a mutant changes, with their code to be; none where that cannot be told."""
    path, text = str(root / mutant.path), (root / mutant.path).read_text(encoding="utf-8")
    old, new = (list(_walk_code(compile(source, path, "exec"))) for source in (text, mutant.apply_to(text)))
    if len(old) != len(new) or not mutant.function:
        return []
    changed = {_place_of(code): other for code, other in zip(old, new, strict=True) if code != other}
    return [
        (function, changed[_place_of(function.__code__)])
        for function in functions
        if function.__code__.co_filename == path and _place_of(function.__code__) in changed
    ]


def _place_of(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _walk_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _walk_code(constant)


def _try_in_fork(
    code_pairs: Sequence[tuple[FunctionType, CodeType]], tests: Sequence[pytest.Item], limit_s: float
) -> str:
    """Return the test that fails in a fork with other code; "" if none does in time."""
    if sys.platform == "win32":
        return ""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_as_child(code_pairs, tests, writer)
    os.close(writer)
    deadline = time.monotonic() + limit_s
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(_LOOK_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests left running
    with os.fdopen(reader, encoding="utf-8") as result:
        return result.read()


def _run_as_child(
    code_pairs: Sequence[tuple[FunctionType, CodeType]], tests: Sequence[pytest.Item], writer: int
) -> None:
    if sys.platform == "win32":
        return
    os.setsid()
    for function, code in code_pairs:
        function.__code__ = code
    try:
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(test, log=False, nextitem=following)):
                os.write(writer, test.nodeid.encode())
                break
    finally:
        os._exit(0)
