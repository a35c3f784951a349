"""The contract every engine adapter keeps. An engine is data (`Descriptor`) plus a small `EngineAdapter`.

The adapter only computes: it turns a model and options into a `LaunchPlan`, reads log lines, and classifies ends. The
supervisor does what the plan says. Four launch families cover every engine we know; several processes in one plan
cover orchestrators (a frontend plus workers), started in order and stopped in reverse.
"""

from engines.api.about import Descriptor, EngineFamily, Feature, Gauge, Route, SlotStates, WorkerRoutes
from engines.api.failure import (
    NEVER_RETRY_UNCHANGED,
    BufferAllocated,
    ContextSet,
    Exit,
    Failure,
    FailureKind,
    LoadProgress,
    LogEvent,
    PortOpened,
    Remedy,
    RemedyKind,
    Suspicion,
)
from engines.api.formats import ModelFormat
from engines.api.options import (
    Draft,
    EngineInstallation,
    EngineLocation,
    LaunchOptions,
    ListenOptions,
    ModelSource,
    RemoteEndpoint,
)
from engines.api.plan import (
    EngineAdapter,
    LaunchFile,
    LaunchPlan,
    OmittedOption,
    ProcessSpec,
    Readiness,
    ReadyWhen,
    SoftStop,
    StopPlan,
)

__all__ = [
    "NEVER_RETRY_UNCHANGED",
    "BufferAllocated",
    "ContextSet",
    "Descriptor",
    "Draft",
    "EngineAdapter",
    "EngineFamily",
    "EngineInstallation",
    "EngineLocation",
    "Exit",
    "Failure",
    "FailureKind",
    "Feature",
    "Gauge",
    "LaunchFile",
    "LaunchOptions",
    "LaunchPlan",
    "ListenOptions",
    "LoadProgress",
    "LogEvent",
    "ModelFormat",
    "ModelSource",
    "OmittedOption",
    "PortOpened",
    "ProcessSpec",
    "Readiness",
    "ReadyWhen",
    "Remedy",
    "RemedyKind",
    "RemoteEndpoint",
    "Route",
    "SlotStates",
    "SoftStop",
    "StopPlan",
    "Suspicion",
    "WorkerRoutes",
]
