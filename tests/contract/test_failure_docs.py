"""`docs/reference/failures.md` lists every cause with what is said and what may help, and its table is the code's."""

from pathlib import Path

from engines.api import FailureKind, LaunchOptions
from engines.failure_texts import FAILURE_TEXTS
from engines.remedies import RemedyOptions, Shortage, list_remedies

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "failures.md"
LARGE = LaunchOptions(context=16_384, slots=4, gpu_layers=32)
ALL = RemedyOptions(cache_type="q8_0", gpu_layers=True, gpu_share=True)
HALF = Shortage(free=12 << 30, total=24 << 30)


def row(kind: FailureKind) -> str:
    text = FAILURE_TEXTS[kind]
    helps = "; ".join(f"{remedy.label} (`{remedy.kind.value}`)" for remedy in list_remedies(kind, LARGE, HALF, ALL))
    return f"| `{kind.value}` | {name_no_engine(text.sentence)} | {name_no_engine(text.hint)} | {helps or '-'} |"


def name_no_engine(text: str) -> str:
    """Return a sentence about any engine."""
    words = text.format(engine="the engine")
    return words[0].upper() + words[1:]


def test_every_cause_is_in_the_table_as_it_is_said() -> None:
    page = PAGE.read_text(encoding="utf-8").splitlines()
    missing_rows = [row(kind) for kind in FailureKind if row(kind) not in page]
    assert not missing_rows, "\n".join(missing_rows)


def test_the_table_has_no_cause_that_is_none() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(FailureKind)
