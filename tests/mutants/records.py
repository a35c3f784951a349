"""Which tests run which line, recorded once and kept in `.mutants/`; and which of them are run for a mutant.

A file of tests is recorded again when it has changed. Where a file of code has changed since, its lines are elsewhere,
so any test that runs one of its lines is taken for one that may notice.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from tests.mutants.mutation import Mutant
from tests.mutants.recording import IMPORTING, Recording

AT_MOST_S = 40.0
"""How long the tests of one mutant may take together."""
AT_MOST_TESTS = 300


class Records(msgspec.Struct):
    """All recordings together, and of which texts they are."""

    test_files: dict[str, str] = {}
    """Of each file of tests the hash of what was recorded; a file of code has its own in `code_files`."""
    code_files: dict[str, str] = {}
    tests: list[str] = []
    durations_s: dict[str, float] = {}
    """Of the tests that passed. What failed or was skipped would tell nothing by failing."""
    lines: dict[str, dict[int, list[int]]] = {}
    """File to line to the places in `tests` of those that run it: many tests run the same lines."""

    def add(self, root: Path, record: Recording, test_files: Iterable[str]) -> None:
        """Take in a new recording of these files of tests in place of what there was of them."""
        new = {file: hash_file(root / file) for file in test_files}
        self.test_files |= new
        self.durations_s = {test: s for test, s in self.durations_s.items() if file_of(test) not in new}
        self.durations_s |= {test: s for test, s in record.durations_s.items() if s is not None}
        outdated_places = {at for at, test in enumerate(self.tests) if file_of(test) in new}
        first = len(self.tests)
        self.tests = [*("" if at in outdated_places else test for at, test in enumerate(self.tests)), *record.tests]
        for file, by_line in record.lines.items():
            self.code_files.setdefault(file, hash_file(root / file))
            tests_by_line = self.lines.setdefault(file, {})
            for line in tests_by_line.keys() | by_line.keys():
                still = [at for at in tests_by_line.get(line, ()) if at not in outdated_places]
                tests_by_line[line] = still + [first + at for at in by_line.get(line, ())]

    def list_outdated(self, root: Path, test_files: Iterable[str]) -> list[str]:
        """Return those of these files whose recording is missing or of another text."""
        return [file for file in test_files if self.test_files.get(file) != hash_file(root / file)]

    def forget_outdated(self, root: Path) -> None:
        """Choose no tests any more from files that have changed: they may have other tests now."""
        changed_files = set(self.list_outdated(root, self.test_files))
        self.durations_s = {test: s for test, s in self.durations_s.items() if file_of(test) not in changed_files}

    def choose_tests(self, root: Path, mutant: Mutant, own: Sequence[str]) -> list[str]:
        """Return which tests may notice it: those in the folders `own`, then others; of each file the quickest first.

        Tests of one file are alike: it is one of each file before a second of any.
        """
        by_line = self.lines.get(mutant.path, {})
        first, last = mutant.lines
        tests = {self.tests[at] for line in range(first, last + 1) for at in by_line.get(line, ())}
        has_moved = self.code_files.get(mutant.path) != hash_file(root / mutant.path)
        if IMPORTING in tests or not tests or has_moved:
            tests = {self.tests[at] for at in set().union(*by_line.values())}
        is_own = tuple(f"{folder}/" for folder in own)
        timed_tests = sorted(
            (duration_s, test) for test in tests if (duration_s := self.durations_s.get(test)) is not None
        )
        turns: Counter[str] = Counter()
        candidates = []
        for duration_s, test in timed_tests:
            file = file_of(test)
            candidates.append((not file.startswith(is_own), turns[file], duration_s, test))
            turns[file] += 1
        return list(within_time([(duration_s, test) for *_, duration_s, test in sorted(candidates)], AT_MOST_S))


def within_time(timed_tests: Iterable[tuple[float, str]], limit_s: float) -> Iterator[str]:
    """Yield as many tests, of those with their durations, as there is time for."""
    left_s = limit_s
    for duration_s, test in islice(timed_tests, AT_MOST_TESTS):
        left_s -= duration_s
        if left_s >= 0:
            yield test


def file_of(test: str) -> str:
    """Return the file of a test's node id."""
    return test.partition("::")[0]


def hash_file(path: Path) -> str:
    """Return what tells a text from another; "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
