"""Read GGUF metadata without believing it: every number is bounded, and a value of the wrong type counts as absent.

Configurations of other formats are first put into these same keys, so that one set of rules describes the layers.
"""

from collections.abc import Mapping, Sequence

from app.hub.gguf.values import Value, corrupt_error

__all__ = ["MAX_COUNT", "MAX_LAYERS", "Metadata", "Value"]

MAX_LAYERS = 1024
"""Twice llama.cpp's LLAMA_MAX_LAYERS (512)."""
MAX_COUNT = (1 << 31) - 1
"""No width, count or context comes near; llama.cpp keeps them in 32 bits."""


class Metadata:
    """The values of one model; keys are asked for without the architecture in front."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values
        self.architecture = self._general_value("general.architecture")
        self.block_count = self.read_number("block_count")
        if self.block_count > MAX_LAYERS:
            raise corrupt_error("it claims more layers than any model has")

    def has_key(self, key: str) -> bool:
        """Whether the architecture states this."""
        return f"{self.architecture}.{key}" in self.values

    def read_number(self, key: str, default: int = 0) -> int:
        """Return a count or width; the first of a per-layer list. Raises BadRequest for an impossible one."""
        value = self._raw_value(key)
        if isinstance(value, list):
            value = value[0] if value else None
        return default if value is None else _check_number(value, default)

    def read_flag(self, key: str, *, default: bool = False) -> bool:
        """Return a yes or no."""
        value = self._raw_value(key)
        return bool(value) if isinstance(value, bool | int) else default

    def per_layer(self, key: str, default: int | Sequence[int] = 0) -> list[int]:
        """Return one number per block from a number or a list; a short list ends in zeros, as in llama.cpp."""
        value = self._raw_value(key)
        if isinstance(value, list):
            numbers = [_check_number(item, 0) for item in value[: self.block_count]]
            return numbers + [0] * (self.block_count - len(numbers))
        if value is None and isinstance(default, Sequence):
            return list(default)
        plain = default if isinstance(default, int) else 0
        return [plain if value is None else _check_number(value, plain)] * self.block_count

    def is_list(self, key: str) -> bool:
        """Whether a value is given layer by layer."""
        return isinstance(self._raw_value(key), list)

    def _raw_value(self, key: str) -> Value | None:
        return self.values.get(f"{self.architecture}.{key}")

    def _general_value(self, key: str) -> str:
        value = self.values.get(key, "")
        return value if isinstance(value, str) else ""


def _check_number(value: object, default: int) -> int:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, int):
        return default
    if not 0 <= value <= MAX_COUNT:
        raise corrupt_error("it states an impossible number")
    return value
