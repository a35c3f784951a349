"""State of the settings page: the rows by section, what typed text would mean, and whether a restart is due.

What is right is decided by the table itself (`app.config`), so that the page and the gateway say the same sentence.
"""

from PySide6.QtCore import QObject, Signal

from app.config.store import find_setting, parse_setting, validate_setting
from app.core.api import SettingInfo, SettingValue
from app.core.errors import BadRequest, ErrorBody, NotFound
from app.core.translation import LazyText
from app.gui import phrases
from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import Shell

_SECTIONS = {
    "gateway": LazyText("Endpoint"),
    "machines": LazyText("Your other computers"),
    "chats": LazyText("Chats"),
    "agents": LazyText("Coding agents"),
    "documents": LazyText("Documents"),
    "models": LazyText("Models"),
    "engine": LazyText("Engines"),
    "window": LazyText("Window"),
    "catalogue": LazyText("Catalogue"),
    "downloads": LazyText("Downloads"),
    "engines": LazyText("Engines"),
    "inspector": LazyText("Inspector"),
    "network": LazyText("Network"),
    "responses": LazyText("Responses"),
    "traces": LazyText("Traces"),
    "updates": LazyText("Updates"),
}


def section_title(section: str) -> str:
    """Return what is above the settings of a section."""
    return str(_SECTIONS.get(section, section.capitalize()))


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

    def group_by_section(self) -> dict[str, list[SettingInfo]]:
        """Return the rows by the title of their section, in table order."""
        sections: dict[str, list[SettingInfo]] = {}
        for info in self.preferences.items:
            sections.setdefault(section_title(info.section), []).append(info)
        return sections

    def model_options(self, present: str) -> list[tuple[str, str]]:
        """Return the models a chat can begin with, by name and title; the present one is always among them."""
        usable = [model for model in self.library.items if model.chats and not model.problem]
        options = [
            (model.name, " · ".join(filter(None, (phrases.model_label(model), model.quantization)))) for model in usable
        ]
        return options if present in dict(options) or not present else [(present, present), *options]

    def change(self, info: SettingInfo, value: SettingValue) -> None:
        """Keep a value that differs from the present one; a wrong one is said and not sent."""
        wrong = problem_with(info, value)
        self.problem.emit(info.name, wrong)
        if not wrong and value != info.value:
            self._post_value(info, value)

    def type_in(self, info: SettingInfo, text: str, *, is_final: bool) -> None:
        """Say at once what is wrong with typed text; keep it when the typing is over."""
        value = parse_value(info, text)
        if is_final and not isinstance(value, InvalidText):
            self.change(info, value)
        else:
            self.problem.emit(info.name, value.sentence if isinstance(value, InvalidText) else "")

    def step_value(self, info: SettingInfo, by: int) -> SettingValue:
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
        self._post_value(info, None)

    def _post_value(self, info: SettingInfo, value: SettingValue | None) -> None:
        if info.needs_restart:
            self.waits_for_restart.add(info.name)
        self.preferences.change(info.name, value, lambda error: self._report_refusal(info, error))

    def _report_refusal(self, info: SettingInfo, error: ErrorBody) -> None:
        self.waits_for_restart.discard(info.name)
        self.problem.emit(info.name, f"{error.sentence} {error.hint}".strip())
        self.changed.emit()


class InvalidText:
    """Typed text that means no allowed value, and the sentence that says why."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence


def parse_value(info: SettingInfo, text: str) -> SettingValue | InvalidText:
    """Return the value typed text stands for. A setting this window does not know is left to the gateway."""
    try:
        row = find_setting(info.name)
        return validate_setting(row, parse_setting(row, text.strip()))
    except NotFound:
        return text
    except BadRequest as error:
        return InvalidText(error.body.sentence)


def problem_with(info: SettingInfo, value: SettingValue) -> str:
    """Return what is wrong with a value, or nothing."""
    try:
        validate_setting(find_setting(info.name), value)
    except NotFound:
        return ""
    except BadRequest as error:
        return error.body.sentence
    return ""
