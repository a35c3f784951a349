"""Runs the tests with a few processes of pytest at a time, each over a share of the files: `python -m tests.suite`.

A process collects the files of its share and no others, so it stays small, and no time goes into collecting all tests
once in every process. Which files come together is worked out from about how long they take (`FILE_S`, `LONG_FILES`);
shares that take long come first. A process that dies or hangs is named with the test it was in, and the others go on.
A test that fails runs once more at the end, by itself: one that passes then is named as unstable, which is a fault of
the test or of the product to mend, but does not fail the run. `--costs 30` lists at the end the thirty files and
tests that took most processor time, and the shares that took most memory. What comes after `--` goes to each pytest.

Tests marked `slow` run with `--all`, in depth (`tests.depth`), and where their files or folders are named.
`--engines` runs the tests marked `engines` instead, each file by itself: first those that need the whole computer
(`ALONE`), one after another, then the others side by side.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from itertools import accumulate, chain, groupby
from pathlib import Path
from typing import NamedTuple

import msgspec
from pytest import ExitCode  # noqa: PT013 -- all that is used of it

from tests.depth import IS_DEEP, QUICK, VARIABLE
from tests.suite_report import QT_PLUGIN, STARTING_S, CurrentTest, ShareReport

FILE_S = {"tests/contract": 0.7, "tests/end_to_end": 1.1, "tests/gateway": 1.1, "tests/gui": 1.1}
"""About how long a file of a folder takes in `make test`; of other folders `_OTHER_FILE_S`."""
LONG_FILES = {
    "tests/contract/test_exllama.py": 6.0,
    "tests/contract/test_exllama_options.py": 4.0,
    "tests/end_to_end/test_attached.py": 5.0,
    "tests/end_to_end/test_attachments.py": 12.0,
    "tests/end_to_end/test_attacks.py": 10.0,
    "tests/end_to_end/test_cli.py": 4.0,
    "tests/end_to_end/test_ollama_client.py": 5.0,
    "tests/end_to_end/test_other_engines.py": 13.0,
    "tests/end_to_end/test_responses_client.py": 6.0,
    "tests/end_to_end/test_update.py": 6.0,
    "tests/end_to_end/test_warm_resume.py": 8.0,
    "tests/end_to_end/test_window.py": 5.0,
    "tests/gateway/across/test_tunnel.py": 5.0,
    "tests/gateway/admin/test_agents.py": 6.0,
    "tests/gateway/admin/test_chat_messages.py": 5.0,
    "tests/gateway/admin/test_chat_tools.py": 18.0,
    "tests/gateway/admin/test_chat_transfer.py": 9.0,
    "tests/gateway/admin/test_collections.py": 5.0,
    "tests/gateway/admin/test_mcp.py": 5.0,
    "tests/gateway/admin/test_profiles.py": 9.0,
    "tests/gateway/admin/test_routes.py": 11.0,
    "tests/gateway/admin/test_schema.py": 16.0,
    "tests/gateway/benchmarking/test_race.py": 10.0,
    "tests/gateway/dialects/test_hosted_tools.py": 7.0,
    "tests/gateway/dialects/test_scripted_clients.py": 12.0,
    "tests/gateway/engines/test_added_engine.py": 5.0,
    "tests/gateway/exchange/test_repairs.py": 5.0,
    "tests/gateway/exchange/test_supplied.py": 9.0,
    "tests/gateway/exchange/test_supplied_for_real.py": 6.0,
    "tests/gateway/hub/test_downloads.py": 4.0,
    "tests/gateway/hub/test_model_picks.py": 8.0,
    "tests/gateway/machines/test_machine_rights.py": 5.0,
    "tests/gateway/machines/test_paired_gateways.py": 8.0,
    "tests/gui/chat/test_files.py": 7.0,
    "tests/gui/chat/test_message_actions.py": 5.0,
    "tests/gui/chat/test_screen.py": 8.0,
    "tests/gui/test_access.py": 11.0,
    "tests/gui/test_machine.py": 6.0,
    "tests/gui/test_shell.py": 5.0,
    "tests/gui/test_tuning.py": 4.0,
    "tests/gui/test_views.py": 5.0,
    "tests/unit/connect/test_tools.py": 9.0,
    "tests/unit/hub/download/test_machine_files.py": 6.0,
    "tests/unit/hub/download/test_xet.py": 5.0,
    "tests/unit/supervisor/test_loading.py": 5.0,
    "tests/unit/test_suite.py": 6.0,
}
"""Files that take much longer than others of their folder: their processor time, or longer where they wait."""
LARGE_FILES = ("tests/gateway/admin/test_guide.py", "tests/gateway/dialects/test_guide_questions.py")
"""Files that take 360 MB by themselves, since they plan the whole catalogue, and get a process of their own."""
ALONE = (
    "tests/end_to_end/test_vllm_fleet.py",
    "tests/end_to_end/test_vllm_across.py",
    "tests/end_to_end/test_vllm_ray.py",
    "tests/end_to_end/test_advisor.py",
)
"""Files of engines' tests beside which nothing runs: they start two slow engines, or wait for a quiet computer."""
ENGINE_FILES = {
    "tests/end_to_end/test_vllm_fleet.py": 300.0,
    "tests/end_to_end/test_vllm_across.py": 260.0,
    "tests/end_to_end/test_vllm_on_cpu.py": 150.0,
    "tests/end_to_end/test_vllm_ray.py": 195.0,
    "tests/end_to_end/test_engines_on_cpu.py": 400.0,
    "tests/end_to_end/test_advisor.py": 200.0,
    "tests/end_to_end/test_fleet.py": 110.0,
    "tests/end_to_end/test_exllama_on_cpu.py": 110.0,
    "tests/end_to_end/test_engine_store.py": 100.0,
    "tests/unit/engine_store/test_kill.py": 90.0,
    "tests/end_to_end/test_locks.py": 90.0,
    "tests/end_to_end/test_paired_namespaces.py": 70.0,
    "tests/end_to_end/test_across.py": 60.0,
}
"""Their seconds, as far as they matter for which begins first."""
_ENGINE_OPTIONS = ("-m", "engines", "--timeout", "1800")
_ENGINE_MARK = b"mark.engines"
MOST_SECOND_RUNS = 5
"""Where more tests fail than this, none runs a second time: that is no matter of the machine's speed or of order."""
SHARE_S = 60.0
"""About how long a share takes: long beside the 4 s a process takes to start and to collect, short beside the whole."""
_SLOW_TIMES = 4
"""So many times as long they take with the slow tests."""
MOST_PROCESSES = 8
_OTHER_FILE_S = 0.6
_CLIENTS = re.compile(rb"^(?:from|import) (?:anthropic|google|ollama|openai)\b", re.MULTILINE)
_HANG_S = 480.0
"""How long after a test's own limit, which pytest-timeout keeps where it can, a process counts as hanging."""
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
"""Containers set it. Then each process would compile pytest's plug-ins and their 130 modules anew: 0.9 s of 1.6 s."""
LARGE_BLOCKS = "MALLOC_MMAP_THRESHOLD_"
"""How large a block of memory must be for glibc to give it back to the system as soon as it is freed."""
_LARGE_BLOCK_BYTES = 1 << 20
"""By itself that grows with what was freed: after a few files of 28 MB a process kept 250 MB that nothing was in."""
_DRAW_TEXT = """
from hypothesis import given, settings, strategies

settings(max_examples=1, database=None)(given(strategies.text())(lambda text: None))()
"""
"""Has Hypothesis write its table of all characters, which takes 200 MB and 3 s in whatever first draws a text here."""
WINDOW_TESTS = ("tests/gui/", "tests/end_to_end/test_window.py", "tests/end_to_end/test_fleet_window.py")
"""The only tests that need pytest's plug-in for Qt, which takes 60 MB and half a second in each process."""
_EVERYWHERE = ["tests"]
_LOOK_S = 2.0
_END_S = 10.0


