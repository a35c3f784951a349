"""Chats out of the program and into it."""

import json
import shutil
from pathlib import Path

from tests.demo.real_window.rows_order import begin_chat
from tests.demo.real_window.window import RealWindow

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "chats"


def export_formats(window: RealWindow) -> None:
    """One chat, written as Markdown, JSON, HTML and PDF by the ending of the file's name."""
    begin_chat(window, "Chat to export")
    for suffix, beginning_bytes in (
        (".md", b"# Chat to export"),
        (".json", b"{"),
        (".html", b"<!"),
        (".pdf", b"%PDF-"),
    ):
        assert export(window, f"exported{suffix}").startswith(beginning_bytes), suffix


def export(window: RealWindow, name: str) -> bytes:
    """Export the open chat into a file, and return what is in it."""
    path = window.folder / name
    window.choose_entry("More about this chat", "Export this chat…")
    window.enter_path(path)
    window.find(f"The chat was written to {name}.*")
    return path.read_bytes().lstrip()


def export_all_and_import(window: RealWindow) -> None:
    """All chats in one JSON file; importing that file changes nothing."""
    path = window.folder / "all.json"
    count = len(window.chats())
    window.choose_entry("More about chats", "Export all chats…")
    window.enter_path(path)
    window.find(r"All chats were written to all\.json.*")
    assert len(json.loads(path.read_bytes())["chats"]) == count
    window.choose_entry("More about chats", "Import chats…")
    window.enter_path(path)
    window.find(".*nothing.*|.*already.*")
    window.take_picture("imported-again")
    assert len(window.chats()) == count


def import_from_others(window: RealWindow) -> None:
    """The exports of ChatGPT, Claude, Open WebUI, LM Studio, llama.cpp's page, and Jan's folder, each into the list."""
    for name in ("chatgpt.json", "claude.json", "open_webui.json", "1742000000000.conversation.json", "llama_cpp.json"):
        import_one(window, name, is_folder=False)
    import_one(window, "jan", is_folder=True)
    window.take_picture("imported")


def import_one(window: RealWindow, name: str, *, is_folder: bool) -> None:
    """Import a file or a folder; there are more chats then."""
    path = window.folder / name
    if is_folder:
        shutil.copytree(_FIXTURES / name, path, dirs_exist_ok=True)
    else:
        shutil.copyfile(_FIXTURES / name, path)
    count = len(window.chats())
    window.choose_entry("More about chats", "Import a folder of chats…" if is_folder else "Import chats…")
    window.enter_path(path)
    window.wait_for(lambda: len(window.chats()) > count, f"the chats of {name}")
