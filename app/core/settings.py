"""Settings as they travel: the row of the table and its present value."""

import msgspec

SettingValue = bool | int | float | str | list[str]


class SettingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `kind` is "bool", "int", "float", "text", "choice" or "list"; `source` says what set the value."""

    name: str
    section: str
    title: str
    help: str
    kind: str
    default: SettingValue
    value: SettingValue
    choices: list[str] = []
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    needs_restart: bool = False
    source: str = "default"
    """"default", "file" or "environment"; one set by the environment cannot be changed here."""
