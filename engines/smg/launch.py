"""smg's adapter: one process that `engines.smg.worker` starts, so that no key stands on a command line."""

from collections.abc import Mapping, Sequence
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
from engines.clues import compile_clues
from engines.failure_texts import FailureText
from engines.failures import FailureReader
from engines.log_lines import read_line, stage_row
from engines.remedies import RemedyOptions
from engines.server_adapter import QUIET
from engines.smg.descriptor import DESCRIPTOR
from engines.smg.worker import SETTINGS
from engines.worker_launch import worker_process

_K = FailureKind
POLICIES = frozenset({"cache_aware", "round_robin", "random", "power_of_two", "prefix_hash"})
"""Its ways of choosing a replica that need nothing beside the request."""
USUAL = "cache_aware"

READER = FailureReader(
    name=DESCRIPTOR.name,
    means=RemedyOptions(),
    clues=compile_clues(
        (_K.PORT_IN_USE, (r"failed to bind .{0,200}address already in use",)),
        (_K.BAD_FLAG, (r"Configuration error: Validation failed",)),
    ),
    said=MappingProxyType(
        {
            _K.STALLED: FailureText(
                "{engine} found none of the fleet's replicas ready.",
                "`roundhouse fleet list` says what each of them answers.",
            )
        }
    ),
)
LOG = (
    stage_row(r"Starting server on ", "Looking for replicas"),
    stage_row(r"Activated \d+ of \d+ worker", "Ready"),
)


def command_arguments(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return smg's command line where nothing of ours starts it, in a container: a flag for each of its own names."""
    return tuple(word for name, value in {**settings, **SETTINGS}.items() for word in _flag_words(name, value))


def _flag_words(name: str, value: object) -> Sequence[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return (flag,)
    return (flag, *(value if isinstance(value, tuple) else (str(value),)))


class RouterAdapter:
    """`engines.api.EngineAdapter` for smg."""

    @property
    def descriptor(self) -> Descriptor:
        """What smg is."""
        return DESCRIPTOR

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:
        """Look at the environment in `place`."""
        if place is None or place.python is None:
            return Failure(
                kind=_K.NOT_INSTALLED,
                sentence="smg is not installed.",
                hint="`roundhouse engines install smg` installs it.",
            )
        return EngineInstallation(
            engine=DESCRIPTOR.id, version=place.version, backend=place.backend, python=place.python
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        """Return one router. Raises ValueError for a model that no replicas serve, or an unknown policy."""
        remote = model.remote
        if model.format not in DESCRIPTOR.formats or remote is None:
            raise ValueError(
                f"smg reads no {model.format.value} weights: it stands in front of endpoints that serve a model."
            )
        policy = remote.policy or USUAL
        if policy not in POLICIES:
            raise ValueError(f"smg has no policy {policy!r}. It has {', '.join(sorted(POLICIES))}.")
        config: Mapping[str, object] = {
            "host": net.host,
            "port": net.port,
            "policy": policy,
            "replicas": list(remote.replicas) or [remote.url.removesuffix("/v1")],
        }
        return LaunchPlan(
            processes=(
                worker_process(installation, "engines.smg.worker", config, net.key, env={**QUIET, **options.extra_env}),
            ),
            base_url=f"http://{net.host}:{net.port}/v1",  # as of any endpoint: its routes are below
            served_name=remote.served_as,
            readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/models", interval_s=0.2, stall_s=60.0, hard_s=90),
            stop=StopPlan(how=SoftStop.SIGTERM, grace_s=15.0),
            context=options.context,
            slots=options.slots,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        """Say what a line means."""
        return read_line(line, LOG, READER)

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end that was not asked for."""
        return READER.explain(end)


ADAPTER = RouterAdapter()
