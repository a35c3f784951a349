"""The adapter of the made-up engine."""

from collections.abc import Sequence
from pathlib import Path

from engines.api import (
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    ProcessSpec,
    Readiness,
    SoftStop,
    StopPlan,
)
from engines.failures import FailureReader
from engines.flags import FlagTable, build_arguments, no_flag, task_flag, value_flag
from engines.remedies import RemedyOptions
from engines.worker_launch import own_python, worker_argv
from tests.made_up_engine.descriptor import DESCRIPTOR

TABLE = FlagTable(
    engine=DESCRIPTOR.name,
    flags=(
        value_flag("context", "--context"),
        value_flag("slots", "--slots"),
        *map(no_flag, ("threads", "sampling")),
        task_flag({"chat": ()}),
    ),
    reserved=frozenset({"--port"}),
)
READER = FailureReader(name=DESCRIPTOR.name, means=RemedyOptions())


class MadeUp:
    """`engines.api.EngineAdapter` for the made-up engine."""

    descriptor = DESCRIPTOR
    flag_table = TABLE

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:  # noqa: ARG002 -- it needs no place
        return EngineInstallation(
            engine=DESCRIPTOR.id,
            version="1",
            backend="cpu",
            python=own_python(),
            flags=frozenset({"--context", "--slots"}),
        )

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"{DESCRIPTOR.name} does not read {model.format.value} weights.")
        arguments = build_arguments(TABLE, options, installation)
        server = ProcessSpec(
            role="server",
            argv=worker_argv(installation, "tests.made_up_engine.server", str(net.port), *arguments.args),
            env={"PYTHONPATH": str(Path(__file__).resolve().parents[2]), **options.extra_env},
            secrets={"MADE_UP_KEY": net.key},
            stdin_lifeline=True,
        )
        return LaunchPlan(
            processes=(server,),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            readiness=Readiness(interval_s=0.02),
            stop=StopPlan(how=SoftStop.STDIN_EOF),
            context=options.context,
            slots=options.slots,
            left_out=arguments.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        suspicion = READER.suspect(line)
        return [] if suspicion is None else [suspicion]

    def classify_exit(self, end: Exit) -> Failure:
        return READER.explain(end)


ADAPTER = MadeUp()
