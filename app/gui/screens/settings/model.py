"""State of the settings page: the rows by section, what typed text would mean, and whether a restart is due.

What is right is decided by the table itself (`app.config`), so that the page and the gateway say the same sentence.
"""

from PySide6.QtCore import QObject, Signal

from app.config.store import find, parsed, validated
from app.core.errors import BadRequest, ErrorBody, NotFound
from app.core.settings import SettingInfo, SettingValue
from app.gui import phrases
from app.gui.net.stores import Stores
from app.gui.shell.contract import Shell

_SECTIONS = {"gateway": "Endpoint", "models": "Models", "engine": "Engines", "window": "Window"}


class SettingsModel(QObject):
    """Everything the page shows. `problem` carries a setting's name and what is wrong with its value."""

    changed = Signal()
    problem = Signal(str, str)

    def __init__(self, stores: Stores, shell: Shell) -> None:
        super().__init__(shell)
        self.preferences, self.library = stores.preferences, stores.library
        self.waits_for_restart: set[str] = set()
        self.preferences.changed.connect(self.changed)
        self.library.changed.connect(self.changed)
        shell.connected.connect(self.waits_for_restart.clear)

    @property
    def is_known(self) -> bool:
        """Whether the settings have been read."""
        return self.preferences.is_known

    @property
    def error(self) -> ErrorBody | None:
        """Why they could not be read."""
        return self.preferences.error

    def sections(self) -> dict[str, list[SettingInfo]]:
        """Return the rows by the title of their section, in table order."""
        found: dict[str, list[SettingInfo]] = {}
        for info in self.preferences.items:
            found.setdefault(_SECTIONS.get(info.section, info.section.capitalize()), []).append(info)
        return found

    def models(self, present: str) -> list[tuple[str, str]]:
        """Return the models a chat can begin with, by name and title; the present one is always among them."""
        usable = [model for model in self.library.items if model.chats and not model.problem]
        found = [(model.name, " · ".join(filter(None, (phrases.label(model), model.quantization)))) for model in usable]
        return found if present in dict(found) or not present else [(present, present), *found]

    def change(self, info: SettingInfo, value: SettingValue) -> None:
        """Keep a value that differs from the present one; a wrong one is said and not sent."""
        wrong = problem_with(info, value)
        self.problem.emit(info.name, wrong)
        if not wrong and value != info.value:
            self._send(info, value)

    def type_in(self, info: SettingInfo, text: str, *, is_final: bool) -> None:
        """Say at once what is wrong with typed text; keep it when the typing is over."""
        value = meaning(info, text)
        if is_final and not isinstance(value, Unfit):
            self.change(info, value)
        else:
            self.problem.emit(info.name, value.sentence if isinstance(value, Unfit) else "")

    def step(self, info: SettingInfo, by: int) -> SettingValue:
        """Return a number one step on, within its limits."""
        if isinstance(info.value, bool) or not isinstance(info.value, (int, float)):
            return info.value
        value = info.value + by
        low = info.minimum if info.minimum is not None else value
        high = info.maximum if info.maximum is not None else value
        return type(info.value)(min(high, max(low, value)))

    def reset(self, info: SettingInfo) -> None:
        """Go back to the default."""
        self.problem.emit(info.name, "")
        self._send(info, None)

    def _send(self, info: SettingInfo, value: SettingValue | None) -> None:
        if info.needs_restart:
            self.waits_for_restart.add(info.name)
        self.preferences.change(info.name, value, lambda error: self._refused(info, error))

    def _refused(self, info: SettingInfo, error: ErrorBody) -> None:
        self.waits_for_restart.discard(info.name)
        self.problem.emit(info.name, f"{error.sentence} {error.hint}".strip())
        self.changed.emit()


class Unfit:
    """Typed text that means no allowed value, and the sentence that says why."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence


def meaning(info: SettingInfo, text: str) -> SettingValue | Unfit:
    """Return the value typed text stands for. A setting this window does not know is left to the gateway."""
    try:
        row = find(info.name)
        return validated(row, parsed(row, text.strip()))
    except NotFound:
        return text
    except BadRequest as error:
        return Unfit(error.body.sentence)


def problem_with(info: SettingInfo, value: SettingValue) -> str:
    """Return what is wrong with a value, or nothing."""
    try:
        validated(find(info.name), value)
    except NotFound:
        return ""
    except BadRequest as error:
        return error.body.sentence
    return ""
