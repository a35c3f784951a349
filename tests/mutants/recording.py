"""A plug-in of pytest that writes down which test runs which line, and how long each takes.

`--record-lines FILE --record-folder FOLDER` writes a `Recording` to FILE. Lines that run while a module is imported
belong to the test "". What a test's child processes run is not seen.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from coverage import Coverage

IMPORTING = ""


class Recording(msgspec.Struct):
    """What a run of tests recorded."""

    durations_s: dict[str, float | None]
    """None: it failed or was skipped, so that its failing tells nothing."""
    tests: list[str]
    lines: dict[str, dict[int, list[int]]]
    """File to line to the places in `tests` of those that run it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-lines", type=Path)
    parser.addoption("--record-folder", action="append", default=[])


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--record-lines")
    if path is not None:
        config.pluginmanager.register(LineRecorder(path, config.rootpath, config.getoption("--record-folder")))


class LineRecorder:
    """Follows a run of tests with coverage.py, whose contexts are the tests."""

    def __init__(self, path: Path, root: Path, folders: list[str]) -> None:
        self._path, self._root = path, root
        patterns = [str(root / folder / "*") for folder in folders]
        self._coverage = Coverage(data_file=None, config_file=False, include=patterns)
        self._durations_s: dict[str, float | None] = {}
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context(IMPORTING)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before_s = self._durations_s.get(report.nodeid, 0.0)
        if before_s is not None:
            self._durations_s[report.nodeid] = before_s + report.duration if report.passed else None

    def pytest_unconfigure(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        tests = sorted(data.measured_contexts())
        place = {test: at for at, test in enumerate(tests)}
        lines = {
            os.path.relpath(file, self._root): {
                line: [place[test] for test in indexes] for line, indexes in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        record = Recording(durations_s=self._durations_s, tests=tests, lines=lines)
        self._path.write_bytes(msgspec.json.encode(record))
