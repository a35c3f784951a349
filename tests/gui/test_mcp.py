"""The page of MCP servers: added, imported, allowed, given folders and the network, removed once that is confirmed."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorBody
from app.core.events import McpServersChanged
from app.core.mcp import (
    BuiltinServer,
    McpPermission,
    McpServer,
    McpServerPatch,
    McpServerSettings,
    McpServersImport,
    McpServerState,
    NewMcpServer,
    SetMcpPermission,
)
from app.gui.net.remote_lists import Stores
from app.gui.screens.mcp.model import command_line, parse_new_server
from app.gui.screens.mcp.view import McpScreen, ServerCard, ToolRow, describe_folders
from app.gui.shell.contract import PageId
from app.gui.theme.theme import Theme
from app.gui.widgets.menus import Menu
from tests.demo.api import DemoApi
from tests.demo.mcp import FILES, PROPOSED, SERVERS, TIME, TRACKER
from tests.gui.conftest import QuietShell

CONFIGURATION = '{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}'


@pytest.fixture
def page(theme: Theme, api: DemoApi, shell: QuietShell, qtbot: QtBot) -> McpScreen:
    page = McpScreen(theme, Stores(api, shell), shell)
    qtbot.addWidget(page)
    page.resize(1000, 800)
    page.show()
    shell.is_connected = True
    page.model.store.read()
    api.flush()
    return page


def entries_of(card: ServerCard) -> dict[str, object]:
    card.more.click()
    menu = card.findChildren(Menu)[-1]
    entries = {action.text(): action for action in menu.actions()}
    menu.hide()
    return dict(entries)


def choose(card: ServerCard, words: str) -> None:
    card.more.click()
    menu = card.findChildren(Menu)[-1]
    next(action for action in menu.actions() if action.text() == words).trigger()
    menu.hide()


def test_each_server_says_how_it_stands(page: McpScreen) -> None:
    about = {server.name: page.find_card(server.name).row.accessibleDescription() for server in SERVERS}
    assert about == {
        "files": "Starts when it is first used · no network",
        "shell": "Added by a program, and not confirmed yet",
        "time": "2 tools · no network",
        "tracker": TRACKER.problem,
    }
    assert page.find_card("time").start.isHidden()
    assert not page.find_card("tracker").start.isHidden()
    assert command_line(FILES) == "npx -y @modelcontextprotocol/server-filesystem /home/ada/notes"
    assert command_line(TRACKER) == TRACKER.url
    assert describe_folders(FILES) == "May read and change /home/ada/notes."
    assert describe_folders(TRACKER) == "Sends the headers Authorization."


def test_a_server_is_added_by_its_command_and_started(page: McpScreen, api: DemoApi) -> None:
    form = page.form
    assert not form.add.isEnabled()
    QTest.keyClicks(form.name, "files")
    QTest.keyClicks(form.start, 'npx -y "a b"')
    QTest.keyClick(form.start, Qt.Key.Key_Return)
    settings = McpServerSettings(command="npx", args=["-y", "a b"])
    assert api.bodies_of("POST", "/mcp/servers") == [NewMcpServer(name="files", settings=settings)]
    api.flush()
    assert api.bodies_of("POST", "/mcp/servers/files/start") == [None]
    assert form.name.text() == form.start.text() == ""


def test_what_is_typed_is_checked_first(page: McpScreen, api: DemoApi) -> None:
    form = page.form
    form.name.setText("no/slash")
    form.start.setText("npx x")
    form.add.click()
    assert "the name has characters" in form._wrong.text()
    form.name.setText("fine")
    form.start.setText('npx "x')
    form.add.click()
    assert "quotation mark" in form._wrong.text()
    assert api.bodies_of("POST", "/mcp/servers") == []
    address = parse_new_server("fine", "https://tools.example/mcp")
    assert address == NewMcpServer(name="fine", settings=McpServerSettings(url="https://tools.example/mcp"))


ADDED_AT_ONCE = (BuiltinServer.CALCULATOR, BuiltinServer.FILES, BuiltinServer.PICTURES, BuiltinServer.PYTHON)


def test_what_a_server_lacks_stands_on_its_card(page: McpScreen, api: DemoApi) -> None:
    lack = "No model here makes pictures."
    api.replies["GET /mcp/servers"] = [McpServer(name="painter", builtin=BuiltinServer.PICTURES, lack=lack)]
    page.model.store.read()
    api.flush()
    card = page.find_card("painter")
    assert (card._lack.text(), card._lack.isHidden()) == (lack, False)
    card.show_server(FILES)
    assert card._lack.isHidden()


def test_what_comes_with_the_product_is_one_press_away(
    page: McpScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/home/ada/notes")
    for builtin in ADDED_AT_ONCE:
        page.form.builtin[builtin].click()
    folders = {BuiltinServer.FILES: ["/home/ada/notes"]}
    assert api.bodies_of("POST", "/mcp/servers") == [
        NewMcpServer(name=each, settings=McpServerSettings(builtin=each, folders=folders.get(each, [])))
        for each in ADDED_AT_ONCE
    ]
    api.replies["GET /mcp/servers"] = [replace(FILES, name=builtin) for builtin in BuiltinServer]
    api.flush()
    assert page.form._builtin_place.isHidden(), "all of them are there"


@pytest.mark.parametrize(("text", "variable"), [("https://searx.example", "SEARXNG_URL"), ("BSA-123", "BRAVE_API_KEY")])
def test_the_web_is_searched_by_an_address_or_a_key(page: McpScreen, api: DemoApi, text: str, variable: str) -> None:
    page.form.builtin[BuiltinServer.WEB_SEARCH].click()
    page.form.start.setText(text)
    page.form.add.click()
    settings = McpServerSettings(builtin=BuiltinServer.WEB_SEARCH, env={variable: text})
    assert api.bodies_of("POST", "/mcp/servers") == [NewMcpServer(name="web-search", settings=settings)]


def test_a_configuration_is_pasted_or_read_from_a_file(
    page: McpScreen, api: DemoApi, shell: QuietShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.form.start.setText(CONFIGURATION)
    assert page.form.add.isEnabled(), "it has the names"
    page.form.add.click()
    file = tmp_path / "mcp.json"
    file.write_text(CONFIGURATION)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    page._import_file()
    assert api.bodies_of("POST", "/mcp/servers/import") == [McpServersImport(text=CONFIGURATION)] * 2
    api.flush()
    assert shell.messages[0] == "git added. time left as they are."


def test_a_server_of_a_program_waits_for_a_confirmation(page: McpScreen, api: DemoApi) -> None:
    card = page.find_card("shell")
    assert card.switch.isHidden()
    assert not card.confirm.isHidden()
    assert "curl -s https://tools.example/run | sh" in card._command.text()
    card.confirm.click()
    assert api.bodies_of("PATCH", "/mcp/servers/shell") == [McpServerPatch(is_confirmed=True)]


def test_tools_are_allowed_one_by_one(page: McpScreen, api: DemoApi, shell: QuietShell) -> None:
    row = page.find_card("time").tools.rows["convert_time"]
    assert isinstance(row, ToolRow)
    assert row.choice.value == McpPermission.ASK
    row.choice.chosen.emit("block")
    path = "/mcp/servers/time/tools/convert_time/permission"
    assert api.bodies_of("POST", path) == [SetMcpPermission(permission=McpPermission.BLOCK)]
    changed_tool = replace(TIME.tools[0], has_changed=True, permission=McpPermission.ASK)
    api.replies["GET /mcp/servers"] = [replace(TIME, tools=[changed_tool])]
    shell.broadcast_event(McpServersChanged())
    api.flush()
    (tool_row,) = page.find_card("time").tools.rows.values()
    assert tool_row.accessibleDescription().startswith("Described otherwise than when you allowed it.")


def test_what_a_server_may_reach_is_changed_in_its_menu(
    page: McpScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = page.find_card("files")
    assert set(entries_of(page.find_card("tracker"))) == {"Remove…"}, "it runs elsewhere"
    assert set(entries_of(page.find_card("shell"))) == {"Remove…"}, "it is not confirmed"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: "/home/ada/trips")
    for words in ("Let it reach other computers", "Let it use a folder…", "Take back /home/ada/notes"):
        choose(card, words)
    assert api.bodies_of("PATCH", "/mcp/servers/files") == [
        McpServerPatch(network=True),
        McpServerPatch(folders=["/home/ada/notes", "/home/ada/trips"]),
        McpServerPatch(folders=[]),
    ]


def test_a_server_is_removed_once_that_is_confirmed(page: McpScreen, api: DemoApi, shell: QuietShell) -> None:
    choose(page.find_card("time"), "Remove…")
    ((title, _, command),) = shell.confirmations
    assert title == "Remove time?"
    assert ("DELETE", "/mcp/servers/time", None) not in api.calls
    command.run()
    api.replies["GET /mcp/servers"] = [FILES, PROPOSED]
    api.flush()
    assert ("DELETE", "/mcp/servers/time", None) in api.calls
    assert list(page._list.rows) == ["files", "shell"]
    assert shell.messages == ["time was removed."]


def test_what_went_wrong_is_said_and_dismissed(page: McpScreen, api: DemoApi) -> None:
    api.replies["PATCH /mcp/servers/files"] = ErrorBody(code="disk_full", sentence="The disk is full.")
    page.find_card("files").switch.click()
    api.flush()
    assert not page.error.isHidden()
    page.model.dismiss_refusal()
    assert page.error.isHidden()
    api.replies["GET /mcp/servers"] = []
    page.model.store.read()
    api.flush()
    assert not page._nothing.isHidden()


def test_the_page_is_reached_from_the_settings(page: McpScreen, shell: QuietShell) -> None:
    page.head.itemAt(0).widget().click()  # type: ignore[union-attr] # the button
    assert shell.pages == [PageId.SETTINGS]


def test_a_person_is_led_to_the_servers_own_page(
    page: McpScreen, api: DemoApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    address = "https://tracker.example/authorize?state=x"
    waiting_server = replace(TRACKER, state=McpServerState.SIGN_IN, problem="", sign_in_url=address)
    api.replies["GET /mcp/servers"] = [waiting_server, FILES]
    page.model.store.read()
    api.flush()
    card = page.find_card("tracker")
    assert card.row.accessibleDescription().startswith("Waits until you sign in")
    assert page.find_card("files").sign_in.isHidden()
    card.sign_in.click()
    api.replies["GET /mcp/servers"] = [replace(waiting_server, sign_in_url="file:///etc/passwd")]
    page.model.store.read()
    api.flush()
    page.find_card("tracker").sign_in.click()
    assert urls == [address], "nothing but web pages is opened"
