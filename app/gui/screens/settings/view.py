"""The settings page: the table, section by section. A change counts at once; what needs a restart says so.

Where things lie on this computer: the folder models are put into, conversations, logs; each opens with a click.

One setting as a row, with the control its kind asks for.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QFileDialog, QSizePolicy, QWidget

from app.config.paths import Paths, default_paths
from app.core.api import SettingInfo, SettingValue
from app.core.translation import tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.settings.model import SettingsModel, section_title
from app.gui.screens.settings.token_card import HUB_TOKEN, TokenCard
from app.gui.screens.settings.traces_card import TracesCard
from app.gui.screens.settings.updates_card import UpdatesCard
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton, Toggle
from app.gui.widgets.fields import Field, ListField
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import ErrorPanel, PageFrame, Section
from app.gui.widgets.rows import ControlRow, IconLabel, ListRow, RowList, Tag
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

_NUMBER_WIDTH = 144
_TEXT_WIDTH = 240
_FOLDERS = "folders"
_MODEL = "models.default"
Show = Callable[[SettingInfo], object]


class SettingRow(ControlRow):
    """One row of the table, with the control its kind asks for."""

    def __init__(self, theme: Theme, model: SettingsModel, info: SettingInfo) -> None:
        super().__init__(theme, info.title, info.help)
        self._theme, self._model, self._info = theme, model, info
        self._fixed_tag = Tag(theme, tr("Set by the environment"))
        self._reset = IconButton(
            theme, "undo-2", tr("Reset {title}", title=info.title), action=lambda: model.reset(self._info)
        )
        self.tools.addWidget(self._fixed_tag)
        self.tools.addWidget(self._reset)
        self._control, self._show_value = self._make_control(info)
        if info.kind == "list":
            self.outer.addWidget(self._control)
        else:
            self.tools.addWidget(self._control)
        self.add_problem_line()
        model.problem.connect(self._show_problem)

    @property
    def control(self) -> QWidget:
        """What is operated."""
        return self._control

    def show_info(self, info: SettingInfo) -> None:
        """Show its value now."""
        self._info = info
        is_fixed = info.source == "environment"
        self._fixed_tag.setVisible(is_fixed)
        self._control.setEnabled(not is_fixed)
        self._reset.setVisible(info.source == "file")
        self._show_value(info)

    def _show_problem(self, name: str, sentence: str) -> None:
        if name == self._info.name:
            self.say_wrong(sentence, self._control)

    def _make_control(self, info: SettingInfo) -> tuple[QWidget, Show]:
        if info.name == _MODEL:
            return self._make_model_choice(info)
        make = {"bool": self._make_toggle, "choice": self._make_choice, "list": self._make_list}.get(
            info.kind, self._make_field
        )
        return make(info)

    def _make_toggle(self, info: SettingInfo) -> tuple[QWidget, Show]:
        toggle = Toggle(self._theme, info.title)
        toggle.clicked.connect(lambda: self._change_value(toggle.isChecked()))
        return toggle, lambda now: toggle.setChecked(now.value is True)

    def _make_choice(self, info: SettingInfo) -> tuple[QWidget, Show]:
        choice = DropDown(self._theme, info.title, [(value, value.capitalize()) for value in info.choices])
        choice.chosen.connect(self._change_value)
        return choice, lambda now: choice.set_value(str(now.value))

    def _make_model_choice(self, info: SettingInfo) -> tuple[QWidget, Show]:
        choice = DropDown(self._theme, info.title, self._model.model_options(str(info.value)), widest=_TEXT_WIDTH)
        choice.chosen.connect(self._change_value)

        def show_value(now: SettingInfo) -> None:
            choice.set_options(self._model.model_options(str(now.value)))
            choice.set_value(str(now.value))

        return choice, show_value

    def _make_list(self, info: SettingInfo) -> tuple[QWidget, Show]:
        ask = self._ask_folder if info.name.endswith(_FOLDERS) else None
        field = ListField(self._theme, info.title, ask=ask)
        field.changed.connect(self._change_value)
        return field, lambda now: field.set_items(cast("list[str]", now.value))

    def _make_field(self, info: SettingInfo) -> tuple[QWidget, Show]:
        field = Field(self._theme, info.title)
        is_number = info.kind in {"int", "float"}
        field.setFixedWidth(self._theme.px(_NUMBER_WIDTH if is_number else _TEXT_WIDTH))
        if is_number:
            field.set_unit(info.unit)
            field.setAlignment(Qt.AlignmentFlag.AlignRight)
            field.stepped.connect(lambda by: self._change_value(self._model.step_value(self._info, by)))
        field.textEdited.connect(lambda text: self._model.type_in(self._info, text, is_final=False))
        field.editingFinished.connect(lambda: self._model.type_in(self._info, field.text(), is_final=True))

        def show_value(now: SettingInfo) -> None:
            text = str(now.value)
            if field.text() != text and not (field.hasFocus() and field.isModified()):
                field.setText(text)

        return field, show_value

    def _change_value(self, value: SettingValue) -> None:
        self._model.change(self._info, value)

    def _ask_folder(self) -> str:
        return QFileDialog.getExistingDirectory(self, tr("Add to {title}", title=self._info.title))


_LAYOUT_ROUNDS = 2
"""One places the sections, the next the rows whose words wrap at the width they got."""


class SettingsScreen(PageFrame):
    """Shows a `SettingsModel`. `restart` starts the service anew."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell, *, restart: Callable[[], object]) -> None:
        super().__init__(theme, tr("Settings"))
        self._shell, self.model = shell, SettingsModel(stores, shell)
        self._error = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 8, is_card=True)
        self._restart = self._restart_hint(restart)
        self._lists: dict[str, RowList] = {}
        self._pending_name = ""
        self._updates = stores.updates
        self.updates = UpdatesCard(theme, stores.updates, shell)
        for widget in (self._restart, self.updates, self._error, self._skeleton):
            self.body.addWidget(widget)
        self._end = self.body.count()
        self._places = InstallationFolders(theme, default_paths())
        self.token = TokenCard(theme, stores.api, shell)
        self.body.addWidget(self.token)
        self.traces = TracesCard(theme, stores, shell)
        self.body.addWidget(self.traces)
        self._tools = ToolsSection(theme, shell.show_page)
        self.body.addWidget(self._tools)
        self.body.addWidget(self._places)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_settings)
        shell.task_requested.connect(self._go_to)
        self._show_settings()

    def find_row(self, name: str) -> SettingRow:
        """Return the row of a setting. Raises StopIteration for one that is not shown."""
        row = next(rows.rows[name] for rows in self._lists.values() if name in rows.rows)
        assert isinstance(row, SettingRow)  # noqa: S101 -- made by this class
        return row

    def _go_to(self, name: str) -> None:
        """Bring a setting into view, with the keyboard on it, as soon as it is there."""
        if name == Task.NEW_VERSION:
            self.scroller.ensureWidgetVisible(self.updates)
            self.updates.present.look.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self._updates.look()
            return
        if name == HUB_TOKEN:
            self.scroller.ensureWidgetVisible(self.token)
            self.token.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
        self._pending_name = name
        row = next((rows.rows[name] for rows in self._lists.values() if name in rows.rows), None)
        if isinstance(row, SettingRow):
            self._pending_name = ""
            for _ in range(_LAYOUT_ROUNDS):  # rows that were just made have no place before they are laid out
                QApplication.sendPostedEvents()
            self.scroller.ensureWidgetVisible(row)
            row.control.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _restart_hint(self, restart: Callable[[], object]) -> QWidget:
        theme = self.theme
        sheet = Surface(theme, fill="warn-soft", outline="")
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = HBox(theme, sheet, margins=(16, 12, 12, 12), gap=12)
        line.addWidget(IconLabel(theme, "info", color="warn"))
        line.addWidget(
            Paragraph(theme, tr("A change takes effect when the service restarts, which unloads all models.")), 1
        )
        line.addWidget(Button(theme, tr("Restart the service"), icon="rotate-ccw", action=restart))
        return sheet

    def _show_settings(self) -> None:
        model = self.model
        self._skeleton.setVisible(not model.is_known and model.error is None)
        self._places.setVisible(model.is_known or model.error is not None)  # it would move when the rows come
        for section in (self.token, self.traces, self._tools):
            section.setVisible(self._places.isVisibleTo(self))
        self._restart.setVisible(bool(model.waits_for_restart))
        if model.error is not None:
            self._error.show_error(model.error, tr("Try again"), model.preferences.read)
        else:
            self._error.hide()
        for title, infos in model.group_by_section().items():
            self._section_list(title).sync(
                {info.name: info for info in infos},
                lambda info: SettingRow(self.theme, model, info),
                SettingRow.show_info,
            )
        if self._pending_name:
            self._go_to(self._pending_name)

    def _make_connections_button(self) -> QWidget:
        show = partial(self._shell.show_page, Pages.CONNECTIONS)
        name = tr("Show the connections to other computers")
        return Button(self.theme, tr("Show connections"), look=ButtonLook.QUIET, icon="globe", name=name, action=show)

    def _section_list(self, title: str) -> RowList:
        if title not in self._lists:
            section = Section(self.theme, title)
            self._lists[title] = RowList(self.theme, title)
            if title == section_title("network"):
                section.head.addWidget(self._make_connections_button())
            if title == section_title("machines"):
                show = partial(self._shell.show_page, Pages.MACHINES)
                button = Button(
                    self.theme, tr("Show other computers"), look=ButtonLook.QUIET, icon="monitor", action=show
                )
                section.head.addWidget(button)
            if title == section_title("documents"):
                show = partial(self._shell.show_page, Pages.DOCUMENTS)
                name = tr("Show collections of documents")
                button = Button(
                    self.theme, tr("Show collections"), look=ButtonLook.QUIET, icon="book-open", name=name, action=show
                )
                section.head.addWidget(button)
            section.body.addWidget(self._lists[title])
            self.body.insertWidget(self._end, section)
            self._end += 1
        return self._lists[title]


