"""Samples mutants, tries them, and prints what became of them: `python -m tests.mutants [FOLDER...] [--count N]`.

Exits with 1 if fewer are noticed than `PROMISED` of those that are not equivalent.
"""

import argparse
import difflib
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import msgspec

from tests.mutants.equivalents import read_equivalents
from tests.mutants.mutation import Mutant, find_mutants, sample_mutants
from tests.mutants.records import Records
from tests.mutants.trying import ROOT, MutantTester, Outcome, TreeCopy, Trial, copied_tree

FOLDERS: dict[str, tuple[str, ...]] = {
    "app/supervisor": ("tests/unit/supervisor",),
    "app/gateway/exchange": ("tests/unit/exchange", "tests/unit/dialects", "tests/gateway/exchange"),
    "app/store": ("tests/unit/store",),
    "app/hub/download": ("tests/unit/hub/download",),
    "app/engine_store": ("tests/unit/engine_store",),
    "app/advisor/memory": ("tests/unit/advisor",),
    "app/connect": ("tests/unit/connect",),
}
"""The folders that are sampled, and which tests are theirs."""
OTHER_TESTS = ("tests/gateway", "tests/unit/hub")
"""Tests of other folders that run much of the code of these."""
OTHER_SYSTEMS = ("windows.py",)
PROMISED = 0.9
AT_A_TIME = 25
"""Mutants that are tried in forks of one process before the rest of them is tried alone."""
NICENESS = 10
KEPT = ROOT / ".mutants"
RECORDS = KEPT / "records.json"


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    folders = arguments.folders or list(FOLDERS)
    every = [mutant for folder in folders for mutant in mutants_of(folder)]
    if arguments.function:
        every = [mutant for mutant in every if mutant.function in arguments.function]
    mutants = sample_mutants(every, arguments.count, arguments.seed)
    if sys.platform != "win32":
        os.nice(NICENESS)
    with ExitStack() as stack:
        copies = [stack.enter_context(copied_tree()) for _ in range(arguments.jobs)]
        records = _read_records() if arguments.recorded else _refresh_records(copies[0], folders)
        records.forget_outdated(ROOT)
        trials = list(_try_all(mutants, [MutantTester(copy, records) for copy in copies]))
    sys.stdout.write(f"{_table(trials)}\n")
    return 0 if _share(trials) >= PROMISED else 1


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("folders", nargs="*", choices=[*FOLDERS, []], metavar="FOLDER", help=", ".join(FOLDERS))
    parser.add_argument("--count", type=int, default=200, help="how many mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which of them (%(default)s)")
    parser.add_argument("--function", action="append", help="only those in this function, as Class.method")
    parser.add_argument(
        "--jobs", type=int, default=1, help="how many at a time, each in a copy of its own (%(default)s)"
    )
    parser.add_argument("--recorded", action="store_true", help="take which test runs which line from the last run")
    return parser.parse_args(argv)


def mutants_of(folder: str) -> Iterator[Mutant]:
    """Yield every mutant of a folder's code that runs on this system."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        if path.name not in OTHER_SYSTEMS:
            yield from find_mutants(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def _read_records() -> Records:
    return msgspec.json.decode(RECORDS.read_bytes(), type=Records) if RECORDS.exists() else Records()


def _refresh_records(copy: TreeCopy, folders: Iterable[str]) -> Records:
    """Return which test runs which line, recording what has changed or was never recorded."""
    records = _read_records()
    places = {*OTHER_TESTS, *(place for folder in folders for place in FOLDERS[folder])}
    files = {path.relative_to(ROOT).as_posix() for place in places for path in (ROOT / place).rglob("test_*.py")}
    outdated_files = records.list_outdated(ROOT, sorted(files))
    if outdated_files:
        sys.stderr.write(f"Recording which lines {len(outdated_files)} files of tests run.\n")
        records.add(copy.root, copy.record(outdated_files, list(FOLDERS)), outdated_files)
        KEPT.mkdir(exist_ok=True)
        RECORDS.write_bytes(msgspec.json.encode(records))
    return records


def _try_all(mutants: Sequence[Mutant], testers: Sequence[MutantTester]) -> Iterator[Trial]:
    equivalents = {mutant.key for mutant in read_equivalents()}
    idle: SimpleQueue[MutantTester] = SimpleQueue()
    for tester in testers:
        idle.put(tester)

    def try_mutant(mutant: Mutant) -> Trial:
        if mutant.key in equivalents:
            return Trial(mutant, Outcome.EQUIVALENT)
        tester = idle.get()
        try:
            return tester.try_mutant(mutant, FOLDERS[folder_of(mutant)])
        finally:
            idle.put(tester)

    with ThreadPoolExecutor(len(testers)) as pool:
        for number, trial in enumerate(_try_groups(mutants, testers[0], equivalents, pool, try_mutant), 1):
            where = f"{trial.mutant.path}:{trial.mutant.lines[0]}"
            sys.stderr.write(f"{number}/{len(mutants)} {trial.outcome} {where} {trial.test}\n")
            if trial.outcome is Outcome.SURVIVED:
                sys.stdout.write(f"{_diff(trial.mutant)}\n")
                sys.stdout.flush()
            yield trial


def _try_groups(
    mutants: Sequence[Mutant],
    tester: MutantTester,
    equivalents: Container[object],
    pool: ThreadPoolExecutor,
    try_mutant: Callable[[Mutant], Trial],
) -> Iterator[Trial]:
    """Yield what becomes of each: those that quick tests notice first, some at a time, then what those left."""
    for at in range(0, len(mutants), AT_A_TIME):
        group = mutants[at : at + AT_A_TIME]
        hopeful = [mutant for mutant in group if mutant.key not in equivalents]
        quick_trials = tester.try_in_forks(hopeful, {mutant: FOLDERS[folder_of(mutant)] for mutant in hopeful})
        slow_trials = iter(pool.map(try_mutant, [mutant for mutant in group if mutant not in quick_trials]))
        yield from (quick_trials.get(mutant) or next(slow_trials) for mutant in group)


def folder_of(mutant: Mutant) -> str:
    """Return which of `FOLDERS` a mutant is in."""
    return next(folder for folder in FOLDERS if mutant.path.startswith(f"{folder}/"))


def _diff(mutant: Mutant) -> str:
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    old, new = text.splitlines(), mutant.apply_to(text).splitlines()
    name = f"{mutant.path} {mutant.function}"
    return "\n".join(difflib.unified_diff(old, new, name, name, n=2, lineterm=""))


def _table(trials: Sequence[Trial]) -> str:
    counts: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    for trial in trials:
        counts[folder_of(trial.mutant)][trial.outcome] += 1
        counts["all"][trial.outcome] += 1
    rows = [
        [folder, *(str(counts[folder][outcome]) for outcome in Outcome)]
        for folder in (*FOLDERS, "all")
        if folder in counts
    ]
    head = ["folder", *Outcome]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
    return f"{table}\n\n{_share(trials):.0%} of those that are not equivalent were noticed."


def _share(trials: Sequence[Trial]) -> float:
    counts = Counter(trial.outcome for trial in trials)
    noticed_count = counts[Outcome.KILLED] + counts[Outcome.TIMED_OUT]
    return noticed_count / max(1, noticed_count + counts[Outcome.SURVIVED])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
