"""Mutants that no test can or should notice, each with its reason: `equivalents.toml` beside this file."""

import tomllib
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("equivalents.toml")


class EquivalentMutant(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant as `Mutant.key` has it, and why it changes nothing that anybody could see."""

    path: str
    function: str = ""
    before: str
    after: str
    repeat: int = 0
    reason: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What `Mutant.key` is of the same mutant."""
        return (self.path, self.function, self.before, self.after, self.repeat)


def read_equivalents() -> list[EquivalentMutant]:
    """Return all of them."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8")).get("mutant", [])
    return msgspec.convert(entries, list[EquivalentMutant])
