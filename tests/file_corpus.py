"""Files as people and attackers send them, made here: whole ones of every kind that is read, and what is done to them.

`whole_files` are read; `hostile_files` are cut, changed, mislabelled, encrypted, and made to take more than they give.
`python -m tests.file_corpus FOLDER` writes them all: making some of them takes hundreds of megabytes for a moment.
"""

import io
import json
import math
import random
import struct
import sys
import wave
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from PIL import Image

from tests.depth import trials

WORDS = "The turntable was built in 1903"
SECRET = "the-contents-of-a-file-of-yours"
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
_A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_OPEN = "application/vnd.oasis.opendocument."
_O = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{"drawing" if name == "draw" else name}:1.0"'
    for name in ("office", "text", "table", "draw", "presentation")
)
_RELATIONS = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


class CorpusFile(NamedTuple):
    """A file, and what is expected: codes of problems, of which one comes; empty if any outcome but a crash will do."""

    name: str
    content: bytes
    kind: str = ""
    codes: tuple[str, ...] = ()


def zip_of(parts: dict[str, str | bytes], level: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of these files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", level) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _types(name: str, kind: str) -> str:
    return (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{name}" ContentType="{kind}"/></Types>'
    )


def _root(target: str) -> str:
    return _RELATIONS.format(f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="{target}"/>')


def docx_parts(body: str = f"<w:p><w:r><w:t>{WORDS}</w:t></w:r></w:p>", prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a Word document."""
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return {
        "[Content_Types].xml": _types("word/document.xml", kind),
        "_rels/.rels": _root("word/document.xml"),
        "word/document.xml": f"{prolog}<w:document {_W}><w:body>{body}</w:body></w:document>",
    }


def pptx_parts(text: str = WORDS, prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a presentation of one slide with notes."""
    shape = "<p:sp><p:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp>"
    slide = f"<p:sld {_P} {_A}><p:cSld><p:spTree>{shape.format(text)}</p:spTree></p:cSld></p:sld>"
    notes = f"<p:notes {_P} {_A}><p:cSld><p:spTree>{shape.format('A note')}</p:spTree></p:cSld></p:notes>"
    presentation = f'<p:presentation {_P} {_R}><p:sldIdLst><p:sldId id="1" r:id="s1"/></p:sldIdLst></p:presentation>'
    return {
        "[Content_Types].xml": "<Types/>",
        "ppt/presentation.xml": presentation,
        "ppt/_rels/presentation.xml.rels": _RELATIONS.format(
            f'<Relationship Id="s1" Type="{_OFFICE}/slide" Target="slides/slide1.xml"/>'
        ),
        "ppt/slides/slide1.xml": prolog + slide,
        "ppt/slides/_rels/slide1.xml.rels": _RELATIONS.format(
            f'<Relationship Id="n1" Type="{_OFFICE}/notesSlide" Target="../notesSlides/notesSlide1.xml"/>'
        ),
        "ppt/notesSlides/notesSlide1.xml": notes,
    }


def xlsx_parts(
    rows: str = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{WORDS}</t></is></c><c r="B1"><v>3</v></c></row>',
    prolog: str = "",
) -> dict[str, str | bytes]:
    """Return the parts of a workbook of one sheet."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    return {
        "[Content_Types].xml": _types("xl/workbook.xml", kind),
        "_rels/.rels": _root("xl/workbook.xml"),
        "xl/workbook.xml": f"<workbook {_S} {_R}><sheets>"
        '<sheet name="Data" sheetId="1" r:id="s1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": _RELATIONS.format(
            f'<Relationship Id="s1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
        ),
        "xl/worksheets/sheet1.xml": f"{prolog}<worksheet {_S}><sheetData>{rows}</sheetData></worksheet>",
    }


def epub_parts(chapter: str = f"<html><body><p>{WORDS}</p></body></html>", prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a book of one chapter."""
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        "OEBPS/book.opf": f'{prolog}<package xmlns="http://www.idpf.org/2007/opf"><manifest>'
        '<item id="c1" href="chapter%201.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="c1"/></spine></package>',
        "OEBPS/chapter 1.xhtml": chapter,
    }


def open_parts(kind: str, body: str, prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a document of LibreOffice: of the kind "text", "spreadsheet" or "presentation"."""
    root = f"<office:document-content {_O}><office:body>{body}</office:body></office:document-content>"
    manifest = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    return {"mimetype": _OPEN + kind, "META-INF/manifest.xml": manifest, "content.xml": prolog + root}


def odt_parts(body: str = f"<text:p>{WORDS}</text:p>", prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a text document."""
    return open_parts("text", f"<office:text>{body}</office:text>", prolog)


def ods_parts(rows: str = "", prolog: str = "", words: str = WORDS) -> dict[str, str | bytes]:
    """Return the parts of a workbook of one sheet: of these rows, or of one cell with these words."""
    cell = f'<table:table-cell office:value-type="string"><text:p>{words}</text:p></table:table-cell>'
    rows = rows or f"<table:table-row>{cell}</table:table-row>"
    sheet = f'<office:spreadsheet><table:table table:name="Data">{rows}</table:table></office:spreadsheet>'
    return open_parts("spreadsheet", sheet, prolog)


def odp_parts(text: str = WORDS, prolog: str = "") -> dict[str, str | bytes]:
    """Return the parts of a presentation of one slide with notes."""
    box = "<draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    notes = f"<presentation:notes>{box.format('A note')}</presentation:notes>"
    page = f"<draw:page>{box.format(text)}{notes}</draw:page>"
    return open_parts("presentation", f"<office:presentation>{page}</office:presentation>", prolog)


def rtf_of(words: str = WORDS) -> bytes:
    """Return a document of Rich Text."""
    return rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}\f0\fs24 " + words.encode() + rb"\par}"


def pdf_of(pages: int = 1, *, stream: bytes = b"", trailer: str = "", kids: str = "") -> bytes:
    """Return a PDF that shows the words on each page; `stream` is packed content that stands in their place."""
    text = f"BT /F1 12 Tf 72 720 Td ({WORDS}) Tj ET".encode()
    filter_entry = b"/Filter /FlateDecode " if stream else b""
    content = b"<< %s/Length %d >> stream\n%s\nendstream" % (filter_entry, len(stream or text), stream or text)
    numbers = range(5, 5 + pages)
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 3 0 R >> >> >>"
    )
    tree = kids or f"[{' '.join(f'{number} 0 R' for number in numbers)}]"
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids {tree} /Count {pages} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        content,
        *(page for _ in numbers),
    ]
    output, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(bodies, 1):
        places.append(len(output))
        output += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = len(output)
    output += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    output += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(
        output + f"trailer << /Size {len(places) + 1} /Root 1 0 R {trailer} >>\nstartxref\n{table}\n%%EOF\n".encode()
    )


