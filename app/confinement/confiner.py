"""The rules for each launch of an engine, as a person's settings have it, and the folders that it needs for them."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from app.confinement.places import describe_machine, make_nvidia_node, model_paths, program_paths
from app.confinement.policy import LaunchFacts, confine_engine, own_environment, works_alone
from app.confinement.rules import ConfinementRules
from engines.api import Descriptor, EngineInstallation, LaunchOptions, LaunchPlan, ModelSource, ProcessSpec

SHORT_PREFIX = "/tmp/roundhouse-"  # noqa: S108 -- a folder of its own in it, 0700, for sockets with short names


class LaunchPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where one launch keeps its things: `short` is used instead of `scratch` for temporary files that need it."""

    scratch: Path
    short: Path
    port: int
    states: Path | None = None
    """Where it writes states of slots, if it does."""


class EngineConfinement(msgspec.Struct, frozen=True, kw_only=True):
    """What one launch is held to, and the environment that goes with it."""

    rules: ConfinementRules
    environment: Mapping[str, str]


class Confiner:
    """Says what each engine is held to. `homes` is where engines keep what they compile, a folder for each."""

    def __init__(self, homes: Path, is_wanted: Callable[[str], bool]) -> None:
        self._homes = homes
        self._is_wanted = is_wanted

    def confine(  # noqa: PLR0913 -- all that a launch is made of
        self,
        about: Descriptor,
        source: ModelSource,
        options: LaunchOptions,
        installation: EngineInstallation,
        *,
        plan: LaunchPlan,
        places: LaunchPlaces,
        inherited_environment: Mapping[str, str],
    ) -> EngineConfinement | None:
        """Return it, and make the folders; None where engines run free. Touches the disk. Raises OSError."""
        if sys.platform != "linux" or not plan.processes or not self._is_wanted(about.id):
            return None
        alone = works_alone(about, options)
        launch = LaunchFacts(
            about=about,
            options=options,
            backend=installation.backend,
            models=model_paths(source, options),
            programs=program_paths(installation, {**inherited_environment, **options.extra_env}),
            import_roots=import_roots(plan.processes),
            packages=packages_of(plan.processes),
            scratch=str(places.scratch.resolve()),
            home=str((self._homes / about.id).resolve()),
            short=str(places.scratch.resolve() / "tmp" if alone else places.short),
            states="" if places.states is None else str(places.states.resolve()),
            port=places.port,
        )
        rules = confine_engine(launch, describe_machine())
        if rules is None:
            return None
        make_nvidia_node()
        for folder in (launch.scratch, launch.home, launch.short):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        return EngineConfinement(rules=rules, environment=own_environment(launch))


def import_roots(processes: Sequence[ProcessSpec]) -> tuple[str, ...]:
    """Return the folders from which interpreters import what is not in their own environments."""
    return tuple(dict.fromkeys(root for spec in processes if (root := spec.env.get("PYTHONPATH", ""))))


def packages_of(processes: Sequence[ProcessSpec]) -> tuple[str, ...]:
    """Return the folders of our packages that the processes are started with."""
    modules = [(spec.env.get("PYTHONPATH", ""), _module_of(spec.argv)) for spec in processes]
    names = [f"{root}/{name}" for root, module in modules if root for name in ("engines", module.partition(".")[0])]
    return tuple(dict.fromkeys(name for name in names if not name.endswith("/")))


def _module_of(argv: Sequence[str]) -> str:
    return argv[argv.index("-m") + 1] if "-m" in argv[:-1] else ""


def short_folder(token: str) -> Path:
    """Return the folder for temporary files of a launch whose sockets need short names."""
    return Path(SHORT_PREFIX + token[:12])


def remove_short_folder(token: str) -> None:
    """Remove it, if there is one."""
    shutil.rmtree(short_folder(token), ignore_errors=True)
