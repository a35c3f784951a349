"""The connect page: the tools found on this computer, each with its wiring in place; the others folded."""

from functools import partial

from PySide6.QtWidgets import QWidget

from app.core.tools import ToolInfo
from app.gui.net.remote_lists import Stores
from app.gui.screens.connect.model import ConnectModel
from app.gui.screens.connect.tool_row import ToolRow
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.layout import VBox
from app.gui.widgets.menus import DropDown
from app.gui.widgets.panels import EmptyState, ErrorPanel, Fold, PageFrame
from app.gui.widgets.rows import RowList
from app.gui.widgets.status import Skeleton
from app.gui.widgets.text import Paragraph

_ABOUT = (
    "Point the tools you use at this computer's models. You see each change before it is written. The original file "
    "is kept, and Undo restores it byte for byte."
)
_WIDEST = 280


class ConnectScreen(PageFrame):
    """Shows a `ConnectModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell) -> None:
        super().__init__(theme, "Connect")
        self._shell = shell
        self.model = ConnectModel(stores, shell)
        self._choice = DropDown(theme, "Model for the tools", self.model.model_options(), widest=_WIDEST)
        self._choice.chosen.connect(self.model.choose_model)
        self.head.addWidget(self._choice)
        self._trouble = ErrorPanel(theme)
        self._skeleton = Skeleton(theme, 4, is_card=True)
        self._nothing = EmptyState(
            theme,
            "plug",
            "No tools found",
            "You can still look at the tools below, and connect them before you install them.",
        )
        self._here, self._others = RowList(theme, "Installed tools"), RowList(theme, "Other tools")
        place = QWidget()
        VBox(theme, place, gap=0).addWidget(self._others)
        self._fold = Fold(theme, "Other tools", place)
        self.body.addWidget(Paragraph(theme, _ABOUT, color="ink-2"))
        for part in (self._trouble, self._skeleton, self._nothing, self._here, self._fold):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_tools)
        self.model.toast_requested.connect(shell.show_toast)
        self._show_tools()

    def _show_tools(self) -> None:
        model = self.model
        here, others, is_known = model.local_tools, model.other_tools, model.tools.is_known
        self._choice.set_options(model.model_options())
        self._sync_rows(self._here, here)
        self._sync_rows(self._others, others)
        self._skeleton.setVisible(not is_known and model.tools.error is None)
        self._nothing.setVisible(is_known and not here)
        self._here.setVisible(bool(here))
        self._fold.setVisible(bool(others))
        self._fold.set_title(f"Other tools ({len(others)})")
        self._trouble.setVisible(model.tools.error is not None)
        if model.tools.error is not None:
            self._trouble.show_error(model.tools.error, "Try again", model.tools.read)

    def _sync_rows(self, rows: RowList, tools: list[ToolInfo]) -> None:
        copy = partial(self._shell.copy_text, message="Copied")
        rows.sync(
            {tool.id: tool for tool in tools},
            lambda tool: ToolRow(self.theme, self.model, tool, copy),
            ToolRow.show_tool,
        )