def wav_of(seconds: float = 1.0, *, rate: int = 16_000, channels: int = 1, frequency: float = 440.0) -> bytes:
    """Return a tone; its frequency in Hz."""
    period = [round(16_000 * math.sin(2 * math.pi * frequency * at / rate)) for at in range(rate)]
    count = round(seconds * rate)
    tone = (period * (count // rate + 1))[:count]
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{count * channels}h", *(value for value in tone for _ in range(channels))))
    return stream.getvalue()


def mp3_of(frames: int = 40) -> bytes:
    """Return silence: frames of 128 kbit/s and 44,100 samples a second, with nothing in them."""
    return (b"\xff\xfb\x90\xc4" + bytes(413)) * frames


def flac_of(value: int = 1000) -> bytes:
    """Return one frame of 4,096 equal samples."""
    details = (
        struct.pack(">HH", 4096, 4096) + bytes(6) + (16_000 << 44 | 15 << 36 | 4096).to_bytes(8, "big") + bytes(16)
    )
    head = bytes([0xFF, 0xF8, 0xC5, 0x08, 0x00])
    body = head + bytes([_crc(head, 0x07, 8)]) + b"\0" + struct.pack(">h", value)
    return b"fLaC\x80\0\0\x22" + details + body + _crc(body, 0x8005, 16).to_bytes(2, "big")


def _crc(content: bytes, polynomial: int, bits: int) -> int:
    """Return the check that FLAC ends its heads and frames with."""
    value, top, mask = 0, 1 << (bits - 1), (1 << bits) - 1
    for byte in content:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 ^ polynomial) & mask if value & top else value << 1 & mask
    return value


def scan_of(pages: int = 2, size: tuple[int, int] = (64, 48)) -> bytes:
    """Return a PDF that shows pictures of pages."""
    stream = io.BytesIO()
    first, *others = [Image.linear_gradient("L").resize(size).rotate(90 * at) for at in range(pages)]
    first.save(stream, "PDF", save_all=True, append_images=others)
    return stream.getvalue()


def picture_of(kind: str, size: tuple[int, int] = (64, 48)) -> bytes:
    """Return a picture with some structure in it."""
    stream = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(stream, kind)
    return stream.getvalue()


def notebook_of(source: str = WORDS) -> bytes:
    """Return a notebook of one cell."""
    cell = {"cell_type": "markdown", "metadata": {}, "source": [source]}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}).encode()


