"""What a person set for single models: one TOML file, a table for each, read once and written on every change.

As with the settings, a file with mistakes stops nothing: what is wrong is kept in `problems`, the rest counts.
"""

from pathlib import Path

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from app.config.private_files import save_private
from app.core.errors import StorageFault
from app.core.models import ModelSettings

_NOTHING = ModelSettings()


class ModelSettingsFile:
    """Settings by the name a model runs under. One owner: the gateway. Without a file they are kept in memory."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self.problems: list[str] = []
        self._settings = {} if file is None else self._read_file(file)

    def settings_of(self, model: str) -> ModelSettings:
        """Return what was set for a model."""
        return self._settings.get(model, _NOTHING)

    def all_settings(self) -> dict[str, ModelSettings]:
        """Return what was set for every model that anything was set for."""
        return dict(sorted(self._settings.items()))

    def change_settings(self, model: str, settings: ModelSettings) -> None:
        """Set what counts for a model. Raises StorageFault, and changes nothing, if it cannot be written."""
        changed = {**self._settings, model: settings}
        changed = {name: entry for name, entry in changed.items() if entry != _NOTHING}
        if self._file is not None:
            self._write_file(self._file, model, settings)
        self._settings = changed

    def _read_file(self, file: Path) -> dict[str, ModelSettings]:
        try:
            tables = tomlkit.parse(file.read_text(encoding="utf-8")).unwrap()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            self.problems.append(f"{file.name} cannot be read and is ignored: {error}")
            return {}
        return {
            name: parsed_table
            for name, table in tables.items()
            if (parsed_table := self._parse_table(name, table)) is not None
        }

    def _parse_table(self, model: str, table: object) -> ModelSettings | None:
        try:
            return msgspec.convert(table, ModelSettings)
        except msgspec.ValidationError as error:
            self.problems.append(f"The settings of {model} are ignored: {error}")
            return None

    @staticmethod
    def _write_file(file: Path, model: str, settings: ModelSettings) -> None:
        try:
            document = tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()
            document.pop(model, None)
            if settings != _NOTHING:
                document[model] = msgspec.to_builtins(settings)
        except (OSError, UnicodeDecodeError, TOMLKitError) as error:
            raise StorageFault(
                f"The settings of {model} could not be saved: {error}.", hint=f"Check {file}."
            ) from error
        save_private(file, tomlkit.dumps(document).encode(), f"the settings of {model}")
