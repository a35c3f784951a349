"""What the supervisor does about a failed load by itself, as far as a person has said "do it for me". Pure.

A remedy changes options so that the load needs less, and each one only ever makes it need less: it ends.
"""

import msgspec

from app.core.engines import AppliedRemedy
from app.supervisor.policy import LoadRequest
from engines.api import Failure, RemedyKind

TRIES = 4
"""So many changes within one load: a context is halved four times at most, and then a person had better look."""

APPLICABLE = (
    RemedyKind.LESS_CONTEXT,
    RemedyKind.FEWER_SLOTS,
    RemedyKind.SMALLER_CACHE,
    RemedyKind.FEWER_LAYERS,
    RemedyKind.LESS_GPU_MEMORY,
)
"""Those that are options of a load; the others are for people."""


class AutoRemedy(msgspec.Struct, frozen=True, kw_only=True):
    """The load to try instead, and what was changed and why."""

    request: LoadRequest
    applied: AppliedRemedy


def apply_auto_remedy(request: LoadRequest, failure: Failure, allowed: frozenset[RemedyKind]) -> AutoRemedy | None:
    """Return the load with the first remedy that is allowed; None when none is, or none changes anything."""
    for remedy in failure.remedies:
        if remedy.kind not in allowed or not remedy.options:
            continue
        options = msgspec.structs.replace(request.options, **remedy.options)
        if options != request.options:
            sentence = f"{failure.sentence} Roundhouse did this: {remedy.label[0].lower()}{remedy.label[1:]}."
            applied = AppliedRemedy(kind=remedy.kind.value, sentence=sentence)
            return AutoRemedy(request=msgspec.structs.replace(request, options=options), applied=applied)
    return None
