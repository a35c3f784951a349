"""Collections in pictures and tests of the window: one that is ready, one that is read, one whose folder is away."""

from app.core.documents import (
    AnswerDocuments,
    AnswerSource,
    Collection,
    CollectionStage,
    DocumentFile,
    DocumentText,
    Passage,
    PassageResults,
    SearchMeans,
)
from tests.demo.machines import NOON

_TEXT = (
    "# Warranty\n\nWe repair or replace your machine for 24 months from the day of purchase. Wear of the seals is not "
    "covered.\n\nKeep the receipt: without it the warranty runs from the day of manufacture."
)
_PASSAGE = _TEXT.split("\n\n")[1]
NOTES = Collection(
    id="vs_notes",
    name="Manuals",
    folders=["/home/ada/manuals", "/home/ada/receipts"],
    created_at=NOON,
    files=214,
    unread_files=3,
    passages=5120,
    embedded=5120,
    size_bytes=12 << 20,
    embedding_model="qwen3-embedding:0.6b, 639150592 bytes",
)
PAPERS = Collection(
    id="vs_papers",
    name="Papers",
    folders=["/home/ada/papers"],
    created_at=NOON,
    files=80,
    passages=900,
    stage=CollectionStage.EMBEDDING,
    done=352,
    total=900,
    is_served=True,
    keys=["editor"],
)
AWAY = Collection(
    id="vs_drive",
    name="Archive",
    folders=["/media/ada/archive"],
    missing_folders=["/media/ada/archive"],
    created_at=NOON,
    files=12,
    passages=60,
)
COLLECTIONS = [AWAY, NOTES, PAPERS]
SOURCES = AnswerDocuments(
    sources=[
        AnswerSource(
            number=1,
            collection="vs_notes",
            collection_name="Manuals",
            file="file-1",
            path="/home/ada/manuals/espresso machine.pdf",
            text=_PASSAGE,
            start=_TEXT.index(_PASSAGE),
            end=_TEXT.index(_PASSAGE) + len(_PASSAGE),
            page=12,
            heading="Warranty",
            tokens=212,
        ),
        AnswerSource(
            number=2,
            collection="vs_notes",
            collection_name="Manuals",
            file="file-2",
            path="/home/ada/receipts/2026-03.md",
            text="Espresso machine, 3 March 2026, 419.00",
            start=0,
            end=38,
            tokens=64,
        ),
    ],
    note="What passages mean is still being worked out; the others are found by their words only.",
)

UNREAD = [
    DocumentFile(
        id="file-7", path="/home/ada/manuals/boiler (scan).pdf", size_bytes=2_000_000, problem="It has no text."
    ),
    DocumentFile(id="file-8", path="/home/ada/manuals/lease.docx", size_bytes=9_000, problem="It takes a password."),
    DocumentFile(id="file-9", path="/home/ada/receipts/empty.txt", size_bytes=0, problem="It is empty."),
]
RESULTS = PassageResults(
    passages=[
        Passage(
            collection="vs_notes",
            file="file-1",
            path="/home/ada/manuals/espresso machine.pdf",
            text=f"{_PASSAGE} {'A seal is worn when it leaks although it is clean. ' * 6}",
            start=12,
            end=500,
            page=12,
            heading="Warranty",
            word_rank=1,
        ),
        Passage(
            collection="vs_notes",
            file="file-2",
            path="/home/ada/receipts/2026-03.md",
            text="Espresso machine, 3 March 2026, 419.00",
            start=0,
            end=38,
            meaning_rank=1,
        ),
    ],
    means=[SearchMeans.WORDS, SearchMeans.MEANING],
    note="What passages mean is still being worked out; the others are found by their words only.",
    seconds=0.021,
)


def document_replies() -> dict[str, object]:
    """Return what the gateway answers about them."""
    return {
        "GET /collections": COLLECTIONS,
        "POST /collections": NOTES,
        "PATCH /collections/vs_notes": NOTES,
        "POST /collections/vs_notes/index": NOTES,
        "DELETE /collections/vs_notes": None,
        "GET /collections/vs_notes/files?unread=true&limit=200": UNREAD,
        "POST /collections/search": RESULTS,
        "GET /collections/vs_notes/files/file-1/text": DocumentText(path="espresso machine.pdf", text=_TEXT),
    }
