"""The text of a PDF, page by page, by Chrome's own library; of a scanned one, which has none, pictures of its pages."""

import time

import pypdfium2
from PIL import Image

from app.core.attachments import LONGEST_TEXT, MOST_PAGE_PICTURES, AttachmentKind, Extraction
from app.extraction.pictures import LONGEST_EDGE, encode_picture, make_thumbnail
from app.extraction.problems import damage_problem, no_text_problem, password_problem

READING_S = 15.0
"""Of the processor: pages after that are left out, and the reader is told so."""


def read_pdf(content: bytes) -> Extraction:
    """Return the text of all pages, or of as many as can be read in time. Raises UnreadableFile."""
    try:
        document = pypdfium2.PdfDocument(content)
    except pypdfium2.PdfiumError as error:
        if error.err_code == pypdfium2.raw.FPDF_ERR_PASSWORD:
            raise password_problem("PDF") from error
        raise damage_problem("PDF") from error
    texts, length, count, end_s = [], 0, len(document), time.process_time() + READING_S
    for number in range(count):
        if length > LONGEST_TEXT or time.process_time() > end_s:
            break
        texts.append(_read_page(document, number))
        length += len(texts[-1])
    if not any(text.strip() for text in texts):
        return _draw_pages(document, end_s)
    return Extraction(
        kind=AttachmentKind.DOCUMENT,
        media_type="application/pdf",
        text=_join_pages(texts),
        pages=count,
        is_cut=len(texts) < count,
    )


def _draw_pages(document: pypdfium2.PdfDocument, end_s: float) -> Extraction:
    """Return pictures of the first pages, blank ones left out. Raises UnreadableFile if there are no others."""
    count = len(document)
    if not count:
        raise damage_problem("PDF")
    pictures: list[Image.Image] = []
    read = 0
    while read < count and len(pictures) < MOST_PAGE_PICTURES and time.process_time() < end_s:
        picture = _draw_page(document, read)
        read += 1
        if picture is not None:
            pictures.append(picture)
    if not pictures:
        raise no_text_problem("PDF")
    return Extraction(
        kind=AttachmentKind.PAGES,
        media_type="application/pdf",
        page_pictures=tuple(map(encode_picture, pictures)),
        page_sizes=tuple(picture.size for picture in pictures),
        thumbnail=make_thumbnail(pictures[0]),
        pages=count,
        is_cut=read < count,
    )


def _draw_page(document: pypdfium2.PdfDocument, number: int) -> Image.Image | None:
    """Return a page as models take pictures; None for one that is blank or cannot be drawn."""
    try:
        page = document[number]
        scale = LONGEST_EDGE / max(page.get_width(), page.get_height(), 1.0)
        picture: Image.Image = page.render(scale=scale).to_pil().convert("RGB")
        page.close()
    except (pypdfium2.PdfiumError, ValueError, OSError):
        return None
    darkest, lightest = picture.convert("L").getextrema()
    return None if darkest == lightest else picture


def _read_page(document: pypdfium2.PdfDocument, number: int) -> str:
    """Return the text of one page; nothing of one that cannot be read, the others are worth having."""
    try:
        page = document[number]
        text: str = page.get_textpage().get_text_bounded()
        page.close()
    except pypdfium2.PdfiumError:
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").strip()


def _join_pages(texts: list[str]) -> str:
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"[Page {number}]\n{text}" for number, text in enumerate(texts, 1) if text)
