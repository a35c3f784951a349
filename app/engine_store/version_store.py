"""The versions on this machine, as folders: `<root>/<engine>/<version>-<variant>/`, each with a manifest.

A version is made in a folder of its own below `<root>/.stage` and becomes real by one rename; it goes by one rename
too. Which version of an engine is used, which was before, and which have failed stands in `<root>/<engine>/state.json`,
replaced whole. So a process killed at any moment leaves either what was or what is to be, and rubbish that the next
start sweeps away.

Which version of an engine is used: what a switch, a failure and a roll-back make of its state. Pure.
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
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import msgspec
import psutil

from app.core.engine_store import BUNDLED, OWN, Proof
from app.core.errors import NotFound, write_fault
from app.engine_store.durable import sync_folder, sync_tree, write_durably
from engines.api import EngineLocation, FailureKind

MANIFEST = "manifest.json"
STATE = "state.json"
STAGE = ".stage"
STAGE_VARIABLE = "ROUNDHOUSE_STAGE"
"""What programs that fill a stage carry in their environment, so that those a crash left behind can be told."""
PROVEN_LOADS = 3
"""After so many loads that went well a new version is no longer on probation."""


class VersionSource(msgspec.Struct, frozen=True, kw_only=True):
    """One file a version was made from."""

    name: str
    sha256: str = ""
    url: str = ""


class VersionManifest(msgspec.Struct, frozen=True, kw_only=True):
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
    sources: tuple[VersionSource, ...] = ()


class VersionState(msgspec.Struct, frozen=True, kw_only=True):
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


class VersionStore:
    """Every installed version. Safe to use from any thread; methods touch the disk unless they say otherwise."""

    def __init__(self, root: Path, is_preinstalled: Callable[[str], bool] = lambda _engine: True) -> None:
        """`is_preinstalled` tells whether an engine is here without having been installed."""
        self._root = root
        self._is_preinstalled = is_preinstalled
        self._lock = threading.RLock()
        self._states: dict[str, VersionState] = {}
        self._stages: set[str] = set()
        self.on_change: Callable[[str], None] = lambda _engine: None
        """Told, in whatever thread, that an engine's versions or its choice among them are others now."""

    def sweep_stages(self) -> int:
        """Remove what a killed process left half-made or half-removed; return how many folders that were."""
        stale_stages = [path for path in (self._root / STAGE).glob("*") if path.name not in self._stages]
        if stale_stages:
            _end_fillers({path.name for path in stale_stages})
        for path in stale_stages:
            shutil.rmtree(path, ignore_errors=True)
        return len(stale_stages)

    @contextlib.asynccontextmanager
    async def open_stage(self) -> AsyncIterator[Path]:
        """Have an empty folder to make a version in; what is in it when the block ends is removed."""
        folder = self._root / STAGE / secrets.token_hex(8)
        self._stages.add(folder.name)
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True)
            yield folder
        except OSError as error:
            raise write_fault(
                "the engine", error, action="installed", hint=f"Check permissions in {self._root}."
            ) from error
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            self._stages.discard(folder.name)

    def publish_version(self, folder: Path, manifest: VersionManifest) -> VersionManifest:
        """Make a staged folder a version and return its manifest as kept. One that is there is never replaced."""
        size = sync_tree(folder)
        home = self._root / manifest.engine
        with self._lock:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = _free_name(home, f"{manifest.version}-{manifest.variant}")
            published_manifest = msgspec.structs.replace(manifest, name=name, size_bytes=size, installed_at=time.time())
            write_durably(folder / MANIFEST, msgspec.json.encode(published_manifest))
            folder.rename(home / name)
            sync_folder(home)
        return published_manifest

    def list_manifests(self, engine: str) -> list[VersionManifest]:
        """Return an engine's versions that are whole, the oldest first."""
        manifests = (_load_manifest(path) for path in (self._root / engine).glob(f"*/{MANIFEST}"))
        return sorted(
            (manifest for manifest in manifests if manifest is not None),
            key=lambda manifest: (manifest.installed_at, manifest.name),
        )

    def read_manifest(self, engine: str, name: str) -> VersionManifest | None:
        """Return one version, None when it is not there."""
        return _load_manifest(self._root / engine / name / MANIFEST) if _is_plain(name) else None

    def version_folder(self, engine: str, name: str) -> Path:
        """Return where a version lies, or would."""
        return self._root / engine / name

    def find_place(self, engine: str, name: str) -> EngineLocation | None:
        """Return what an adapter looks at; None for what came with Roundhouse. Raises NotFound for what is gone."""
        if name == BUNDLED:
            return None
        if name == OWN:
            return self._own_place(engine)
        manifest = self.read_manifest(engine, name)
        if manifest is None:
            raise (
                _version_gone(engine, name)
                if name == self.read_state(engine).current
                else version_not_found(engine, name)
            )
        return place_of(self.version_folder(engine, name), manifest)

    def _own_place(self, engine: str) -> EngineLocation:
        program = Path(self.read_state(engine).own)
        if not program.is_file():
            raise NotFound(
                f"{program} is no longer there.", hint="Use another version of this engine.", code="engine_gone"
            )
        return own_place(program)

    def read_state(self, engine: str) -> VersionState:
        """Return which version is used; read from disk once."""
        with self._lock:
            if engine not in self._states:
                self._states[engine] = self._correct_state(engine, _read_state(self._root / engine / STATE))
            return self._states[engine]

    def _correct_state(self, engine: str, state: VersionState) -> VersionState:
        """Return a state that goes back to nothing that never was: the first version of most engines is installed."""
        if state.previous == BUNDLED and not self._is_preinstalled(engine):
            return msgspec.structs.replace(state, previous="")
        return state

    def change_state(self, engine: str, make: Callable[[VersionState], VersionState]) -> VersionState:
        """Replace an engine's state by what `make` returns for it, on disk first."""
        with self._lock:
            before = self.read_state(engine)
            state = self._correct_state(engine, make(before))
            if state == before:
                return state
            home = self._root / engine
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably(home / STATE, msgspec.json.encode(state))
            self._states[engine] = state
        self.on_change(engine)
        return state

    def remove_version(self, engine: str, name: str) -> None:
        """Remove a version; one that was used gives way to the previous. Raises NotFound."""
        with self._lock:
            if self.read_manifest(engine, name) is None:
                raise version_not_found(engine, name)
            self.change_state(engine, lambda before: _forget_version(before, name))
            self._discard_folder(self.version_folder(engine, name))
        self.on_change(engine)

    def _discard_folder(self, folder: Path) -> None:
        grave = self._root / STAGE / secrets.token_hex(8)
        grave.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.rename(grave)
        sync_folder(folder.parent)
        shutil.rmtree(grave, ignore_errors=True)


