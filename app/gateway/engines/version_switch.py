"""Which version of an engine is used: named by a person, tested where that is called for, and switched to.

A version that is here and has not failed is used at once. One that failed, a person's own program and one that is on
PATH have to pass their test first, in a job that can be called off.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from app.core.engine_store import OWN, EngineJob, EngineVersion, Proof, UseEngine
from app.core.errors import BadRequest, Conflict, EngineFailed, NotFound
from app.engine_store.catalogue import EngineCatalogue
from app.engine_store.environments import Progress
from app.engine_store.program_run import run_cancellable
from app.engine_store.version_store import (
    VersionState,
    own_place,
    record_proof,
    roll_back,
    switch_version,
    version_not_found,
)
from app.gateway.engines.engine_listing import versions_of
from app.gateway.engines.jobs import EngineJobs, JobOutcome
from app.gateway.engines.smoke_tests import SmokeTests
from app.supervisor.pool import Supervisor
from engines.api import EngineLocation, Failure

ProbeCallback = Callable[[], object]
"""Asks a program or an environment what it is: an `EngineInstallation` or a `Failure`."""


class VersionSwitch:
    """Switches between versions that are here. Belongs to the event loop."""

    def __init__(
        self, catalogue: EngineCatalogue, supervisor: Supervisor, jobs: EngineJobs, smoke_tests: SmokeTests
    ) -> None:
        self._catalogue = catalogue
        self._shelf = catalogue.shelf
        self._supervisor = supervisor
        self._jobs = jobs
        self._smoke_tests = smoke_tests

    async def use(self, engine: str, request: UseEngine) -> EngineJob | None:
        """Use another version from now on; return the job that tests it first, where there is one."""
        if request.path:
            return await self._use_own(engine, Path(request.path))
        version = await self.find_version(engine, request.version)
        if version.is_on_path:
            return await self._use_own(engine, Path(version.path))
        if version.problem and not request.force:
            return await self.prove_and_use(engine, version.name)
        await asyncio.to_thread(self._shelf.change_state, engine, lambda state: switch_version(state, version.name))
        await self.restart(engine)
        return None

    async def prove_and_use(self, engine: str, name: str, verb: str = "use") -> EngineJob:
        """Begin to test a version that is here, and to use it if it passes."""
        place = await asyncio.to_thread(self._shelf.find_place, engine, name)

        async def work(progress: Progress) -> JobOutcome:
            proofs = await self._collect_proofs(engine, place, name, progress)
            await asyncio.to_thread(self._shelf.change_state, engine, lambda state: with_proofs(state, name, proofs))
            _refuse_failed(
                f"{engine} {name}", proofs, hint=f"`roundhouse engines use {engine} {name} --force` uses it."
            )
            await asyncio.to_thread(self._shelf.change_state, engine, lambda state: switch_version(state, name))
            await self.restart(engine)
            return JobOutcome(version=name, proofs=proofs)

        return self._jobs.begin(engine, verb, work, version=name)

    async def _use_own(self, engine: str, program: Path) -> EngineJob:
        about = self._catalogue.adapters[engine].descriptor
        if not about.program:
            raise BadRequest(
                f"{about.name} cannot be used as a program of your own.",
                hint=f"`roundhouse engines list {engine}` lists the available versions.",
                code="no_own_program",
            )
        if not program.is_absolute() or not await asyncio.to_thread(program.is_file):
            raise BadRequest(
                f"{program} is not a program on this computer; give its full path.", code="no_such_program"
            )

        async def work(progress: Progress) -> JobOutcome:
            progress("Checking its version", None)
            await self._check_usable(
                str(program), partial(self._catalogue.own_programs.probe_program, engine, program, anew=True)
            )
            proofs = await self._run_smoke_tests(engine, own_place(program), progress)
            _refuse_failed(str(program), proofs)
            await asyncio.to_thread(self._shelf.change_state, engine, lambda state: _with_own(state, program, proofs))
            await self.restart(engine)
            return JobOutcome(version=OWN, proofs=proofs)

        return self._jobs.begin(engine, "use", work, version=OWN)

    async def roll_back(self, engine: str) -> None:
        """Use the version before. Raises Conflict when there is none, or none that works."""
        state = self._shelf.read_state(engine)
        if not state.previous:
            raise Conflict(f"There is no version of {engine} to go back to.", code="no_previous")
        if state.previous in state.bad:
            raise Conflict(
                f"{engine} {state.previous}, which was used before, failed: {state.bad[state.previous]}",
                hint=f"`roundhouse engines use {engine} {state.previous}` tests it again, and uses it if it works.",
                code="previous_failed",
            )
        await asyncio.to_thread(self._shelf.change_state, engine, lambda now: switch_version(now, now.previous))
        await self.restart(engine)

    async def test(self, engine: str, version_name: str) -> EngineJob:
        """Begin to prove a version that is here, the current one without a name."""
        version = await self.find_version(engine, version_name)
        name = version.name
        place = (
            own_place(Path(version.path))
            if version.is_on_path
            else await asyncio.to_thread(self._shelf.find_place, engine, name)
        )

        async def work(progress: Progress) -> JobOutcome:
            proofs = await self._collect_proofs(engine, place, name, progress)
            if not version.is_on_path:
                await asyncio.to_thread(
                    self._shelf.change_state, engine, lambda state: _state_after_test(state, name, proofs)
                )
            bad = _failure_error(f"{engine} {name} failed its test", proofs)
            return JobOutcome(version=name, proofs=proofs, error=bad.body if bad else None)

        return self._jobs.begin(engine, "test", work, version=name)

    async def find_version(self, engine: str, version_name: str) -> EngineVersion:
        """Return the version of that name or number, the current one without. Raises NotFound or BadRequest."""
        versions = await run_cancellable(partial(versions_of, self._catalogue, engine))
        name = version_name or self._shelf.read_state(engine).current
        exact = [version for version in versions if version.name == name]
        fitting_versions = exact or [version for version in versions if _is_called(version, name)]
        if not (fitting_versions or version_name):  # several may be here without one in use: the newest comes first
            fitting_versions = versions[:1]
        if len(fitting_versions) > 1:
            names = " and ".join(version.name for version in fitting_versions)
            raise BadRequest(f"{name} is the version of {names}: choose one of them.", code="ambiguous_version")
        if not fitting_versions:
            raise self._absence_error(engine, name) if not versions else version_not_found(engine, name)
        return fitting_versions[0]

    def _absence_error(self, engine: str, name: str) -> NotFound | EngineFailed:
        failure = self._catalogue.versioned[engine].probe()
        if isinstance(failure, Failure):
            return EngineFailed(failure.sentence, hint=failure.hint, code=failure.kind)
        return version_not_found(engine, name)

    async def restart(self, engine: str) -> None:
        """Have models that run on the old version loaded anew: when nobody uses them, by whoever asks next."""
        for status in self._supervisor.list_statuses():
            if status.engine == engine:
                await self._supervisor.expire_model(status.model)

    async def _collect_proofs(
        self, engine: str, place: EngineLocation | None, name: str, progress: Progress
    ) -> list[Proof]:
        """Return what a version showed. Raises EngineFailed for one that is not whole."""
        progress("Checking what is installed", None)
        looks_at = self._catalogue.versioned[engine] if place else self._catalogue.adapters[engine]
        await self._check_usable(f"{engine} {name}", partial(looks_at.probe, place))
        return await self._run_smoke_tests(engine, place, progress)

    async def _run_smoke_tests(self, engine: str, place: EngineLocation | None, progress: Progress) -> list[Proof]:
        return await self._smoke_tests.prove(engine, place, with_own_models=True, progress=progress)

    async def _check_usable(self, what: str, look: ProbeCallback) -> None:
        answer = await run_cancellable(look)
        if isinstance(answer, Failure):
            raise EngineFailed(f"{what} cannot be used: {answer.sentence}", hint=answer.hint, code=answer.kind)


def _is_called(version: EngineVersion, name: str) -> bool:
    """Tell whether a version is meant by its number, or a person's own program by what it is called on PATH."""
    return name == version.version or (version.name == OWN and name == Path(version.path).stem)


