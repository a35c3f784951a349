"""The engines of the registry as the advisor sees them, and settings of theirs in a few words."""

from functools import cache

import msgspec

from app.advisor.choosing.engine_table import EngineTable
from app.advisor.memory.setting import RunSetting
from app.core.machine import Machine
from app.engine_store.host import described_host
from app.engine_store.recipe import InstallRecipe, read_recipes
from app.gateway.advising.engine_table import engine_table, engines_for

ENGINES = engine_table()


def engines_on(machine: Machine) -> EngineTable:
    """Return the engines as Roundhouse's own recipes install them on a described machine."""
    return engines_for(machine, _recipes(), [], described_host(machine))


@cache
def _recipes() -> dict[str, InstallRecipe]:
    return read_recipes()


def setting_for(engine: str = "llama.cpp", **figures: object) -> RunSetting:
    """Return a setting with everything not given as Roundhouse launches the engine."""
    return msgspec.structs.replace(RunSetting(engine=ENGINES[engine]), **figures)
