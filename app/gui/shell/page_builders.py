"""How each page is made. A page's code is imported when it is first shown: the window must be there within a second."""

from collections.abc import Callable, Mapping

from PySide6.QtWidgets import QWidget

from app.gui.net.remote_lists import Stores
from app.gui.shell.contract import PageId, Shell
from app.gui.theme.theme import Theme


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

    def build_connections() -> QWidget:
        from app.gui.screens.connections.view import ConnectionsScreen  # noqa: PLC0415 -- imported when first shown

        return ConnectionsScreen(theme, stores, shell)

    return {
        PageId.CHAT: build_chat,
        PageId.MODELS: build_models,
        PageId.SERVER: build_server,
        PageId.CONNECT: build_connect,
        PageId.MACHINE: build_machine,
        PageId.ENGINES: build_engines,
        PageId.SETTINGS: build_settings,
        PageId.CONNECTIONS: build_connections,
    }
