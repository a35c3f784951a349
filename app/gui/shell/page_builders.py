"""The pages: how each is made, and the stack they lie in, where each fades over the one before.

A page's code is imported when it is first shown: the window must be there within a second.
"""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QEasingCurve, QVariantAnimation
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import PageId, Shell
from app.gui.theme.theme import Theme
from app.gui.theme.tokens import Motion


def make_builders(
    theme: Theme, stores: Stores, shell: Shell, *, restart: Callable[[], object]
) -> Mapping[PageId, Callable[[], QWidget]]:
    """Return the maker of every page. `restart` starts the service anew, for settings that need it."""

    def build_chat() -> QWidget:
        from app.gui.screens.chat.view import ChatScreen  # noqa: PLC0415 -- imported when first shown

        return ChatScreen(theme, stores, shell)

    def build_models() -> QWidget:
        from app.gui.screens.models.view import ModelsScreen  # noqa: PLC0415 -- imported when first shown

        return ModelsScreen(theme, stores, shell)

    def build_server() -> QWidget:
        from app.gui.screens.server.view import ServerScreen  # noqa: PLC0415 -- imported when first shown

        return ServerScreen(theme, stores, shell, restart=restart)

    def build_connect() -> QWidget:
        from app.gui.screens.connect.view import ConnectScreen  # noqa: PLC0415 -- imported when first shown

        return ConnectScreen(theme, stores, shell)

    def build_machine() -> QWidget:
        from app.gui.screens.machine.view import MachineScreen  # noqa: PLC0415 -- imported when first shown

        return MachineScreen(theme, stores, shell)

    def build_engines() -> QWidget:
        from app.gui.screens.engines.view import EnginesScreen  # noqa: PLC0415 -- imported when first shown

        return EnginesScreen(theme, stores, shell)

    def build_settings() -> QWidget:
        from app.gui.screens.settings.view import SettingsScreen  # noqa: PLC0415 -- imported when first shown

        return SettingsScreen(theme, stores, shell, restart=restart)

    def build_documents() -> QWidget:
        from app.gui.screens.documents.view import DocumentsScreen  # noqa: PLC0415 -- imported when first shown

        return DocumentsScreen(theme, stores, shell)

    return {
        PageId.CHAT: build_chat,
        PageId.MODELS: build_models,
        PageId.SERVER: build_server,
        PageId.CONNECT: build_connect,
        PageId.MACHINE: build_machine,
        PageId.ENGINES: build_engines,
        PageId.SETTINGS: build_settings,
        **_make_other_builders(theme, stores, shell),
    }


def _make_other_builders(theme: Theme, stores: Stores, shell: Shell) -> Mapping[PageId, Callable[[], QWidget]]:
    """Return the makers of the pages that are not on the rail."""

    def build_connections() -> QWidget:
        from app.gui.screens.connections.view import ConnectionsScreen  # noqa: PLC0415 -- imported when first shown

        return ConnectionsScreen(theme, stores, shell)

    def build_documents() -> QWidget:
        from app.gui.screens.documents.view import DocumentsScreen  # noqa: PLC0415 -- imported when first shown

        return DocumentsScreen(theme, stores, shell)

    def build_mcp() -> QWidget:
        from app.gui.screens.mcp.view import McpScreen  # noqa: PLC0415 -- imported when first shown

        return McpScreen(theme, stores, shell)

    def build_agents() -> QWidget:
        from app.gui.screens.agents.view import AgentsScreen  # noqa: PLC0415 -- imported when first shown

        return AgentsScreen(theme, stores, shell)

    def build_benchmarks() -> QWidget:
        from app.gui.screens.benchmarks.view import BenchmarksScreen  # noqa: PLC0415 -- imported when first shown

        return BenchmarksScreen(theme, stores, shell)

    def build_profiles() -> QWidget:
        from app.gui.screens.profiles.view import ProfilesScreen  # noqa: PLC0415 -- imported when first shown

        return ProfilesScreen(theme, stores, shell)

    def build_machines() -> QWidget:
        from app.gui.screens.machines.view import MachinesScreen  # noqa: PLC0415 -- imported when first shown

        return MachinesScreen(theme, stores, shell)

    return {
        PageId.CONNECTIONS: build_connections,
        PageId.MCP: build_mcp,
        PageId.AGENTS: build_agents,
        PageId.DOCUMENTS: build_documents,
        PageId.BENCHMARKS: build_benchmarks,
        PageId.PROFILES: build_profiles,
        PageId.MACHINES: build_machines,
    }


class _FadeOverlay(QWidget):
    """A picture of the page before, fading away above the new one."""

    def __init__(self, parent: QWidget, picture: QPixmap, duration: int) -> None:
        super().__init__(parent)
        self._picture, self._opacity = picture, 1.0
        self.setGeometry(parent.rect())
        fade = QVariantAnimation(self)
        fade.setDuration(duration)
        fade.setStartValue(1.0)
        fade.setEndValue(0.0)
        fade.setEasingCurve(QEasingCurve.Type.OutCubic)
        fade.valueChanged.connect(self._set_opacity)
        fade.finished.connect(self.deleteLater)
        fade.start()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 -- Qt's name
        """Draw the picture as far as it is still there."""
        del event
        painter = QPainter(self)
        painter.setOpacity(self._opacity)
        painter.drawPixmap(0, 0, self._picture)

    def _set_opacity(self, value: object) -> None:
        self._opacity = float(value) if isinstance(value, (int, float)) else 0.0
        self.update()


class PageStack(QStackedWidget):
    """The pages by name. `builders` make each one the first time."""

    def __init__(self, theme: Theme, builders: Mapping[PageId, Callable[[], QWidget]]) -> None:
        super().__init__()
        self._theme, self._builders = theme, builders
        self._pages: dict[PageId, QWidget] = {}
        self.page: PageId | None = None

    def show_page(self, page: PageId) -> QWidget:
        """Bring a page to the front and return it."""
        if page is self.page:
            return self._pages[page]
        before = self.currentWidget() if self.page is not None and self.isVisible() else None
        duration = self._theme.duration(Motion.PAGE)
        picture = before.grab() if before is not None and duration else None
        if page not in self._pages:
            self._pages[page] = self._builders[page]()
            self.addWidget(self._pages[page])
        self.setCurrentWidget(self._pages[page])
        self.page = page
        if picture is not None:
            veil = _FadeOverlay(self, picture, duration)
            veil.show()
            veil.raise_()
        return self._pages[page]

    def find_page(self, page: PageId) -> QWidget | None:
        """Return a page if it has been shown before."""
        return self._pages.get(page)
