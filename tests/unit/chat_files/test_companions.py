"""Pictures that lie beside the conversations of an export come with them; those that do not are counted."""

import json
import zipfile
from pathlib import Path

import pytest

from app.chat_files.companions import CompanionFiles
from app.chat_files.reading import ReadChat, read_chats
from app.chat_files.source import FileContent, FileReference

EVENING, MORNING = b"\x89PNG evening", b"\xff\xd8 morning"


def chatgpt_chat() -> dict[str, object]:
    def node(id_: str, parent: str | None, role: str, parts: list[object], **metadata: object) -> dict[str, object]:
        content = {"content_type": "multimodal_text", "parts": parts}
        return {"parent": parent, "message": {"author": {"role": role}, "content": content, "metadata": metadata}}

    pictures: list[object] = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbC"},
        {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_0001"},
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-Gone"},
        "What are they?",
    ]
    drawn_parts: list[object] = ["Two.", {"asset_pointer": "file-service://file-AbC"}]
    names = [{"id": "file-AbC", "name": "evening.png"}]
    mapping = {"q": node("q", None, "user", pictures, attachments=names), "a": node("a", "q", "assistant", drawn_parts)}
    return {"conversation_id": "c", "title": "Pictures", "mapping": mapping, "current_node": "a"}


def archive_of(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_chat()]))
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def only(path: Path) -> ReadChat:
    (item,) = read_chats(path)
    assert item.chat is not None
    return item


def files_of(item: ReadChat) -> list[FileContent]:
    return [file for files in item.files.values() for file in files]


def test_pictures_in_chatgpts_archive_come_with_their_question(tmp_path: Path) -> None:
    files = {"file-AbC-8123.png": EVENING, "user/file_0001-x.jpg": MORNING, "file-AbCD.png": b"another"}
    item = only(archive_of(tmp_path / "export.zip", files))
    assert files_of(item) == [FileContent("evening.png", EVENING), FileContent("file_0001-x.jpg", MORNING)]
    assert item.chat is not None
    (question, _) = item.chat.messages
    assert list(item.files) == [question.id]
    assert item.left_out == 2, "one is not there, one belongs to an answer"


def test_the_json_alone_counts_what_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt_chat()]), encoding="utf-8")
    item = only(path)
    assert (files_of(item), item.left_out) == ([], 4)


def test_an_unpacked_archive_has_its_pictures_too(tmp_path: Path) -> None:
    (tmp_path / "conversations.json").write_text(json.dumps([chatgpt_chat()]), encoding="utf-8")
    (tmp_path / "file-AbC.png").write_bytes(EVENING)
    (tmp_path / "file_0001.png").symlink_to("/etc/passwd")
    assert files_of(only(tmp_path)) == [FileContent("evening.png", EVENING)]


@pytest.mark.parametrize("is_folder", [True, False])
def test_lm_studios_files_lie_beside_its_conversations(tmp_path: Path, *, is_folder: bool) -> None:
    folder, files = tmp_path / "conversations", tmp_path / "user-files"
    folder.mkdir()
    files.mkdir()
    (files / "1720000000 - 7.png").write_bytes(EVENING)
    content = [
        {"type": "file", "fileIdentifier": "1720000000 - 7.png", "fileType": "image"},
        {"type": "file", "fileIdentifier": "1720000001 - 8.png", "fileType": "image"},
        {"type": "text", "text": "What is it?"},
    ]
    chat = {"name": "P", "createdAt": 1, "messages": [{"versions": [{"role": "user", "content": content}]}]}
    path = folder / "1.conversation.json"
    path.write_text(json.dumps(chat), encoding="utf-8")
    item = only(folder if is_folder else path)
    assert files_of(item) == [FileContent("1720000000 - 7.png", EVENING)]
    assert item.left_out == 1


def test_a_name_is_the_id_or_begins_with_it() -> None:
    names = ["file-1.png", "file-10.png", "file-1extra.png", "file-2", "a/file-3.png"]
    files = CompanionFiles((name, name.encode) for name in names)
    assert files.find(FileReference("file-1")) == FileContent("file-1.png", b"file-1.png")
    assert files.find(FileReference("file-2", "mine.txt")) == FileContent("mine.txt", b"file-2")
    for id_ in ("file-", "file-3", "", "file-1e"):
        assert files.find(FileReference(id_)) is None
