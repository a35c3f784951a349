"""A name says what it stands for where it is used, in an import line or a traceback: ceilings on those that do not.

They are lowered when names get better, and never raised. `python -m tests.name_figures` prints the whole table, and
with folders as arguments the names to look at.
"""

from pathlib import Path

import pytest

from tests import name_figures
from tests.name_figures import MANY_MODULES, NameFigures, class_modules, count_names, definitions, is_participle

pytestmark = pytest.mark.slow  # `make check` runs them

CEILINGS = {
    "functions_named_by_participle_alone": 2,  # handlers of the admin API, whose names are its operationIds
    "names_led_by_participle_percent": 1.05,
    "functions_of_one_word_percent": 17,
    "class_names_in_three_modules": 0,
    "variables_named_by_participle_alone": 460,
    "test_functions_named_by_participle_alone": 0,
    "test_variables_named_by_participle_alone": 11,
}
VARIABLE_FIGURES = ("variables_named_by_participle_alone", "test_variables_named_by_participle_alone")
"""Among them are fields of JSON and of settings files, whose names programs and people know."""
SLACK = 0.9
"""A ceiling more than a tenth above what is there holds nothing back: it is to be lowered."""


@pytest.fixture(scope="module")
def figures() -> NameFigures:
    return count_names()


@pytest.mark.parametrize("figure", CEILINGS)
def test_names_get_no_worse(figures: NameFigures, figure: str) -> None:
    ceiling, count = CEILINGS[figure], getattr(figures, figure)

    assert count <= ceiling, "; ".join(offenders(figure))
    assert count >= SLACK * ceiling, f"lower the ceiling of {figure} to {count:.4g}"


def offenders(figure: str) -> list[str]:
    if figure == "class_names_in_three_modules":
        return [f"{name}: {len(paths)}" for name, paths in class_modules().items() if len(paths) >= MANY_MODULES]
    if figure in {"functions_of_one_word_percent", *VARIABLE_FIGURES}:
        return ["run `python -m tests.name_figures FOLDER`"]
    tops = name_figures.TESTS if figure.startswith("test_") else name_figures.CODE
    led_by_participle = [item for item in definitions(tops) if item.is_led_by_participle]
    is_for_alone = figure.endswith("named_by_participle_alone")
    return [
        f"{item.path}: {item.qualname}" for item in led_by_participle if item.is_participle_alone or not is_for_alone
    ]


@pytest.mark.parametrize("word", ["asked", "told", "found", "sending", "kept", "unfed"])
def test_what_was_done_to_a_thing_is_no_name(word: str) -> None:
    assert is_participle(word)


@pytest.mark.parametrize("word", ["embed", "setting", "string", "listing", "read", "ask", "speed", "need", "red"])
def test_nouns_and_verbs_that_end_alike_are_names(word: str) -> None:
    assert not is_participle(word)


def test_a_variable_is_a_parameter_a_local_or_a_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_figures, "ROOT", tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "module.py").write_text(CODE, encoding="utf-8")

    variables = name_figures.participle_variables(["code"])

    assert [item.scope + item.name for item in variables] == [
        "Shelf.kept",
        "Shelf.take._taken",
        "Shelf.take.asked",
        "Shelf.take.failed",
        "Shelf.take.found",
    ]


CODE = """
class Shelf:
    kept: int = 0
    kept_files: int = 0

    def take(self, asked, left, right):
        self._taken = [found for found in asked if found.kept]
        self.is_closed = True
        try:
            is_done = self.kept
        except ValueError as failed:
            raise failed
"""
