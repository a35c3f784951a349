"""What a setting is: a row of the table (`app.config.table`), with its kind, default, limits and words."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.core.api import SettingValue


class SettingKind(StrEnum):
    """How a setting is written and shown."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    CHOICE = "choice"
    LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row. `check` returns what is wrong with a well-typed value, in a sentence, or an empty string."""

    name: str
    title: str
    help: str
    kind: SettingKind
    default: SettingValue
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    needs_restart: bool = False
    formerly: tuple[str, ...] = ()
    separator: str = ""
    """Between the items of a list, as it is typed in one piece."""
    check: Callable[[SettingValue], str] = lambda _value: ""

    @property
    def section(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def variable(self) -> str:
        """The environment variable that overrides it: `ROUNDHOUSE_GATEWAY_PORT` for `gateway.port`."""
        return "ROUNDHOUSE_" + self.name.replace(".", "_").upper()