def place_of(folder: Path, manifest: VersionManifest) -> EngineLocation:
    """Return a version's folder as adapters want it; it may still be a stage."""
    return EngineLocation(
        folder=folder,
        version=manifest.version,
        backend=manifest.backend,
        python=folder / manifest.python if manifest.python else None,
        executable=folder / manifest.executable if manifest.executable else None,
    )


def own_place(program: Path) -> EngineLocation:
    """Return a program as adapters look at it."""
    return EngineLocation(folder=program.parent, version="", backend="", executable=program)


def interpreter_in(environment: Path) -> Path:
    """Return a virtual environment's interpreter."""
    return environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _load_manifest(path: Path) -> VersionManifest | None:
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=VersionManifest)
    except (OSError, msgspec.MsgspecError):
        return None
    return manifest if manifest.name == path.parent.name else None  # a folder that somebody copied or renamed


def _read_state(path: Path) -> VersionState:
    try:
        return msgspec.json.decode(path.read_bytes(), type=VersionState)
    except (OSError, msgspec.MsgspecError):  # none yet, or damaged from outside: what came with us is used
        return VersionState()


def _forget_version(state: VersionState, name: str) -> VersionState:
    is_used = state.current == name
    return msgspec.structs.replace(
        state,
        current=state.previous or BUNDLED if is_used else state.current,
        previous="" if is_used or state.previous == name else state.previous,
        proofs={key: proof for key, proof in state.proofs.items() if key != name},
        bad={key: why for key, why in state.bad.items() if key != name},
    )


