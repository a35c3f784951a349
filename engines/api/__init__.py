"""The contract every engine adapter keeps. An engine is data (`Descriptor`) plus a small `Adapter`.

The adapter only computes: it turns a model and options into a `LaunchPlan`, reads log lines, and classifies ends. The
supervisor does what the plan says. Four launch families cover every engine we know; several processes in one plan
cover orchestrators (a frontend plus workers), started in order and stopped in reverse.
"""

from engines.api.about import Descriptor, Family, Feature, Gauge, Route
from engines.api.adapter import Adapter
from engines.api.failure import NEVER_RETRY_UNCHANGED, Failure, FailureKind, Remedy, RemedyKind
from engines.api.formats import ModelFormat
from engines.api.log import BufferAllocated, ContextSet, Exit, Listening, LogEvent, Progress, Suspicion
from engines.api.options import Draft, Installation, LaunchOptions, ModelSource, Net, Place, Remote
from engines.api.plan import FileToWrite, LaunchPlan, LeftOut, ProcessSpec, Readiness, ReadyWhen, SoftStop, Stop

__all__ = [
    "NEVER_RETRY_UNCHANGED",
    "Adapter",
    "BufferAllocated",
    "ContextSet",
    "Descriptor",
    "Draft",
    "Exit",
    "Failure",
    "FailureKind",
    "Family",
    "Feature",
    "FileToWrite",
    "Gauge",
    "Installation",
    "LaunchOptions",
    "LaunchPlan",
    "LeftOut",
    "Listening",
    "LogEvent",
    "ModelFormat",
    "ModelSource",
    "Net",
    "Place",
    "ProcessSpec",
    "Progress",
    "Readiness",
    "ReadyWhen",
    "Remedy",
    "RemedyKind",
    "Remote",
    "Route",
    "SoftStop",
    "Stop",
    "Suspicion",
]