def _first_failure(proofs: Sequence[Proof]) -> Proof | None:
    return next((proof for proof in proofs if not proof.is_good), None)


def _failure_error(introduction: str, proofs: Sequence[Proof], hint: str = "") -> EngineFailed | None:
    """Return the error for a proof that failed, if one did."""
    failed_proof = _first_failure(proofs)
    if failed_proof is None:
        return None
    hints = " ".join(filter(None, (failed_proof.hint, hint)))
    return EngineFailed(
        f"{introduction}: {failed_proof.problem}", hint=hints, code=failed_proof.code, detail=failed_proof.log
    )


def _refuse_failed(what: str, proofs: Sequence[Proof], hint: str = "") -> None:
    bad = _failure_error(f"{what} is not in use", proofs, hint)
    if bad is not None:
        raise bad


def _with_own(state: VersionState, program: Path, proofs: Sequence[Proof]) -> VersionState:
    own = msgspec.structs.replace(state, own=str(program))
    return switch_version(with_proofs(own, OWN, proofs), OWN)


def _state_after_test(state: VersionState, name: str, proofs: Sequence[Proof]) -> VersionState:
    """Return the state with a test; the version in use gives way if it failed and the one before has not."""
    after = with_proofs(state, name, proofs)
    is_bad = name == state.current and name in after.bad
    if is_bad and state.previous and state.previous not in state.bad:
        return roll_back(after, after.bad[name])
    return after


def with_proofs(state: VersionState, name: str, proofs: Sequence[Proof]) -> VersionState:
    """Return the state with the first proof that failed, else the first."""
    return record_proof(state, name, _first_failure(proofs) or proofs[0]) if proofs else state