class ToolsSection(Section):
    """The way to the pages of MCP servers and of coding agents."""

    def __init__(self, theme: Theme, show: Callable[[Pages], object]) -> None:
        super().__init__(theme, tr("Tools for models"))
        sheet = Surface(theme)
        sheet.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = ListRow(theme, tr("MCP servers"), tr("Programs that models may call: to read files, to look things up"))
        manage = Button(theme, tr("Manage"), name=tr("Manage MCP servers"), action=partial(show, Pages.MCP))
        row.tail.addWidget(manage)
        agents = ListRow(theme, tr("Coding agents"), tr("Programs that work in a folder with your models"))
        show_agents = partial(show, Pages.AGENTS)
        agents.tail.addWidget(Button(theme, tr("Open"), name=tr("Open coding agents"), action=show_agents))
        box = VBox(theme, sheet, margins=(0, 4, 0, 4))
        box.addWidget(row)
        box.addWidget(agents)
        self.body.addWidget(sheet)


class InstallationFolders(Section):
    """The folders of this installation."""

    def __init__(self, theme: Theme, paths: Paths) -> None:
        super().__init__(theme, tr("Folders"))
        self.folders = {
            tr("Models: put .gguf files here"): paths.models,
            tr("Conversations"): paths.data,
            tr("Logs"): paths.logs,
        }
        rows = RowList(theme, tr("Folders"))
        rows.sync(
            {title: (title, folder) for title, folder in self.folders.items()},
            lambda place: _make_row(theme, place[1]),
            lambda row, place: row.show_text(place[0], str(place[1])),
        )
        self.body.addWidget(rows)


def _make_row(theme: Theme, folder: Path) -> ListRow:
    row = ListRow(theme)
    row.tail.addWidget(
        Button(theme, tr("Open"), name=tr("Open {folder}", folder=folder), action=partial(_open_folder, folder))
    )
    return row


def _open_folder(folder: Path) -> None:
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
