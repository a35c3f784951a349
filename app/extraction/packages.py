"""Documents that are ZIP archives of XML: Word, PowerPoint and Excel since 2007, LibreOffice, and books in EPUB.

An archive is looked at before anything in it is unpacked: how much it would come to, and of how many files. XML that
declares entities is refused; no program that writes such documents does.
"""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from urllib.parse import unquote

# Entities, which are what is dangerous about this parser, are refused before it is used.
from xml.etree import ElementTree as ET

from app.core.attachments import AttachmentKind, Extraction
from app.extraction.open_document import document_text, slide_texts
from app.extraction.plain_text import read_page, unknown_problem
from app.extraction.problems import UnreadableFile, damage_problem, excess_problem, no_text_problem, password_problem

_MOST_BYTES = 256 * 1024 * 1024
"""Of all files when unpacked: documents are mostly pictures, which hardly shrink."""
_MOST_FILES = 20_000
_MOST_XML_BYTES = 96 * 1024 * 1024
"""Of one file of XML, which takes several times as much when read."""
_ENCRYPTED_FLAG = 0x1
_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_SHEETS = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_BOOK = "application/epub+zip"


class Package:
    """An archive whose size is known to be bearable."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        try:
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise damage_problem("document") from error
        self.names = self._archive.namelist()
        entries = self._archive.infolist()
        if len(entries) > _MOST_FILES or sum(entry.file_size for entry in entries) > _MOST_BYTES:
            raise excess_problem()
        if any(entry.flag_bits & _ENCRYPTED_FLAG for entry in entries):
            raise password_problem("document")

    def read(self, name: str) -> bytes:
        """Return a file of it. Raises UnreadableFile."""
        try:
            if self._archive.getinfo(name).file_size > _MOST_XML_BYTES:
                raise excess_problem()
            return self._archive.read(name)
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise damage_problem("document") from error
        except zlib.error as error:
            raise damage_problem("document") from error

    def read_xml(self, name: str) -> ET.Element:
        """Return a file of XML. Raises UnreadableFile."""
        content = self.read(name)
        refuse_entities(content)
        try:
            return ET.fromstring(content)  # noqa: S314 -- see above
        except ET.ParseError as error:
            raise damage_problem("document") from error


def read_package(content: bytes) -> Extraction:
    """Return the text of such a document. Raises UnreadableFile."""
    package = Package(content)
    names = set(package.names)
    if "word/document.xml" in names:
        return _document(_read_word(package), _WORD)
    if "ppt/presentation.xml" in names:
        slides = list(_read_slides(package))
        return _document("\n\n".join(slides), _SLIDES, pages=len(slides))
    if "xl/workbook.xml" in names or "xl/workbook.bin" in names:
        return _read_sheets(package, _SHEETS)
    if "content.xml" in names and "mimetype" in names:
        return _read_open_document(package)
    if "META-INF/container.xml" in names:
        return _document("\n\n".join(_read_book(package)), _BOOK)
    raise unknown_problem("It is an archive: attach the files in it.")


def refuse_entities(content: bytes) -> None:
    """Raise UnreadableFile for XML that declares entities, in any encoding that XML is read in."""
    if b"<!ENTITY" in content or b"<!ENTITY" in content.replace(b"\0", b""):
        raise damage_problem("document")


def _document(text: str, media_type: str, pages: int | None = None) -> Extraction:
    return Extraction(kind=AttachmentKind.DOCUMENT, media_type=media_type, text=text, pages=pages)


def _read_word(package: Package) -> str:
    """Return a Word document as Markdown, headings, lists, tables and notes kept."""
    import mammoth  # noqa: PLC0415 -- a tenth of a second, which other documents need not wait for

    for name in package.names:
        if name.endswith((".xml", ".rels")):
            refuse_entities(package.read(name))
    ignore_pictures = mammoth.images.img_element(lambda _picture: {"src": ""})
    try:
        page = mammoth.convert_to_html(io.BytesIO(package.content), convert_image=ignore_pictures).value
    except UnreadableFile:
        raise
    except Exception as error:
        raise damage_problem("document") from error
    return read_page(page)


_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PRESENTATION = "{http://schemas.openxmlformats.org/presentationml/2006/main}"


def _read_slides(package: Package) -> Iterator[str]:
    """Yield the text of each slide in the order in which they are shown, with its notes."""
    targets = _relations(package, "ppt/presentation.xml")
    slides = package.read_xml("ppt/presentation.xml").iter(f"{_PRESENTATION}sldId")
    for number, slide in enumerate(slides, 1):
        name = targets.get(slide.get(_RELATION, ""), "")
        if name not in package.names:
            continue
        lines = [f"## Slide {number}", *_paragraphs(package.read_xml(name))]
        notes = (target for target in _relations(package, name).values() if "/notesSlides/" in f"/{target}")
        note = [line for target in notes if target in package.names for line in _paragraphs(package.read_xml(target))]
        yield "\n".join([*lines, *(("", "Notes:", *note) if note else ())])


def _paragraphs(tree: ET.Element) -> Iterator[str]:
    for element in tree.iter():
        if element.tag == f"{_DRAWING}tr":
            yield "| " + " | ".join(_text_of(cell) for cell in element.iter(f"{_DRAWING}tc")) + " |"
        elif element.tag == f"{_PRESENTATION}txBody" and (text := _text_of(element)):
            yield text


def _text_of(element: ET.Element) -> str:
    paragraphs = ("".join(map(_piece_text, paragraph.iter())) for paragraph in element.iter(f"{_DRAWING}p"))
    return "\n".join(text for text in paragraphs if text.strip())


def _piece_text(piece: ET.Element) -> str:
    if piece.tag == f"{_DRAWING}t":
        return piece.text or ""
    return "\n" if piece.tag == f"{_DRAWING}br" else ""


def _relations(package: Package, name: str) -> dict[str, str]:
    """Return which files of a package a file of it refers to, by the id it does so with."""
    folder, _, base = name.rpartition("/")
    place = f"{folder}/_rels/{base}.rels"
    if place not in package.names:
        return {}
    return {
        relation.get("Id", ""): posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
        for relation in package.read_xml(place)
        if relation.get("TargetMode") != "External"
    }


_OPEN = "application/vnd.oasis.opendocument."
_LONGEST_TYPE = 100
_MANIFEST = "META-INF/manifest.xml"


def _read_open_document(package: Package) -> Extraction:
    """Return the text of LibreOffice's formats. Raises UnreadableFile."""
    if _MANIFEST in package.names and b"encryption-data" in package.read(_MANIFEST):
        raise password_problem("document")
    media_type = package.read("mimetype")[:_LONGEST_TYPE].decode(errors="replace").strip()
    kind = media_type.removeprefix(_OPEN).removesuffix("-template")
    if kind == "spreadsheet":
        refuse_entities(package.read("content.xml"))
        return _read_sheets(package, media_type)
    if kind in {"presentation", "graphics"}:
        slides = slide_texts(package.read_xml("content.xml"))
        return _document("\n\n".join(slides), media_type, pages=len(slides))
    if kind == "text":
        return _document(document_text(package.read_xml("content.xml")), media_type)
    raise unknown_problem("It is a part of a LibreOffice document: save it as a document or a PDF, and attach that.")


