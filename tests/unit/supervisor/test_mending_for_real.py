"""A load that does not fit, with processes: changed until it does where that is wanted, else told with remedies."""

from collections.abc import AsyncIterator, Sequence

import pytest

from app.core.engines import EngineState
from app.core.errors import EngineFailed
from app.supervisor.pool import Supervisor, SupervisorFolders, SupervisorPolicy
from engines.api import (
    EngineInstallation,
    Exit,
    Failure,
    FailureKind,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    OmittedOption,
    RemedyKind,
)
from engines.failures import FailureReader
from engines.remedies import RemedyOptions
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.unit.supervisor.conftest import Ask, Recorder

FITS = 2048
READER = FailureReader(name="Fake engine", means=RemedyOptions())


class Tight(FakeAdapter):
    """An engine with room for a context of 2,048 tokens and one slot, whose sizes are told as real ones tell them."""

    def plan(
        self, model: ModelSource, options: LaunchOptions, net: ListenOptions, installation: EngineInstallation
    ) -> LaunchPlan:
        is_too_large = (options.context or 0) > FITS
        says = ("failed to allocate buffer for kv cache: cannot allocate memory",) if is_too_large else ()
        self.behaviours[model.name] = Behaviour(says=says, exit_code=1 if is_too_large else None)
        launch_plan = super().plan(model, options, net, installation)
        left_out = (OmittedOption(option="threads", sentence="Fake engine 1.0 has no --threads."),)
        return LaunchPlan(
            **{name: getattr(launch_plan, name) for name in launch_plan.__struct_fields__} | {"left_out": left_out}
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:
        suspicion = READER.suspect(line)
        return (suspicion,) if suspicion else ()

    def classify_exit(self, end: Exit) -> Failure:
        return READER.explain(end)


@pytest.fixture
def mends() -> frozenset[RemedyKind]:
    return frozenset()


@pytest.fixture
async def tight(
    folders: SupervisorFolders, recorder: Recorder, mends: frozenset[RemedyKind]
) -> AsyncIterator[Supervisor]:
    new_supervisor = Supervisor({"fake": Tight()}, folders, SupervisorPolicy(mends=mends), recorder.publish)
    yield new_supervisor
    await new_supervisor.close()


@pytest.mark.parametrize("mends", [frozenset({RemedyKind.LESS_CONTEXT})], ids=["wanted"])
async def test_it_is_loaded_with_what_fits_and_says_so(tight: Supervisor, ask: Ask) -> None:
    status = await tight.ensure_ready(ask(context=8192))
    assert (status.state, status.context) == (EngineState.READY, FITS)
    assert [note.partition(" Roundhouse did this: ")[2] for note in status.notes] == [
        "load with a context of 4,096 tokens.",
        "load with a context of 2,048 tokens.",
        "",
    ]
    assert status.notes[-1] == "Fake engine 1.0 has no --threads."


async def test_unasked_it_fails_with_the_remedy_the_line_and_the_command(tight: Supervisor, ask: Ask) -> None:
    with pytest.raises(EngineFailed) as error:
        await tight.ensure_ready(ask(context=8192))
    assert error.value.code == FailureKind.OUT_OF_MEMORY
    (status,) = tight.list_statuses()
    assert status.failure is not None
    assert status.failure.evidence.startswith("failed to allocate buffer for kv cache")
    first = status.failure.remedies[0]
    assert (first.kind, first.command) == ("less_context", "roundhouse load m --context 4096")
