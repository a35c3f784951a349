"""Text files, whatever their encoding, and files that are text with a form of their own.

Those are web pages, notebooks and Rich Text.
"""

import codecs
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from app.core.attachments import FileProblem
from app.extraction.problems import UnreadableFile, damage_problem

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""How files begin that say their encoding; the longer marks of UTF-32 come before those of UTF-16 they begin with."""
_CONTROLS = {chr(code) for code in range(32)} - set("\t\n\r\f\v\b\x1b") | {"\x7f"}
_MOST_CONTROLS = 0.001
_LOOK_CHARACTERS = 100_000
_CUT = "unexpected end of data"
"""What Python says of a last character that is not all there."""
_WESTERN = "cp1252"
"""What most text in one byte per character is in; no text says so itself."""


def decode_text(content: bytes) -> str:
    """Return a text file's text with plain line ends. Raises UnreadableFile for what is no text."""
    text = _decode(content)
    look = text[:_LOOK_CHARACTERS]
    if "\0" in look or sum(character in _CONTROLS for character in look) > _MOST_CONTROLS * len(look):
        raise unknown_problem()
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode(content: bytes) -> str:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            try:
                return content.decode(encoding)
            except UnicodeDecodeError:
                raise damage_problem("text file") from None
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        whole = content[: error.start]
        if error.reason == _CUT and not whole.isascii():
            return whole.decode()
    return content.decode(_WESTERN, errors="replace")


def unknown_problem(hint: str = "") -> UnreadableFile:
    """Return what is said of a file that nothing here reads."""
    return UnreadableFile(
        FileProblem.UNKNOWN,
        "Roundhouse cannot read files of this kind.",
        hint=hint
        or "Attach text, code, a PDF, a document of Office or LibreOffice, a book in EPUB, a picture or a sound.",
    )


def read_page(text: str) -> str:
    """Return a web page as Markdown, without its scripts and pictures."""
    import bs4  # noqa: PLC0415 -- a tenth of a second, which other files need not wait for
    from markdownify import MarkdownConverter  # noqa: PLC0415 -- as above

    page = bs4.BeautifulSoup(_drop_comments(text), "html.parser")
    for element in page(["script", "style", "noscript", "template", "svg", "img", "video", "audio", "iframe", "head"]):
        element.decompose()
    markdown: str = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(page)
    return _squeeze_lines(markdown)


def _drop_comments(text: str) -> str:
    """Return a page without comments and marked sections, of which one that is not closed goes to the end.

    Python's parser looks for the end of each anew: 200,000 that are not closed take it half a minute.
    """
    for mark, end in (("<!--", "-->"), ("<![", "]>")):
        parts, at = [], 0
        while (start := text.find(mark, at)) >= 0:
            parts.append(text[at:start])
            stop = text.find(end, start)
            at = len(text) if stop < 0 else stop + len(end)
        text = "".join([*parts, text[at:]])
    return text


def _squeeze_lines(text: str) -> str:
    """Leave one empty line where there are several."""
    lines: list[str] = []
    for line in map(str.rstrip, text.splitlines()):
        if line or (lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip()


class _Cell(msgspec.Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    outputs: list[dict[str, Any]] = []


class _Notebook(msgspec.Struct):
    """Of Jupyter, format 4."""

    cells: list[_Cell]


def read_notebook(content: bytes) -> str:
    """Return the cells of a notebook as Markdown, with the text of their outputs."""
    try:
        notebook = msgspec.json.decode(content, type=_Notebook)
    except msgspec.MsgspecError:
        raise damage_problem("notebook") from None
    return "\n\n".join(part for cell in notebook.cells for part in _cell_parts(cell) if part.strip())


def _cell_parts(cell: _Cell) -> Iterator[str]:
    source = _join(cell.source)
    yield f"```\n{source}\n```" if cell.cell_type == "code" and source.strip() else source
    for output in cell.outputs:
        text = output.get("text") or (output.get("data") or {}).get("text/plain") or output.get("evalue") or ""
        if _join(text).strip():
            yield f"Output:\n```\n{_join(text).rstrip()}\n```"


def _join(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines)


_FIELD = re.compile(r"\\fldinst", re.IGNORECASE)
"""What begins the address of a link. The library looks for its end anew each time: 20,000 take it half a minute."""

_DATA = re.compile(r"(?<![0-9A-Fa-f\r\n])[0-9A-Fa-f\r\n]{64,}(?=\})")
"""The bytes of a picture or an object, at the end of a group. The library takes half a second for a MiB of them."""
_DATA_GROUPS = ("\\pict", "\\*\\objdata")
_BRACE = re.compile(r"[{}]")
_BEFORE_DATA = 4_000
"""How far from its data a picture's group may begin: its measures and its name stand between."""
_MOST_DATA = 10_000
"""Of more pictures the rest is left to the library: looking before each takes as long as some thousands of digits."""


def read_rich_text(content: bytes) -> str:
    """Return what is written in a Rich Text document; the cells of its tables are parted by `|`."""
    from striprtf.striprtf import rtf_to_text  # noqa: PLC0415 -- few files are of this kind

    try:
        source = _drop_data(_FIELD.sub(r"\\fldtype", content.decode("latin-1")))
        text: str = rtf_to_text(source, errors="replace")  # type: ignore[no-untyped-call]  # it has no types
    except (ValueError, LookupError, OverflowError) as error:  # a character of no number, an encoding of no name
        raise damage_problem("document") from error
    return _squeeze_lines(text)


def _drop_data(source: str) -> str:
    """Return a document without the digits of its pictures and objects; digits elsewhere are its text."""

    def replace_data(run: re.Match[str]) -> str:
        return "" if _ends_in_data(source[max(0, run.start() - _BEFORE_DATA) : run.start()]) else run[0]

    return _DATA.sub(replace_data, source, count=_MOST_DATA)


def _ends_in_data(before: str) -> bool:
    """Tell whether the last group that is open at the end of a piece of a document is a picture's or an object's."""
    closed_count = 0
    for brace in reversed(list(_BRACE.finditer(before))):
        if brace[0] == "}":
            closed_count += 1
        elif closed_count:
            closed_count -= 1
        else:
            return before.startswith(_DATA_GROUPS, brace.end())
    return False
