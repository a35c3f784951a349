"""Files and pictures in questions."""

import io
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from app.core.attachments import AttachmentKind
from app.core.chats import Message, Role
from tests import file_corpus
from tests.demo.real_window.window import RealWindow

_KINDS: dict[str, Callable[[], bytes]] = {
    "report.pdf": file_corpus.pdf_of,
    "letter.docx": lambda: file_corpus.zip_of(file_corpus.docx_parts()),
    "costs.xlsx": lambda: file_corpus.zip_of(file_corpus.xlsx_parts()),
    "page.html": lambda: b"<h1>Steam</h1><p>Forty locomotives are kept dry.</p>",
    "list.csv": lambda: b"engine,speed\nllama.cpp,41\n",
    "study.ipynb": file_corpus.notebook_of,
    "book.epub": lambda: file_corpus.zip_of(file_corpus.epub_parts()),
}


def write_files(folder: Path) -> list[Path]:
    """Write a file of each kind, and return them."""
    folder.mkdir(exist_ok=True)
    for name, make_content in _KINDS.items():
        (folder / name).write_bytes(make_content())
    return [folder / name for name in _KINDS]


def write_picture(path: Path, color: str) -> Path:
    """Write a picture of one colour."""
    stream = io.BytesIO()
    Image.new("RGB", (320, 240), color).save(stream, "PNG")
    path.write_bytes(stream.getvalue())
    return path


def attach_with_button(window: RealWindow) -> None:
    """Two files by the paper clip; each card says size and tokens; one is removed; the other is in the question."""
    paths = write_files(window.folder / "kinds")
    window.new_chat("Guide")
    window.press_button("Attach files")
    window.enter_path([paths[3], paths[4]])
    window.find(r"list\.csv, .*tokens")
    window.find(r"page\.html, .*tokens")
    window.take_picture("attached")
    window.press_button(r"Remove page\.html")
    window.wait_gone(r"page\.html, .*")
    window.ask("what is in it")
    assert [file.name for file in last_question(window).attachments] == ["list.csv"]


def attach_by_drag(window: RealWindow) -> None:
    """A file is dragged from another program's window onto the conversation."""
    path = window.folder / "dragged.txt"
    path.write_text("The turntable turns twice a day. " * 20, encoding="utf-8")
    window.new_chat("Guide")
    with window.beside("tests.demo.real_window.drag_source", str(path)):
        source = window.tree.area(window.find(r".*dragged\.txt", "label")).middle
        window.drag(source, window.tree.area(window.find("New chat", "filler")).middle)
        window.find(r"dragged\.txt, .*tokens")
    window.ask("what is in it")
    assert [file.name for file in last_question(window).attachments] == ["dragged.txt"]


def attach_by_paste(window: RealWindow) -> None:
    """A picture on the clipboard is pasted with Ctrl+V, with its size and cost."""
    window.new_chat("Sighted")
    window.put_on_clipboard(write_picture(window.folder / "red.png", "red"), "image/png")
    window.press("ctrl+v")
    window.find(r"Pasted picture\.png, .*tokens")
    window.take_picture("pasted")
    window.ask("what is it")
    assert [file.kind for file in last_question(window).attachments] == [AttachmentKind.PICTURE]


def warn_before_sending(window: RealWindow) -> None:
    """A picture for a model that cannot see: a sentence before it is sent, and a button that asks one that can."""
    window.new_chat("Guide")
    window.press_button("Attach files")
    window.enter_path(write_picture(window.folder / "blue.png", "blue"))
    window.find(r"blue\.png, .*tokens")
    window.find(".*cannot see pictures.*")
    window.take_picture("cannot-see")
    window.press_button("Ask Sighted.*")
    window.wait_gone(".*cannot see pictures.*")
    answer = window.ask("what is it")
    assert answer.model == "sighted", answer.model
    assert answer.timings is not None


def see_pixels(window: RealWindow) -> None:
    """A red and a blue picture, asked the same at temperature 0, get answers that differ: the pixels arrive."""
    answers = []
    for color in ("red", "blue"):
        window.new_chat("Sighted")
        set_sampling(window, **{"Temperature": "0", "Longest answer": "24"})
        window.press_button("Attach files")
        window.enter_path(write_picture(window.folder / f"{color}.png", color))
        window.find(rf"{color}\.png, .*tokens")
        answers.append(window.ask("what is it").content)
    assert answers[0] != answers[1]


def read_documents(window: RealWindow) -> None:
    """PDF, DOCX, XLSX, HTML, CSV, a notebook and an EPUB with one question; their words are in the prompt."""
    paths = write_files(window.folder / "kinds")
    window.new_chat("Guide")
    window.press_button("Attach files")
    window.enter_path(paths)
    for path in paths:
        window.find(rf"{path.name}, .*tokens")
    window.take_picture("documents")
    answer = window.ask("what is in them")
    assert sorted(file.name for file in last_question(window).attachments) == sorted(_KINDS)
    assert answer.timings is not None
    assert (answer.timings.prompt_tokens or 0) > sum(file.tokens for file in last_question(window).attachments) / 2


def refuse_broken_file(window: RealWindow) -> None:
    """A PDF that is cut off is a sentence at its card, and the question can still be asked without it."""
    path = window.folder / "cut.pdf"
    path.write_bytes(file_corpus.pdf_of()[:40])
    window.new_chat("Guide")
    window.press_button("Attach files")
    window.enter_path(path)
    window.find(r"cut\.pdf: .*damaged.*")
    window.take_picture("damaged")
    window.press_button(r"Remove cut\.pdf")
    window.ask("what is a quantised model")


def set_sampling(window: RealWindow, **values: str) -> None:
    """Fill fields of the sampling card."""
    window.press_button("Sampling", "check box")
    for name, value in values.items():
        window.press_button(rf"{name}\..*", "text")
        window.press("ctrl+a")
        window.write(value)
        window.press("Tab")
    window.press_button("Close sampling")


def last_question(window: RealWindow) -> Message:
    """Return what was asked last in the newest chat."""
    return [message for message in window.chat().messages if message.role is Role.USER][-1]
