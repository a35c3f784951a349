"""Whether an engine can be had for a machine: which of its builds Roundhouse installs there, and what to do if none."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from app.advisor.choosing.engine_table import NOWHERE, EngineTable, EngineTraits
from app.advisor.choosing.targets import find_target, processor_architecture
from app.core.machine import Machine
from engines.api.support import EngineSupport
from engines.api.traits import LINUX, WINDOWS, EngineAbility, EngineTarget

_BACKENDS = {
    "cuda": "NVIDIA cards (CUDA)",
    "rocm": "AMD cards (ROCm)",
    "vulkan": "GPUs by way of Vulkan",
    "metal": "Apple silicon (Metal)",
    "directml": "GPUs by way of DirectML",
    "gpu": "Intel GPUs",
    "npu": "NPUs",
    "cpu": "processors",
}
_WSL_STEPS = (
    "Install WSL 2: run `wsl --install -d Ubuntu-24.04` in PowerShell as administrator, then restart Windows.",
    "In Ubuntu, install Roundhouse for Linux and run `roundhouse engines install {engine}`.",
    "Start it there with `roundhouse up`; programs on Windows reach it at the same address, on localhost.",
)
_ATTACH_STEP = "Run it yourself, for instance in a container, and attach it: `roundhouse attach http://ADDRESS`."


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
    """One way an engine is installed. Systems and architectures are named as in `engines.api.traits`."""

    backend: str
    systems: frozenset[str]
    architectures: frozenset[str]
    problem: str = ""
    """Why this very machine cannot run it, in a sentence: a driver or C library that is too old."""


Builds = Mapping[str, Sequence[EngineBuild]]
"""The builds of every engine by its id; of an engine that is not named there are none."""


def table_for(engines: EngineTable, machine: Machine, builds: Builds) -> EngineTable:
    """Return the engines as they can be had for this machine: with the targets that a build exists for.

    An engine without such a target keeps its own, and `EngineTraits.missing` says what it lacks.
    """
    return EngineTable(_engine_for(engine, machine, builds.get(engine.id, ())) for engine in engines.values())


def with_support(engines: EngineTable, supports: Mapping[str, EngineSupport]) -> EngineTable:
    """Return the engines with what the versions that are here load."""
    return EngineTable(_attach_support(engine, supports.get(engine.id)) for engine in engines.values())


@lru_cache(maxsize=256)  # as below
def _attach_support(engine: EngineTraits, support: EngineSupport | None) -> EngineTraits:
    return engine if support is None else msgspec.structs.replace(engine, support=support)


def _engine_for(engine: EngineTraits, machine: Machine, builds: Sequence[EngineBuild]) -> EngineTraits:
    target = find_target(machine, engine)
    if target is NOWHERE:
        steps = _wsl_steps(engine, machine, builds) if EngineAbility.WSL in engine.abilities else ()
        return _with_obstacle(engine, (), steps) if steps else engine
    fitting_builds = [build for build in builds if _is_for(build, machine)]
    backends = {build.backend for build in fitting_builds if not build.problem}
    targets = tuple(candidate for candidate in engine.targets if candidate.backend in backends)
    narrowed_engine = engine if targets == engine.targets else _with_targets(engine, targets)
    if find_target(machine, narrowed_engine) is not NOWHERE:
        return narrowed_engine
    problem = next((build.problem for build in fitting_builds if build.backend == target.backend), "")
    if problem:
        return _with_obstacle(engine, (f"{engine.name}: {problem}",), ())
    return _with_obstacle(engine, (_no_build(engine, target, machine),), _steps(engine, machine, builds))


@lru_cache(maxsize=256)  # traits are told apart by identity, and what is computed with them is kept by it
def _with_targets(engine: EngineTraits, targets: tuple[EngineTarget, ...]) -> EngineTraits:
    return msgspec.structs.replace(engine, targets=targets)


@lru_cache(maxsize=256)
def _with_obstacle(engine: EngineTraits, missing_parts: tuple[str, ...], steps: tuple[str, ...]) -> EngineTraits:
    return msgspec.structs.replace(engine, missing=missing_parts, steps=steps)


def _is_for(build: EngineBuild, machine: Machine) -> bool:
    return machine.os.name.value in build.systems and processor_architecture(machine) in build.architectures


def _no_build(engine: EngineTraits, target: EngineTarget, machine: Machine) -> str:
    system = machine.os.name.value or "this system"
    processor = processor_architecture(machine) or machine.os.architecture.value or "an unknown processor"
    devices = _BACKENDS.get(target.backend, target.backend)
    return f"Roundhouse has no build of {engine.name} for {devices} on {system} ({processor})."


def _steps(engine: EngineTraits, machine: Machine, builds: Sequence[EngineBuild]) -> tuple[str, ...]:
    return _wsl_steps(engine, machine, builds) or (*filter(None, (engine.obtained,)), _ATTACH_STEP)


def _wsl_steps(engine: EngineTraits, machine: Machine, builds: Iterable[EngineBuild]) -> tuple[str, ...]:
    """Return how to run the engine's build for Linux under Windows, which passes NVIDIA's cards through."""
    if machine.os.name.value != WINDOWS or not any(gpu.vendor == "nvidia" for gpu in machine.gpus):
        return ()
    architecture = processor_architecture(machine)
    has_build = any(
        build.backend == "cuda" and LINUX in build.systems and architecture in build.architectures for build in builds
    )
    return tuple(step.format(engine=engine.id) for step in _WSL_STEPS) if has_build else ()
