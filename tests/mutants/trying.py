"""Tries mutants in a copy of the checkout: changes a file there, runs tests, and puts the file back."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import psutil

from tests.mutants.forking import RESULTS, ForkOrder
from tests.mutants.mutation import Mutant
from tests.mutants.recording import Recording
from tests.mutants.records import Records, file_of, within_time

ROOT = Path(__file__).resolve().parents[2]
MARK = "ROUNDHOUSE_MUTANT"
"""In the environment of everything that a mutant's tests start, so that what they leave running can be ended."""
STARTING_S = 60.0
"""How long importing the application and collecting tests may take on a busy machine."""
UNRECORDED_S = 300.0
"""How long tests may take of which no duration was recorded, such as a whole folder where no test runs the line."""
SLOWER = 5.0
"""A mutant's tests have that many times the time that they took when they were recorded."""
FORK_S = 10.0
"""How long the tests of a mutant take together that are run in a fork first."""
DOUBTFUL_S = 0.5
"""A test that takes longer waits for processes or clocks: its failure counts if it passes without the change."""
NOTHING_FAILED, TEST_FAILED, INTERRUPTED = 0, 1, 2  # pytest's exit codes
TIMED_OUT = -1


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"


class Trial(msgspec.Struct, frozen=True):
    """A mutant, what became of it, and by which test."""

    mutant: Mutant
    outcome: Outcome
    test: str = ""


class TreeCopy:
    """A copy of the checkout with what git does not ignore; programs that are started in it import from it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        environ = {"QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        self._environ = {**os.environ, **environ, MARK: str(root), "TMPDIR": str(root / ".tmp")}
        self._fill()

    def _fill(self) -> None:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 -- git is on PATH
            cwd=ROOT, capture_output=True, check=True, text=True,
        )  # fmt: skip
        for name in filter(None, listing.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        (self.root / ".tmp").mkdir()
        compile_command = [sys.executable, "-m", "compileall", "-q", "app", "engines"]
        subprocess.run(compile_command, cwd=self.root, check=True)

    @contextmanager
    def change(self, mutant: Mutant) -> Iterator[None]:
        """Have the mutant in the place of its file for a while."""
        path = self.root / mutant.path
        text, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(mutant.apply_to(text), encoding="utf-8")
        os.utime(path, (times.st_atime, times.st_mtime + 2))  # what is compiled of the original is not taken for this
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, (times.st_atime, times.st_mtime))

    def record(self, test_files: Sequence[str], folders: Sequence[str]) -> Recording:
        """Run these tests and return which lines of `folders` they run."""
        path = self.root / ".tmp" / "recording.json"
        options = [f"--record-folder={folder}" for folder in folders]
        self._run_pytest(["-p", "tests.mutants.recording", f"--record-lines={path}", *options, *test_files], None)
        return msgspec.json.decode(path.read_bytes(), type=Recording)

    def run_forks(self, orders: Sequence[ForkOrder]) -> list[str]:
        """Return of each mutant a test that fails in a fork with it; "" where none does."""
        path = self.root / ".tmp" / "orders.json"
        path.write_bytes(msgspec.json.encode(orders))
        results = path.with_suffix(RESULTS)
        results.unlink(missing_ok=True)
        files = sorted({file_of(test) for order in orders for test in order.tests})
        self._run_pytest(["-p", "tests.mutants.forking", f"--try-mutants={path}", *files], None)
        return msgspec.json.decode(results.read_bytes(), type=list[str]) if results.exists() else [""] * len(orders)

    def run_tests(self, tests: Sequence[str], limit_s: float) -> tuple[int, str]:
        """Run tests until one fails: pytest's exit code, or `TIMED_OUT`, and the test that failed."""
        arguments = self.root / ".tmp" / "tests"
        arguments.write_text("\n".join(tests), encoding="utf-8")
        code, output = self._run_pytest(["-x", "--tb=no", "-rfE", "--show-capture=no", f"@{arguments}"], limit_s)
        failures = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return code, failures[0].split(" - ")[0] if failures else ""

    def _run_pytest(self, arguments: Sequence[str], limit_s: float | None) -> tuple[int, str]:
        options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        argv = [sys.executable, "-m", "pytest", *options, *arguments]
        process = subprocess.Popen(
            argv, cwd=self.root, env=self._environ, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            process.kill()
            self._end_rest()  # whoever holds the pipe
            process.communicate()
            return TIMED_OUT, ""
        finally:
            self._end_rest()
        return process.returncode, output

    def _end_rest(self) -> None:
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.root):
                    process.kill()
            except psutil.Error:
                continue