CORPUS = "corpus.json"
"""Beside the numbered files: all of them in order, without their contents."""


def write_corpus(folder: Path) -> None:
    """Write every file under its number, and what is expected of each."""
    descriptions = []
    for number, file in enumerate((*whole_files(), *hostile_files())):
        (folder / str(number)).write_bytes(file.content)
        descriptions.append(file._replace(content=b""))
    (folder / CORPUS).write_bytes(msgspec.json.encode(descriptions))


def read_corpus(folder: Path) -> list[CorpusFile]:
    """Return all files of a folder in order, without their contents."""
    return msgspec.json.decode((folder / CORPUS).read_bytes(), type=list[CorpusFile])


@cache
def whole_files() -> tuple[CorpusFile, ...]:
    """Return a file of every kind that is read."""
    page = f"<!DOCTYPE html><html><body><h1>Depot</h1><p>{WORDS}</p></body></html>"
    texts = {
        "notes.txt": WORDS.encode() * 20,
        "wide.txt": (WORDS * 20).encode("utf-16"),
        "main.py": f'print("{WORDS}")\n'.encode() * 20,
        "table.csv": f"year,text\n1903,{WORDS}\n".encode() * 20,
        "page.html": page.encode(),
        "book.ipynb": notebook_of(),
        "letter.docx": zip_of(docx_parts()),
        "talk.pptx": zip_of(pptx_parts()),
        "costs.xlsx": zip_of(xlsx_parts()),
        "novel.epub": zip_of(epub_parts()),
        "letter.odt": zip_of(odt_parts()),
        "costs.ods": zip_of(ods_parts()),
        "talk.odp": zip_of(odp_parts()),
        "letter.rtf": rtf_of(),
        "report.pdf": pdf_of(3),
    }
    media = {"tone.wav": wav_of(0.2), "quiet.mp3": mp3_of(), "flat.flac": flac_of(), "scan.pdf": scan_of()}
    kinds = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
    pictures = {f"picture.{kind.lower()}": picture_of(kind) for kind in kinds}
    return tuple(CorpusFile(name, content, "whole") for name, content in {**texts, **media, **pictures}.items())


def hostile_files() -> Iterator[CorpusFile]:
    """Yield all that is done to them. More than two hundred."""
    yield from _cut_files()
    yield from _changed_files()
    yield from _mislabelled_files()
    yield from _encrypted_files()
    yield from _entity_files()
    yield from _bombs()
    yield from _odd_files()


def _cut_files() -> Iterator[CorpusFile]:
    for file in whole_files():
        for share in (0.02, 0.2, 0.5, 0.8, 0.98):
            yield CorpusFile(file.name, file.content[: max(1, int(len(file.content) * share))], f"cut to {share:.0%}")


