"""What is read of documents: their structure, in the order a person reads it."""

from app.core.attachments import Extraction
from app.extraction.program import extract
from tests.file_corpus import (
    WORDS,
    docx_parts,
    epub_parts,
    odp_parts,
    ods_parts,
    odt_parts,
    pdf_of,
    pptx_parts,
    xlsx_parts,
    zip_of,
)


def read(name: str, content: bytes) -> Extraction:
    extraction = extract(name, content)
    assert isinstance(extraction, Extraction), extraction
    return extraction


def test_a_word_document_is_markdown_with_its_tables() -> None:
    body = (
        '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Depot</w:t></w:r></w:p>'
        "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>Bold</w:t></w:r><w:r><w:t> words</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc>"
        "</w:tr></w:tbl><w:p><w:del><w:r><w:delText>struck</w:delText></w:r></w:del></w:p>"
    )
    styles = (
        '<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>'
    )
    relations = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>'
        "</Relationships>"
    )
    parts = {**docx_parts(body), "word/styles.xml": styles, "word/_rels/document.xml.rels": relations}
    text = read("a.docx", zip_of(parts)).text
    assert text.startswith("# Depot\n\n**Bold** words")
    assert "| a | b |" in text
    assert "struck" not in text


def test_slides_come_in_order_with_their_notes() -> None:
    extraction = read("a.pptx", zip_of(pptx_parts()))
    assert extraction.text == f"## Slide 1\n{WORDS}\n\nNotes:\nA note"
    assert extraction.pages == 1


def test_a_workbook_is_lines_of_fields_by_sheet() -> None:
    rows = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>two\nlines</t></is></c><c r="C1"><v>2.5</v></c></row>'
        '<row r="3"><c r="A3"><v>7</v></c><c r="B3" t="b"><v>1</v></c></row>'
    )
    extraction = read("a.xlsx", zip_of(xlsx_parts(rows)))
    assert extraction.text == "## Data\ntwo lines\t\t2.5\n\n7\tTrue"
    assert extraction.pages == 1


def test_a_book_is_its_chapters() -> None:
    chapter = "<html><head><title>no</title></head><body><h2>One</h2><p>Words<br/>and more</p></body></html>"
    text = read("a.epub", zip_of(epub_parts(chapter))).text
    assert text.startswith("## One\n\nWords")
    assert "no" not in text.split()


def test_pages_of_a_pdf_are_numbered_where_there_are_several() -> None:
    assert read("a.pdf", pdf_of()).text == WORDS
    extraction = read("a.pdf", pdf_of(2))
    assert extraction.text == f"[Page 1]\n{WORDS}\n\n[Page 2]\n{WORDS}"
    assert (extraction.pages, extraction.is_cut) == (2, False)


def test_a_document_of_libreoffice_is_markdown() -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>struck</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        '<text:h text:outline-level="2">De<text:span>pot</text:span></text:h>'
        '<text:p>Two<text:s text:c="3"/>blanks<text:tab/>and<text:line-break/>a line'
        "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>See there.</text:p>"
        "</text:note-body></text:note>.<office:annotation><text:p>a remark</text:p></office:annotation></text:p>"
        "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>inner</text:p>"
        "</text:list-item></text:list></text:list-item><text:list-item><text:p>two</text:p></text:list-item></text:list>"
        "<table:table><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell>"
        "<text:p>b</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>1</text:p>"
        "</table:table-cell><table:table-cell/></table:table-row></table:table>"
    )
    extraction = read("a.odt", zip_of(odt_parts(body)))
    assert extraction.media_type == "application/vnd.oasis.opendocument.text"
    assert extraction.text == (
        "## Depot\n\nTwo   blanks\tand\na line [See there.].\n\n- one\n  - inner\n\n- two\n\n"
        "| a | b |\n| --- | --- |\n| 1 |  |"
    )


def test_slides_of_libreoffice_come_with_their_notes() -> None:
    extraction = read("a.odp", zip_of(odp_parts()))
    assert (extraction.text, extraction.pages) == (f"## Slide 1\n{WORDS}\n\nNotes:\nA note", 1)


def test_a_workbook_of_libreoffice_is_lines_of_fields() -> None:
    rows = (
        '<table:table-row><table:table-cell office:value-type="string"><text:p>a</text:p></table:table-cell>'
        '<table:table-cell office:value-type="float" office:value="2.5"><text:p>2,5</text:p></table:table-cell>'
        "</table:table-row>"
    )
    extraction = read("a.ods", zip_of(ods_parts(rows)))
    assert (extraction.text, extraction.pages) == ("## Data\na\t2.5", 1)


def test_digits_of_a_picture_in_rich_text_are_no_words_and_others_are() -> None:
    picture = (
        rb"{\pict{\*\picprop{\sp{\sn name}{\sv a cat}}}\pngblip\picw10\pichgoal1440" + b"\r\n" + b"89AB\r\n" * 40 + b"}"
    )
    content = rb"{\rtf1\ansi Before " + picture + rb" between {\b " + b"12" * 100 + b"}" + picture + rb" after}"
    text = read("a.rtf", content).text
    assert text.split() == ["Before", "between", "12" * 100, "after"]


def test_rich_text_is_its_words() -> None:
    content = (
        rb"{\rtf1\ansi\ansicpg1251{\fonttbl{\f0 Arial;}}{\*\generator Word}\b Bold\b0  \'cf\'f0\'e8 \u8364?\par "
        rb"{\trowd a\cell b\cell\row}\par\par\par Last}"
    )
    extraction = read("a.rtf", content)
    assert extraction.media_type == "application/rtf"
    assert extraction.text == "Bold При €\na|b|\n\nLast"
