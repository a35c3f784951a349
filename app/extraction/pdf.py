"""The text of a PDF, page by page, by Chrome's own library."""

import time

import pypdfium2

from app.core.attachments import LONGEST_TEXT, AttachmentKind, Extraction
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
        raise no_text_problem("PDF") if count else damage_problem("PDF")
    return Extraction(
        kind=AttachmentKind.DOCUMENT,
        media_type="application/pdf",
        text=_join_pages(texts),
        pages=count,
        is_cut=len(texts) < count,
    )


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
