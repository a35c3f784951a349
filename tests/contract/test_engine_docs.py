"""The docs say of engines what the engines say, and each engine says what of it ran for real."""

import pytest

from engines.api import EngineAdapter
from engines.flags import TakesFlags
from engines.registry import ADAPTERS
from tests.engine_docs import DOCS, RAN, TABLES, as_generated, pages

NEVER = "Never run "
ALL = pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=list(ADAPTERS))


@ALL
def test_an_engine_says_how_it_ran_for_real_and_what_of_it_did_not_or_that_it_never_ran(adapter: EngineAdapter) -> None:
    about = adapter.descriptor
    if about.verified.startswith(RAN):
        assert "ot run " in about.unverified
    else:
        assert about.unverified.startswith(NEVER)


@pytest.mark.parametrize(
    "engine",
    [
        *("llama.cpp", "attached", "openvino", "onnxruntime-genai", "mlx-lm", "mlx-vlm"),
        *("mistral.rs", "vllm"),
    ],
)
def test_what_was_run_for_real_is_not_forgotten(engine: str) -> None:
    assert ADAPTERS[engine].descriptor.verified.startswith(RAN)


def test_every_table_is_as_the_descriptors_recipes_and_flags_have_it() -> None:
    stale = [path.name for path, text in pages().items() if as_generated(text) != text]
    assert not stale, "`python -m tests.engine_docs --write` writes them anew"


@pytest.mark.parametrize("name", TABLES)
def test_every_table_stands_on_some_page(name: str) -> None:
    assert any(f"<!-- engines: {name} -->" in text for text in pages().values())


def test_a_table_that_was_changed_by_hand_is_found() -> None:
    page = next(text for text in pages().values() if "<!-- engines: list -->" in text)
    changed_page = page.replace("| never; played |", "| on every card |")
    assert changed_page != page
    assert as_generated(changed_page) == page


@ALL
def test_no_engine_has_two_rows_for_an_option(adapter: EngineAdapter) -> None:
    options = [flag.option for flag in adapter.flag_table.flags] if isinstance(adapter, TakesFlags) else []
    assert len(options) == len(set(options))


@pytest.mark.parametrize("name", ["libraries", "options", "failures"])
def test_the_page_leads_to_the_others(name: str) -> None:
    assert f"(../reference/{name}.md)" in (DOCS / "guide" / "engines.md").read_text(encoding="utf-8")
