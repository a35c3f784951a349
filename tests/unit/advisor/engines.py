"""The engines of the registry as the advisor sees them, and settings of theirs in a few words."""

import msgspec

from app.advisor.memory.setting import RunSetting
from app.gateway.advising.engine_table import engine_table

ENGINES = engine_table()


def setting_for(engine: str = "llama.cpp", **figures: object) -> RunSetting:
    """Return a setting with everything not given as Roundhouse launches the engine."""
    return msgspec.structs.replace(RunSetting(engine=ENGINES[engine]), **figures)
