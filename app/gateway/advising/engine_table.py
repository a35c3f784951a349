"""What the advisor is told of engines: what their descriptors say."""

from functools import cache

from app.advisor.choosing.engine_table import EngineTable
from engines.registry import ADAPTERS


@cache
def engine_table() -> EngineTable:
    """Return every engine of the registry that can be advised; none changes while the program runs."""
    return EngineTable.of(adapter.descriptor for adapter in ADAPTERS.values())