def _free_name(home: Path, name: str) -> str:
    taken_names = {path.name for path in home.iterdir()}
    return next(
        candidate
        for number in itertools.count(1)
        if (candidate := name if number == 1 else f"{name}-{number}") not in taken_names
    )


def _is_plain(name: str) -> bool:
    return bool(name) and name not in {".", ".."} and not any(mark in name for mark in ("/", "\\", os.sep))


def version_not_found(engine: str, name: str) -> NotFound:
    """Return the error for a version nobody installed."""
    return NotFound(
        f"Version {name} of {engine} is not installed.",
        hint=f"`roundhouse engines list {engine}` lists those that are.",
        code="engine_version_not_found",
    )


def _version_gone(engine: str, name: str) -> NotFound:
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


_K = FailureKind

CERTAIN = frozenset({_K.MISSING_LIBRARY, _K.ILLEGAL_INSTRUCTION, _K.NOT_INSTALLED})
"""Ends that no model and no option brings about: the installation itself is broken, however long it has worked."""
LIKELY = CERTAIN | {_K.CRASHED, _K.BACKEND_CRASH, _K.STALLED, _K.TOO_SLOW, _K.BAD_FLAG, _K.DRIVER, _K.UNKNOWN}
"""Ends for which a version that has not shown yet that it can load is blamed, and not the model."""


def switch_version(state: VersionState, name: str) -> VersionState:
    """Return the state with another version in use; what was used before is what a roll-back returns to.

    One that failed goes on being marked, until a test or a load shows that it works.
    """
    if name == state.current:
        return state
    return msgspec.structs.replace(state, current=name, previous=state.current, loads=0)


def record_proof(state: VersionState, name: str, proof: Proof) -> VersionState:
    """Return the state with what a test showed. A bad version is not used, unless there is no other."""
    proofs = {**state.proofs, name: proof}
    updated_state = msgspec.structs.replace(state, proofs=proofs, bad=_remove_mark(state, name))
    return updated_state if proof.is_good else mark_broken(updated_state, name, proof.problem)


def mark_broken(state: VersionState, name: str, why: str) -> VersionState:
    """Return the state with a version marked as failing."""
    return msgspec.structs.replace(state, bad={**state.bad, name: why})


def _remove_mark(state: VersionState, name: str) -> dict[str, str]:
    return {key: why for key, why in state.bad.items() if key != name}


def is_on_probation(state: VersionState) -> bool:
    """Tell whether the version in use is new and there is another to return to."""
    return bool(state.previous) and state.loads < PROVEN_LOADS


def is_to_blame(state: VersionState, kind: str, *, was_ready: bool) -> bool:
    """Tell whether a failure speaks against the version rather than the model, and there is another to return to."""
    if not state.previous or state.previous in state.bad:
        return False
    if kind in CERTAIN:
        return not was_ready
    return is_on_probation(state) and kind in LIKELY


def roll_back(state: VersionState, why: str) -> VersionState:
    """Return the state with the previous version in use again, and the one that failed marked."""
    bad = {**_remove_mark(state, state.previous), state.current: why}
    return msgspec.structs.replace(state, current=state.previous or BUNDLED, previous="", loads=0, bad=bad)


def alternative_version(state: VersionState, names: Collection[str], tried_versions: Collection[str]) -> str:
    """Return another of the versions that work, for a model the one in use cannot run; empty when none is left.

    What was used before comes first, then what was proved last. A version that nobody has proved is not chosen for
    anybody, but for what came with Roundhouse.
    """
    untried_versions = [name for name in names if name not in {state.current, *tried_versions, *state.bad}]
    proofs = {name: proof.at for name, proof in state.proofs.items() if proof.is_good}
    known_good = [name for name in untried_versions if name in {state.previous, BUNDLED} or name in proofs]
    return max(known_good, key=lambda name: (name == state.previous, proofs.get(name, 0.0)), default="")


def record_load(state: VersionState) -> VersionState:
    """Return the state after the version in use has loaded a model: whatever was held against it is over."""
    loads = min(state.loads + 1, PROVEN_LOADS)
    return msgspec.structs.replace(state, loads=loads, bad=_remove_mark(state, state.current))
