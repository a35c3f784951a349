"""What is photographed of the settings page, of updates, and of connections to other computers."""

from collections.abc import Iterator

from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.core.connections import ConnectionList
from app.core.profiles import ProfileList
from app.gui.screens.agents.view import AgentsScreen
from app.gui.screens.connections.model import OFFLINE
from app.gui.screens.machines.view import MachinesScreen
from app.gui.screens.mcp.view import McpScreen
from app.gui.screens.profiles.view import ProfilesScreen
from app.gui.screens.settings.view import SettingsScreen
from app.gui.shell.contract import PageId
from app.gui.shell.window import MainWindow
from app.gui.widgets.fields import Field
from tests.demo import agents, connections, data, paired_machines, updates
from tests.demo.api import DemoApi
from tests.demo.scene import BOTH, EVERY_LOOK, Replies, Scene, scroll_down


def settings_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the settings page shows beside its usual state."""
    page = PageId.SETTINGS
    yield Scene("settings-wrong", page, usual, type_wrong_port)
    yield Scene("settings-restart", page, usual, change_port)
    yield Scene("settings-end", page, usual, scroll_down)
    yield from update_scenes(usual)


def type_wrong_port(window: MainWindow, _api: DemoApi) -> None:
    """Type a port that cannot be."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen) and isinstance(field := page.find_row("gateway.port").control, Field):
        field.setFocus(Qt.FocusReason.TabFocusReason)
        field.selectAll()
        QTest.keyClicks(field, "99999")


def change_port(window: MainWindow, api: DemoApi) -> None:
    """Change what needs a restart."""
    page = window.pages.currentWidget()
    if isinstance(page, SettingsScreen):
        info = next(info for info in page.model.preferences.items if info.name == "gateway.port")
        api.replies["PATCH /settings"] = [data.with_value(info, 8080)]
        page.model.change(info, 8080)


def update_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the settings page shows of newer versions."""
    for name, state in updates.STATES.items():
        looks = (*BOTH, *EVERY_LOOK[:3]) if state is updates.NEWER else BOTH
        yield Scene(f"updates-{name}", PageId.SETTINGS, {**usual, "GET /update": state}, looks=looks)


def mcp_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the page of MCP servers shows beside its usual state."""
    yield Scene("mcp-tools", PageId.MCP, usual, unfold_tools, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("mcp-empty", PageId.MCP, {**usual, "GET /mcp/servers": []})


def agent_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the page of coding agents shows beside its usual state."""
    off = {**usual, "GET /agents": replace(agents.LISTED, is_on=False), "GET /agents/sessions": []}
    yield Scene("agents-off", PageId.AGENTS, off)
    yield Scene("agents-session", PageId.AGENTS, usual, open_agent_session, looks=(*BOTH, *EVERY_LOOK[:3]))


def open_agent_session(window: MainWindow, api: DemoApi) -> None:
    """Show a session that asks for permission."""
    page = window.pages.currentWidget()
    if isinstance(page, AgentsScreen):
        page.model.open_session(agents.ASKING)
        for event in agents.EVENTS:
            api.send_event("/agents/sessions/a1/events", event)


def paired_machine_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the page of other computers shows once it is switched on; as it came, it is off."""
    infos = [data.with_value(info, info.name == "machines.enabled" or info.value) for info in data.default_settings()]
    switched_on = {**usual, "GET /settings": infos}
    yield Scene("machines-paired", PageId.MACHINES, switched_on, looks=(*BOTH, *EVERY_LOOK))
    yield Scene("machines-code", PageId.MACHINES, switched_on, show_pairing_code, looks=(*BOTH, *EVERY_LOOK[:3]))
    nobody = replace(paired_machines.LISTED, machines=[])
    yield Scene("machines-none", PageId.MACHINES, {**switched_on, "GET /machines": nobody})


def show_pairing_code(window: MainWindow, _api: DemoApi) -> None:
    """Have this computer show a code."""
    page = window.pages.currentWidget()
    if isinstance(page, MachinesScreen):
        page.code.show_button.click()


def profile_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the page of profiles shows beside its usual state."""
    yield Scene("profiles-plan", PageId.PROFILES, usual, preview_profile)
    yield Scene("profiles-edit", PageId.PROFILES, usual, edit_profile, looks=(*BOTH, *EVERY_LOOK[:3]))
    yield Scene("profiles-empty", PageId.PROFILES, {**usual, "GET /profiles": ProfileList()})


def preview_profile(window: MainWindow, _api: DemoApi) -> None:
    """Ask what using a profile would do."""
    page = window.pages.currentWidget()
    if isinstance(page, ProfilesScreen):
        page.find_card("Night batch").preview.click()


def edit_profile(window: MainWindow, _api: DemoApi) -> None:
    """Open the fields of a profile."""
    page = window.pages.currentWidget()
    if isinstance(page, ProfilesScreen):
        page.find_card("Coding").fold.toggle()


def unfold_tools(window: MainWindow, _api: DemoApi) -> None:
    """Show the tools of a server."""
    page = window.pages.currentWidget()
    if isinstance(page, McpScreen):
        page.find_card("time").fold.toggle()


def connection_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what the connections page shows beside its usual state."""
    page, nothing = PageId.CONNECTIONS, ConnectionList(offline=False, connections=[])
    is_on = [data.with_value(row, True) if row.name == OFFLINE else row for row in data.default_settings()]  # noqa: FBT003 -- a setting's value
    refusals = [connection for connection in connections.CONNECTIONS if connection.refused]
    refused_list = ConnectionList(offline=True, connections=refusals)
    yield Scene(
        "settings-network",
        PageId.SETTINGS,
        act=lambda window, _api: window.shell.request_task(PageId.SETTINGS, OFFLINE),
    )
    yield Scene("connections-empty", page, {**usual, "GET /connections": nothing})
    yield Scene("connections-kept-back", page, {**usual, "GET /settings": is_on, "GET /connections": refused_list})
