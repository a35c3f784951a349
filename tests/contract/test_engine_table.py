"""What the advisor believes of an engine is what its adapter says of itself."""

import pytest

from app.advisor.choosing.engine_table import ENGINES, FORMAT_NAMES, LINUX, MAC, WINDOWS
from engines.api import Adapter, Family, ModelFormat
from engines.registry import ADAPTERS

PLATFORMS = {LINUX: "linux", MAC: "darwin", WINDOWS: "win32"}
JUDGED = {engine: adapter for engine, adapter in ADAPTERS.items() if engine != "attached"}
"""An endpoint that somebody else runs is not advised."""
ALL = pytest.mark.parametrize("adapter", JUDGED.values(), ids=list(JUDGED))


@ALL
def test_the_advisor_knows_it_by_the_same_name_and_formats(adapter: Adapter) -> None:
    about, believed = adapter.descriptor, ENGINES[adapter.descriptor.id]
    assert believed.name == about.name
    assert set(believed.formats) == {kind.value for kind in about.formats}


@ALL
def test_the_advisor_offers_no_device_the_adapter_has_not(adapter: Adapter) -> None:
    about, believed = adapter.descriptor, ENGINES[adapter.descriptor.id]
    if about.family is Family.EXTERNAL or about.id == "llama.cpp":  # its further builds are chosen by the engine store
        return
    assert {target.backend for target in believed.targets} <= set(about.accelerators)


@ALL
def test_the_advisor_offers_it_on_systems_it_runs_on(adapter: Adapter) -> None:
    believed = ENGINES[adapter.descriptor.id]
    systems = {PLATFORMS[system] for target in believed.targets for system in target.systems if system in PLATFORMS}
    assert systems <= adapter.descriptor.platforms


def test_every_format_the_advisor_names_is_one_of_ours() -> None:
    assert set(FORMAT_NAMES) <= {kind.value for kind in ModelFormat}
