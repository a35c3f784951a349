"""The connections page: the offline switch with what it means, and below it who was called, day by day, live."""

from functools import partial

from PySide6.QtCore import Qt

from app.core.connections import Connection
from app.core.translation import LazyText, tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.connections import model as state_of
from app.gui.screens.connections.model import ConnectionsModel
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook
from app.gui.widgets.layout import VBox
from app.gui.widgets.panels import EmptyState, ErrorPanel, PageFrame, Section
from app.gui.widgets.rows import ListRow, RowList, SwitchCard
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_WHEN_WIDTH = 96
"""Room for "14:02 to 14:10"."""
_TO_THE_LINES_END = 4
_NOTHING = LazyText("No connections to other computers")
_ABOUT_NOTHING = LazyText(
    "Every computer Roundhouse connects to from now on is listed here, with the reason. Only host names are kept, for "
    "30 days."
)


class ConnectionsScreen(PageFrame):
    """Shows a `ConnectionsModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Connections"))
        self.model = ConnectionsModel(stores, shell)
        back = partial(shell.show_page, Pages.SETTINGS)
        self.head.addWidget(Button(theme, tr("Settings"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        name = tr("Clear the list of connections")
        self.clear = Button(theme, tr("Clear"), look=ButtonLook.QUIET, name=name, action=self.model.clear_list)
        self.head.addWidget(self.clear)
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 6, is_card=True)
        self._nothing = EmptyState(theme, "globe", _NOTHING.tr(), _ABOUT_NOTHING.tr())
        self._sum, self._rest = (Paragraph(theme, role="meta", color="ink-2") for _ in range(2))
        self._days: dict[str, tuple[Section, RowList]] = {}
        self._list = VBox(theme, gap=16)
        self.offline = SwitchCard(theme, tr("Stay offline"), action=self.model.set_offline)
        for widget in (self.offline, self.error, self._skeleton, self._nothing, self._sum):
            self.body.addWidget(widget)
        self.body.addLayout(self._list)
        self.body.addWidget(self._rest)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_connections)
        self._show_connections()

    def _show_connections(self) -> None:
        model = self.model
        is_waiting = not model.is_known and model.error is None
        self._skeleton.setVisible(is_waiting)
        self._show_error()
        self._nothing.setVisible(model.is_known and not model.items and model.error is None)
        self.clear.setVisible(bool(model.items))
        self._sum.setText(model.summary)
        self._sum.setVisible(bool(model.summary))
        self._rest.setText(model.rest_note)
        self._rest.setVisible(bool(model.rest_note))
        self._show_switch()
        self._show_days(model.group_by_day())

    def _show_error(self) -> None:
        model = self.model
        if model.error is not None:
            self.error.show_error(model.error, tr("Try again"), model.read)
        elif model.refusal is not None:
            self.error.show_error(model.refusal, tr("Dismiss"), model.dismiss_refusal)
        else:
            self.error.hide()

    def _show_switch(self) -> None:
        model = self.model
        self.offline.show_switch(is_on=model.is_offline, consequence=model.consequence, why_fixed=model.why_fixed)
        self.offline.switch.setEnabled(model.preferences.is_known and not model.why_fixed)

    def _show_days(self, days: dict[str, list[Connection]]) -> None:
        if list(days) != list(self._days):
            self._arrange_days(list(days))
        for title, connections in days.items():
            self._days[title][1].sync(
                {connection.id: connection for connection in connections}, self._make_row, ConnectionRow.show_connection
            )

    def _arrange_days(self, titles: list[str]) -> None:
        """Have a section for each day; one that stays keeps its rows."""
        while self._list.takeAt(0) is not None:
            pass
        for title in [title for title in self._days if title not in titles]:
            section, _ = self._days.pop(title)
            section.hide()
            section.deleteLater()
        self._days = {title: self._days.get(title) or self._make_day(title) for title in titles}
        for section, _ in self._days.values():
            self._list.addWidget(section)

    def _make_day(self, title: str) -> tuple[Section, RowList]:
        section, rows = Section(self.theme, title), RowList(self.theme, tr("Connections, {title}", title=title))
        section.body.addWidget(rows)
        return section, rows

    def _make_row(self, _connection: Connection) -> "ConnectionRow":
        return ConnectionRow(self.theme)


class ConnectionRow(ListRow):
    """One host and reason: how it went, how often, when."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self._dot = Dot(theme)
        self.lead.addWidget(self._dot)
        self._often, self._when = (Label(theme, role="meta", color="ink-2") for _ in range(2))
        is_mirrored = self.layoutDirection() == Qt.LayoutDirection.RightToLeft
        end = Qt.AlignmentFlag.AlignLeft if is_mirrored else Qt.AlignmentFlag.AlignRight
        self._when.setAlignment(end | Qt.AlignmentFlag.AlignAbsolute | Qt.AlignmentFlag.AlignVCenter)
        self.tail.addWidget(self._often)
        self.tail.addWidget(self._when)
        self.tail.addSpacing(theme.px(_TO_THE_LINES_END))
        theme.changed.connect(self._widen)
        self._widen()

    def show_connection(self, connection: Connection) -> None:
        """Show what is so now."""
        color, outcome = state_of.outcome_sign(connection)
        self._dot.show_state(color, outcome)
        self.show_text(state_of.host_text(connection), state_of.reason_text(connection))
        self._often.setText(state_of.count_text(connection))
        self._often.set_color("warn" if connection.refused else "ink-2")
        self._when.setText(state_of.time_text(connection))
        self.setAccessibleDescription(
            ". ".join(
                (
                    state_of.reason_text(connection),
                    outcome,
                    state_of.count_text(connection),
                    state_of.time_text(connection),
                )
            )
        )

    def _widen(self) -> None:
        self._when.setMinimumWidth(self.theme.px(_WHEN_WIDTH))
