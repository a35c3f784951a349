"""`make mutants`: which mutants there are, which of them are sampled, and what becomes of them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants import trying
from tests.mutants.__main__ import mutants_of
from tests.mutants.equivalents import read_equivalents
from tests.mutants.mutation import find_mutants, sample_mutants
from tests.mutants.records import Records
from tests.mutants.trying import MutantTester, Outcome, TreeCopy


def changes(text: str) -> list[str]:
    return [mutant.after for mutant in find_mutants("a.py", f"{text}\n")]


@pytest.mark.parametrize(
    ("line", "expected_lines"),
    [
        ("ok = a < b", ["ok = a <= b", "ok = a >= b"]),
        ("ok = (a) is not (b)", ["ok = (a) is (b)"]),
        ("ok = a and not b", ["ok = a or not b", "ok = a and b"]),
        ("n = a + 1", ["n = a - 1", "n = a + 2"]),
        ("n = not (a or b)", ["n = (a or b)", "n = not (a and b)"]),
        ("n //= b", ["n *= b"]),
        ("n: int | None = 0x1F", ["n: int | None = 32"]),
        ("open(n, mode=0o600)", ["open(n, mode=0o601)"]),
        ("n = -(a)", ["n = (a)"]),
        ("Either = int | None", []),
        ("text = f'{a + 1} and {b}'", []),
        ("if ready: go()", ["if not ready: go()"]),
        ("ä = 'ü' if ö and a else True", ["ä = 'ü' if ö or a else True", "ä = 'ü' if ö and a else False"]),
        ("while sys.platform == 'x': go(1)", ["while sys.platform != 'x': go(1)", "while sys.platform == 'x': go(2)"]),
        ("if sys.platform == 'no such system': go(1)", []),
    ],
)
def test_a_mutant_has_one_token_changed(line: str, expected_lines: Sequence[str]) -> None:
    assert changes(line) == expected_lines


def test_what_is_returned_is_changed_by_its_kind() -> None:
    assert changes("def f() -> str:\n    return name\n") == ["return None"]
    assert changes("def f() -> bool:\n    return is_so\n") == ["return not (is_so)"]
    assert (
        changes("class A(Struct, frozen=True):\n    @cached(size=1)\n    def f(self) -> None:\n        return\n") == []
    )


def test_a_sample_stays_when_code_elsewhere_changes() -> None:
    text = "".join(f"def f{number}(a, b):\n    return a + b < {number}\n\n\n" for number in range(20))
    before = sample_mutants(find_mutants("a.py", text), 10, seed=3)
    after = sample_mutants(find_mutants("a.py", f"import os\n\n\n{text}def g(a):\n    return a\n"), 11, seed=3)
    assert {mutant.key for mutant in before} < {mutant.key for mutant in after}
    assert before != sample_mutants(find_mutants("a.py", text), 10, seed=4)


@pytest.mark.slow
def test_every_equivalent_mutant_is_one_of_the_code_and_has_a_reason() -> None:
    entries = read_equivalents()
    paths = {entry.path for entry in entries}
    folders = {path.rpartition("/")[0] for path in paths}
    keys = {mutant.key for folder in folders for mutant in mutants_of(folder)}
    assert [entry for entry in entries if entry.key not in keys or not entry.reason] == []


CODE = """def larger(a, b):
    while a == 0:
        a = a * 1
    return a if a >= b else b
"""
TESTS = """from app.numbers import larger


def test_larger():
    assert larger(1, 2) == 2
    assert larger(4, 2) == 4
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of one module with one test."""
    root = tmp_path / "tree"
    files = {
        "app/__init__.py": "",
        "app/numbers.py": CODE,
        "engines/__init__.py": "",
        "tests/unit/test_numbers.py": TESTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    options = "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\npythonpath = ['.']\n"
    (root / "pyproject.toml").write_text(options, encoding="utf-8")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)  # noqa: S607 -- git is on PATH
    monkeypatch.setattr(trying, "ROOT", root)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each of the many processes would load them all
    monkeypatch.setenv("PYTEST_PLUGINS", "_hypothesis_pytestplugin")  # whose seed is set
    return root


@pytest.mark.slow
def test_a_mutant_is_killed_survives_or_never_ends(tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy, records = TreeCopy(tmp_path / "copy"), Records()
    tests = ["tests/unit/test_numbers.py"]
    records.add(copy.root, copy.record(tests, ["app"]), tests)
    assert list(records.durations_s) == ["tests/unit/test_numbers.py::test_larger"]
    assert records.list_outdated(tree, tests) == []
    mutants = {mutant.after: mutant for mutant in find_mutants("app/numbers.py", CODE)}

    def outcome_of(after: str) -> Outcome:
        return MutantTester(copy, records).try_mutant(mutants[after], ["tests/unit"]).outcome

    assert outcome_of("return a if a < b else b") is Outcome.KILLED
    in_forks = [mutants["return a if a < b else b"], mutants["return a if a > b else b"]]
    trials = MutantTester(copy, records).try_in_forks(in_forks, {key: ["tests/unit"] for key in in_forks})
    assert {mutant.after: trial.outcome for mutant, trial in trials.items()} == (
        {"return a if a < b else b": Outcome.KILLED} if sys.platform != "win32" else {}
    )
    assert outcome_of("return a if a > b else b") is Outcome.SURVIVED
    monkeypatch.setattr(trying, "STARTING_S", 3.0)
    assert outcome_of("while a != 0:") is Outcome.TIMED_OUT
    assert (copy.root / "app/numbers.py").read_text(encoding="utf-8") == CODE
