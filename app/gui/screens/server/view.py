"""The server page: the address in large letters, how to use it, what runs, who may use it, and the live log."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QButtonGroup, QSizePolicy, QWidget

from app.core.errors import ErrorBody
from app.core.events import LogLine
from app.core.translation import tr
from app.gui.net.remote_lists import Stores
from app.gui.screens.server.deployment_model import DeploymentModel
from app.gui.screens.server.deployment_view import DeploymentSection
from app.gui.screens.server.engine_row import EngineRow
from app.gui.screens.server.fleets_model import FleetsModel
from app.gui.screens.server.fleets_view import FleetsSection
from app.gui.screens.server.inspector import InspectorSection
from app.gui.screens.server.keys_model import KeysModel
from app.gui.screens.server.keys_view import KeysSection
from app.gui.screens.server.log_model import LogModel
from app.gui.screens.server.model import ServerModel, SnippetKind
from app.gui.screens.server.request_list import RequestStore
from app.gui.shell.contract import PageId as PageName
from app.gui.shell.contract import Shell
from app.gui.theme.theme import Theme
from app.gui.widgets.buttons import Button, ButtonLook, Chip, IconButton
from app.gui.widgets.code import LogView, Snippet
from app.gui.widgets.fields import CopyField, Field
from app.gui.widgets.flow_layout import FlowLayout
from app.gui.widgets.layout import HBox, Surface, VBox
from app.gui.widgets.panels import ErrorPanel, PageFrame, Section
from app.gui.widgets.rows import ListRow, RowList
from app.gui.widgets.status import Dot, Skeleton
from app.gui.widgets.text import Label, Paragraph

_LOG_HEIGHT = 280
_WARNING_WORDS = ("error", "failed", "fatal")


class ServerScreen(PageFrame):
    """Shows a `ServerModel` and a `LogModel`."""

    def __init__(self, theme: Theme, stores: Stores, shell: Shell, *, restart: Callable[[], object]) -> None:
        super().__init__(theme, tr("Server"))
        self._shell = shell
        self.model = ServerModel(stores, shell)
        self.log = LogModel(stores.api, shell)
        self.keys = KeysSection(theme, KeysModel(stores, shell), shell, restart=restart)
        self.fleets = FleetsSection(theme, FleetsModel(stores, shell))
        self.deployment = DeploymentSection(theme, DeploymentModel(stores, shell))
        self.requests = RequestStore(stores, shell)
        self._dialect = SnippetKind.CURL
        self._dot, self._serving_label = Dot(theme), Label(theme, color="ink-2")
        self.head.addWidget(self._dot)
        self.head.addWidget(self._serving_label)
        self._trouble = ErrorPanel(theme)
        running_section, inspector = self._make_engines_section(), InspectorSection(theme, self.requests)
        for part in (
            self._trouble,
            self._endpoint_card(),
            running_section,
            self.fleets,
            self.deployment,
            inspector,
            self.keys,
            self._log_section(),
        ):
            self.body.addWidget(part)
        self.body.addStretch(1)
        self.model.changed.connect(self._show_server)
        self.model.toast_requested.connect(shell.show_toast)
        self.model.failed.connect(self._show_error)
        self.keys.model.toast_requested.connect(shell.show_toast)
        self.keys.model.failed.connect(self._show_error)
        self.keys.model.keys_changed.connect(self.requests.read_usage)
        self.fleets.model.failed.connect(self._show_error)
        self.model.log_requested.connect(self._show_log_of)
        self.requests.failed.connect(self._show_error)
        self.log.appended.connect(self._add_lines)
        self.log.replaced.connect(self._show_log)
        theme.changed.connect(self._show_log)
        self._show_server()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802 -- Qt's name
        """Follow the log while it can be seen."""
        self.log.start_watching()
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802 -- Qt's name
        """Let go of the log."""
        self.log.stop_watching()
        super().hideEvent(event)

    def _endpoint_card(self) -> QWidget:
        theme = self.theme
        card = Surface(theme)
        card.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        box = VBox(theme, card, margins=(24, 16, 24, 24), gap=12)
        self._url = CopyField(
            theme, tr("Endpoint"), partial(self._shell.copy_text, message=tr("The address was copied")), role="title"
        )
        lead = HBox(theme, margins=(0, 0, 0, 0))
        lead.addWidget(self._url)
        lead.addStretch(1)
        box.addLayout(lead)
        self._about = Paragraph(theme, color="ink-2")
        about = HBox(theme, margins=(8, 0, 0, 0))
        about.addWidget(self._about, 1)
        box.addLayout(about)
        chips = HBox(theme, margins=(8, 0, 0, 0))
        chips.addLayout(self._dialect_chips(), 1)
        box.addLayout(chips)
        self._snippet = Snippet(
            theme, tr("Snippet"), partial(self._shell.copy_text, message=tr("The snippet was copied"))
        )
        snippet = HBox(theme, margins=(8, 0, 0, 0))
        snippet.addWidget(self._snippet)
        box.addLayout(snippet)
        return card

    def _dialect_chips(self) -> FlowLayout:
        line = FlowLayout(self.theme)
        group = QButtonGroup(self)
        for dialect in SnippetKind:
            chip = Chip(self.theme, tr("Editor") if dialect is SnippetKind.EDITOR else dialect.value)
            chip.setChecked(dialect is self._dialect)
            chip.set_action(partial(self._choose_dialect, dialect))
            group.addButton(chip)
            line.addWidget(chip)
        return line

    def _make_engines_section(self) -> QWidget:
        section = Section(self.theme, tr("Running models"))
        self.pause = Button(
            self.theme, tr("Pause"), look=ButtonLook.QUIET, icon="pause", action=self.model.paused.toggle
        )
        self.pause.setToolTip(
            tr("Free all memory once the answers in progress are finished, and load nothing until resumed")
        )
        section.head.addWidget(self.pause)
        self._skeleton = Skeleton(self.theme, 1, is_card=True)
        self._list = RowList(self.theme, tr("Running models"))
        self._idle = Surface(self.theme)
        row = ListRow(
            self.theme, tr("No model is loaded"), tr("The first request for one loads it, and so does a chat.")
        )
        to_models = partial(self._shell.show_page, PageName.MODELS)
        row.tail.addWidget(Button(self.theme, tr("Choose a model"), action=to_models))
        VBox(self.theme, self._idle, margins=(0, 4, 0, 4)).addWidget(row)
        self._idle.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        for widget in (self._skeleton, self._list, self._idle):
            section.body.addWidget(widget)
        return section

    def _log_section(self) -> QWidget:
        theme = self.theme
        section = Section(theme, tr("Log"))
        self._log_search = search = Field(theme, tr("Filter the log"), placeholder=tr("Filter"), icon="filter")
        search.setMaximumWidth(theme.px(200))
        search.textChanged.connect(self.log.set_filter)
        pause = Chip(theme, tr("Pause"))
        pause.toggled.connect(self.log.set_paused)
        copy = IconButton(
            theme,
            "copy",
            tr("Copy the log"),
            action=lambda: self._shell.copy_text(self.log.visible_text(), tr("The log was copied")),
        )
        for widget in (search, pause, copy):
            section.head.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        sheet = Surface(theme, fill="sunken")
        self._log_view = LogView(theme, tr("Engine log"))
        self._log_view.setMinimumHeight(theme.px(_LOG_HEIGHT))
        self._log_view.setPlaceholderText(tr("What the engines write appears here."))
        VBox(theme, sheet, margins=(12, 12, 4, 12)).addWidget(self._log_view)
        section.body.addWidget(sheet, 1)
        return section

    def _show_server(self) -> None:
        model = self.model
        is_serving = model.is_serving
        self._dot.show_state("ok" if is_serving else "edge", tr("Serving") if is_serving else tr("Off"))
        self._serving_label.setText(model.service_words)
        self._url.setEnabled(bool(model.base_url))
        self._url.set_value(model.base_url or tr("No address yet"))
        self._about.setText(model.notice or model.about)
        self._about.set_color("warn" if model.notice else "ink-2")
        self._snippet.set_text(model.format_snippet(self._dialect))
        engines = model.list_engines()
        self._list.sync(
            {status.model: status for status in engines},
            lambda status: EngineRow(self.theme, model, status),
            EngineRow.show_status,
        )
        is_paused = model.paused.state.is_paused
        self.pause.set_text(tr("Resume") if is_paused else tr("Pause"))
        self.pause.set_icon("play" if is_paused else "pause")
        self.pause.setEnabled(is_serving)
        is_known = model.running.is_known
        self._skeleton.setVisible(not is_known)
        self._list.setVisible(bool(engines))
        self._idle.setVisible(is_known and not engines)

    def _choose_dialect(self, dialect: SnippetKind) -> None:
        self._dialect = dialect
        self._snippet.set_text(self.model.format_snippet(dialect))

    def _add_lines(self, lines: list[LogLine]) -> None:
        self._log_view.add_lines([(line.text, _line_color(line)) for line in lines])

    def _show_log_of(self, name: str) -> None:
        self._log_search.setText(name)
        self.scroller.ensureWidgetVisible(self._log_view)

    def _show_log(self) -> None:
        self._log_view.clear()
        self._add_lines(self.log.visible_lines())

    def _show_error(self, error: ErrorBody) -> None:
        self._trouble.show_error(error, tr("Dismiss"), self._trouble.hide)


def _line_color(line: LogLine) -> str:
    text = line.text.casefold()
    return "bad" if any(word in text for word in _WARNING_WORDS) else "ink-2"
