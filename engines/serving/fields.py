"""Reading the fields of a request: each has a type and a range, and null is the same as nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from engines.serving.refusals import invalid_request


@dataclass(frozen=True, slots=True)
class RequestFields:
    """A JSON object whose fields are asked for by type. Every method raises Refused."""

    of: Mapping[str, object]

    def has(self, name: str) -> bool:
        """Whether a field is there and says something."""
        return self.of.get(name) not in (None, False, 0, "", [], {})

    def integer(self, name: str, *, least: int, most: int = 2**63 - 1) -> int | None:
        """Return a whole number within a range."""
        value = self.number(name, least=least, most=most)
        if value is not None and value != int(value):
            raise invalid_request(f"`{name}` must be a whole number.", name)
        return None if value is None else int(value)

    def number(self, name: str, *, least: float, most: float) -> float | None:
        """Return a number within a range."""
        value = self.of.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise invalid_request(f"`{name}` must be a number.", name)
        if not least <= value <= most:
            raise invalid_request(f"`{name}` must be from {least:g} to {most:g}.", name)
        return value

    def flag(self, name: str) -> bool:
        """Return a truth value; false if it is not there."""
        value = self.of.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise invalid_request(f"`{name}` must be true or false.", name)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.of.get(name)
        if value is None or isinstance(value, str):
            return value
        raise invalid_request(f"`{name}` must be a string.", name)

    def json_object(self, name: str) -> Mapping[str, object]:
        """Return an object; an empty one if it is not there."""
        value = self.of.get(name)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise invalid_request(f"`{name}` must be an object.", name)

    def objects(self, name: str) -> list[dict[str, object]]:
        """Return a list of objects; an empty one if it is not there."""
        value = self.of.get(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            return value
        raise invalid_request(f"`{name}` must be a list of objects.", name)

    def strings(self, name: str) -> Sequence[str]:
        """Return a list of strings; one alone counts as a list."""
        value = self.of.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list) and all(isinstance(text, str) for text in values):
            return [text for text in values if text]
        raise invalid_request(f"`{name}` must be a string or a list of strings.", name)

    def tokens(self, name: str) -> list[int] | None:
        """Return a list of token numbers; None if the field is something else."""
        value = self.of.get(name)
        if not isinstance(value, list) or not value:
            return None
        is_tokens = all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in value)
        return list(value) if is_tokens else None
