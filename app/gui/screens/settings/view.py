"""The settings page: the table, section by section. A change counts at once; what needs a restart says so."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QSizePolicy, QWidget

from app.config.paths import default_paths
from app.gui.net.remote_lists import Stores
from app.gui.screens.settings.installation_folders import InstallationFolders
from app.gui.screens.settings.model import SettingsModel
from app.gui.screens.settings.setting_row import SettingRow
from app.gui.screens.settings.token_card import HUB_TOKEN, TokenCard
from app.gui.screens.settings.updates_card import UpdatesCard
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell, Task
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.layout import HBox, Surface
from app.gui.widgets.panels import ErrorPanel, PageFrame, Section
from app.gui.widgets.rows import IconLabel, RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

_NETWORK = "Network"
_LAYOUT_ROUNDS = 2
"""One places the sections, the next the rows whose words wrap at the width they got."""


class SettingsScreen(PageFrame):
    """Shows a `SettingsModel`. `restart` starts the service anew."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell, *, restart: Callable[[], object]) -> None:
        super().__init__(theme, "Settings")
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
            Paragraph(theme, "A change takes effect when the service restarts, which unloads all models."), 1
        )
        line.addWidget(Button(theme, "Restart the service", icon="rotate-ccw", action=restart))
        return sheet

    def _show_settings(self) -> None:
        model = self.model
        self._skeleton.setVisible(not model.is_known and model.error is None)
        self._places.setVisible(model.is_known or model.error is not None)  # it would move when the rows come
        self.token.setVisible(self._places.isVisibleTo(self))
        self._restart.setVisible(bool(model.waits_for_restart))
        if model.error is not None:
            self._error.show_error(model.error, "Try again", model.preferences.read)
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
        name = "Show the connections to other computers"
        return Button(self.theme, "Show connections", look=ButtonLook.QUIET, icon="globe", name=name, action=show)

    def _section_list(self, title: str) -> RowList:
        if title not in self._lists:
            section = Section(self.theme, title)
            self._lists[title] = RowList(self.theme, title)
            if title == _NETWORK:
                section.head.addWidget(self._make_connections_button())
            section.body.addWidget(self._lists[title])
            self.body.insertWidget(self._end, section)
            self._end += 1
        return self._lists[title]
