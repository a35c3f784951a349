import pytest

from app.cli.attachments import describe_attachment
from app.core.attachments import Attachment, AttachmentKind

OFFICE = "application/vnd.openxmlformats-officedocument"


@pytest.mark.parametrize(
    ("media_type", "pages", "words"),
    [
        ("application/pdf", 1, "a: 1 page, about 1k tokens"),
        (f"{OFFICE}.spreadsheetml.sheet", 2, "a: 2 sheets, about 1k tokens"),
        (f"{OFFICE}.presentationml.presentation", 3, "a: 3 slides, about 1k tokens"),
        ("text/plain", None, "a: about 1k tokens"),
    ],
)
def test_what_a_file_comes_to_is_said_in_its_own_words(media_type: str, pages: int | None, words: str) -> None:
    attachment = Attachment(
        id="f",
        name="a",
        kind=AttachmentKind.DOCUMENT,
        media_type=media_type,
        hash="0",
        size_bytes=1,
        tokens=1024,
        pages=pages,
    )
    assert describe_attachment(attachment) == words
