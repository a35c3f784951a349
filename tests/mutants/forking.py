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
from types import CodeType, FunctionType, ModuleType

import msgspec
import pytest
from _pytest.runner import runtestprotocol  # pytest has no public way to run one test

from tests.mutants.mutation import Mutant

RESULTS = ".noticed"
"""What the name of the file with the results ends with: a list of tests, "" where none failed."""
_LOOK_S = 0.01
CONSTANTS = (bool, bytes, float, frozenset, int, str, tuple)
"""What is exchanged by its name; other objects may be known by their identity."""


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
            import_module(module_of(order.mutant))
        functions = [each for each in gc.get_objects() if type(each) is FunctionType]
        gc.freeze()  # what is collected in a fork would be copied
        failures = []
        for order in orders:
            code_pairs = changed_code(self._root, order.mutant, functions)
            tests = [items[test] for test in order.tests if test in items]
            failures.append(
                _try_in_fork(self._root, order, code_pairs, tests)
                if tests and (code_pairs or not order.mutant.function)
                else ""
            )
        self._path.with_suffix(RESULTS).write_bytes(msgspec.json.encode(failures))
        return True


def changed_code(root: Path, mutant: Mutant, functions: Sequence[FunctionType]) -> list[tuple[FunctionType, CodeType]]:
    """Return those of the functions that a mutant changes, with their code to be; none where that cannot be told."""
    path, text = str(root / mutant.path), (root / mutant.path).read_text(encoding="utf-8")
    old, new = (compile(source, path, "exec") for source in (text, mutant.apply_to(text)))
    new_codes = {_place_of(code): other for code, other in _pair_code(old, new) if code != other}
    return [
        (function, new_codes[_place_of(function.__code__)])
        for function in functions
        if function.__code__.co_filename == path and _place_of(function.__code__) in new_codes
    ]


def _place_of(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _pair_code(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield all that is defined in both; what is inside a function that has lost a part is exchanged with it."""
    inner, other = ([each for each in code.co_consts if isinstance(each, CodeType)] for code in (old, new))
    if len(inner) == len(other):
        for pair in zip(inner, other, strict=True):
            yield pair
            yield from _pair_code(*pair)


def change_constants(root: Path, mutant: Mutant) -> None:
    """Give this process the module's constants as the mutant has them, wherever they were imported to."""
    name = module_of(mutant)
    mutant_module = ModuleType(name)
    source = mutant.apply_to((root / mutant.path).read_text(encoding="utf-8"))
    exec(compile(source, str(root / mutant.path), "exec"), vars(mutant_module))  # noqa: S102 -- our own code, changed
    for constant, old in list(vars(sys.modules[name]).items()):
        new = vars(mutant_module).get(constant)
        if isinstance(old, dict) and isinstance(new, dict) and not constant.startswith("__") and new != old:
            old.clear()
            old.update(new)
        elif isinstance(old, CONSTANTS) and type(new) is type(old) and new != old:
            for module in list(sys.modules.values()):
                if getattr(module, "__dict__", {}).get(constant) is old:
                    setattr(module, constant, new)


def module_of(mutant: Mutant) -> str:
    """Return the name of the module that a mutant changes."""
    return mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _try_in_fork(
    root: Path, order: ForkOrder, code_pairs: Sequence[tuple[FunctionType, CodeType]], tests: Sequence[pytest.Item]
) -> str:
    """Return the test that fails in a fork with other code; "" if none does in time."""
    if sys.platform == "win32":
        return ""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _run_as_child(root, order, code_pairs, tests, writer)
    os.close(writer)
    deadline = time.monotonic() + order.limit_s
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
    root: Path,
    order: ForkOrder,
    code_pairs: Sequence[tuple[FunctionType, CodeType]],
    tests: Sequence[pytest.Item],
    writer: int,
) -> None:
    if sys.platform == "win32":
        return
    os.setsid()
    try:
        for function, code in code_pairs:
            function.__code__ = code
        if not order.mutant.function:
            change_constants(root, order.mutant)
        for test, next_test in zip(tests, [*tests[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(test, log=False, nextitem=next_test)):
                os.write(writer, test.nodeid.encode())
                break
    finally:
        os._exit(0)
