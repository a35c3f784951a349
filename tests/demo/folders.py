"""Folders of demo chats: one with a model, a prompt and files, an empty one, and one with a long name."""

import msgspec

from app.core.chats import ChatFolder, TagCount
from tests.demo import attachments, long_chat

SHEDS = ChatFolder(
    id="f1",
    name="Engine sheds",
    model=long_chat.MODEL,
    system_prompt="Answer in metres and tonnes.",
    files=[attachments.TABLE, attachments.make_attachment(5, "rules of the shed.txt")],
    chat_count=2,
)
YARDS = ChatFolder(id="f2", name="Yards")
LONG = ChatFolder(id="f3", name="Correspondence with the insurers about the turntable of 1911", chat_count=1204)


def folder_replies() -> dict[str, object]:
    """Return what a demo gateway answers about folders, and of the chats in the first."""
    first, second, *_ = long_chat.make_summaries()
    inside = [msgspec.structs.replace(item, folder="f1", tags=tags) for item, tags in ((first, []), (second, ["work"]))]
    chat = msgspec.structs.replace(
        long_chat.make_sample_chat(), folder="f1", system_prompt=SHEDS.system_prompt, model=SHEDS.model
    )
    tagged_chats = [msgspec.structs.replace(item, tags=["boilers", "1911"]) for item in long_chat.make_summaries()[2:4]]
    return {
        "GET /chats": [*tagged_chats, *long_chat.make_summaries()[4:]],
        "GET /chats/folders": [SHEDS, YARDS, LONG],
        "GET /chats/tags": [TagCount(tag="boilers", count=2), TagCount(tag="work", count=1)],
        "GET /chats?limit=60&folder=f1": inside,
        "GET /chats/c1": chat,
        "PATCH /chats/folders/f1": SHEDS,
        "PATCH /chats/folders/f2": YARDS,
        "POST /chats/folders": ChatFolder(id="f4", name="New folder"),
        "DELETE /chats/folders/f1": None,
        "DELETE /chats/folders/f1?with_chats=true": None,
    }