class MutantTester:
    """Runs the tests that may notice a mutant."""

    def __init__(self, copy: TreeCopy, records: Records) -> None:
        self._copy, self._records = copy, records
        self._doubted_tests: set[str] = set()

    def try_mutant(self, mutant: Mutant, own: Sequence[str]) -> Trial:
        """Run the tests that run the mutant's line until one fails: those in the folders `own` in turn, then others."""
        tests = self._records.choose_tests(ROOT, mutant, own)
        stages = [[test for test in tests if test.startswith(f"{folder}/")] for folder in own]
        stages.append([test for test in tests if not test.startswith(tuple(f"{folder}/" for folder in own))])
        for stage in filter(None, stages) if tests else [list(own)]:
            trial = self._run(mutant, stage)
            if trial.outcome is not Outcome.SURVIVED:
                return trial
        return Trial(mutant, Outcome.SURVIVED)

    def try_in_forks(self, mutants: Sequence[Mutant], own: Mapping[Mutant, Sequence[str]]) -> dict[Mutant, Trial]:
        """Return those that quick tests notice in forks of one process, which takes a tenth of the time."""
        orders = [self._fork_order(mutant, own[mutant]) for mutant in mutants]
        results = zip(mutants, self._copy.run_forks(orders), strict=True)
        return {mutant: Trial(mutant, Outcome.KILLED, test) for mutant, test in results if test}

    def _fork_order(self, mutant: Mutant, own: Sequence[str]) -> ForkOrder:
        durations_s = self._records.durations_s
        tests = self._records.choose_tests(ROOT, mutant, own)
        quick = list(
            within_time(((durations_s[test], test) for test in tests if durations_s[test] < DOUBTFUL_S), FORK_S)
        )
        return ForkOrder(mutant, quick, FORK_S * SLOWER)

    def _run(self, mutant: Mutant, tests: Sequence[str]) -> Trial:
        durations_s = self._records.durations_s
        trusted_tests = [test for test in tests if test not in self._doubted_tests]
        while trusted_tests:
            limit_s = STARTING_S + SLOWER * sum(durations_s.get(test, UNRECORDED_S / SLOWER) for test in trusted_tests)
            with self._copy.change(mutant):
                code, failure = self._copy.run_tests(trusted_tests, limit_s)
            if code == NOTHING_FAILED:
                break
            if code == TIMED_OUT:
                return Trial(mutant, Outcome.TIMED_OUT)
            if not self._fails_anyway(code, failure, trusted_tests):
                return Trial(mutant, Outcome.KILLED, failure)
            self._doubted_tests.add(failure)
            trusted_tests = [test for test in trusted_tests if test != failure]
        return Trial(mutant, Outcome.SURVIVED)

    def _fails_anyway(self, code: int, failure: str, tests: Sequence[str]) -> bool:
        """Return whether a test fails without the change too; if none can be run, the recording is of other tests."""
        if code == TEST_FAILED:
            is_quick = self._records.durations_s.get(failure, UNRECORDED_S) < DOUBTFUL_S
            return not is_quick and self._copy.run_tests([failure], STARTING_S * SLOWER)[0] != NOTHING_FAILED
        without, _ = self._copy.run_tests(tests, STARTING_S * SLOWER)
        assert without in {NOTHING_FAILED, TEST_FAILED}, f"pytest ends with {without} without any change"
        return False


@contextmanager
def copied_tree() -> Iterator[TreeCopy]:
    """Make a copy of the checkout for a while."""
    with TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        yield TreeCopy(Path(folder))
