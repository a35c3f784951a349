"""The engines this build knows, and which of them are installed here.

An engine is asked once, and again when another version of it is used; one that is missing is asked again each time.

Programs of a person's own that can stand for an installed engine: where they lie, and what they say of themselves.

One is asked when somebody looks, never at start-up, and once for as long as it is the same file: it may be any program,
and one that hangs would hold up every list.

Every adapter as the rest of the product gets it: asked what is installed, it looks at the version in use.

So the supervisor and everybody else go on calling `probe()` and need not know that there are versions. While a new
version is on probation it is given less time to show signs of life: another that works stands by.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from app.core.engine_store import BUNDLED
from app.core.engines import EngineInfo
from app.core.errors import EngineFailed, NotFound, quote_value
from app.engine_store.environments import ENVIRONMENT, LOCK
from app.engine_store.recipe import InstallRecipe, read_recipes
from app.engine_store.startup_files import find_foreign_startup_file
from app.engine_store.version_store import VersionStore, is_on_probation, own_place
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
    Remedy,
    RemedyKind,
)
from engines.failure_texts import FAILURE_TEXTS
from engines.program_probe import file_identity, on_path


class EngineCatalogue:
    """Every known engine by id, in the registry's order."""

    def __init__(
        self,
        adapters: Mapping[str, EngineAdapter],
        shelf: VersionStore,
        allows_outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self.adapters = adapters
        self.versioned: Mapping[str, EngineAdapter] = VersionedAdapters(adapters, shelf, allows_outdated)
        """The adapters everybody should use: each looks at the version in use."""
        self.own_programs = OwnPrograms(adapters)
        self.shelf = shelf
        self._installations: dict[str, tuple[str, EngineInstallation]] = {}

    @cached_property
    def recipes(self) -> dict[str, InstallRecipe]:
        """How engines are installed, by id. Raises Bug."""
        return {engine: recipe for engine, recipe in read_recipes().items() if engine in self.adapters}

    def list_engines(self) -> list[EngineInfo]:
        """Return every engine, installed or not."""
        return [self._describe_engine(engine, adapter) for engine, adapter in self.versioned.items()]

    def readers_of(self, model_format: str) -> Sequence[EngineInfo]:
        """Return the engines that read a format, installed or not. No other is looked for: that may run programs."""
        readers = (
            (engine, candidate)
            for engine, candidate in self.versioned.items()
            if model_format in candidate.descriptor.formats
        )
        return [self._describe_engine(engine, adapter) for engine, adapter in readers]

    def backend_of(self, engine_id: str) -> str:
        """Return what an engine computes with; empty where it is not here or not known."""
        result = self._probe_engine(engine_id) if engine_id in self.versioned else None
        return result.backend if isinstance(result, EngineInstallation) else ""

    def find_installation(self, engine_id: str) -> EngineInstallation:
        """Return where an engine is. Raises EngineFailed (code not_installed) if it is not here or not known."""
        if engine_id not in self.versioned:
            raise unknown_engine(engine_id)
        result = self._probe_engine(engine_id)
        if isinstance(result, Failure):
            raise EngineFailed(result.sentence, hint=result.hint, code=result.kind)
        return result

    def expect_installation(self, engine_id: str) -> EngineInstallation:
        """Return where an engine is, or stand-in values for one that is not here yet: enough to plan a launch with."""
        try:
            return self.find_installation(engine_id)
        except EngineFailed:
            return EngineInstallation(engine=engine_id, version="", backend="", python=Path("python"))

    def _probe_engine(self, engine_id: str) -> EngineInstallation | Failure:
        current = self.shelf.read_state(engine_id).current
        version, cached_version = self._installations.get(engine_id, ("", None))
        if cached_version is not None and version == current:
            return cached_version
        result = self.versioned[engine_id].probe()
        if isinstance(result, EngineInstallation):
            self._installations[engine_id] = (current, result)
        return result

    def _describe_engine(self, engine_id: str, adapter: EngineAdapter) -> EngineInfo:
        about = adapter.descriptor
        result, state = self._probe_engine(engine_id), self.shelf.read_state(engine_id)
        installation = result if isinstance(result, EngineInstallation) else None
        return EngineInfo(
            id=about.id,
            name=about.name,
            licence=about.licence,
            homepage=about.homepage,
            formats=sorted(kind.value for kind in about.formats),
            installed=installation is not None,
            version=installation.version if installation else "",
            backend=installation.backend if installation else "",
            verified=about.verified,
            unverified=about.unverified,
            problem=result.sentence if isinstance(result, Failure) else state.bad.get(state.current, ""),
            is_broken=installation is None and state.current != BUNDLED,
        )


def is_preinstalled(adapters: Mapping[str, EngineAdapter], engine: str) -> bool:
    """Tell whether an engine is here without our having installed it. May run a program."""
    return engine in adapters and isinstance(adapters[engine].probe(), EngineInstallation)


def unknown_engine(engine_id: str) -> EngineFailed:
    """Return the error for an engine nobody has heard of."""
    return EngineFailed(
        f"This version of Roundhouse has no engine called {quote_value(engine_id)}.",
        hint="`roundhouse engines list` shows the engines it has.",
        code=FailureKind.NOT_INSTALLED,
    )


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


PROBATION_STALL_S = 6.0
"""Without a log line, progress or use of the processor for so long, a version that has not proved itself hangs."""

_K = FailureKind
_LIES_IN_THE_PROGRAM = frozenset({_K.CRASHED, _K.MISSING_LIBRARY, _K.ILLEGAL_INSTRUCTION, _K.MODEL_UNSUPPORTED})
"""Ends against which no update of ours helps where the program is a person's own."""


class VersionedAdapter:
    """An adapter bound to one place, or to whatever is in use. It keeps `engines.api.EngineAdapter`."""

    def __init__(
        self,
        adapter: EngineAdapter,
        where: Callable[[], EngineLocation | None],
        *,
        stall_s: Callable[[], float],
        allows_outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self._adapter = adapter
        self._where = where
        self._allows_outdated = allows_outdated
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
        result = self._probe_once(target) if target else self._adapter.probe()
        if isinstance(result, Failure) or self._allows_outdated():
            return result
        return old_version_failure(self.descriptor, result, target) or result

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

    def __init__(
        self,
        adapters: Mapping[str, EngineAdapter],
        shelf: VersionStore,
        allows_outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self._adapters = adapters
        self._shelf = shelf
        self._allows_outdated = allows_outdated
        self._adapters_by_version: dict[str, VersionedAdapter] = {}

    def __getitem__(self, engine: str) -> EngineAdapter:
        if engine not in self._adapters_by_version:
            adapter = self._adapters[engine]
            self._adapters_by_version[engine] = VersionedAdapter(
                adapter,
                lambda: self._current_place(engine),
                stall_s=lambda: self._stall_s(engine),
                allows_outdated=self._allows_outdated,
            )
        return self._adapters_by_version[engine]

    def __iter__(self) -> Iterator[str]:
        return iter(self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)

    def _current_place(self, engine: str) -> EngineLocation | None:
        return self._shelf.find_place(engine, self._shelf.read_state(engine).current)

    def _stall_s(self, engine: str) -> float:
        return PROBATION_STALL_S if is_on_probation(self._shelf.read_state(engine)) else float("inf")


_BUILD = re.compile(r"b(\d+)")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


def old_version_failure(
    about: Descriptor, installation: EngineInstallation, place: EngineLocation | None
) -> Failure | None:
    """Return why a version may not run: it has published holes, or is a person's own and does not tell its build."""
    least, version = about.least_version, installation.version
    is_own = place is not None and not place.version
    if not least or not (_is_older(version, least) or (is_own and not _parse_version(version, least))):
        return None
    is_known = bool(_parse_version(version, least))
    subject = f"{about.name} {version}" if is_known else f"This {about.name}, whose build is unknown,"
    return Failure(
        kind=FailureKind.OUTDATED,
        sentence=f"{subject} may have published security holes; {least} is the oldest version without.",
        hint=FAILURE_TEXTS[FailureKind.OUTDATED].hint,
        remedies=(Remedy(kind=RemedyKind.UPDATE_ENGINE, label="Update the engine"),),
    )


def _is_older(version: str, least: str) -> bool:
    numbers = _parse_version(version, least)
    return bool(numbers) and numbers < _parse_version(least, least)


def _parse_version(version: str, like: str) -> tuple[int, ...]:
    """Return the numbers of a version that is written like another one; none of one that is not."""
    if build := _BUILD.match(like) and _BUILD.match(version):
        return (int(build[1]),)
    release = None if _BUILD.match(like) else _RELEASE.match(version)
    return tuple(map(int, release[0].split("."))) if release else ()


def find_missing_files(about: Descriptor, place: EngineLocation | None) -> Failure | None:
    """Return a failure for a version whose files are not what they were.

    Gone: removed by hand, or built on a Python that was removed. Added: code that would run whenever it starts.
    """
    programs = [path for path in (place.python, place.executable) if path] if place else []
    missing_program = next((path for path in programs if not path.exists()), None)
    if place is None:
        return None
    hint = f"`roundhouse engines install {about.id}` installs it again."
    if missing_program is not None:
        sentence = f"{about.name} {place.version} is broken: {missing_program} is gone.".replace("  ", " ")
        return Failure(kind=FailureKind.NOT_INSTALLED, sentence=sentence, hint=hint)
    foreign = _find_foreign_startup(place)
    if foreign is None:
        return None
    sentence = f"{about.name} {place.version} is not used: no package of its lock brought {foreign}, which would run."
    return Failure(
        kind=FailureKind.NOT_INSTALLED, sentence=sentence, hint=f"Remove the file and find who made it. {hint}"
    )


def _find_foreign_startup(place: EngineLocation) -> Path | None:
    try:
        lock = (place.folder / LOCK).read_text(encoding="utf-8")
    except OSError:  # a program, or an environment of a person's own
        return None
    return find_foreign_startup_file(place.folder / ENVIRONMENT, lock)
