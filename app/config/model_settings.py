"""What a person set for single models, in a file with a table for each; and what counts while a profile is active.

A profile's pin and context go before what was set for the model, and nothing of it gets into the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from app.config.tables_file import TablesFile
from app.core.models import ModelSettings
from app.core.profiles import NO_PROFILE, Profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NOTHING = ModelSettings()


class ModelSettingsFile:
    """Settings by the name a model runs under. One owner: the gateway. Without a file they are kept in memory."""

    def __init__(self, file: Path | None = None) -> None:
        self._tables = TablesFile(ModelSettings, file, what="The settings")
        self.problems = self._tables.problems
        self.profile: Callable[[], Profile] = lambda: NO_PROFILE
        """Returns the profile that counts."""

    def settings_of(self, model: str) -> ModelSettings:
        """Return what counts for a model: what was set for it, with what the profile says of it."""
        return _with_profile(self.own_settings(model), self.profile(), model)

    def own_settings(self, model: str) -> ModelSettings:
        """Return what was set for a model, whatever profile is active."""
        return self._tables.values.get(model, _NOTHING)

    def all_settings(self) -> dict[str, ModelSettings]:
        """Return what was set for every model that anything was set for."""
        return dict(sorted(self._tables.values.items()))

    def all_with(self, profile: Profile) -> dict[str, ModelSettings]:
        """Return what counts while `profile` is active, for every model that anything is set for."""
        names = {*self._tables.values, *(entry.model for entry in profile.models)}
        return {name: _with_profile(self.own_settings(name), profile, name) for name in sorted(names)}

    def change_settings(self, model: str, settings: ModelSettings) -> None:
        """Set what counts for a model. Raises StorageFault, and changes nothing, if it cannot be written."""
        self._tables.change_values({model: settings if settings != _NOTHING else None})


def _with_profile(own: ModelSettings, profile: Profile, model: str) -> ModelSettings:
    entry = profile.find_model(model)
    if entry is None:
        return own
    return msgspec.structs.replace(
        own, pinned=own.pinned or entry.is_pinned, context=own.context if entry.context is None else entry.context
    )
