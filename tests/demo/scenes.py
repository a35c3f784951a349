"""What is photographed: all scenes there are.

Every page is drawn in every look; what is special (long names, errors, nothing there, no gateway) in light and dark.
"""

from collections.abc import Iterator

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.core.engines import EngineState
from app.gui.shell.contract import PageId
from app.gui.shell.quit_flow import QuitContext, QuitFlow, ServiceOwner
from app.gui.shell.window import MainWindow
from tests.demo import data
from tests.demo.api import DemoApi
from tests.demo.benchmark_scenes import benchmark_scenes
from tests.demo.chat_scenes import chat_scenes, open_chat, with_chat
from tests.demo.document_scenes import document_scenes
from tests.demo.machine_scenes import machine_scenes
from tests.demo.model_scenes import model_scenes
from tests.demo.scene import BOTH, EVERY_LOOK, USUAL_LOOKS, Replies, Scene, SceneLook
from tests.demo.server_scenes import connect_scenes, engine_scenes, server_scenes
from tests.demo.settings_scenes import (
    agent_scenes,
    connection_scenes,
    mcp_scenes,
    paired_machine_scenes,
    profile_scenes,
    settings_scenes,
)


def all_scenes() -> Iterator[Scene]:
    """Yield everything that is photographed."""
    usual = data.gateway_replies()
    much = data.gateway_replies(
        statuses=[data.READY, data.FAILED], models=[*data.MODELS, data.LONG_MODEL, data.RTL_MODEL]
    )
    yield from page_scenes(usual, much)
    yield from chat_scenes(usual, much)
    yield from model_scenes(usual, much)
    yield from server_scenes(usual, much)
    yield from connect_scenes(usual)
    yield from machine_scenes(usual, much)
    yield from benchmark_scenes(usual)
    yield from engine_scenes(usual)
    yield from connection_scenes(usual)
    yield from settings_scenes(usual)
    yield from mcp_scenes(usual)
    yield from agent_scenes(usual)
    yield from profile_scenes(usual)
    yield from paired_machine_scenes(usual)
    yield from document_scenes(usual)
    yield from window_scenes(usual)


def page_scenes(usual: Replies, much: Replies) -> Iterator[Scene]:
    """Yield every page in every look, mirrored, before the gateway answers, and without it."""
    for page in PageId:
        act = open_chat if page is PageId.CHAT else do_nothing
        yield Scene(page.value, page, with_chat(usual), act, looks=USUAL_LOOKS)
        yield Scene(f"{page.value}-mirrored", page, with_chat(much), act, looks=(SceneLook(is_mirrored=True),))
        yield Scene(f"{page.value}-waiting", page, {})
        yield Scene(f"{page.value}-offline", page, {}, lose_gateway, is_online=False)


def window_scenes(usual: Replies) -> Iterator[Scene]:
    """Yield what stands around the pages: the palette, toasts, a pause, the questions before the window closes."""
    server, chat = PageId.SERVER, PageId.CHAT
    draining_status = msgspec.structs.replace(data.READY, state=EngineState.DRAINING)
    paused_replies = {**data.gateway_replies(statuses=[draining_status]), "GET /pause": data.PAUSED}
    looks = (*BOTH, *EVERY_LOOK[:3], SceneLook(is_mirrored=True))
    yield Scene("palette", chat, with_chat(usual), open_palette)
    yield Scene("toast", PageId.MODELS, usual, show_toast)
    yield Scene("paused", chat, with_chat(paused_replies), looks=looks)
    yield Scene("closing", chat, with_chat(usual), lambda window, _: make_quit_flow(window).may_close(), looks=looks)
    yield Scene("quitting", server, usual, lambda window, _: make_quit_flow(window).quit(), looks=looks)
    yield Scene("focus", server, usual, press_tab)
    yield Scene("menu", server, usual, lambda window, _api: window.menuBar().show())


def lose_gateway(window: MainWindow, _api: DemoApi) -> None:
    """Have the window told that nobody answers."""
    window.show_disconnected(data.OFFLINE)


def show_toast(window: MainWindow, _api: DemoApi) -> None:
    """Say what was done, with the way back."""
    window.toast.show_message("Qwen3 8B was unloaded.", int)


def make_quit_flow(window: MainWindow) -> QuitFlow:
    """Return what asks a person who leaves a window that started its service itself."""
    context = QuitContext(
        stores=window.stores,
        service=lambda: ServiceOwner.OURS,
        tray=window.tray,
        question=window.question,
    )
    return QuitFlow(window, context)


def do_nothing(_window: MainWindow, _api: DemoApi) -> None:
    """Take the page as it comes."""


def open_palette(window: MainWindow, _api: DemoApi) -> None:
    """Open the palette and type."""
    window.palette_view.open()
    window.palette_view.field.setText("lo")


def press_tab(window: MainWindow, _api: DemoApi) -> None:
    """Show the focus ring."""
    window.activateWindow()
    for _ in range(7):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
