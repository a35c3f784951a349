"""Which version of an engine is used: what a switch, a failure and a roll-back make of its state. Pure."""

from collections.abc import Collection

import msgspec

from app.core.engine_store import BUNDLED, Proof
from app.engine_store.version_store import PROVEN_LOADS, VersionState
from engines.api import FailureKind

_K = FailureKind

CERTAIN = frozenset({_K.MISSING_LIBRARY, _K.ILLEGAL_INSTRUCTION, _K.NOT_INSTALLED})
"""Ends that no model and no option brings about: the installation itself is broken, however long it has worked."""
LIKELY = CERTAIN | {_K.CRASHED, _K.BACKEND_CRASH, _K.STALLED, _K.TOO_SLOW, _K.BAD_FLAG, _K.DRIVER, _K.UNKNOWN}
"""Ends for which a version that has not shown yet that it can load is blamed, and not the model."""


def switch_version(state: VersionState, name: str) -> VersionState:
    """Return the state with another version in use; what was used before is what a roll-back returns to.

    One that failed goes on being marked, until a test or a load shows that it works.
    """
    if name == state.current:
        return state
    return msgspec.structs.replace(state, current=name, previous=state.current, loads=0)


def record_proof(state: VersionState, name: str, proof: Proof) -> VersionState:
    """Return the state with what a test showed. A bad version is not used, unless there is no other."""
    proofs = {**state.proofs, name: proof}
    updated = msgspec.structs.replace(state, proofs=proofs, bad=_remove_mark(state, name))
    return updated if proof.is_good else mark_broken(updated, name, proof.problem)


def mark_broken(state: VersionState, name: str, why: str) -> VersionState:
    """Return the state with a version marked as failing."""
    return msgspec.structs.replace(state, bad={**state.bad, name: why})


def _remove_mark(state: VersionState, name: str) -> dict[str, str]:
    return {key: why for key, why in state.bad.items() if key != name}


def is_on_probation(state: VersionState) -> bool:
    """Tell whether the version in use is new and there is another to return to."""
    return bool(state.previous) and state.loads < PROVEN_LOADS


def is_to_blame(state: VersionState, kind: str, *, was_ready: bool) -> bool:
    """Tell whether a failure speaks against the version rather than the model, and there is another to return to."""
    if not state.previous or state.previous in state.bad:
        return False
    if kind in CERTAIN:
        return not was_ready
    return is_on_probation(state) and kind in LIKELY


def roll_back(state: VersionState, why: str) -> VersionState:
    """Return the state with the previous version in use again, and the one that failed marked."""
    bad = {**_remove_mark(state, state.previous), state.current: why}
    return msgspec.structs.replace(state, current=state.previous or BUNDLED, previous="", loads=0, bad=bad)


def alternative_version(state: VersionState, names: Collection[str], tried: Collection[str]) -> str:
    """Return another of the versions that work, for a model the one in use cannot run; empty when none is left.

    What was used before comes first, then what was proved last. A version that nobody has proved is not chosen for
    anybody, but for what came with Roundhouse.
    """
    left = [name for name in names if name not in {state.current, *tried, *state.bad}]
    proofs = {name: proof.at for name, proof in state.proofs.items() if proof.is_good}
    known = [name for name in left if name in {state.previous, BUNDLED} or name in proofs]
    return max(known, key=lambda name: (name == state.previous, proofs.get(name, 0.0)), default="")


def record_load(state: VersionState) -> VersionState:
    """Return the state after the version in use has loaded a model: whatever was held against it is over."""
    loads = min(state.loads + 1, PROVEN_LOADS)
    return msgspec.structs.replace(state, loads=loads, bad=_remove_mark(state, state.current))
