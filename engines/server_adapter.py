"""The adapter of an engine that brings its own server: everything about it is data in its `ServerRecipe`.

Its server runs in its own environment, as a module under `foreign_worker`: behind the launch key, and not for longer
than us.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from engines.api import (
    NETWORK_DEVICE,
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
    NodePlace,
    PrivateNetwork,
    Readiness,
    ReadyWhen,
    SoftStop,
    StopPlan,
)
from engines.failures import FailureReader
from engines.flags import FlagTable, build_arguments, trace_arguments, trace_environment
from engines.foreign_worker import ANSWERS_NOBODY
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


class BackendTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is told where one backend computes, beyond what it is told anywhere; what a person says counts."""

    arguments: tuple[str, ...] = ()
    single_arguments: tuple[str, ...] = ()
    """For one process alone: vLLM's for the processor fail where a model is cut over several."""
    env: Mapping[str, str] = {}
    threads_variable: str = ""
    """What tells it the number of threads."""
    memory_fraction: float | None = None
    """The share of memory it may take where nobody said one."""
    tokens_flag: str = ""
    """What tells it how many tokens its cache holds in all, where it would else fill what memory is free."""

    def complete_options(self, options: LaunchOptions) -> LaunchOptions:
        """Return the options with what nobody said."""
        if options.gpu_memory_fraction is not None:
            return options
        return msgspec.structs.replace(options, gpu_memory_fraction=self.memory_fraction)

    def build_arguments(self, options: LaunchOptions) -> tuple[str, ...]:
        """Return the arguments of its own."""
        is_single = options.tensor_parallel * options.pipeline_parallel == 1
        tokens = (options.context or 0) * options.slots if self.tokens_flag else 0
        return (
            *self.arguments,
            *(self.single_arguments if is_single else ()),
            *((self.tokens_flag, str(tokens)) if tokens else ()),
        )

    def build_environment(self, options: LaunchOptions) -> Mapping[str, str]:
        """Return its environment."""
        has_threads = bool(self.threads_variable and options.threads)
        return {**self.env, **({self.threads_variable: str(options.threads)} if has_threads else {})}


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
    terms: Mapping[str, BackendTerms] = {}
    """By backend; those without any are told nothing more."""
    files: Callable[[LaunchOptions], tuple[LaunchFile, ...]] = template_file
    node_environment: Callable[[NodePlace], Mapping[str, str]] = lambda _place: {}
    """What a process is told by its environment where each of several computers has one."""
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
        versions = output_of((str(python), "-c", _TELL_VERSIONS, self._recipe.distribution, "torch")).splitlines()
        version, torch = (*versions, "", "")[:2]
        # Its flags are not asked for: a help text of ten seconds would hold up every list of engines.
        return EngineInstallation(
            engine=self.descriptor.id, version=version, backend=self._backend_of(version, torch), python=python
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one server process. Raises ValueError with a sentence for options it cannot honour."""
        self._check(model)
        terms = self._recipe.terms.get(installation.backend, BackendTerms())
        options = terms.complete_options(options)
        command_line = build_arguments(self._recipe.table, options, installation)
        traces = trace_arguments(self.descriptor, options, installation)
        opening_arguments = self._recipe.opening(model, options, net)
        args = (*opening_arguments, *terms.build_arguments(options), *command_line.args, *traces.args)
        own = {**QUIET, **self._recipe.env, **terms.build_environment(options)}
        own |= trace_environment(self.descriptor, options)
        own |= self._describe_node(options.node)
        env = {**own, **device_environment(options), **options.extra_env}
        return LaunchPlan(
            processes=(foreign_process(installation, self._recipe.module, args, net.key, env=env),),
            base_url=f"http://{net.host}:{net.port}",
            served_name=str(model.path) if self._recipe.serves_as_path else model.name,
            readiness=self._recipe.readiness if _answers(options.node) else _PART_READINESS,
            stop=StopPlan(how=SoftStop.STDIN_EOF) if sys.platform == "win32" else self._recipe.stop,
            files=self._recipe.files(options),
            context=options.context,
            slots=options.slots,
            left_out=(*command_line.left_out, *traces.left_out),
            network=_private_network(options.node, net),
        )

    def _describe_node(self, place: NodePlace | None) -> Mapping[str, str]:
        if place is None:
            return {}
        silence = {} if _answers(place) else {ANSWERS_NOBODY: "1"}
        return {**_NODE_ENVIRONMENT, **self._recipe.node_environment(place), **silence}

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

    def _backend_of(self, *versions: str) -> str:
        """Return what a build computes with, as its version or PyTorch's says behind a plus: "0.32.0+cpu"."""
        labels = [version.partition("+")[2] for version in versions]
        accelerators = self.descriptor.accelerators
        labelled_accelerators = (
            name for label in labels for name in accelerators if label.startswith(_LABELS.get(name, name))
        )
        return next(labelled_accelerators, accelerators[0])

    def _not_installed_failure(self) -> Failure:
        return Failure(
            kind=FailureKind.NOT_INSTALLED,
            sentence=f"{self.descriptor.name} is not installed.",
            hint=self.descriptor.obtained
            or f"`roundhouse engines install {self.descriptor.id}` installs it where it can run.",
        )


RENDEZVOUS_PORT = 29500
"""Where the processes on several computers find each other, in a network that has nobody else."""
_NODE_ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": NETWORK_DEVICE,
    "NCCL_SOCKET_IFNAME": NETWORK_DEVICE,
    "NCCL_IB_DISABLE": "1",  # InfiniBand would go past the network that is carried for them, and unprotected
    "TP_SOCKET_IFNAME": NETWORK_DEVICE,
}
"""For the libraries by which processes on several computers talk."""
_PART_READINESS = Readiness(when=ReadyWhen.CONNECTS, interval_s=0.1, stall_s=1800.0)
"""Of a process that holds a part: it was started. Whether it can compute its first one finds out."""


def _answers(place: NodePlace | None) -> bool:
    return place is None or place.rank == 0


def _private_network(place: NodePlace | None, net: ListenOptions) -> PrivateNetwork | None:
    if place is None:
        return None
    return PrivateNetwork(address=place.address, host=net.host, port=net.port, descriptor=place.descriptor)


_TELL_VERSIONS = """
import importlib.metadata, sys
for name in sys.argv[1:]:
    try:
        print(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        print()
"""
_LABELS = {"cuda": "cu"}
"""Backends that builds call by other names than ours: PyTorch's "+cu130"."""


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
