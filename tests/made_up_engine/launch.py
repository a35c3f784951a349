"""The adapter of the made-up engine."""

from collections.abc import Sequence
from pathlib import Path

from engines.api import (
    Exit,
    Failure,
    Installation,
    LaunchOptions,
    LaunchPlan,
    LogEvent,
    ModelSource,
    Net,
    Place,
    ProcessSpec,
    Readiness,
    SoftStop,
    Stop,
)
from engines.failures import Reader
from engines.flags import Table, arguments, elsewhere, tasks, value
from engines.remedies import Means
from engines.worker_launch import own_python, worker_argv
from tests.made_up_engine.descriptor import DESCRIPTOR

TABLE = Table(
    engine=DESCRIPTOR.name,
    flags=(
        value("context", "--context"),
        value("slots", "--slots"),
        *map(elsewhere, ("threads", "sampling")),
        tasks({"chat": ()}),
    ),
    reserved=frozenset({"--port"}),
)
READER = Reader(name=DESCRIPTOR.name, means=Means())


class MadeUp:
    """`engines.api.Adapter` for the made-up engine."""

    descriptor = DESCRIPTOR
    table = TABLE

    def probe(self, place: Place | None = None) -> Installation | Failure:  # noqa: ARG002 -- it needs no place
        return Installation(
            engine=DESCRIPTOR.id,
            version="1",
            backend="cpu",
            python=own_python(),
            flags=frozenset({"--context", "--slots"}),
        )

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:
        if model.format not in DESCRIPTOR.formats:
            raise ValueError(f"{DESCRIPTOR.name} does not read {model.format.value} weights.")
        spoken = arguments(TABLE, options, found)
        server = ProcessSpec(
            role="server",
            argv=worker_argv(found, "tests.made_up_engine.server", str(net.port), *spoken.args),
            env={"PYTHONPATH": str(Path(__file__).resolve().parents[2]), **options.extra_env},
            secrets={"MADE_UP_KEY": net.key},
            stdin_lifeline=True,
        )
        return LaunchPlan(
            processes=(server,),
            base_url=f"http://{net.host}:{net.port}",
            served_name=model.name,
            readiness=Readiness(interval_s=0.02),
            stop=Stop(how=SoftStop.STDIN_EOF),
            context=options.context,
            slots=options.slots,
            left_out=spoken.left_out,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        suspicion = READER.suspect(line)
        return [] if suspicion is None else [suspicion]

    def classify_exit(self, end: Exit) -> Failure:
        return READER.explain(end)


ADAPTER = MadeUp()
