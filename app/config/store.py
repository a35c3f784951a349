"""Read and change settings: default, then the TOML file, then the environment, which wins and cannot be changed here.

A file with mistakes never stops the program: what is wrong is kept in `problems`, the rest counts, and the file is
left as it is until a setting is changed, when unknown lines and comments stay (tomlkit).
"""

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.config.private_files import save_private
from app.config.setting import Setting, SettingKind
from app.config.table import BY_NAME, SETTINGS
from app.core.api import SettingInfo, SettingValue
from app.core.errors import BadRequest, Conflict, NotFound, StorageFault, quote_value

_TYPES: dict[SettingKind, tuple[type, ...]] = {
    SettingKind.BOOL: (bool,),
    SettingKind.INT: (int,),
    SettingKind.FLOAT: (float, int),
    SettingKind.TEXT: (str,),
    SettingKind.CHOICE: (str,),
    SettingKind.LIST: (list,),
}
_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class SettingsStore:
    """The present value of every row of the table. One owner: the gateway."""

    def __init__(self, file: Path, environ: Mapping[str, str] | None = None) -> None:
        self._file = file
        self._environ = os.environ if environ is None else environ
        self.problems: list[str] = []
        self._from_file = self._read_file()
        self._from_environment = self._read_environment()
        self._present = self._merge_sources()

    def get(self, name: str) -> SettingValue:
        """Return a setting's present value. Raises NotFound for a name the table lacks."""
        return self._present[name] if name in self._present else self._present[find_setting(name).name]

    def is_chosen(self, name: str) -> bool:
        """Tell whether somebody chose a value, rather than the default counting."""
        row = find_setting(name)
        return row.name in self._from_environment or row.name in self._from_file

    def get_int(self, name: str) -> int:
        """Return a setting of kind INT."""
        value = self.get(name)
        assert isinstance(value, int)  # noqa: S101 -- the table's kind guarantees it
        return value

    def get_text(self, name: str) -> str:
        """Return a setting of kind TEXT or CHOICE."""
        value = self.get(name)
        assert isinstance(value, str)  # noqa: S101 -- the table's kind guarantees it
        return value

    def get_flag(self, name: str) -> bool:
        """Return a setting of kind BOOL."""
        return (self._present[name] if name in self._present else self.get(name)) is True

    def get_list(self, name: str) -> list[str]:
        """Return a setting of kind LIST."""
        value = self.get(name)
        assert isinstance(value, list)  # noqa: S101 -- the table's kind guarantees it
        return value

    def describe_all(self) -> list[SettingInfo]:
        """Return every row with its value and what set it, in table order."""
        return [self._describe_row(row) for row in SETTINGS]

    def change_values(self, changes: Mapping[str, SettingValue | None]) -> list[str]:
        """Set or, with None, reset settings, all or none, and write the file. Return the names that changed.

        Raises NotFound, BadRequest or Conflict before anything is written; StorageFault if writing fails.
        """
        checked_values = {
            find_setting(name).name: self._accept_value(find_setting(name), value) for name, value in changes.items()
        }
        before = {name: self.get(name) for name in checked_values}
        merged_values = {**self._from_file, **checked_values}
        self._write_file(checked_values)
        self._from_file = {name: value for name, value in merged_values.items() if value is not None}
        self._present = self._merge_sources()
        return [name for name, old in before.items() if self.get(name) != old]

    def _merge_sources(self) -> dict[str, SettingValue]:
        return {row.name: row.default for row in SETTINGS} | self._from_file | self._from_environment

    def _accept_value(self, row: Setting, value: SettingValue | None) -> SettingValue | None:
        if row.name in self._from_environment:
            raise Conflict(
                f"{row.title} is set by the environment variable {row.variable}.", hint="Unset that variable first."
            )
        return None if value is None else validate_setting(row, value)

    def _describe_row(self, row: Setting) -> SettingInfo:
        source = "default"
        if row.name in self._from_environment:
            source = "environment"
        elif row.name in self._from_file:
            source = "file"
        return SettingInfo(
            name=row.name,
            section=row.section,
            title=row.title,
            help=row.help,
            kind=row.kind.value,
            default=row.default,
            value=self.get(row.name),
            choices=list(row.choices),
            minimum=row.minimum,
            maximum=row.maximum,
            unit=row.unit,
            needs_restart=row.needs_restart,
            source=source,
        )

    def _read_file(self) -> dict[str, SettingValue]:
        try:
            document = tomlkit.parse(self._file.read_text(encoding="utf-8")).unwrap()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            self.problems.append(f"{self._file.name} cannot be read and is ignored: {error}")
            return {}
        return self._check_values({f"{section}.{key}": value for section, key, value in _flatten_sections(document)})

    def _read_environment(self) -> dict[str, SettingValue]:
        texts = {row.name: self._environ[row.variable] for row in SETTINGS if row.variable in self._environ}
        return self._check_values({name: parse_setting(BY_NAME[name], text) for name, text in texts.items()})

    def _check_values(self, values: Mapping[str, object]) -> dict[str, SettingValue]:
        accepted_values: dict[str, SettingValue] = {}
        for name, value in values.items():
            try:
                row = find_setting(name)
                accepted_values[row.name] = validate_setting(row, value)
            except (NotFound, BadRequest) as error:
                self.problems.append(f"{name} is ignored: {error}")
        return accepted_values

    def _write_file(self, changes: Mapping[str, SettingValue | None]) -> None:
        try:
            document = self._read_document()
            for name, value in changes.items():
                section, _, key = name.partition(".")
                table = document.setdefault(section, tomlkit.table())
                if not isinstance(table, MutableMapping):
                    raise TOMLKitError(f"{section} is not a section")  # noqa: TRY301 -- said like its other mistakes
                if value is None:
                    table.pop(key, None)
                else:
                    table[key] = value
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise StorageFault(
                f"The settings could not be saved: {error}.", hint=f"Check the file {self._file}."
            ) from error
        save_private(self._file, tomlkit.dumps(document).encode(), "the settings")

    def _read_document(self) -> tomlkit.TOMLDocument:
        try:
            return tomlkit.parse(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return tomlkit.document()


def find_setting(name: str) -> Setting:
    """Return the row called `name`, now or formerly. Raises NotFound."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise NotFound(
            f"There is no setting called {quote_value(name)}.", hint="`roundhouse settings` lists them."
        ) from None


def parse_setting(row: Setting, text: str) -> object:
    """Turn what was typed or exported into the row's type; text that does not fit is returned as it is."""
    if row.kind is SettingKind.BOOL:
        return _WORDS.get(text.strip().lower(), text)
    if row.kind is SettingKind.LIST:
        return [part.strip() for part in text.split(row.separator) if part.strip()]
    if row.kind in (SettingKind.INT, SettingKind.FLOAT):
        try:
            return int(text) if row.kind is SettingKind.INT else float(text)
        except ValueError:
            return text
    return text


def validate_setting(row: Setting, value: object) -> SettingValue:
    """Return `value` if the row allows it. Raises BadRequest with a sentence that names the setting."""
    is_right_type = isinstance(value, _TYPES[row.kind]) and (
        row.kind is SettingKind.BOOL or not isinstance(value, bool)
    )
    if not is_right_type or (isinstance(value, list) and not all(isinstance(item, str) for item in value)):
        raise BadRequest(f"{row.title} ({row.name}) takes {_describe_type(row)}, not {quote_value(value)}.")
    accepted_value: SettingValue = value  # type: ignore[assignment]  # checked against the table on the lines above
    problem = _range_problem(row, accepted_value) or row.check(accepted_value)
    if problem:
        raise BadRequest(problem)
    return accepted_value


def _range_problem(row: Setting, value: SettingValue) -> str:
    if row.choices and value not in row.choices:
        return f"{row.title} ({row.name}) must be one of {', '.join(row.choices)}, not {quote_value(value)}."
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = row.minimum, row.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            return f"{row.title} ({row.name}) must be between {low:g} and {high:g}, not {quote_value(value)}."
    return ""


def _describe_type(row: Setting) -> str:
    words = {
        SettingKind.BOOL: "true or false",
        SettingKind.INT: "a whole number",
        SettingKind.FLOAT: "a number",
        SettingKind.LIST: "a list of strings",
    }
    return words.get(row.kind, "text")


def _flatten_sections(document: Mapping[str, object]) -> list[tuple[str, str, object]]:
    return [
        (section, key, value)
        for section, table in document.items()
        if isinstance(table, dict)
        for key, value in table.items()
    ]
