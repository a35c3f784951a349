"""A plug-in of pytest: a process of `tests.suite` says which test it is in, and at its end what became of all."""

import gc
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Self

import msgspec
import pytest

SLOW_S = 0.5
"""How much processor time makes a test slow."""
_FAILURES = ("failed", "error")
STARTING_S = 120.0
"""How long a process may take to collect its tests."""
QT_PLUGIN = "pytest-qt"
_QT_SETTINGS = ("qt_api", "qt_log_level_fail")
_NAME_CHARS = 600
_RECORD_BYTES = 4096
"""Six bytes for each character of a name in JSON, and the rest."""


class CurrentTest(msgspec.Struct, frozen=True):
    """The test that a process is in, how long it may take, and since when (Unix time)."""

    name: str
    limit_s: float
    since: float

    @classmethod
    def read(cls, folder: Path) -> Self:
        return msgspec.json.decode((folder / "current").read_bytes(), type=cls)

    def record(self) -> bytes:
        """Return what is kept of it: always as long, so that it replaces another in one go, and never in part."""
        test = msgspec.structs.replace(self, name=self.name[:_NAME_CHARS])
        return msgspec.json.encode(test).ljust(_RECORD_BYTES)

    def write(self, folder: Path) -> None:
        (folder / "current").write_bytes(self.record())

    def age_s(self) -> float:
        return time.time() - self.since


class ShareReport(msgspec.Struct, frozen=True):
    """How many tests ended how, the names of those that failed, and the most memory the process took.

    `file_costs` are the seconds of processor time that the tests of each file took, with those of programs they started
    and waited for; `test_costs` are those of single tests, where they are over `SLOW_S`.
    """

    counts: dict[str, int] = {}
    failures: list[str] = []
    peak_mb: int = 0
    file_costs: dict[str, float] = {}
    test_costs: dict[str, float] = {}

    @staticmethod
    def path_in(folder: Path) -> Path:
        return folder / "report.json"


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    parser.addoption("--share-report", type=Path)
    if pluginmanager.is_blocked(QT_PLUGIN):
        for name in _QT_SETTINGS:  # they are in the file, and settings that nobody knows are an error
            parser.addini(name, f"of {QT_PLUGIN}, which this process has not")


def pytest_configure(config: pytest.Config) -> None:
    folder: Path | None = config.getoption("--share-report")
    if folder is not None:
        gc.disable()  # until all are collected: that allocates much and frees little
        config.pluginmanager.register(ShareReporter(folder))


class ShareReporter:
    """Writes both into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file_costs: defaultdict[str, float] = defaultdict(float)
        self._test_costs: dict[str, float] = {}
        # Open throughout: a file of its own for each of 20,000 tests took a twentieth of their processor time.
        self._current = (folder / "current").open("wb", buffering=0)
        self._say_current("(collecting)", STARTING_S)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._say_current(item.nodeid, _limit_s(item))
        before = _processor_s()
        outcome = yield
        self._note_cost(item.nodeid, _processor_s() - before)
        return outcome

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        stats = terminalreporter.stats
        failures = [each.nodeid for outcome in _FAILURES for each in stats.get(outcome, [])]
        numbers = {"passed": len(stats.get("passed", [])), "failed": len(failures)}
        numbers |= {outcome: len(stats.get(outcome, [])) for outcome in ("skipped", "xfailed", "xpassed")}
        counts = {outcome: number for outcome, number in numbers.items() if number}
        costs = {file: round(seconds, 3) for file, seconds in self._file_costs.items()}
        test_costs = {name: round(seconds, 3) for name, seconds in self._test_costs.items()}
        report = ShareReport(counts, failures, _peak_mb(), costs, test_costs)
        ShareReport.path_in(self._folder).write_bytes(msgspec.json.encode(report))
        self._say_current("(ending)", STARTING_S)

    def _note_cost(self, name: str, seconds: float) -> None:
        self._file_costs[name.partition("::")[0]] += seconds
        if seconds > SLOW_S:
            self._test_costs[name] = seconds

    def _say_current(self, name: str, limit_s: float) -> None:
        self._current.seek(0)
        self._current.write(CurrentTest(name, limit_s, time.time()).record())


def _limit_s(item: pytest.Item) -> float:
    """Return how long a test may take, in the order in which pytest-timeout looks."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0] if mark else item.config.getoption("timeout") or item.config.getini("timeout"))


def _processor_s() -> float:
    return sum(os.times()[:4])


def _peak_mb() -> int:
    """Return the most memory that this process has taken; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    import resource  # noqa: PLC0415 -- not on Windows

    unit = 1024 * 1024 if sys.platform == "darwin" else 1024  # kB, but bytes on macOS
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
