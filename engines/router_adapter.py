"""What routers have in common: one process that a worker of ours starts, so that no key stands on a command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from engines.api import (
    Descriptor,
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
    Readiness,
    ReadyWhen,
    SoftStop,
    StopPlan,
)
from engines.clues import Clue
from engines.failure_texts import FailureText
from engines.failures import FailureReader
from engines.log_lines import Row, read_line
from engines.remedies import RemedyOptions
from engines.server_adapter import QUIET
from engines.worker_launch import read_worker_line, worker_process

USUAL = "cache_aware"
"""Which way of choosing a replica is taken where nobody says: a conversation goes where its beginning is cached."""


def router_failures(name: str, clues: Sequence[Clue]) -> FailureReader:
    """Return what explains how a router ended."""
    no_replica = FailureText(
        "{engine} found none of the fleet's replicas ready.", "`roundhouse fleet list` says what each of them answers."
    )
    return FailureReader(
        name=name,
        means=RemedyOptions(),
        clues=tuple(clues),
        texts=MappingProxyType({FailureKind.STALLED: no_replica}),
    )


@dataclass(frozen=True, kw_only=True)
class RouterAdapter:
    """`engines.api.EngineAdapter` for a router. `policies` are its ways of choosing that need only the request."""

    descriptor: Descriptor
    worker: str
    policies: frozenset[str]
    reader: FailureReader
    log: tuple[Row, ...]

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the environment in `place`."""
        about = self.descriptor
        if place is None or place.python is None:
            return Failure(
                kind=FailureKind.NOT_INSTALLED,
                sentence=f"{about.name} is not installed.",
                hint=f"`roundhouse engines install {about.id}` installs it.",
            )
        return EngineInstallation(engine=about.id, version=place.version, backend=place.backend, python=place.python)

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one router. Raises ValueError for a model that no replicas serve, or an unknown policy."""
        name, remote = self.descriptor.name, model.remote
        if model.format not in self.descriptor.formats or remote is None:
            raise ValueError(
                f"{name} reads no {model.format.value} weights: it stands in front of endpoints that serve a model."
            )
        policy = remote.policy or USUAL
        if policy not in self.policies:
            raise ValueError(f"{name} has no policy {policy!r}. It has {', '.join(sorted(self.policies))}.")
        config: Mapping[str, object] = {
            "host": net.host,
            "port": net.port,
            "policy": policy,
            "replicas": list(remote.replicas) or [remote.url.removesuffix("/v1")],
        }
        return LaunchPlan(
            processes=(worker_process(installation, self.worker, config, net.key, env={**QUIET, **options.extra_env}),),
            base_url=f"http://{net.host}:{net.port}/v1",  # as of any endpoint: its routes are below
            served_name=remote.served_as,
            readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/models", interval_s=0.2, stall_s=60.0, hard_s=90),
            stop=StopPlan(how=SoftStop.SIGTERM, grace_s=15.0),
            context=options.context,
            slots=options.slots,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line means."""
        events = read_worker_line(line)
        return read_line(line, self.log, self.reader) if events is None else events

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return self.reader.explain(end)