def _changed_files() -> Iterator[CorpusFile]:
    """Yield files with some bytes changed, and with a piece of them said twice."""
    for file in whole_files():
        for seed in range(4):
            chance = random.Random(f"{file.name} {seed}")  # noqa: S311 -- no secret
            content = bytearray(file.content)
            for _ in range(1 + len(content) // 200):
                content[chance.randrange(len(content))] = chance.randrange(256)
            yield CorpusFile(file.name, bytes(content), f"changed {seed}")
        middle = len(file.content) // 2
        yield CorpusFile(file.name, file.content[:middle] * 2 + file.content[middle:], "said twice")


def _mislabelled_files() -> Iterator[CorpusFile]:
    for file in whole_files():
        for name in ("file.pdf", "file.png", "file.docx"):
            yield CorpusFile(name, file.content, f"{file.name} by another name")


def _encrypted_files() -> Iterator[CorpusFile]:
    compound = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500) + "EncryptedPackage".encode("utf-16-le") + bytes(500)
    for name in ("letter.docx", "costs.xlsx", "talk.pptx"):
        yield CorpusFile(name, compound, "encrypted", ("file_encrypted",))
    archive = bytearray(zip_of(docx_parts()))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = archive.find(mark)
        while at >= 0:
            archive[at + place] |= 1
            at = archive.find(mark, at + 4)
    yield CorpusFile("letter.docx", bytes(archive), "encrypted", ("file_encrypted",))
    handler = (
        "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] "
        "/Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -44 "
        f"/O <{'ab' * 32}> /U <{'cd' * 32}> >>"
    )
    yield CorpusFile("report.pdf", pdf_of(trailer=handler), "encrypted", ("file_encrypted",))
    rights = {**epub_parts(), "META-INF/encryption.xml": "<encryption/>", "META-INF/rights.xml": "<rights/>"}
    yield CorpusFile("novel.epub", zip_of(rights), "encrypted", ("file_encrypted",))
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    for name, parts in (("letter.odt", odt_parts()), ("costs.ods", ods_parts())):
        locked_parts = {**parts, "META-INF/manifest.xml": manifest, "content.xml": bytes(range(256))}
        yield CorpusFile(name, zip_of(locked_parts), "encrypted", ("file_encrypted",))
    yield CorpusFile("old.doc", compound[:300] + bytes(300), "old", ("file_unknown",))


def _entity_files() -> Iterator[CorpusFile]:
    """Yield documents whose XML declares entities: some that grow, some that stand for other files or addresses."""
    lines = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    declarations = {
        "that grow": (f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e0 "lol">{lines}]>', "&e11;"),
        "of a file": ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>', "&e;"),
        "of an address": ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "http://127.0.0.1:9/x">]>', "&e;"),
        "of parameters": ('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>', "x"),
    }
    for kind, (prolog, text) in declarations.items():
        run = f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"
        cell = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{text}</t></is></c></row>'
        yield CorpusFile("letter.docx", zip_of(docx_parts(run, prolog)), f"entities {kind}", ("file_broken",))
        wide = {**docx_parts(), "word/document.xml": str(docx_parts(run, prolog)["word/document.xml"]).encode("utf-16")}
        yield CorpusFile("letter.docx", zip_of(wide), f"entities {kind}, in UTF-16", ("file_broken",))
        yield CorpusFile("talk.pptx", zip_of(pptx_parts(text, prolog)), f"entities {kind}", ("file_broken",))
        yield CorpusFile("costs.xlsx", zip_of(xlsx_parts(cell, prolog)), f"entities {kind}")
        yield CorpusFile("novel.epub", zip_of(epub_parts(prolog=prolog)), f"entities {kind}", ("file_broken",))
        for suffix, make in (("odt", odt_parts), ("ods", ods_parts), ("odp", odp_parts)):
            yield CorpusFile(f"a.{suffix}", zip_of(make(text, prolog)), f"entities {kind}", ("file_broken",))
        yield CorpusFile(
            "page.html", f"{prolog}<html><body>{text} and words</body></html>".encode(), f"entities {kind}"
        )


_EXCESS = ("file_excessive", "file_broken", "file_no_text")