def _read_sheets(package: Package, media_type: str) -> Extraction:
    """Return the tables of a workbook as text that spreadsheets and models read alike: fields parted by tabs."""
    import python_calamine  # noqa: PLC0415 -- as above

    from app.extraction.sheets import list_rows  # noqa: PLC0415 -- it needs that library

    try:
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(package.content))
    except python_calamine.PasswordError as error:
        raise password_problem("workbook") from error
    except Exception as error:
        raise damage_problem("workbook") from error
    text, is_cut = list_rows(workbook)
    return Extraction(
        kind=AttachmentKind.DOCUMENT,
        media_type=media_type,
        text=text,
        pages=len(workbook.sheet_names),
        is_cut=is_cut,
    )


_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_OPF = "{http://www.idpf.org/2007/opf}"


def _read_book(package: Package) -> Iterator[str]:
    """Yield the chapters of a book in reading order, as Markdown."""
    if "META-INF/encryption.xml" in package.names and "META-INF/rights.xml" in package.names:
        raise password_problem("book")
    root = package.read_xml("META-INF/container.xml").find(f".//{_CONTAINER}rootfile")
    place = "" if root is None else root.get("full-path", "")
    outline = package.read_xml(place)
    files = {item.get("id", ""): item.get("href", "") for item in outline.iter(f"{_OPF}item")}
    chapters = [files.get(entry.get("idref", ""), "") for entry in outline.iter(f"{_OPF}itemref")]
    if not chapters:
        raise no_text_problem("book")
    folder = posixpath.dirname(place)
    for chapter in chapters:
        name = posixpath.normpath(posixpath.join(folder, unquote(chapter)))
        if name in package.names and (text := read_page(package.read(name).decode(errors="replace"))):
            yield text
