"""What an engine tells the advisor of itself agrees with the rest of its descriptor, and with what others say."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.advisor.choosing.formats import FORMAT_NAMES
from app.gateway.advising.engine_table import engine_table
from engines.api import EngineAdapter, EngineFamily, ModelFormat
from engines.api.traits import LINUX, MAC, WINDOWS, EngineAbility, ReservedMemory, Traits
from engines.registry import ADAPTERS

APP = Path(__file__).resolve().parents[2] / "app"
PLATFORMS = {LINUX: "linux", MAC: "darwin", WINDOWS: "win32"}
ADVISED = {
    engine: adapter
    for engine, adapter in ADAPTERS.items()
    if adapter.descriptor.family not in {EngineFamily.EXTERNAL, EngineFamily.ROUTER}
}
"""An endpoint that somebody else runs is not advised, and a router computes nothing."""
ALL = pytest.mark.parametrize("adapter", ADVISED.values(), ids=list(ADVISED))


def traits_of(adapter: EngineAdapter) -> Traits:
    traits = adapter.descriptor.traits
    assert traits is not None
    return traits


def test_every_engine_but_an_endpoint_can_be_advised() -> None:
    assert set(engine_table()) == set(ADVISED)


@ALL
def test_the_sentences_about_it_can_be_put_together(adapter: EngineAdapter) -> None:
    traits = traits_of(adapter)
    assert not traits.strength.endswith(".")
    assert not traits.needs.endswith(".")
    whole = (traits.limits, traits.unlisted, traits.serving_warning, traits.fleet_warning)
    assert all(text.endswith(".") for text in whole if text)
    assert traits.targets or traits.limits, "where it never runs, its limits say why"


@ALL
def test_the_advisor_offers_no_device_the_adapter_has_not(adapter: EngineAdapter) -> None:
    # The further builds of what runs everywhere are chosen by the engine store.
    if EngineAbility.EVERYWHERE not in traits_of(adapter).abilities:
        assert {target.backend for target in traits_of(adapter).targets} <= set(adapter.descriptor.accelerators)


@ALL
def test_the_advisor_offers_it_on_systems_it_runs_on(adapter: EngineAdapter) -> None:
    targets = traits_of(adapter).targets
    systems = {PLATFORMS[system] for target in targets for system in target.systems}
    assert systems <= adapter.descriptor.platforms


@ALL
def test_it_is_asked_about_formats_it_reads(adapter: EngineAdapter) -> None:
    assert traits_of(adapter).default_formats <= set(adapter.descriptor.formats)


@ALL
def test_where_it_runs_alone_it_may_be_discouraged_with_a_reason(adapter: EngineAdapter) -> None:
    assert traits_of(adapter).advised_on is None or traits_of(adapter).limits


def test_one_engine_is_what_is_left_where_no_other_runs() -> None:
    (everywhere,) = (entry for entry in engine_table().values() if entry.runs_everywhere)
    assert everywhere is engine_table().fallback
    assert any(not target.systems and not target.vendors for target in everywhere.targets)


def test_no_two_engines_claim_a_format_and_every_format_has_one() -> None:
    claims = Counter(kind for adapter in ADVISED.values() for kind in traits_of(adapter).default_formats)
    assert set(claims.values()) == {1}
    assert {kind for adapter in ADVISED.values() for kind in adapter.descriptor.formats} == set(claims)


def test_engines_that_share_a_rank_nowhere_have_an_order() -> None:
    orders = Counter(traits_of(adapter).order for adapter in ADVISED.values())
    assert set(orders.values()) == {1}


def test_who_reserves_memory_says_so_to_plans_too() -> None:
    for adapter in ADVISED.values():
        if EngineAbility.RESERVES in traits_of(adapter).abilities:
            assert isinstance(traits_of(adapter).memory, ReservedMemory), adapter.descriptor.id


def test_every_format_the_advisor_names_is_one_of_ours() -> None:
    assert set(FORMAT_NAMES) <= {kind.value for kind in ModelFormat}


NAMES = set(ADVISED) - {kind.value for kind in ModelFormat}
"""Ids of engines; one that is a format's name as well tells nothing."""


def texts(path: Path, within: type[ast.AST]) -> Iterator[str]:
    """Yield every text that stands in such a piece of code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, within):
            yield from (
                constant.value
                for constant in ast.walk(node)
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
            )


def test_the_advisor_names_no_engine() -> None:
    assert not [path for path in (APP / "advisor").rglob("*.py") if NAMES.intersection(texts(path, ast.Module))]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["gateway", "supervisor", "hub", "engine_store", "cli", "gui"])
def test_nothing_depends_on_which_engine_it_is(part: str) -> None:
    files = [path for path in (APP / part).rglob("*.py") if "demo" not in path.parts]
    assert files
    assert not [path for path in files if NAMES.intersection(texts(path, ast.Compare))]