def _bombs() -> Iterator[CorpusFile]:
    zeros = b" " * (64 << 20)
    bomb = zip_of({**docx_parts(), **{f"media/{at}.bin": zeros for at in range(5)}})
    yield CorpusFile("letter.docx", bomb, "bomb of 320 MiB", ("file_excessive",))
    for name, parts in (
        ("letter.docx", docx_parts()),
        ("talk.pptx", pptx_parts()),
        ("costs.xlsx", xlsx_parts()),
        ("novel.epub", epub_parts()),
    ):
        yield CorpusFile(name, _with_size(zip_of(parts), 1 << 30), "says that it unpacks to 1 GiB", ("file_excessive",))
    large_cell = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{" " * (80 << 20)}</t></is></c></row>'
    for name, parts in (
        ("letter.docx", docx_parts(f"<w:p><w:r><w:t>{' ' * (80 << 20)}</w:t></w:r></w:p>")),
        ("costs.xlsx", xlsx_parts(large_cell)),
    ):
        yield CorpusFile(name, _with_size(zip_of(parts), 1000), "unpacks to more than it says")
    many = {**docx_parts(), **{f"f/{at}": b"" for at in range(20_001)}}
    yield CorpusFile("letter.docx", zip_of(many, zipfile.ZIP_STORED), "20,000 files", ("file_excessive",))
    inner = zip_of({"a.txt": WORDS})
    for _ in range(20):
        inner = zip_of({"inner.zip": inner})
    yield CorpusFile("nested.zip", inner, "nested archives", ("file_unknown",))
    yield CorpusFile("letter.docx", zip_of(docx_parts("<w:p>" * 100_000)), "deep XML that is not closed", _EXCESS)
    deep = "<w:tbl><w:tr><w:tc>" * 3_000 + "</w:tc></w:tr></w:tbl>" * 3_000
    yield CorpusFile("letter.docx", zip_of(docx_parts(deep)), "deep XML", _EXCESS)
    yield CorpusFile("talk.pptx", zip_of(pptx_parts("<a:x>" * 50_000 + "</a:x>" * 50_000)), "deep XML")
    yield sheet_of_far_cells()
    yield CorpusFile("page.html", b"<html>" + b"<div>" * trials(50_000, deep=200_000) + b"x", "deep page")
    yield CorpusFile("page.html", b"<html><p>" + b"<a href='x'>" * trials(20_000, deep=50_000) + b"x", "links in links")
    yield CorpusFile("page.html", b"<html>" + b"<!--" * 200_000, "comments that are not closed")
    yield CorpusFile("page.html", b"<html>" + b"<![CDATA[" * 200_000, "marks that are not closed")
    yield CorpusFile("page.html", b"<html><table>" + b"<tr><td>x</td></tr>" * 10_000 + b"</table>", "a long table")
    yield CorpusFile("book.ipynb", b'{"cells":' + b"[" * 100_000, "deep JSON", ("file_broken",))
    yield CorpusFile("long.txt", b"x" * (31 << 20), "one long line")
    yield CorpusFile("report.pdf", pdf_of(10_000), "10,000 pages")
    yield CorpusFile("report.pdf", pdf_of(stream=zlib.compress(zeros * 4, 9)), "a page of 256 MiB")
    yield CorpusFile("report.pdf", pdf_of(kids="[2 0 R]"), "pages that hold themselves")
    yield CorpusFile("report.pdf", pdf_of(3, kids="[5 0 R 5 0 R 5 0 R]"), "the same page thrice")
    yield from _open_document_bombs()
    yield from _picture_bombs()
    yield from _sound_bombs()


def _sound_bombs() -> Iterator[CorpusFile]:
    head = bytearray(wav_of(0.1))
    for place, value in ((24, 0xFFFFFFFF), (24, 0), (24, 1), (40, 0xFFFFFFFF), (16, 0xFFFFFFFF), (28, 0xFFFFFFFF)):
        sound = head.copy()
        struct.pack_into("<I", sound, place, value)
        yield CorpusFile("a.wav", bytes(sound), "a sound that says a size")
    for place, value in ((22, 0), (22, 0xFFFF), (34, 0), (34, 0xFFFF), (20, 0xFFFE), (20, 17)):
        sound = head.copy()
        struct.pack_into("<H", sound, place, value)
        yield CorpusFile("a.wav", bytes(sound), "a sound of odd samples")
    yield CorpusFile("a.wav", bytes(head) + bytes(31 << 20), "31 MiB behind a sound")
    yield CorpusFile("a.mp3", mp3_of(80_000), "half an hour of silence")
    yield CorpusFile("a.mp3", b"ID3\x04\0\0\x7f\x7f\x7f\x7f" + mp3_of(4), "a note of 256 MiB")
    yield CorpusFile("a.mp3", b"\xff\xfb" * (4 << 20), "beginnings of frames")
    yield CorpusFile("a.ogg", b"OggS\0\2" + bytes(20) + b"\1\xff" + b"\1vorbis" * 60_000, "a head that goes on")
    yield CorpusFile("scan.pdf", scan_of(30), "30 scanned pages")
    yield CorpusFile("scan.pdf", scan_of(1, (9_000, 9_000)), "a page of 81 megapixels")
    yield CorpusFile(
        "scan.pdf",
        pdf_of(trials(2_000, deep=10_000), stream=zlib.compress(b"0 0 100 100 re f")),
        "thousands of drawn pages",
    )


