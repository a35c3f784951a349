"""Every test that docs/internals/attacks.md names is there: a promise that nobody tests must not stay on the page."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


@pytest.mark.slow
def test_each_attack_has_the_test_that_is_named() -> None:
    page = (ROOT / "docs" / "internals" / "attacks.md").read_text(encoding="utf-8")
    references = NAMED.findall(page)
    assert len(references) > 30
    missing_tests = [f"{file}::{test}" for file, test in references if test and test not in functions(ROOT / file)]
    assert not missing_tests
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert not [row for row in rows[1:] if not NAMED.search(row)]