class Share(msgspec.Struct, frozen=True):
    """Files of tests that a process runs."""

    files: tuple[str, ...]
    seconds: float

    @property
    def name(self) -> str:
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return f"{self.files[0]}{more}"


class Stage(NamedTuple):
    """Shares that run side by side, so many at a time, before those of the next stage begin."""

    shares: Sequence[Share]
    processes: int


class ShareResult(msgspec.Struct, frozen=True):
    """What became of a share; `death` says how its process ended if not by itself, and in which test."""

    share: Share
    report: ShareReport
    output: str
    seconds: float
    death: str = ""
    has_failed: bool = False


def main(argv: Sequence[str]) -> int:
    arguments, options = _parse(argv)
    stages = _make_stages(arguments)
    if not _has_character_table():
        subprocess.run([sys.executable, "-c", _DRAW_TEXT], check=True)
    options = [f"--randomly-seed={arguments.seed}", *(_ENGINE_OPTIONS if arguments.engines else ()), *options]
    if _is_quick(arguments):
        os.environ[VARIABLE] = QUICK  # of the processes that are started
    start_s = time.monotonic()
    results = []
    for result in chain.from_iterable(run_stage(stage, options, arguments.hang_s) for stage in stages):
        results.append(result)
        _print(f"{result.share.name}: {_counts([result.report])}, {result.seconds:.0f} s")
        if result.death:
            _print(result.death)
    _print_failures(results)
    unstable = _find_unstable(results, options, arguments.hang_s)
    for name in unstable:
        _print(f"UNSTABLE {name}: failed, and passed when it ran by itself")
    _print_costs(results, arguments.costs)
    minutes, seconds = divmod(round(time.monotonic() - start_s), 60)
    peak = max((result.report.peak_mb for result in results), default=0)
    _print(f"\n{minutes}:{seconds:02}, the largest process {peak} MB; --seed {arguments.seed} repeats the order")
    _print(_counts(result.report for result in results) + (f", {len(unstable)} of them unstable" if unstable else ""))
    has_failed = any(result.has_failed for result in results) and not unstable
    return int(has_failed or not any(result.report.counts for result in results))


