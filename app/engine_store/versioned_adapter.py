"""Every adapter as the rest of the product gets it: asked what is installed, it looks at the version in use.

So the supervisor and everybody else go on calling `probe()` and need not know that there are versions. While a new
version is on probation it is given less time to show signs of life: another that works stands by.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from app.core.errors import NotFound
from app.engine_store.version_choice import is_on_probation
from app.engine_store.version_store import VersionStore
from engines.api import (
    Descriptor,
    EngineAdapter,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
)
from engines.program_probe import file_identity

PROBATION_STALL_S = 6.0
"""Without a log line, progress or use of the processor for so long, a version that has not proved itself hangs."""

_K = FailureKind
_LIES_IN_THE_PROGRAM = frozenset({_K.CRASHED, _K.MISSING_LIBRARY, _K.ILLEGAL_INSTRUCTION, _K.MODEL_UNSUPPORTED})
"""Ends against which no update of ours helps where the program is a person's own."""


class VersionedAdapter:
    """An adapter bound to one place, or to whatever is in use. It keeps `engines.api.EngineAdapter`."""

    def __init__(
        self, adapter: EngineAdapter, where: Callable[[], EngineLocation | None], *, stall_s: Callable[[], float]
    ) -> None:
        self._adapter = adapter
        self._where = where
        self._stall_s = stall_s
        self._installations: dict[tuple[object, ...], EngineInstallation] = {}

    @property
    def descriptor(self) -> Descriptor:
        """What the engine is."""
        return self._adapter.descriptor

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the version in use, or at `place`."""
        try:
            target = place or self._where()
        except NotFound as error:
            return Failure(kind=FailureKind.NOT_INSTALLED, sentence=str(error), hint=error.hint)
        failure = find_missing_files(self.descriptor, target)
        if failure:
            return failure
        return self._probe_once(target) if target else self._adapter.probe()

    def _probe_once(self, place: EngineLocation) -> EngineInstallation | Failure:
        """Return what the adapter sees in a place; asked once, since a program may have to be run for it."""
        key = (place, *(file_identity(path) for path in (place.python, place.executable) if path))
        if key not in self._installations:
            result = self._adapter.probe(place)
            if isinstance(result, Failure):
                return result
            self._installations[key] = result
        return self._installations[key]

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return the adapter's plan, with less patience for a version on probation."""
        plan = self._adapter.plan(model, options, net, installation)
        stall_s = min(plan.readiness.stall_s, self._stall_s())
        return msgspec.structs.replace(plan, readiness=msgspec.structs.replace(plan.readiness, stall_s=stall_s))

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a log line means."""
        return self._adapter.read_log(line)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for, and the program where a person's own failed by itself."""
        failure, own = self._adapter.classify_exit(end), self._own_program()
        if own is None or failure.kind not in _LIES_IN_THE_PROGRAM:
            return failure
        hint = f"Your own program is in use, {own}: build or download it again, or use another version of the engine."
        return msgspec.structs.replace(failure, hint=hint)

    def _own_program(self) -> Path | None:
        try:
            place = self._where()
        except NotFound:
            return None
        return place.executable if place is not None and not place.version else None


class VersionedAdapters(Mapping[str, EngineAdapter]):
    """Engine ids to adapters that look at the version in use. Listing the ids imports none of them."""

    def __init__(self, adapters: Mapping[str, EngineAdapter], shelf: VersionStore) -> None:
        self._adapters = adapters
        self._shelf = shelf
        self._bound: dict[str, VersionedAdapter] = {}

    def __getitem__(self, engine: str) -> EngineAdapter:
        if engine not in self._bound:
            adapter = self._adapters[engine]
            self._bound[engine] = VersionedAdapter(
                adapter, lambda: self._current_place(engine), stall_s=lambda: self._stall_s(engine)
            )
        return self._bound[engine]

    def __iter__(self) -> Iterator[str]:
        return iter(self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)

    def _current_place(self, engine: str) -> EngineLocation | None:
        return self._shelf.find_place(engine, self._shelf.read_state(engine).current)

    def _stall_s(self, engine: str) -> float:
        return PROBATION_STALL_S if is_on_probation(self._shelf.read_state(engine)) else float("inf")


def find_missing_files(about: Descriptor, place: EngineLocation | None) -> Failure | None:
    """Return a failure for a version whose files have gone: removed by hand, or built on a Python that was removed."""
    programs = [path for path in (place.python, place.executable) if path] if place else []
    gone = next((path for path in programs if not path.exists()), None)
    if place is None or gone is None:
        return None
    return Failure(
        kind=FailureKind.NOT_INSTALLED,
        sentence=f"{about.name} {place.version} is broken: {gone} is gone.".replace("  ", " "),
        hint=f"`roundhouse engines install {about.id}` installs it again.",
    )
