"""How tokens are chosen where a request does not say: part of what an engine is told at its start."""

import msgspec

_CHOSEN = ("temperature", "top_p", "top_k", "min_p", "repeat_penalty")


class SamplingDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """How tokens are chosen for a request that does not say. None leaves it to the engine."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    is_all: bool = False
    """What the model's own files say beside these does not count."""

    @property
    def explicit_values(self) -> dict[str, float | int]:
        """What is said, by our names."""
        values_by_name = ((name, getattr(self, name)) for name in _CHOSEN)
        return {name: value for name, value in values_by_name if value is not None}
