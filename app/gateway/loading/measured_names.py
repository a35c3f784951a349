"""Names under which a model is loaded once more to be measured, so that what runs of it is left alone."""

from enum import StrEnum

import msgspec

from app.supervisor.policy import LoadRequest


class MeasuredAs(StrEnum):
    """What a model is loaded for besides, as it stands after its name."""

    BENCHMARK = " (benchmark)"
    """As it is set, with the context and slots of a workload."""
    SETTINGS = " (other settings)"
    """With settings that are tried."""
    TRIAL = " (trial)"
    """With a draft model, or without."""


def rename_load(load: LoadRequest, purpose: MeasuredAs) -> LoadRequest:
    """Return the load under the name that it has for this purpose."""
    source = msgspec.structs.replace(load.source, name=load.source.name + purpose)
    return msgspec.structs.replace(load, source=source)


def find_purpose(name: str) -> MeasuredAs | None:
    """Return what an engine of that name was loaded for; None for answering requests."""
    return next((purpose for purpose in MeasuredAs if name.endswith(purpose)), None)