def _open_document_bombs() -> Iterator[CorpusFile]:
    text = 'office:value-type="string"'
    cell = f'<table:table-cell {text} table:number-columns-repeated="{{}}"><text:p>x</text:p></table:table-cell>'
    row = '<table:table-row table:number-rows-repeated="{}">{}</table:table-row>'
    for columns, rows in ((16_384, 1_048_576), (1 << 40, 1 << 40), (-1, -1), (1_000_000, 1)):
        yield CorpusFile("costs.ods", zip_of(ods_parts(row.format(rows, cell.format(columns)))), "a cell repeated")
    yield CorpusFile("letter.odt", zip_of(odt_parts('<text:p>x<text:s text:c="999999999999"/>y</text:p>')), "blanks")
    for name, parts in (
        ("letter.odt", odt_parts("<text:list><text:list-item>" * 40_000 + "</text:list-item></text:list>" * 40_000)),
        ("letter.odt", odt_parts("<text:span>" * 3_000 + "</text:span>" * 3_000)),
        ("letter.odt", odt_parts(f"<text:p>{'<text:span>' * 40_000}x{'</text:span>' * 40_000}</text:p>")),
        ("letter.odt", odt_parts("<text:p>" * 100_000)),
        ("talk.odp", odp_parts("<draw:g>" * 40_000 + "</draw:g>" * 40_000)),
    ):
        yield CorpusFile(name, zip_of(parts), "deep XML")
    many = "<draw:page/>" * 300_000
    yield CorpusFile("talk.odp", zip_of(open_parts("presentation", many)), "300,000 slides")
    yield CorpusFile("letter.odt", _with_size(zip_of(odt_parts()), 1 << 30), "says that it unpacks to 1 GiB", _EXCESS)
    yield CorpusFile("a.odt", zip_of({**odt_parts(), "mimetype": "x" * (4 << 20)}), "a long type", ("file_unknown",))
    yield CorpusFile("letter.rtf", rb"{\rtf1 " + b"{" * 1_000_000 + b"x", "deep groups")
    yield CorpusFile("letter.rtf", rb"{\rtf1 " + rb"{\field{\*\fldinst{HYPERLINK " * 20_000 + b"}", "fields not closed")
    yield CorpusFile("letter.rtf", rb"{\rtf1 \u-99999999999999999999?\bin99999999999 x}", "numbers too large")
    yield CorpusFile("letter.rtf", rb"{\rtf1\ansicpg99999 \'e4 and words}", "an encoding of no name")
    yield CorpusFile("letter.rtf", rb"{\rtf1 {\pict " + b"ab" * (8 << 20) + b"} words}", "a picture of 8 MiB")
    yield CorpusFile("letter.rtf", rb"{\rtf1}", "without text", ("file_no_text",))


def sheet_of_far_cells() -> CorpusFile:
    """Return a sheet that has its first cell and its last one."""
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row><row r="1"><c r="A1"><v>1</v></c></row>'
    return CorpusFile("costs.xlsx", zip_of(xlsx_parts(far)), "cells far apart")


def _with_size(archive: bytes, size: int) -> bytes:
    """Return an archive whose directory says that its last file has this size when unpacked."""
    content = bytearray(archive)
    struct.pack_into("<I", content, content.rfind(b"PK\x01\x02") + 24, size)
    return bytes(content)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of(width: int, height: int, *chunks: bytes) -> bytes:
    """Return a picture that says to be of this size, and has the data of a small one."""
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    data = _chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + data + _chunk(b"IEND", b"")


