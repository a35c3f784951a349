"""Make way for another program that needs memory, and come back when it needs it no more. Off unless a person wants it.

While less than `Policy.keep_free` of a memory is free, the idle engine that is worth least goes; a pinned or busy one
never does. What went so is loaded again once there has been room for it, and for what is to stay free, for a while; or
at once when somebody asks for it, which is the usual way of loading.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.supervisor.policy import LoadRequest
from app.supervisor.scheduling import Resident, engines_to_free

LOOK_S = 2.0
"""A game takes longer than this to load what it needs."""
CALM_S = 20.0
"""There must be room for so long before a model comes back: programs that load let go of memory in between."""


class UnloadedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that made way, and how it was loaded."""

    request: LoadRequest
    went_at: float


class MemoryPressure:
    """What has gone, and since when there is room again. Pure; times are monotonic seconds."""

    def __init__(self) -> None:
        self._unloaded: dict[str, UnloadedModel] = {}
        self._calm_since: float | None = None

    def models_to_stop(
        self, free: Mapping[str, int], keep_free: int, residents: Sequence[Resident], now: float
    ) -> list[str]:
        """Name the idle engines to stop now: those that hold memory there is too little of."""
        missing = {pool: float(keep_free - amount) for pool, amount in free.items() if amount < keep_free}
        if missing:
            self._calm_since = None
        if any(resident.is_leaving for resident in residents):  # what it frees is not seen yet
            return []
        return engines_to_free(residents, missing, now)

    def note_unloaded(self, model: str, request: LoadRequest, now: float) -> None:
        """Note that a model made way."""
        self._unloaded[model] = UnloadedModel(request=request, went_at=now)

    def note_loaded(self, model: str) -> None:
        """Note that a model was loaded again, or is not wanted back."""
        self._unloaded.pop(model, None)

    def model_to_load(self, free: Mapping[str, int], keep_free: int, now: float) -> LoadRequest | None:
        """Return the model to load again, if any: that which went last of those there has been room for."""
        fitting = [
            candidate for candidate in self._unloaded.values() if _leaves_room(candidate.request, free, keep_free)
        ]
        if not fitting:
            self._calm_since = None
            return None
        if self._calm_since is None:
            self._calm_since = now
        if now - self._calm_since < CALM_S:
            return None
        return max(fitting, key=lambda candidate: candidate.went_at).request


def _leaves_room(request: LoadRequest, free: Mapping[str, int], keep_free: int) -> bool:
    """Tell whether a model leaves free what is to stay free. One of unknown size waits until it is asked for."""
    if request.needs is None:
        return False
    return all(free.get(pool, 0) - size >= keep_free for pool, size in request.needs.pools.items())
