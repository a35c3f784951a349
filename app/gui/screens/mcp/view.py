"""The page of tools: a card for each MCP server, and the form for another."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QDir, QPoint, Qt
from PySide6.QtWidgets import QFileDialog, QSizePolicy, QWidget

from app.core.mcp import BuiltinServer, McpPermission, McpServer, McpServerPatch, McpServerState, McpTool
from app.core.translation import LazyText, tr, tr_plural
from app.gui.net.remote_lists import Stores
from app.gui.phrases import describe_mcp_server
from app.gui.screens.mcp.model import McpModel, command_line, is_configuration, parse_new_server
from app.gui.shell.contract import PageId as Pages
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, IconButton, Toggle
from app.gui.widgets.fields import Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.links import open_link
from app.gui.widgets.menus import DropDown, Menu
from app.gui.widgets.panels import EmptyState, ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import CardList, ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_ABOUT = LazyText(
    "Servers of the Model Context Protocol give models tools: to read your files, look things up, or do something for "
    "you. A server runs as a program on this computer and is held to the folders and the network you give it, where "
    "the system can do that. You choose in each chat whose tools its model may call."
)
_EXAMPLE = "mcp-server-time"
_NAME_WIDTH = 160
_LARGEST_FILE = 1_000_000
_STATES = {
    McpServerState.READY: "ok",
    McpServerState.STARTING: "accent",
    McpServerState.SIGN_IN: "warn",
    McpServerState.FAILED: "bad",
    McpServerState.STOPPED: "edge",
}
_PERMISSIONS = (
    (McpPermission.ASK, LazyText("Ask each time")),
    (McpPermission.ALLOW, LazyText("Allow")),
    (McpPermission.BLOCK, LazyText("Never")),
)


class McpScreen(PageFrame):
    """Shows a `McpModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, tr("Tools for models"))
        self.model = McpModel(stores, shell)
        back = partial(shell.show_page, Pages.SETTINGS)
        self.head.addWidget(Button(theme, tr("Settings"), look=ButtonLook.QUIET, icon="chevron-left", action=back))
        name = tr("Import servers from another program")
        self.head.addWidget(Button(theme, tr("Import…"), look=ButtonLook.QUIET, name=name, action=self._import_file))
        self.error, self._skeleton = ErrorPanel(theme), Skeleton(theme, 4, is_card=True)
        self.form = ServerForm(theme, self.model)
        self._nothing = EmptyState(
            theme, "wrench", tr("No tools yet"), tr("Write a server's command above, or import those you have.")
        )
        self._list = CardList(theme)
        self.body.addWidget(Paragraph(theme, _ABOUT.tr(), color="ink-2"))
        for widget in (self.form, self.error, self._skeleton, self._nothing, self._list):
            self.body.addWidget(widget)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_servers)
        self._show_servers()

    def find_card(self, name: str) -> "ServerCard":
        """Return the card of a server. Raises KeyError."""
        card = self._list.rows[name]
        assert isinstance(card, ServerCard)  # noqa: S101 -- made by this class
        return card

    def _show_servers(self) -> None:
        model, store = self.model, self.model.store
        self._skeleton.setVisible(not store.is_known and store.error is None)
        self._nothing.setVisible(store.is_known and not model.servers)
        self.error.show_problem(model.problem)
        self._list.sync(
            {server.name: server for server in model.servers},
            lambda server: ServerCard(self.theme, model, server.name),
            ServerCard.show_server,
        )

    def _import_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, tr("Import servers"), QDir.homePath(), tr("Configurations (*.json)")
        )
        if path:
            with Path(path).open("rb") as file:
                self.model.import_servers(file.read(_LARGEST_FILE).decode("utf-8", "replace"))


class ServerForm(Surface):
    """Adds a server: by its command or address, or by a configuration that is pasted in."""

    def __init__(self, theme: Theme, model: McpModel) -> None:
        super().__init__(theme)
        self._theme, self._model, self._is_search = theme, model, False
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(16, 12, 16, 12), gap=8)
        box.addWidget(Label(theme, tr("Add a server"), weight=500))
        line = HBox(theme, gap=8)
        self.name = Field(theme, tr("Name of the server"), placeholder=tr("Name"))
        self.name.setFixedWidth(theme.px(_NAME_WIDTH))
        self.start = Field(theme, tr("Command, address or configuration"), placeholder=_EXAMPLE)
        self.add = Button(theme, tr("Add"), name=tr("Add the server"), action=self._submit)
        for widget in (self.name, self.start):
            widget.returnPressed.connect(self._submit)
            widget.textChanged.connect(self._show_button)
        line.addWidget(self.name)
        line.addWidget(self.start, 1)
        line.addWidget(self.add)
        box.addLayout(line)
        self._wrong = Paragraph(theme, role="meta", color="bad")
        self._wrong.hide()
        box.addWidget(self._wrong)
        help_ = tr("The command that starts it, its address, or the “mcpServers” text from its instructions.")
        self._help = Paragraph(theme, help_, role="meta", color="ink-2")
        box.addWidget(self._help)
        self._builtin_place = QWidget()
        place = VBox(theme, self._builtin_place, margins=(0, 4, 0, 0), gap=4)
        place.addWidget(Label(theme, tr("Tools that come with Roundhouse"), role="meta", color="ink-2"))
        flow = FlowLayout(theme, gap=8)
        place.addLayout(flow)
        self.builtin = {
            BuiltinServer.CALCULATOR: self._make_builtin(tr("Calculator and dates"), self._add_calculator),
            BuiltinServer.FILES: self._make_builtin(tr("Files of a folder…"), self._add_files),
            BuiltinServer.PICTURES: self._make_builtin(
                tr("Pictures"), partial(model.add_builtin, BuiltinServer.PICTURES)
            ),
            BuiltinServer.PYTHON: self._make_builtin(tr("Python"), partial(model.add_builtin, BuiltinServer.PYTHON)),
            BuiltinServer.WEB_SEARCH: self._make_builtin(tr("Web search…"), self._begin_search),
        }
        for button in self.builtin.values():
            flow.addWidget(button)
        box.addWidget(self._builtin_place)
        model.added.connect(self._clear)
        model.changed.connect(self._show_builtin)
        self._show_button()

    def _make_builtin(self, words: str, action: Callable[[], object]) -> Button:
        return Button(self._theme, words, look=ButtonLook.PLAIN, icon="plus", action=action)

    def _add_calculator(self) -> None:
        self._model.add_builtin(BuiltinServer.CALCULATOR)

    def _add_files(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("A folder whose files models may read"))
        if folder:
            self._model.add_builtin(BuiltinServer.FILES, [folder])

    def _begin_search(self) -> None:
        """Have the form ask where to search."""
        self._is_search = True
        self.name.setText(BuiltinServer.WEB_SEARCH.value)
        self.start.setPlaceholderText(tr("Address of a SearXNG, or a key for Brave Search"))
        self.start.setFocus()

    def _show_builtin(self) -> None:
        for builtin, button in self.builtin.items():
            button.setVisible(not self._model.has_server(builtin.value))
        self._builtin_place.setVisible(any(not button.isHidden() for button in self.builtin.values()))

    def _submit(self) -> None:
        if is_configuration(self.start.text()):
            self._say_wrong("")
            self._model.import_servers(self.start.text())
            return
        if not self.name.text().strip() or not self.start.text().strip():
            (self.name if not self.name.text().strip() else self.start).setFocus()
            return
        new = parse_new_server(self.name.text(), self.start.text(), is_search=self._is_search)
        self._say_wrong(new if isinstance(new, str) else "")
        if not isinstance(new, str):
            self._model.add_server(new)

    def _say_wrong(self, sentence: str) -> None:
        self._wrong.setText(sentence)
        self._wrong.setVisible(bool(sentence))

    def _show_button(self) -> None:
        has_start = bool(self.start.text().strip())
        self.add.setEnabled(has_start and (bool(self.name.text().strip()) or is_configuration(self.start.text())))

    def _clear(self) -> None:
        self._is_search = False
        self.start.setPlaceholderText(_EXAMPLE)
        self.name.clear()
        self.start.clear()


class ServerCard(Surface):
    """One server: how it stands, what it may reach, its tools."""

    def __init__(self, theme: Theme, model: McpModel, name: str) -> None:
        super().__init__(theme)
        self._model, self._name = model, name
        self._server = McpServer(name=name)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, self, margins=(0, 4, 0, 12), gap=4)
        self.row = ListRow(theme, name)
        self._dot = Dot(theme)
        self.row.lead.addWidget(self._dot)
        self.switch = Toggle(theme, tr("Use {name}", name=name))
        self.switch.clicked.connect(lambda: self._change(McpServerPatch(is_enabled=self.switch.isChecked())))
        self.more = IconButton(theme, "ellipsis", tr("More about {name}", name=name), action=self._open_menu)
        self.row.tail.addWidget(self.switch)
        self.row.tail.addWidget(self.more)
        box.addWidget(self.row)
        inner = VBox(theme, margins=(16, 0, 16, 0), gap=8)
        box.addLayout(inner)
        self._command = Paragraph(theme, role="mono", color="ink-2")
        self._reach = Paragraph(theme, role="meta", color="ink-2")
        self._lack = Paragraph(theme, role="meta", color="warn")
        self._warning = Paragraph(
            theme,
            tr("A program added this server. It runs only once you have read its command and confirmed it."),
            color="warn",
        )
        self._buttons = QWidget()
        buttons = FlowLayout(theme, self._buttons, gap=8)
        patch = McpServerPatch(is_confirmed=True)
        self.confirm = Button(
            theme, tr("Confirm"), name=tr("Confirm {name}", name=name), action=partial(self._change, patch)
        )
        self.start = Button(
            theme, tr("Start"), icon="play", name=tr("Start {name}", name=name), action=partial(model.start, name)
        )
        self.sign_in = Button(
            theme, tr("Sign in"), icon="external-link", name=tr("Sign in to {name}", name=name), action=self._sign_in
        )
        buttons.addWidget(self.sign_in)
        buttons.addWidget(self.confirm)
        buttons.addWidget(self.start)
        self.tools = RowList(theme, tr("Tools of {name}", name=name))
        self.fold = Fold(theme, tr("Tools"), self.tools)
        for widget in (self._command, self._reach, self._lack, self._warning, self._buttons, self.fold):
            inner.addWidget(widget)

    def show_server(self, server: McpServer) -> None:
        """Show what is so now."""
        self._server = server
        can_run = server.is_enabled and server.is_confirmed
        about = describe_mcp_server(server)
        self.row.show_text(server.name, about)
        self._dot.show_state(_STATES[server.state] if can_run else "edge", about)
        self.switch.setChecked(server.is_enabled)
        self.switch.setVisible(server.is_confirmed)
        self._command.setText(command_line(server))
        self._command.setVisible(bool(self._command.text()))
        self._reach.setText(describe_folders(server))
        self._reach.setVisible(bool(self._reach.text()))
        self._lack.setText(server.lack)
        self._lack.setVisible(bool(server.lack))
        self._warning.setVisible(not server.is_confirmed)
        self.confirm.setVisible(not server.is_confirmed)
        self.start.setVisible(can_run and server.state in {McpServerState.STOPPED, McpServerState.FAILED})
        self.sign_in.setVisible(can_run and server.state is McpServerState.SIGN_IN)
        buttons = (self.confirm, self.start, self.sign_in)
        self._buttons.setVisible(any(not button.isHidden() for button in buttons))
        self.fold.set_title(tr_plural("{count} tool", "{count} tools", len(server.tools)))
        self.fold.setVisible(bool(server.tools))
        self.tools.sync(
            {tool.about.name: tool for tool in server.tools},
            lambda tool: ToolRow(self.row.theme, tool, self._model.allow),
            ToolRow.show_tool,
        )

    def _change(self, patch: McpServerPatch) -> None:
        self._model.change(self._name, patch)

    def _sign_in(self) -> None:
        open_link(self._server.sign_in_url)

    def _open_menu(self) -> None:
        server, menu = self._server, Menu(self.row.theme, self, tr("More about {name}", name=self._name))
        if not server.url and server.is_confirmed:
            if server.network:
                menu.add_entry(tr("Cut it off the network"), partial(self._change, McpServerPatch(network=False)))
            else:
                widen = partial(self._change, McpServerPatch(network=True))
                menu.add_entry(tr("Let it reach other computers"), widen, icon="globe")
            menu.add_entry(tr("Let it use a folder…"), self._add_folder, icon="folder-plus")
            for folder in server.folders:
                rest = [other for other in server.folders if other != folder]
                patch = McpServerPatch(folders=rest)
                menu.add_entry(tr("Take back {folder}", folder=folder), partial(self._change, patch), icon="minus")
        menu.add_entry(tr("Remove…"), partial(self._model.remove, self._name), icon="trash-2")
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.more.mapToGlobal(QPoint(0, self.more.height())))

    def _add_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, tr("A folder that {name} may use", name=self._name))
        if folder and folder not in self._server.folders:
            self._change(McpServerPatch(folders=[*self._server.folders, folder]))


class ToolRow(ListRow):
    """One tool, and whether models may call it."""

    def __init__(self, theme: Theme, tool: McpTool, allow: Callable[[McpTool, McpPermission], object]) -> None:
        super().__init__(theme, tool.about.name)
        self._tool = tool
        self.choice = DropDown(
            theme,
            tr("May models call {tool}?", tool=tool.about.name),
            [(permission.value, words.tr()) for permission, words in _PERMISSIONS],
        )
        self.choice.chosen.connect(lambda value: allow(self._tool, McpPermission(value)))
        self.tail.addWidget(self.choice, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_tool(self, tool: McpTool) -> None:
        """Show what is so now."""
        self._tool = tool
        words = " ".join(tool.about.description.split())
        if tool.has_changed:
            words = tr("Described otherwise than when you allowed it. {words}", words=words)
        self.show_text(tool.about.title or tool.about.name, words)
        self.setToolTip(words)
        self.choice.set_value(tool.permission.value)


def describe_folders(server: McpServer) -> str:
    """Return what a server may use beside its own program, and which secrets it gets."""
    parts = []
    if server.folders:
        folders = ", ".join(server.folders)
        reads = tr("Reads {folders}.", folders=folders)
        parts.append(reads if server.builtin else tr("May read and change {folders}.", folders=folders))
    if server.env:
        parts.append(tr("Gets the variables {names}.", names=", ".join(server.env)))
    if server.headers:
        parts.append(tr("Sends the headers {names}.", names=", ".join(server.headers)))
    return " ".join(parts)
