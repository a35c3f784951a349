"""A frozen value as the key of a cache: by which object it is, not by what it holds."""

from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class IdentityKey(Generic[_Value]):
    """A value that compares by identity: what is frozen never changes, and comparing would cost what a cache saves."""

    __slots__ = ("value",)

    def __init__(self, value: _Value) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and other.value is self.value