def _make_stages(arguments: argparse.Namespace) -> list[Stage]:
    files = find_files(Path(), arguments.paths)
    if arguments.engines:
        return make_engine_stages(files, arguments.processes)
    share_s = SHARE_S if _is_quick(arguments) else SHARE_S / _SLOW_TIMES
    return [Stage(make_shares(files, share_s), arguments.processes)]


def _is_quick(arguments: argparse.Namespace) -> bool:
    """Tell whether slow tests are left out."""
    return not (arguments.engines or arguments.all or IS_DEEP) and arguments.paths == _EVERYWHERE


def _has_character_table() -> bool:
    """Tell whether Hypothesis has written its table of all characters for this Python."""
    storage = os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY", ".hypothesis")
    return any(Path(storage, "unicode_data", unicodedata.unidata_version).glob("charmap*"))


def _find_unstable(results: Sequence[ShareResult], options: Sequence[str], hang_s: float) -> list[str]:
    """Run the tests that failed again, and return them if all of them pass. A process that died is no such case."""
    failed_results = [result for result in results if result.has_failed]
    names = [name for result in failed_results for name in result.report.failures]
    has_other_fault = any(result.death or not result.report.failures for result in failed_results)
    if has_other_fault or not 0 < len(names) <= MOST_SECOND_RUNS:
        return []
    (second,) = run_stage(Stage([Share(tuple(names), 0.0)], 1), options, hang_s)
    if second.has_failed:
        _print_failures([second])
        return []
    return names


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.suite", description=__doc__)
    parser.add_argument("paths", nargs="*", default=_EVERYWHERE, help="folders and files (all)")
    parser.add_argument("--all", action="store_true", help="run the slow tests too")
    parser.add_argument("--engines", action="store_true", help="run the tests of real engines, and no others")
    parser.add_argument("--processes", type=int, default=default_processes(), help="how many at a time (%(default)s)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)), help="for the order of the tests")
    parser.add_argument("--costs", type=int, default=0, help="how many of the costliest files and tests to list")
    parser.add_argument(
        "--hang-s", type=float, default=_HANG_S, help="how long after a test's limit it counts as hanging"
    )
    ours = list(argv[: argv.index("--")] if "--" in argv else argv)
    return parser.parse_args(ours), list(argv[len(ours) + 1 :])


def default_processes() -> int:
    """Return one more than there are processors: tests often wait, but more at once made some of them late."""
    return min(MOST_PROCESSES, 1 + (os.cpu_count() or 1))


def find_files(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the files of tests at or below some paths, as pytest names them."""
    places = [root / path for path in paths]
    files = {path for place in places for path in ([place] if place.is_file() else place.rglob("test_*.py"))}
    return sorted(path.relative_to(root).as_posix() for path in files)


def make_engine_stages(files: Iterable[str], processes: int) -> list[Stage]:
    """Return a share for each file that has tests of real engines: those of `ALONE` one after another, then the others.

    A test of engines has its own processes, so no more files run at a time than there are processors.
    """
    shares = [Share((file,), ENGINE_FILES.get(file, 0.0)) for file in files if has_engine_tests(Path(file))]
    shares.sort(key=lambda share: -share.seconds)
    alone = [share for share in shares if share.files[0] in ALONE]
    others = [share for share in shares if share not in alone]
    return [Stage(alone, 1), Stage(others, min(processes, os.cpu_count() or 1))]


def has_engine_tests(file: Path) -> bool:
    return _ENGINE_MARK in file.read_bytes()


def make_shares(files: Iterable[str], share_s: float = SHARE_S) -> list[Share]:
    """Return the shares, the longest first. Files that need much the same modules are together.

    Those are the files of a folder, and first those of them that import clients' packages: 3 s and 120 MB.
    """
    sorted_files = sorted(files)
    large_files = [[file] for file in sorted_files if file in LARGE_FILES]
    others = [file for file in sorted_files if file not in LARGE_FILES]
    folders = (sorted(folder, key=_imports_no_clients) for _, folder in groupby(others, _folder_of))
    shares = [share for group in (*folders, *large_files) for share in _split(group, share_s)]
    return sorted(shares, key=lambda share: -share.seconds)


def _folder_of(file: str) -> str:
    """Return the folder below `tests`, whose files are shared out together."""
    return "/".join(file.split("/")[:2])


def _imports_no_clients(file: str) -> bool:
    path = Path(file)
    return not (path.exists() and _CLIENTS.search(path.read_bytes()))


def _split(files: Sequence[str], share_s: float) -> Iterator[Share]:
    """Cut a folder's files into shares of about one length; what is beside each other in the tree stays together."""
    total = _total(files)
    count = max(1, round(total / share_s))
    places = accumulate(map(_seconds_of, files))
    numbered_files = [
        (min(count - 1, int(place * count / total)), file) for place, file in zip(places, files, strict=True)
    ]
    for _, group in groupby(numbered_files, lambda pair: pair[0]):
        share = tuple(file for _, file in group)
        yield Share(share, _total(share))


def _total(files: Iterable[str]) -> float:
    return sum(map(_seconds_of, files))


def _seconds_of(file: str) -> float:
    return LONG_FILES.get(file, FILE_S.get(_folder_of(file), _OTHER_FILE_S))


def run_stage(stage: Stage, options: Sequence[str], hang_s: float) -> Iterator[ShareResult]:
    """Yield what becomes of each share as it ends."""
    with tempfile.TemporaryDirectory(prefix="suite-") as folder, ThreadPoolExecutor(stage.processes) as pool:
        futures = [
            pool.submit(_run_share, share, options, Path(folder, str(number)), hang_s)
            for number, share in enumerate(stage.shares)
        ]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _run_share(share: Share, options: Sequence[str], folder: Path, hang_s: float) -> ShareResult:
    folder.mkdir()
    CurrentTest("(starting)", STARTING_S, time.time()).write(folder)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.depth"]
    argv += ["-p", "tests.suite_report", "--share-report", str(folder)]
    argv += [] if any(file.startswith(WINDOW_TESTS) for file in share.files) else ["-p", f"no:{QT_PLUGIN}"]
    start_s = time.monotonic()
    with Path(folder, "output").open("wb") as output:
        process = subprocess.Popen(
            [*argv, *options, *share.files], stdout=output, stderr=subprocess.STDOUT, env=_share_environ()
        )
    death = _watch(process, folder, hang_s)
    path = ShareReport.path_in(folder)
    report = msgspec.json.decode(path.read_bytes(), type=ShareReport) if path.exists() else ShareReport()
    return ShareResult(
        share,
        report,
        Path(folder, "output").read_text(encoding="utf-8", errors="replace"),
        time.monotonic() - start_s,
        death,
        bool(death) or process.returncode not in {ExitCode.OK, ExitCode.NO_TESTS_COLLECTED},
    )


def _share_environ() -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
    return {**environ, LARGE_BLOCKS: str(_LARGE_BLOCK_BYTES)}


def _watch(process: "subprocess.Popen[bytes]", folder: Path, hang_s: float) -> str:
    """Wait for the end of a process, and return what ended it and in which test; nothing if it ended by itself."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
            break
        test = CurrentTest.read(folder)
        if test.age_s() > test.limit_s + hang_s:
            _abort(process)
            return f"{test.name}: the process hung, and was ended."
    if process.returncode >= 0 and ShareReport.path_in(folder).exists():
        return ""
    return f"{CurrentTest.read(folder).name}: the process died of {_name_of_end(process.returncode)}."


def _abort(process: "subprocess.Popen[bytes]") -> None:
    """End a process that hangs, having it first write where each of its threads is, as faulthandler does."""
    if sys.platform != "win32":
        process.send_signal(signal.SIGABRT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
    process.kill()
    process.wait()


def _name_of_end(returncode: int) -> str:
    with suppress(ValueError):
        return signal.Signals(-returncode).name
    return f"exit code {returncode}"


def _print_failures(results: Sequence[ShareResult]) -> None:
    failed_results = [result for result in results if result.has_failed]
    for result in failed_results:
        _print(f"\n===== {result.share.name}\n{result.output}")
    for result in failed_results:
        for line in (*result.report.failures, result.death):
            if line:
                _print(f"FAILED {line}")


def _print_costs(results: Sequence[ShareResult], most: int) -> None:
    """List the files whose tests took most processor time, such tests, and shares by the memory that they took."""
    files = [cost for result in results for cost in result.report.file_costs.items()]
    tests = [cost for result in results for cost in result.report.test_costs.items()]
    for costs in (files, tests):
        for name, seconds in sorted(costs, key=lambda cost: -cost[1])[:most]:
            _print(f"{seconds:6.1f} s  {name}")
    for result in sorted(results, key=lambda result: -result.report.peak_mb)[:most]:
        _print(f"{result.report.peak_mb:5} MB  {result.share.name}")


def _counts(reports: Iterable[ShareReport]) -> str:
    """Return how many tests ended how, in the words that pytest closes with."""
    counts = Counter({"passed": 0, "failed": 0})
    for report in reports:
        counts.update(report.counts)
    return ", ".join(f"{number} {outcome}" for outcome, number in counts.items())


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
