"""Programs of a person's own that can stand for an installed engine: where they lie, and what they say of themselves.

One is asked when somebody looks, never at start-up, and once for as long as it is the same file: it may be any program,
and one that hangs would hold up every list.
"""

from collections.abc import Mapping
from pathlib import Path

from app.engine_store.version_store import own_place
from engines.api import EngineAdapter, EngineInstallation, Failure
from engines.program_probe import file_identity, on_path


class OwnPrograms:
    """Finds and asks them. Safe to use from any thread."""

    def __init__(self, adapters: Mapping[str, EngineAdapter]) -> None:
        self._adapters = adapters
        self._results: dict[tuple[object, ...], EngineInstallation | Failure] = {}

    def find_on_path(self, engine: str) -> Path | None:
        """Return the engine's program on PATH; None where there is none, or no own program can be used."""
        name = self._adapters[engine].descriptor.program
        return on_path(name) if name else None

    def probe_program(self, engine: str, program: Path, *, anew: bool = False) -> EngineInstallation | Failure:
        """Return what a program says of itself. Raises `engines.program_probe.ProbeCancelled`."""
        key = (engine, program, *file_identity(program))
        if anew or key not in self._results:
            self._results[key] = self._adapters[engine].probe(own_place(program))
        return self._results[key]
