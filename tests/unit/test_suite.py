"""How the tests are shared out over processes, and that none of them is lost: what fails, dies or hangs is named."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import VARIABLE
from tests.suite import (
    ALONE,
    ENGINE_FILES,
    LARGE_FILES,
    LONG_FILES,
    MOST_SECOND_RUNS,
    SHARE_S,
    WINDOW_TESTS,
    find_files,
    make_engine_stages,
    make_shares,
)

ROOT = Path(__file__).parents[2]


def run_suite(folder: Path, *options: str, **tests: str) -> "subprocess.CompletedProcess[str]":
    for name, text in tests.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    return start_suite(folder, *options, *(f"test_{name}.py" for name in tests))


def start_suite(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    ini = "[pytest]\ntimeout = 30\nmarkers =\n  engines\n  packaging\n  slow\n"
    (folder / "pytest.ini").write_text(ini, encoding="utf-8")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", VARIABLE))}
    # The others take seconds to load in each process, and nothing here needs them.
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_randomly,pytest_timeout"}
    argv = [sys.executable, "-m", "tests.suite", "--processes", "2", *options]
    env["PYTHONPATH"] = str(ROOT)
    env["HYPOTHESIS_STORAGE_DIRECTORY"] = str(ROOT / ".hypothesis")  # its table of characters is there already
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=110)


def test_every_file_is_in_one_share() -> None:
    files = find_files(ROOT, ["tests"])
    shares = make_shares(files)
    assert sorted(file for share in shares for file in share.files) == files
    assert set(LONG_FILES) <= set(files)
    assert {share.files for share in shares if set(share.files) & set(LARGE_FILES)} == {(file,) for file in LARGE_FILES}
    assert [share.seconds for share in shares] == sorted((share.seconds for share in shares), reverse=True)


def test_a_folder_is_cut_into_shares_of_about_the_same_length() -> None:
    shares = make_shares([f"tests/gateway/test_{number:03}.py" for number in range(200)])
    assert len(shares) > 1
    assert all(SHARE_S * 0.8 <= share.seconds <= SHARE_S * 1.2 for share in shares)
    assert [list(share.files) for share in shares] == [sorted(share.files) for share in shares]


def test_files_of_engines_are_run_by_themselves_and_slow_pairs_of_engines_alone() -> None:
    alone, others = make_engine_stages(find_files(ROOT, ["tests"]), 8)
    assert (alone.processes, {file for share in alone.shares for file in share.files}) == (1, set(ALONE))
    files = {file for share in (*alone.shares, *others.shares) for file in share.files}
    assert set(ENGINE_FILES) <= files
    assert len(files) == len(alone.shares) + len(others.shares) < 30
    assert others.processes == min(8, os.cpu_count() or 1)


def test_only_tests_of_engines_are_run_where_they_are_wanted(tmp_path: Path) -> None:
    name = "engines"  # apart, or this file would be taken for one that has such tests
    both = f"import pytest\n\n\n@pytest.mark.{name}\ndef test_engine(): pass\n\n\ndef test_other(): assert False\n"
    result = run_suite(tmp_path, "--engines", both=both, other="def test_another(): assert False\n")
    assert result.stdout.endswith("\n1 passed, 0 failed\n"), result.stdout
    assert "test_other.py" not in result.stdout


@pytest.mark.slow
def test_slow_tests_wait_for_whoever_wants_all_or_names_their_file(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    text = """
import pytest

