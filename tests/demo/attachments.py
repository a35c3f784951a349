"""Files of demo chats: what the service would say of them, and small pictures drawn here."""

from collections.abc import Callable

import msgspec
from PySide6.QtCore import QBuffer, QIODevice, Qt
from PySide6.QtGui import QColor, QImage, QLinearGradient, QPainter

from app.core.attachments import Attachment, AttachmentKind, FileProblem
from app.core.chats import Chat
from app.core.errors import ErrorBody
from tests.demo import long_chat

PROTECTED = ErrorBody(
    code=FileProblem.ENCRYPTED,
    sentence="This PDF is protected with a password.",
    hint="Save it without a password, and attach that.",
)


def make_attachment(number: int, name: str, *, kind: AttachmentKind = AttachmentKind.DOCUMENT) -> Attachment:
    """Return a file that was read."""
    is_picture = kind is AttachmentKind.PICTURE
    return Attachment(
        id=f"f{number}",
        name=name,
        kind=kind,
        media_type="image/png" if is_picture else "application/pdf",
        hash=f"{number:064x}",
        size_bytes=482_113 * (number + 1),
        tokens=1392 if is_picture else 5_310 * (number + 1),
        width=1176 if is_picture else None,
        height=888 if is_picture else None,
        pages=None if is_picture else 12,
    )


REPORT = make_attachment(1, "Annual report 2026, final version with all appendices (3).pdf")
TABLE = make_attachment(2, "costs.xlsx")
EVENING = make_attachment(3, "evening.png", kind=AttachmentKind.PICTURE)
MORNING = make_attachment(4, "morning.heic", kind=AttachmentKind.PICTURE)

TALK = msgspec.structs.replace(
    make_attachment(5, "talk.mp3", kind=AttachmentKind.SOUND),
    media_type="audio/mpeg",
    pages=None,
    seconds=92.0,
    tokens=2_300,
)


def draw_picture(sky: str, hill: str) -> bytes:
    """Return a small landscape as a PNG."""
    image = QImage(320, 240, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    gradient = QLinearGradient(0, 0, 0, 240)
    gradient.setColorAt(0, QColor(sky))
    gradient.setColorAt(1, QColor("#fff4e0"))
    painter.fillRect(image.rect(), gradient)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(hill))
    painter.drawEllipse(-60, 150, 300, 220)
    painter.setBrush(QColor(hill).darker(130))
    painter.drawEllipse(140, 170, 300, 220)
    painter.setBrush(QColor("#ffd37a"))
    painter.drawEllipse(220, 40, 48, 48)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")  # type: ignore[call-overload]  # Qt's stubs want bytes, Qt wants text
    return bytes(buffer.data().data())


def upload_replies(*answers: object) -> Callable[[object], object]:
    """Return what is answered to uploads, one after the other."""
    answers_left = list(answers)
    return lambda _content: answers_left.pop(0)


def file_replies() -> dict[str, object]:
    """Return what a demo gateway answers about files."""
    return {
        "POST /attachments": upload_replies(REPORT, EVENING, PROTECTED, TABLE),
        "GET /attachments/f3/content": draw_picture("#e07a3a", "#5b4a63"),
        "GET /attachments/f4/content": draw_picture("#7fb2e5", "#4d7a4f"),
    }


def make_chat_with_sounds() -> Chat:
    """Return a conversation about a recording."""
    question = long_chat.make_question(1, "What does she say about the turntable?", None)
    question = long_chat.replace_fields(question, attachments=[TALK])
    answer = long_chat.make_answer(1, "That it was **built in 1911** and still turns twice a day.")
    return long_chat.make_chat([question, answer], title="The talk of 12 May")


def make_chat_with_files() -> Chat:
    """Return a conversation about files."""
    question = long_chat.make_question(1, "Do the pictures go with the report? What did the depot cost?", None)
    question = long_chat.replace_fields(question, attachments=[REPORT, TABLE, EVENING, MORNING])
    again = long_chat.replace_fields(long_chat.make_question(2, "", "a1"), attachments=[EVENING])
    return long_chat.make_chat(
        [
            question,
            long_chat.make_answer(1, "Both show the depot. It cost **1.2 million**, of which the turntable took half."),
            again,
            long_chat.make_answer(2, "The depot in the evening, seen from the south."),
        ],
        title="The depot's report",
    )
