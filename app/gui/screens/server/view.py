"""The server page: the address in large letters, how to use it, what runs, who may use it, and the live log."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QButtonGroup, QSizePolicy, QWidget

from app.core.errors import ErrorBody
from app.core.events import LogLine
from app.gui.net.stores import Stores
from app.gui.screens.server.inspector import InspectorSection
from app.gui.screens.server.keys_model import KeysModel
from app.gui.screens.server.keys_view import KeysSection
from app.gui.screens.server.log import LogModel
from app.gui.screens.server.model import Dialect, ServerModel
from app.gui.screens.server.requests import RequestStore
from app.gui.screens.server.rows import EngineRow
from app.gui.shell.contract import Page as PageName
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.code import LogView, Snippet
from app.gui.widgets.fields import CopyField, Field
from app.gui.widgets.flow import Flow
from app.gui.widgets.layout import Column, Line, Surface
from app.gui.widgets.panels import ErrorPanel, Page, Section
from app.gui.widgets.press import Button, Chip, IconButton, Look
from app.gui.widgets.rows import Row, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_LOG_HEIGHT = 280
_WARNING_WORDS = ("error", "failed", "fatal")


class ServerScreen(Page):
    """Shows a `ServerModel` and a `LogModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell, *, restart: Callable[[], object]) -> None:
        super().__init__(theme, "Server")
        self._shell = shell
        self.model = ServerModel(stores, shell)
        self.log = LogModel(stores.api, shell)
        self.keys = KeysSection(theme, KeysModel(stores, shell), shell, restart=restart)
        self.requests = RequestStore(stores, shell)
        self._dialect = Dialect.CURL
        self._dot, self._serving = Dot(theme), Label(theme, color="ink-2")
        self.head.addWidget(self._dot)
        self.head.addWidget(self._serving)
        self._trouble = ErrorPanel(theme)
        running, inspector = self._running_section(), InspectorSection(theme, self.requests)
        for part in (self._trouble, self._endpoint_card(), running, inspector, self.keys, self._log_section()):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show)
        self.model.said.connect(shell.toast)
        self.model.failed.connect(self._say)
        self.keys.model.said.connect(shell.toast)
        self.keys.model.failed.connect(self._say)
        self.model.log_asked.connect(self._show_log_of)
        self.requests.failed.connect(self._say)
        self.log.appended.connect(self._add_lines)
        self.log.replaced.connect(self._show_log)
        theme.changed.connect(self._show_log)
        self._show()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 -- Qt's name
        """Follow the log while it can be seen."""
        self.log.watch()
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 -- Qt's name
        """Let go of the log."""
        self.log.rest()
        super().hideEvent(event)

    def _endpoint_card(self) -> QWidget:
        theme = self.theme
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = Column(theme, card, margins=(24, 16, 24, 24), gap=12)
        self._url = CopyField(theme, "Endpoint", partial(self._shell.copy, said="The address was copied"), role="title")
        lead = Line(theme, margins=(0, 0, 0, 0))
        lead.addWidget(self._url)
        lead.addStretch(1)
        box.addLayout(lead)
        self._about = Paragraph(theme, color="ink-2")
        about = Line(theme, margins=(8, 0, 0, 0))
        about.addWidget(self._about, 1)
        box.addLayout(about)
        chips = Line(theme, margins=(8, 0, 0, 0))
        chips.addLayout(self._dialect_chips(), 1)
        box.addLayout(chips)
        self._snippet = Snippet(theme, "Snippet", partial(self._shell.copy, said="The snippet was copied"))
        snippet = Line(theme, margins=(8, 0, 0, 0))
        snippet.addWidget(self._snippet)
        box.addLayout(snippet)
        return card

    def _dialect_chips(self) -> Flow:
        line = Flow(self.theme)
        group = QButtonGroup(self)
        for dialect in Dialect:
            chip = Chip(self.theme, dialect.value)
            chip.setChecked(dialect is self._dialect)
            chip.act(partial(self._choose_dialect, dialect))
            group.addButton(chip)
            line.addWidget(chip)
        return line

    def _running_section(self) -> QWidget:
        section = Section(self.theme, "Running models")
        self.pause = Button(self.theme, "Pause", look=Look.QUIET, icon="pause", action=self.model.paused.toggle)
        self.pause.setToolTip(
            "Free all memory once the answers in progress are finished, and load nothing until resumed"
        )
        section.head.addWidget(self.pause)
        self._skeleton = Skeleton(self.theme, 1, is_card=True)
        self._list = RowList(self.theme, "Running models")
        self._idle = Surface(self.theme)
        row = Row(self.theme, "No model is loaded", "The first request for one loads it, and so does a chat.")
        to_models = partial(self._shell.show_page, PageName.MODELS)
        row.tail.addWidget(Button(self.theme, "Choose a model", action=to_models))
        Column(self.theme, self._idle, margins=(0, 4, 0, 4)).addWidget(row)
        self._idle.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        for widget in (self._skeleton, self._list, self._idle):
            section.body.addWidget(widget)
        return section

    def _log_section(self) -> QWidget:
        theme = self.theme
        section = Section(theme, "Log")
        self._log_search = search = Field(theme, "Filter the log", placeholder="Filter", icon="filter")
        search.setMaximumWidth(theme.px(200))
        search.textChanged.connect(self.log.look_for)
        pause = Chip(theme, "Pause")
        pause.toggled.connect(self.log.pause)
        copy = IconButton(
            theme, "copy", "Copy the log", action=lambda: self._shell.copy(self.log.text(), "The log was copied")
        )
        for widget in (search, pause, copy):
            section.head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        sheet = Surface(theme, fill="sunken")
        self._log_view = LogView(theme, "Engine log")
        self._log_view.setMinimumHeight(theme.px(_LOG_HEIGHT))
        self._log_view.setPlaceholderText("What the engines write appears here.")
        Column(theme, sheet, margins=(12, 12, 4, 12)).addWidget(self._log_view)
        section.body.addWidget(sheet, 1)
        return section

    def _show(self) -> None:
        model = self.model
        is_serving = model.is_serving
        self._dot.say("ok" if is_serving else "edge", "Serving" if is_serving else "Off")
        self._serving.setText(model.serving)
        self._url.setEnabled(bool(model.base_url))
        self._url.set_value(model.base_url or "No address yet")
        self._about.setText(model.notice or model.about)
        self._about.set_color("warn" if model.notice else "ink-2")
        self._snippet.set_text(model.snippet(self._dialect))
        engines = model.engines()
        self._list.sync(
            {status.model: status for status in engines},
            lambda status: EngineRow(self.theme, model, status),
            EngineRow.show_status,
        )
        is_paused = model.paused.state.is_paused
        self.pause.set_text("Resume" if is_paused else "Pause")
        self.pause.set_icon("play" if is_paused else "pause")
        self.pause.setEnabled(is_serving)
        known = model.running.is_known
        self._skeleton.setVisible(not known)
        self._list.setVisible(bool(engines))
        self._idle.setVisible(known and not engines)

    def _choose_dialect(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._snippet.set_text(self.model.snippet(dialect))

    def _add_lines(self, lines: list[LogLine]) -> None:
        self._log_view.add([(line.text, _color(line)) for line in lines])

    def _show_log_of(self, name: str) -> None:
        self._log_search.setText(name)
        self.scroller.ensureWidgetVisible(self._log_view)

    def _show_log(self) -> None:
        self._log_view.clear()
        self._add_lines(self.log.shown())

    def _say(self, error: ErrorBody) -> None:
        self._trouble.say(error, "Dismiss", self._trouble.hide)


def _color(line: LogLine) -> str:
    text = line.text.casefold()
    return "bad" if any(word in text for word in _WARNING_WORDS) else "ink-2"
