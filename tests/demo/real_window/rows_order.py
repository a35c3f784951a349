"""Chats in order: folders, pins, the archive, tags, the trash; and how they are found again."""

from collections.abc import Callable

from app.core.chats import Chat, ChatFolder, ChatShelf, ChatSummary
from tests.demo.real_window.accessible import Node
from tests.demo.real_window.rows_files import last_question
from tests.demo.real_window.window import RealWindow

_QUESTION = "what is a quantised model"


def pin(window: RealWindow) -> None:
    """Pin, in the menu of a chat's row: it stands below a heading of its own, above the others."""
    chat = begin_chat(window, "Pinned chat")
    open_row_menu(window, "Pinned chat")
    window.choose_in_menu("Pin")
    window.find("Pinned", "list item")
    window.wait_for(lambda: summary_of(window, chat).is_pinned, "the pin")
    open_row_menu(window, "Pinned chat")
    window.choose_in_menu("Unpin")
    window.wait_for(lambda: not summary_of(window, chat).is_pinned, "the end of the pin")


def archive(window: RealWindow) -> None:
    """Archive: the chat leaves the list, stands among the archived ones, and Undo brings it back."""
    chat = begin_chat(window, "Archived chat")
    open_row_menu(window, "Archived chat")
    window.choose_in_menu("Archive")
    window.wait_gone("Archived chat", "list item")
    window.wait_for(lambda: chat.id in shelf_ids(window, ChatShelf.ARCHIVED), "the archived chat")
    window.press_button("Undo")
    window.find("Archived chat", "list item")


def tag(window: RealWindow) -> None:
    """Two tags, typed with commas; the palette shows the chats that have one of them."""
    chat = begin_chat(window, "Tagged chat")
    window.choose_command("Tags of this chat")
    window.find("Tags, with commas between them", "text")
    window.write("work, boilers")
    window.press_button("Done")
    window.wait_for(lambda: set(summary_of(window, chat).tags) == {"work", "boilers"}, "the tags")
    window.choose_command("Show chats with #boilers")
    window.wait_for(lambda: len(window.list_rows()) == 1, "the tagged chat alone")
    window.take_picture("tagged")
    window.press_button("Back to your chats")


def use_folder(window: RealWindow) -> None:
    """A folder with a system prompt and a file: a new chat in it has both, and says so."""
    path = window.folder / "shed.txt"
    path.write_text("The shed has nine tracks. " * 10, encoding="utf-8")
    add_folder(window, "Sheds")
    open_row_menu(window, "Sheds.*")
    window.choose_in_menu("What new chats get…")
    window.press_button("System prompt of new chats", "text")
    window.write("Answer in metres.")
    window.press_button("Add files")
    window.enter_path(path)
    window.find(r"shed\.txt, .*tokens")
    window.take_picture("folder")
    window.press_button("Close folder")
    window.choose_command("New chat in Sheds")
    window.find("In “Sheds”, with.*")
    window.ask(_QUESTION)
    chat = window.chat()
    assert chat.system_prompt == "Answer in metres."
    assert [file.name for file in last_question(window).attachments] == ["shed.txt"]
    window.take_picture("folder-chat")


def drag_into_folder(window: RealWindow) -> None:
    """A chat is dragged onto a folder with the mouse."""
    chat = begin_chat(window, "Dragged chat")
    add_folder(window, "Yards")
    start, end = (window.tree.area(window.find(name, "list item")).middle for name in ("Dragged chat", "Yards.*"))
    window.drag(start, end)
    window.wait_for(lambda: get_chat(window, chat).folder, "the chat in the folder")
    window.take_picture("dragged")


def trash(window: RealWindow) -> None:
    """Delete with the key in the list: the chat lies in the trash, and Undo opens it again."""
    chat = begin_chat(window, "Deleted chat")
    window.press_button("Deleted chat", "list item")
    window.focus_list()
    window.press("Delete")
    window.wait_gone("Deleted chat", "list item")
    window.find("New chat", "filler")
    window.wait_for(lambda: chat.id in shelf_ids(window, ChatShelf.TRASH), "the chat in the trash")
    window.press_button("Undo")
    window.find("Deleted chat", "list item")
    window.find("Conversation")


def find_in_palette(window: RealWindow) -> None:
    """A chat is found in the palette by words of its answer, and opened with Return."""
    begin_chat(window, "Chat for the palette")
    window.new_chat("Guide")
    window.press("ctrl+k")
    window.write("Chat for the pal")
    window.find("Chat for the palette.*", "list item")
    window.take_picture("palette")
    window.press("Return")
    window.find("Conversation")


def open_search_hit(window: RealWindow) -> None:
    """A word in the first answer of a long chat is searched in all chats; the hit opens the chat at that answer."""
    begin_chat(window, "Long chat")
    window.choose_model("Writer")
    for _ in range(4):
        window.ask("write the page")
    window.new_chat("Guide")
    window.press("ctrl+shift+f")
    window.write("quantisation")
    window.wait_for(lambda: any(name.startswith("Long chat") for name in window.list_rows()), "the hit")
    window.press_button("Long chat.*", "list item")
    window.find("1 of 1", "label")
    window.take_picture("search-hit")
    window.press_button("Search chats", "text")
    window.press("ctrl+a", "BackSpace")
    window.focus_composer()


def find_in_chat(window: RealWindow) -> None:
    """Ctrl+F: places are counted, Return goes to the next, Escape ends it."""
    begin_chat(window, "Searched chat")
    window.press("ctrl+f")
    window.write("mod")
    window.find("1 of [0-9]+")
    window.press("Return")
    window.find("2 of [0-9]+")
    window.take_picture("find")
    window.press("Escape")
    window.wait_gone("2 of [0-9]+")


def begin_chat(window: RealWindow, title: str) -> Chat:
    """Ask the Guide in a new chat, and give it a title with F2."""
    window.new_chat("Guide")
    window.ask(_QUESTION)
    chat = window.chat()
    rename(window, title, lambda: window.press("F2"))
    window.wait_for(lambda: get_chat(window, chat).title == title, "the title")
    window.focus_composer()
    return chat


def rename(window: RealWindow, title: str, begin: Callable[[], object]) -> None:
    """Have a title be edited, and type another."""
    window.tree.forget_focus()
    begin()
    window.wait_for(lambda: window.tree.hear_focus(1) == "Title of the chat", "the field for the title")
    window.press("ctrl+a")
    window.write(title)
    window.press("Return")


def add_folder(window: RealWindow, name: str) -> None:
    """Add a folder from the menu below the list."""
    rename(window, name, lambda: window.choose_entry("More about chats", "New folder"))
    window.wait_for(
        lambda: name in [item.name for item in window.client.get("/chats/folders", list[ChatFolder])], "the folder"
    )


def open_row_menu(window: RealWindow, title: str) -> Node:
    """Open the menu of a row with the right button."""
    row = window.find(title, "list item")
    window.click(row, button=3)
    return row


def get_chat(window: RealWindow, chat: Chat) -> Chat:
    """Return a chat as it is stored now."""
    return window.client.get(f"/chats/{chat.id}", Chat)


def summary_of(window: RealWindow, chat: Chat) -> ChatSummary:
    """Return a chat's line in the list."""
    return next(item for item in window.client.get("/chats", list[ChatSummary]) if item.id == chat.id)


def shelf_ids(window: RealWindow, shelf: ChatShelf) -> list[str]:
    """Return the chats on a shelf."""
    return [item.id for item in window.client.get(f"/chats?shelf={shelf}", list[ChatSummary])]
