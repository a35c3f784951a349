"""The card of tools above the composer: whose tools the model of this chat may call, and what was decided for it."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.core.mcp import McpPermission, McpServer
from app.core.tool_calls import ChatTools
from app.core.translation import tr
from app.gui.phrases import describe_mcp_server
from app.gui.screens.chat.options import OptionsPanel
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Toggle
from app.gui.widgets.layout import Scroller, VBox
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.text import Paragraph

_LEAST = 64
_HEAD = 56


class ToolsPanel(OptionsPanel):
    """Shows `ChatTools`. `servers_chosen` has the names of all servers from now on."""

    servers_chosen = Signal(list)
    forget_requested = Signal()
    """Every tool is to ask again."""
    manage_requested = Signal()
    usual_requested = Signal()
    """New chats are to begin with these servers."""

    def __init__(self, theme: Theme, close: Callable[[], object]) -> None:
        quiet = tr("You are asked before each call, unless you allowed the tool.")
        super().__init__(theme, tr("Tools"), quiet, close)
        self._tools = ChatTools()
        page = QWidget()
        box = VBox(theme, page, margins=(2, 2, 8, 2), gap=8)
        self._nothing = Paragraph(
            theme,
            tr("No tools yet. Add an MCP server, and the models of your chats can look things up and do things."),
            color="ink-2",
        )
        self._list = RowList(theme, tr("Servers of tools"))
        self._permissions = Paragraph(theme, role="meta", color="ink-2")
        self.manage = Button(
            theme, tr("Manage"), look=ButtonLook.QUIET, name=tr("Manage tools"), action=self.manage_requested.emit
        )
        self.tools.addWidget(self.manage)
        self.forget = Button(
            theme, tr("Ask again"), look=ButtonLook.QUIET, icon="rotate-ccw", action=self._forget_permissions
        )
        self.make_usual = Button(
            theme, tr("Use in new chats"), look=ButtonLook.QUIET, icon="check", action=self.usual_requested.emit
        )
        for widget in (self._nothing, self._list, self._permissions):
            box.addWidget(widget)
        for button in (self.forget, self.make_usual):
            box.addWidget(button, 0, Qt.AlignmentFlag.AlignLeft)
        self._scroller = Scroller(page, tr("Tools"))
        self.box.addWidget(self._scroller)

    @property
    def field(self) -> QWidget:
        """Where the keyboard begins."""
        first = next(iter(self._list.rows.values()), None)
        return first.switch if isinstance(first, ServerRow) and first.switch.isEnabled() else self.manage

    def limit_height(self, height: int) -> None:
        """Scroll what is higher than this."""
        self._scroller.setMaximumHeight(max(self.theme.px(_LEAST), height - self.theme.px(_HEAD)))

    def show_tools(self, tools: ChatTools, servers: Sequence[McpServer], usual: ChatTools) -> None:
        """Show which of the servers a chat uses; one that is not there any more is left out when another is chosen."""
        self._tools = tools
        self._list.sync(
            {server.name: server for server in servers},
            self._make_row,
            lambda row, server: row.show_server(server, is_on=server.name in tools.servers),
        )
        self._list.setVisible(bool(servers))
        self._nothing.setVisible(not servers)
        self._permissions.setText(_describe_permissions(tools))
        self._permissions.setVisible(bool(tools.permissions))
        self.forget.setVisible(bool(tools.permissions))
        self.make_usual.setVisible(bool(servers) and sorted(tools.servers) != sorted(usual.servers))

    def _make_row(self, server: McpServer) -> "ServerRow":
        row = ServerRow(self.theme, server.name)
        row.switch.clicked.connect(partial(self._switch, row, server.name))
        return row

    def _switch(self, row: "ServerRow", server: str) -> None:
        is_on = row.switch.isChecked()
        there = [name for name in self._list.rows if name in self._tools.servers and name != server]
        self.servers_chosen.emit([*there, *([server] if is_on else [])])

    def _forget_permissions(self) -> None:
        self.manage.setFocus()  # the button that has the keyboard goes away
        self.forget_requested.emit()


class ServerRow(ListRow):
    """One server, and whether the chat's model may call its tools."""

    def __init__(self, theme: Theme, name: str) -> None:
        super().__init__(theme, name)
        self.switch = Toggle(theme, tr("Tools of {name} in this chat", name=name))
        self.tail.addWidget(self.switch)

    def show_server(self, server: McpServer, *, is_on: bool) -> None:
        """Show how it stands."""
        can_be_used = server.is_enabled and server.is_confirmed
        self.show_text(server.name, describe_mcp_server(server))
        self.switch.setChecked(is_on and can_be_used)
        self.switch.setEnabled(can_be_used)


def _describe_permissions(tools: ChatTools) -> str:
    allowed_tools = [each.tool for each in tools.permissions if each.permission is McpPermission.ALLOW]
    blocked_tools = [each.tool for each in tools.permissions if each.permission is McpPermission.BLOCK]
    return " ".join(
        sentence
        for names, sentence in (
            (allowed_tools, tr("Allowed in this chat: {tools}.", tools=", ".join(allowed_tools))),
            (blocked_tools, tr("Never called in this chat: {tools}.", tools=", ".join(blocked_tools))),
        )
        if names
    )
