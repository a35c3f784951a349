"""The versions on this machine, as folders: `<root>/<engine>/<version>-<variant>/`, each with a manifest.

A version is made in a folder of its own below `<root>/.stage` and becomes real by one rename; it goes by one rename
too. Which version of an engine is used, which was before, and which have failed stands in `<root>/<engine>/state.json`,
replaced whole. So a process killed at any moment leaves either what was or what is to be, and rubbish that the next
start sweeps away.
"""

import asyncio
import contextlib
import itertools
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import psutil

from app.core.engine_store import BUNDLED, OWN, Proof
from app.core.errors import NotFound, StorageFault
from app.engine_store.durable import sync_folder, sync_tree, write_durably
from engines.api import Place

MANIFEST = "manifest.json"
STATE = "state.json"
STAGE = ".stage"
STAGE_VARIABLE = "ROUNDHOUSE_STAGE"
"""What programs that fill a stage carry in their environment, so that those a crash left behind can be told."""
PROVEN_LOADS = 3
"""After so many loads that went well a new version is no longer on probation."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One file a version was made from."""

    name: str
    sha256: str = ""
    url: str = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a version's folder is. `python` and `executable` are relative to it."""

    engine: str
    version: str
    variant: str
    backend: str
    kind: str
    name: str = ""
    """What its folder is called."""
    channel: str = "stable"
    python: str = ""
    executable: str = ""
    installed_at: float = 0.0
    size_bytes: int = 0
    sources: tuple[Source, ...] = ()


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Which version of an engine is used. Names as in `core.engine_store.EngineVersion`."""

    current: str = BUNDLED
    previous: str = ""
    loads: int = 0
    """How often `current` has become ready since it is used."""
    proofs: dict[str, Proof] = {}
    bad: dict[str, str] = {}
    """Version -> why it is not used."""
    own: str = ""
    """The program a person pointed at."""


class Shelf:
    """Every installed version. Safe to use from any thread; methods touch the disk unless they say otherwise."""

    def __init__(self, root: Path, came_along: Callable[[str], bool] = lambda _engine: True) -> None:
        """`came_along` tells whether an engine is here without having been installed."""
        self._root = root
        self._came_along = came_along
        self._lock = threading.RLock()
        self._states: dict[str, State] = {}
        self._stages: set[str] = set()
        self.changed: Callable[[str], None] = lambda _engine: None
        """Told, in whatever thread, that an engine's versions or its choice among them are others now."""

    def sweep(self) -> int:
        """Remove what a killed process left half-made or half-removed; return how many folders that were."""
        left = [path for path in (self._root / STAGE).glob("*") if path.name not in self._stages]
        if left:
            _end_fillers({path.name for path in left})
        for path in left:
            shutil.rmtree(path, ignore_errors=True)
        return len(left)

    @contextlib.asynccontextmanager
    async def stage(self) -> AsyncIterator[Path]:
        """Have an empty folder to make a version in; what is in it when the block ends is removed."""
        folder = self._root / STAGE / secrets.token_hex(8)
        self._stages.add(folder.name)
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
            yield folder
        except OSError as error:
            raise StorageFault(
                f"The engine could not be written: {error.strerror or error}.",
                hint=f"Check free space and permissions in {self._root}.",
                code="engine_store",
            ) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            self._stages.discard(folder.name)

    def publish(self, folder: Path, manifest: Manifest) -> Manifest:
        """Make a staged folder a version and return its manifest as kept. One that is there is never replaced."""
        size = sync_tree(folder)
        home = self._root / manifest.engine
        with self._lock:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = _free_name(home, f"{manifest.version}-{manifest.variant}")
            kept = msgspec.structs.replace(manifest, name=name, size_bytes=size, installed_at=time.time())
            write_durably(folder / MANIFEST, msgspec.json.encode(kept))
            folder.rename(home / name)
            sync_folder(home)
        return kept

    def manifests(self, engine: str) -> list[Manifest]:
        """Return an engine's versions that are whole, the oldest first."""
        found = (_manifest(path) for path in (self._root / engine).glob(f"*/{MANIFEST}"))
        return sorted((one for one in found if one is not None), key=lambda one: (one.installed_at, one.name))

    def manifest(self, engine: str, name: str) -> Manifest | None:
        """Return one version, None when it is not there."""
        return _manifest(self._root / engine / name / MANIFEST) if _is_plain(name) else None

    def folder(self, engine: str, name: str) -> Path:
        """Return where a version lies, or would."""
        return self._root / engine / name

    def place(self, engine: str, name: str) -> Place | None:
        """Return what an adapter looks at; None for what came with Roundhouse. Raises NotFound for what is gone."""
        if name == BUNDLED:
            return None
        if name == OWN:
            return self._own_place(engine)
        manifest = self.manifest(engine, name)
        if manifest is None:
            raise _gone(engine, name) if name == self.state(engine).current else no_version(engine, name)
        return place_of(self.folder(engine, name), manifest)

    def _own_place(self, engine: str) -> Place:
        program = Path(self.state(engine).own)
        if not program.is_file():
            raise NotFound(
                f"{program} is no longer there.", hint="Use another version of this engine.", code="engine_gone"
            )
        return own_place(program)

    def state(self, engine: str) -> State:
        """Return which version is used; read from disk once."""
        with self._lock:
            if engine not in self._states:
                self._states[engine] = self._possible(engine, _read_state(self._root / engine / STATE))
            return self._states[engine]

    def _possible(self, engine: str, state: State) -> State:
        """Return a state that goes back to nothing that never was: the first version of most engines is installed."""
        if state.previous == BUNDLED and not self._came_along(engine):
            return msgspec.structs.replace(state, previous="")
        return state

    def change(self, engine: str, make: Callable[[State], State]) -> State:
        """Replace an engine's state by what `make` returns for it, on disk first."""
        with self._lock:
            before = self.state(engine)
            state = self._possible(engine, make(before))
            if state == before:
                return state
            home = self._root / engine
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably(home / STATE, msgspec.json.encode(state))
            self._states[engine] = state
        self.changed(engine)
        return state

    def remove(self, engine: str, name: str) -> None:
        """Remove a version; one that was used gives way to the previous. Raises NotFound."""
        with self._lock:
            if self.manifest(engine, name) is None:
                raise no_version(engine, name)
            self.change(engine, lambda before: _without(before, name))
            self._discard(self.folder(engine, name))
        self.changed(engine)

    def _discard(self, folder: Path) -> None:
        grave = self._root / STAGE / secrets.token_hex(8)
        grave.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.rename(grave)
        sync_folder(folder.parent)
        shutil.rmtree(grave, ignore_errors=True)


