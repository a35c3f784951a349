"""The code an engine needs beside its data."""

from collections.abc import Sequence
from typing import Protocol

from engines.api.about import Descriptor
from engines.api.failure import Failure
from engines.api.log import Exit, LogEvent
from engines.api.options import EngineInstallation, EngineLocation, LaunchOptions, ListenOptions, ModelSource
from engines.api.plan import LaunchPlan


class EngineAdapter(Protocol):
    """The code an engine needs. Every method is pure but `probe`, which may look at the installed engine."""

    @property
    def descriptor(self) -> Descriptor:
        """What the engine is."""

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the engine in `place`: its version, devices and flags. Import nothing heavy: ask metadata or a child.

        Without a place, find what came with Roundhouse itself or lies on PATH.
        """

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Turn generic options into processes. Raises ValueError with a sentence for options it cannot honour."""

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a log line means; most mean nothing."""

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
