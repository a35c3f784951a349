"""The adapter of an engine that brings its own server: everything about it is data in its `ServerRecipe`.

Its server runs in its own environment, as a module under `foreign_worker`: behind the launch key, and not for longer
than us.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from engines.api import (
    Descriptor,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    FailureKind,
    LaunchFile,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    Readiness,
    SoftStop,
    StopPlan,
)
from engines.failures import FailureReader
from engines.flags import FlagTable, build_arguments
from engines.log_lines import Row, read_line
from engines.program_probe import flags_of, on_path, output_of
from engines.worker_launch import foreign_process

QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}
"""Nothing is downloaded or reported behind our back, and log lines come when they are written."""

TEMPLATE = "chat_template.jinja"
"""In the launch's private folder, where the engine is started."""

Opening = Callable[[ModelSource, LaunchOptions, ListenOptions], Sequence[str]]


def template_file(options: LaunchOptions) -> tuple[LaunchFile, ...]:
    """Return the chat template as a file, for engines that take no text."""
    if options.chat_template is None:
        return ()
    return (LaunchFile(name=TEMPLATE, content=options.chat_template.encode()),)


class ServerRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """One engine. `opening` gives the arguments that Roundhouse decides; the table gives those of the options."""

    about: Descriptor
    table: FlagTable
    reader: FailureReader
    module: str
    opening: Opening
    distribution: str
    """What tells its version, in its environment."""
    program: str
    """Its command, where it is on PATH."""
    help_arguments: tuple[str, ...] = ("--help",)
    log: tuple[Row, ...] = ()
    readiness: Readiness = Readiness(interval_s=0.5, stall_s=600.0)
    stop: StopPlan = StopPlan(how=SoftStop.SIGTERM, grace_s=15.0)
    env: Mapping[str, str] = {}
    files: Callable[[LaunchOptions], tuple[LaunchFile, ...]] = template_file
    serves_as_path: bool = False
    """It calls the model by its path and cannot be told otherwise."""


class ServerAdapter:
    """`engines.api.EngineAdapter` from a recipe."""

    def __init__(self, recipe: ServerRecipe) -> None:
        self._recipe = recipe

    @property
    def descriptor(self) -> Descriptor:
        """What it is."""
        return self._recipe.about

    @property
    def flag_table(self) -> FlagTable:
        """How options become its flags."""
        return self._recipe.table

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the environment in `place`, and ask its flags once; else look at the command on PATH."""
        if place is not None and place.python is not None:
            return self._installation_in(place, place.python)
        command = on_path(self._recipe.program)
        python = _python_beside(command) if command else None
        if python is None:
            return self._not_installed_failure()
        version = output_of((str(python), "-c", _TELL_VERSION, self._recipe.distribution)).strip()
        # Its flags are not asked for: a help text of ten seconds would hold up every list of engines.
        return EngineInstallation(
            engine=self.descriptor.id, version=version, backend=self.descriptor.accelerators[0], python=python
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one server process. Raises ValueError with a sentence for options it cannot honour."""
        self._check(model)
        command_line = build_arguments(self._recipe.table, options, installation)
        args = (*self._recipe.opening(model, options, net), *command_line.args)
        env = {**QUIET, **self._recipe.env, **device_environment(options), **options.extra_env}
        return LaunchPlan(
            processes=(foreign_process(installation, self._recipe.module, args, net.key, env=env),),
            base_url=f"http://{net.host}:{net.port}",
            served_name=str(model.path) if self._recipe.serves_as_path else model.name,
            readiness=self._recipe.readiness,
            stop=StopPlan(how=SoftStop.STDIN_EOF) if sys.platform == "win32" else self._recipe.stop,
            files=self._recipe.files(options),
            context=options.context,
            slots=options.slots,
            left_out=command_line.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line means."""
        return read_line(line, self._recipe.log, self._recipe.reader)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return self._recipe.reader.explain(end)

    def _check(self, model: ModelSource) -> None:
        if model.format not in self.descriptor.formats:
            raise ValueError(f"{self.descriptor.name} does not read {model.format.value} weights.")

    def _installation_in(self, place: EngineLocation, python: Path) -> EngineInstallation:
        command = (str(python), "-P", "-m", self._recipe.module, *self._recipe.help_arguments)
        return EngineInstallation(
            engine=self.descriptor.id,
            version=place.version,
            backend=place.backend,
            python=python,
            flags=flags_of(command, place.folder),
        )

    def _not_installed_failure(self) -> Failure:
        return Failure(
            kind=FailureKind.NOT_INSTALLED,
            sentence=f"{self.descriptor.name} is not installed.",
            hint=self.descriptor.obtained
            or f"`roundhouse engines install {self.descriptor.id}` installs it where it can run.",
        )


_TELL_VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


def device_environment(options: LaunchOptions) -> Mapping[str, str]:
    """Return what shows an engine only some devices, whatever flags its version has for that."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(options.device_ids)} if options.device_ids else {}


def _python_beside(command: Path) -> Path | None:
    """Return the interpreter of the environment a command lies in."""
    for name in ("python", "python3", "python.exe"):
        python = command.resolve().parent / name
        if python.exists():
            return python
    return None