def place_of(folder: Path, manifest: Manifest) -> Place:
    """Return a version's folder as adapters want it; it may still be a stage."""
    return Place(
        folder=folder,
        version=manifest.version,
        backend=manifest.backend,
        python=folder / manifest.python if manifest.python else None,
        executable=folder / manifest.executable if manifest.executable else None,
    )


def own_place(program: Path) -> Place:
    """Return a program as adapters look at it."""
    return Place(folder=program.parent, version="", backend="", executable=program)


def python_in(environment: Path) -> Path:
    """Return a virtual environment's interpreter."""
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _manifest(path: Path) -> Manifest | None:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.name == path.parent.name else None  # a folder that somebody copied or renamed


def _read_state(path: Path) -> State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except (OSError, msgspec.MsgspecError):  # none yet, or damaged from outside: what came with us is used
        return State()


def _without(state: State, name: str) -> State:
    is_used = state.current == name
    return msgspec.structs.replace(
        state,
        current=state.previous or BUNDLED if is_used else state.current,
        previous="" if is_used or state.previous == name else state.previous,
        proofs={key: proof for key, proof in state.proofs.items() if key != name},
        bad={key: why for key, why in state.bad.items() if key != name},
    )


def _free_name(home: Path, name: str) -> str:
    taken = {path.name for path in home.iterdir()}
    return next(
        one for number in itertools.count(1) if (one := name if number == 1 else f"{name}-{number}") not in taken
    )


def _is_plain(name: str) -> bool:
    return bool(name) and name not in {".", ".."} and not any(mark in name for mark in ("/", "\\", os.sep))


def no_version(engine: str, name: str) -> NotFound:
    """Return the error for a version nobody installed."""
    return NotFound(
        f"Version {name} of {engine} is not installed.",
        hint=f"`roundhouse engines list {engine}` lists those that are.",
        code="engine_version_not_found",
    )


def _gone(engine: str, name: str) -> NotFound:
    return NotFound(
        f"Version {name} of {engine}, which is in use, is missing from the disk.",
        hint=f"`roundhouse engines install {engine}` installs it again.",
        code="engine_gone",
    )


def _end_fillers(tokens: set[str]) -> None:
    """Kill programs that a killed process left filling a stage: they carry its name."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # other people's processes do not show their environment
            if process.environ().get(STAGE_VARIABLE, "") in tokens:
                process.kill()
                process.wait(timeout=5)
