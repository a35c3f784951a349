"""Documents and presentations of LibreOffice as Markdown: text, headings, lists, tables, notes.

What was struck out while changes were tracked, and what others remarked at the margin, is not part of the text.
"""

from collections.abc import Iterator

# Only what `Package` read is walked here; it refuses entities, which are what is dangerous about XML.
from xml.etree import ElementTree as ET

_NAMESPACE = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_TEXT, _TABLE, _DRAW, _OFFICE = (_NAMESPACE % name for name in ("text", "table", "drawing", "office"))
_PRESENTATION = _NAMESPACE % "presentation"
_LEFT_OUT = frozenset(
    {
        f"{_TEXT}tracked-changes",
        f"{_OFFICE}annotation",
        f"{_OFFICE}forms",
        f"{_TEXT}sequence-decls",
        f"{_TEXT}note-citation",
    }
)
_PARAGRAPHS = frozenset({f"{_TEXT}p", f"{_TEXT}h"})
_SIGNS = {f"{_TEXT}tab": "\t", f"{_TEXT}line-break": "\n"}
_MOST_BLANKS = 100
"""Of blanks that a document asks for by their number."""
_DEEPEST_HEADING = 6
_LISTS = frozenset({f"{_TEXT}list"})


def document_text(tree: ET.Element) -> str:
    """Return the body of `content.xml` of a document as Markdown."""
    body = tree.find(f".//{_OFFICE}text")
    return "" if body is None else "\n\n".join(_blocks(body))


def slide_texts(tree: ET.Element) -> list[str]:
    """Return the pages of a presentation or drawing, each with its number and its notes."""
    slides = []
    for number, page in enumerate(tree.iter(f"{_DRAW}page"), 1):
        notes = page.find(f"{_PRESENTATION}notes")
        if notes is not None:
            page.remove(notes)
        lines = [f"## Slide {number}", *_blocks(page)]
        note = [] if notes is None else list(_blocks(notes))
        slides.append("\n".join([*lines, *(("", "Notes:", *note) if note else ())]))
    return slides


def _blocks(parent: ET.Element, depth: int = 0) -> Iterator[str]:
    """Yield paragraphs, items and tables below an element. `depth` says in how many lists it is."""
    for element in parent:
        if element.tag in _LEFT_OUT:
            continue
        if element.tag in _PARAGRAPHS:
            if text := _words(element).strip():
                yield f"{_heading_mark(element)}{text}"
        elif element.tag in _LISTS:
            yield from _items(element, depth)
        elif element.tag == f"{_TABLE}table":
            yield _table(element)
        else:
            yield from _blocks(element, depth)


def _heading_mark(paragraph: ET.Element) -> str:
    level = paragraph.get(f"{_TEXT}outline-level", "1")
    if paragraph.tag != f"{_TEXT}h" or not level.isdecimal():
        return ""
    return "#" * min(max(1, int(level)), _DEEPEST_HEADING) + " "


def _items(items: ET.Element, depth: int) -> Iterator[str]:
    blank = "  " * depth
    for item in items:
        if lines := "\n".join(_blocks(item, depth + 1)):
            yield f"{blank}- {lines}"


def _table(table: ET.Element) -> str:
    rows = []
    for row in table.iter(f"{_TABLE}table-row"):
        cells = [cell for cell in row if cell.tag == f"{_TABLE}table-cell"]
        rows.append("| " + " | ".join(" ".join(_blocks(cell)).replace("\n", " ") for cell in cells) + " |")
    if rows:
        columns = rows[0].count(" | ") + 1
        rows.insert(1, "|" + " --- |" * columns)
    return "\n".join(rows)


def _words(paragraph: ET.Element) -> str:
    """Return the text of a paragraph with that of footnotes and text boxes in it."""
    parts = [paragraph.text or ""]
    for element in paragraph:
        if element.tag == f"{_TEXT}s":
            count = element.get(f"{_TEXT}c", "1")
            parts.append(" " * min(int(count) if count.isdecimal() else 1, _MOST_BLANKS))
        elif element.tag == f"{_TEXT}note":
            parts.append(f" [{' '.join(_blocks(element))}]")
        elif element.tag in _SIGNS:
            parts.append(_SIGNS[element.tag])
        elif element.tag not in _LEFT_OUT:
            parts.append(_words(element))
        parts.append(element.tail or "")
    return "".join(parts)