def test_quick(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("number", range(5))
def test_cases(number): assert number in (0, 4)

@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_one_slow(number): pass
"""
    (folder / "test_all.py").write_text(text, encoding="utf-8")
    result = start_suite(tmp_path)
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed", result.stdout
    for option in ("--all", "tests/test_all.py"):
        result = start_suite(tmp_path, option)
        assert result.stdout.splitlines()[-1] == "6 passed, 3 failed", result.stdout


@pytest.mark.slow
def test_the_sums_are_of_all_shares(tmp_path: Path) -> None:
    many = "import pytest\n\n\n@pytest.mark.parametrize('n', range(5))\ndef test_n(n): pass\n"
    skipped_test = "import pytest\n\n\ndef test_skipped(): pytest.skip('no')\n"
    result = run_suite(tmp_path, many=many, skipped=skipped_test)
    assert result.stdout.endswith("\n5 passed, 0 failed, 1 skipped\n")
    assert result.returncode == 0


@pytest.mark.slow
def test_the_costliest_files_are_listed(tmp_path: Path) -> None:
    busy = "import time\n\n\ndef test_busy():\n    while time.process_time() < 1.5: pass\n"
    child = "import subprocess\n\n\ndef test_child(): subprocess.run(['sleep', '0'], check=True)\n"
    result = run_suite(tmp_path, "--costs", "1", busy=busy, child=child)
    assert re.search(r"^ *[0-9.]+ s  test_busy\.py::test_busy$", result.stdout, re.MULTILINE)
    (file,) = [line for line in result.stdout.splitlines() if re.fullmatch(r" *[0-9.]+ s  test_\w+\.py", line)]
    assert file.endswith("test_busy.py")
    assert re.search(r"^ +[0-9]+ MB  test_\w+\.py$", result.stdout, re.MULTILINE)


@pytest.mark.slow
def test_what_a_process_compiles_is_kept_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    result = run_suite(tmp_path, kept="import sys\n\n\ndef test_kept(): assert not sys.dont_write_bytecode\n")
    assert result.stdout.endswith("\n1 passed, 0 failed\n")


def test_a_failure_is_shown_and_named_at_the_end(tmp_path: Path) -> None:
    error = "import pytest\n\n\n@pytest.fixture\ndef broken(): raise OSError\n\n\ndef test_error(broken): pass\n"
    result = run_suite(tmp_path, good="def test_good(): pass\n", bad="def test_bad(): assert 1 == 2\n", error=error)
    assert result.returncode == 1
    assert "assert 1 == 2" in result.stdout
    lines = result.stdout.splitlines()
    assert {"FAILED test_bad.py::test_bad", "FAILED test_error.py::test_error"} <= set(lines)
    assert lines[-1] == "1 passed, 2 failed"


@pytest.mark.slow
def test_a_test_that_passes_by_itself_is_named_as_unstable(tmp_path: Path) -> None:
    unstable = """
from pathlib import Path

def test_unstable():
    mark = Path("ran")
    has_run = mark.exists()
    mark.touch()
    assert has_run
"""
    result = run_suite(tmp_path, unstable=unstable, good="def test_good(): pass\n")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert "assert has_run" in result.stdout
    assert "UNSTABLE test_unstable.py::test_unstable: failed, and passed when it ran by itself" in lines
    assert lines[-1] == "1 passed, 1 failed, 1 of them unstable"


@pytest.mark.slow
def test_many_failures_get_no_second_run(tmp_path: Path) -> None:
    many = f"""
import pytest
from pathlib import Path

@pytest.mark.parametrize("number", range({MOST_SECOND_RUNS + 1}))
def test_many(number):
    mark = Path(str(number))
    has_run = mark.exists()
    mark.touch()
    assert has_run
"""
    result = run_suite(tmp_path, many=many)
    assert result.returncode == 1
    assert "UNSTABLE" not in result.stdout


@pytest.mark.slow
def test_a_file_that_cannot_be_imported_is_a_failure(tmp_path: Path) -> None:
    result = run_suite(tmp_path, broken="import nothing_of_this_name\n", good="def test_good(): pass\n")
    assert result.returncode == 1
    assert "FAILED test_broken.py" in result.stdout.splitlines()


@pytest.mark.slow
def test_no_tests_at_all_is_a_failure(tmp_path: Path) -> None:
    assert run_suite(tmp_path, empty="").returncode == 1


def test_a_process_that_dies_is_named_with_its_test(tmp_path: Path) -> None:
    result = run_suite(tmp_path, dying="import os\n\n\ndef test_dies(): os.abort()\n", good="def test_good(): pass\n")
    assert result.returncode == 1
    assert "FAILED test_dying.py::test_dies: the process died of SIGABRT." in result.stdout.splitlines()
    assert "Fatal Python error: Aborted" in result.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="pytest-timeout ends the process itself there")
def test_a_process_that_hangs_is_ended_and_named_with_its_test(tmp_path: Path) -> None:
    hanging_test = """
import pytest, signal, time

@pytest.mark.timeout(1)
def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})  # by which pytest-timeout would end it
    time.sleep(1000)
"""
    result = run_suite(tmp_path, "--hang-s", "1", hanging=hanging_test)
    assert result.returncode == 1
    assert "FAILED test_hanging.py::test_hangs: the process hung, and was ended." in result.stdout.splitlines()
    assert "in test_hangs" in result.stdout


def test_qts_plug_in_is_there_for_all_that_use_it() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if re.search(r"\bq(?:tbot|app)\b", path.read_text(encoding="utf-8"))
    ]
    assert "tests/end_to_end/test_window.py" in users
    assert [user for user in users if not user.startswith(WINDOW_TESTS)] == []