def _picture_bombs() -> Iterator[CorpusFile]:
    yield CorpusFile("a.png", png_of(60_000, 60_000), "of 3,600 megapixels", ("file_excessive",))
    yield CorpusFile("a.png", png_of(0xFFFFFFFF, 0xFFFFFFFF), "of a size that overflows", _EXCESS)
    yield CorpusFile("a.png", png_of(0, 0), "of no size", _EXCESS)
    yield CorpusFile("a.png", png_of(10_000, 10_000), "of 100 megapixels that are not there", _EXCESS)
    text = _chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(100 << 20), 9))
    yield CorpusFile("a.png", png_of(10, 10, text), "a note of 100 MiB")
    profile = _chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(200 << 20), 9))
    yield CorpusFile("a.png", png_of(10, 10, profile), "a colour profile of 200 MiB")
    jpeg = bytearray(picture_of("JPEG"))
    at = jpeg.find(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = b"\xff\xff\xff\xff"
    yield CorpusFile("a.jpg", bytes(jpeg), "of 4,295 megapixels", ("file_excessive",))
    gif = io.BytesIO()
    frames = [Image.new("P", (8, 8), colour) for colour in range(200)] * 10
    frames[0].save(gif, "GIF", save_all=True, append_images=frames[1:])
    yield CorpusFile("a.gif", gif.getvalue(), "of 2,000 frames")
    tiff = bytearray(picture_of("TIFF"))
    first = struct.unpack_from("<I", tiff, 4)[0]
    count = struct.unpack_from("<H", tiff, first)[0]
    struct.pack_into("<I", tiff, first + 2 + 12 * count, first)
    yield CorpusFile("a.tiff", bytes(tiff), "pages that lead back")


def _odd_files() -> Iterator[CorpusFile]:
    sounds: dict[str, bytes] = {
        "a.aiff": b"FORM\0\0\0\x20AIFF" + bytes(200),
        "a.mp4": b"\0\0\0\x20ftypisom" + bytes(200),
        "a.gguf": b"GGUF" + bytes(200),
        "a.gz": b"\x1f\x8b" + bytes(200),
        "a.rar": b"Rar!\x1a\x07" + bytes(200),
        "a.odb": zip_of({"mimetype": f"{_OPEN}base", "content.xml": "<x/>"}),
        "a.zip": zip_of({"a.txt": WORDS}),
        "a.exe": b"MZ\x90\0" + bytes(range(256)) * 4,
    }
    for name, content in sounds.items():
        yield CorpusFile(name, content, "of another kind", ("file_unknown",))
    yield CorpusFile("a.txt", b"", "empty", ("file_empty",))
    yield CorpusFile("a.txt", b" \n\t\n", "blank", ("file_no_text",))
    yield CorpusFile("a.pdf", pdf_of(stream=zlib.compress(b"q Q")), "blank", ("file_no_text",))
    for name, content in (
        ("a.mp3", b"ID3\x04\0\0" + bytes(200)),
        ("a.wav", b"RIFF\x24\0\0\0WAVEfmt " + bytes(200)),
        ("a.flac", b"fLaC" + bytes(200)),
        ("a.ogg", b"OggS" + bytes(200)),
        ("a.wav", wav_of(0.0)),
    ):
        yield CorpusFile(name, content, "a sound without sound", ("file_broken",))
    yield CorpusFile("a.docx", zip_of(docx_parts("")), "without text", ("file_no_text",))
    yield CorpusFile("a.xlsx", zip_of(xlsx_parts("")), "without cells", ("file_no_text",))
    yield CorpusFile("a.epub", zip_of(epub_parts("")), "without chapters", ("file_no_text",))
    yield CorpusFile("a.odt", zip_of(odt_parts("")), "without text", ("file_no_text",))
    yield CorpusFile("a.ods", zip_of(ods_parts("<table:table-row/>")), "without cells", ("file_no_text",))
    yield CorpusFile("a.pptx", _without(pptx_parts(), "ppt/slides/slide1.xml"), "without its slide")
    yield CorpusFile("a.xlsx", _without(xlsx_parts(), "xl/worksheets/sheet1.xml"), "without its sheet")
    yield CorpusFile("a.epub", _without(epub_parts(), "OEBPS/book.opf"), "without its outline", ("file_broken",))
    outline = str(epub_parts()["OEBPS/book.opf"]).replace("chapter%201.xhtml", "../../../../etc/passwd")
    yield CorpusFile("a.epub", zip_of({**epub_parts(), "OEBPS/book.opf": outline}), "a chapter outside of it")
    yield CorpusFile("../../a\0b.txt", WORDS.encode(), "an odd name")


def _without(parts: dict[str, str | bytes], name: str) -> bytes:
    return zip_of({place: content for place, content in parts.items() if place != name})


if __name__ == "__main__":
    write_corpus(Path(sys.argv[1]))
