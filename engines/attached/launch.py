"""The adapter for endpoints that somebody else runs: a plan without processes.

Nothing is started and nothing is stopped; the supervisor asks whether the endpoint is there and lists the model.
"""

from collections.abc import Sequence

from engines.api import (
    Descriptor,
    EngineInstallation,
    EngineLocation,
    Exit,
    Failure,
    LaunchOptions,
    LaunchPlan,
    ListenOptions,
    LogEvent,
    ModelSource,
    Readiness,
    ReadyWhen,
)
from engines.attached.descriptor import DESCRIPTOR
from engines.failures import FailureReader
from engines.remedies import RemedyOptions

_READER = FailureReader(name=DESCRIPTOR.name, means=RemedyOptions())
_READINESS = Readiness(when=ReadyWhen.MODEL_LISTED, path="/models", interval_s=15.0, stall_s=30.0, hard_s=60.0)


class AttachedAdapter:
    """`engines.api.EngineAdapter` for an endpoint that runs already."""

    @property
    def descriptor(self) -> Descriptor:
        """What an endpoint is."""
        return DESCRIPTOR

    def probe(self, place: EngineLocation | None = None) -> EngineInstallation | Failure:  # noqa: ARG002 -- nothing is installed
        """Return that there is nothing to install."""
        return EngineInstallation(engine=DESCRIPTOR.id, version="", backend="")

    def plan(
        self,
        model: ModelSource,
        options: LaunchOptions,
        net: ListenOptions,  # noqa: ARG002 -- the contract's
        installation: EngineInstallation,  # noqa: ARG002 -- the contract's
    ) -> LaunchPlan:
        """Say where the endpoint is. Raises ValueError for a model that is no endpoint's."""
        if model.format not in DESCRIPTOR.formats or model.remote is None:
            raise ValueError(f"An attached endpoint serves no {model.format.value} files of this computer.")
        return LaunchPlan(
            processes=(),
            base_url=model.remote.url,
            served_name=model.remote.served_as,
            readiness=_READINESS,
            key_file=model.remote.key_file,
            context=options.context,
            slots=options.slots,
        )

    def read_log(self, line: str) -> Sequence[LogEvent]:  # noqa: ARG002 -- there is no log
        """Return nothing: what an endpoint writes is not seen here."""
        return ()

    def classify_exit(self, end: Exit) -> Failure:
        """Name the cause of an end; endpoints have none that is seen, so this is the words that all engines share."""
        return _READER.explain(end)


ADAPTER = AttachedAdapter()
