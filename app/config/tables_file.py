"""A TOML file with a table for each name, all of one type: read once and written on every change.

As with the settings, a file with mistakes stops nothing: what is wrong is kept in `problems`, the rest counts. Comments
and tables that are not changed stay as they are written.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.config.private_files import save_private
from app.core.errors import StorageFault

T = TypeVar("T", bound=msgspec.Struct)


class TablesFile(Generic[T]):
    """Values by name. One owner: the gateway. Without a file they are kept in memory."""

    def __init__(self, kind: type[T], file: Path | None, *, what: str) -> None:
        self._kind = kind
        self._file = file
        self._what = what
        self.problems: list[str] = []
        self.values: Mapping[str, T] = {} if file is None else self._read_file(file)

    def change_values(self, changes: Mapping[str, T | None]) -> None:
        """Keep values, or with None none, all or nothing. Raises StorageFault if the file cannot be written."""
        if self._file is not None:
            self._write_file(self._file, changes)
        merged_values = {**self.values, **changes}
        self.values = {name: value for name, value in merged_values.items() if value is not None}

    def _read_file(self, file: Path) -> dict[str, T]:
        try:
            tables = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            self.problems.append(f"{file.name} cannot be read and is ignored: {error}")
            return {}
        return {name: value for name, table in tables.items() if (value := self._parse_table(name, table)) is not None}

    def _parse_table(self, name: str, table: object) -> T | None:
        try:
            return msgspec.convert(table, self._kind)
        except msgspec.ValidationError as error:
            self.problems.append(f"{self._what} of {name} are ignored: {error}")
            return None

    def _write_file(self, file: Path, changes: Mapping[str, T | None]) -> None:
        names = ", ".join(changes)
        try:
            document = tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
            for name, value in changes.items():
                document.pop(name, None)
                if value is not None:
                    document[name] = msgspec.to_builtins(value)
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise StorageFault(
                f"{self._what} of {names} could not be saved: {error}.", hint=f"Check {file}."
            ) from error
        save_private(file, tomlkit.dumps(document).encode(), f"{self._what[0].lower()}{self._what[1:]} of {names}")
