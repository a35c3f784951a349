"""Chats out of one service and into another, through the command line's own exporter and importer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli.chat_names import IN_SIGHT, ChatRequest, list_summaries
from app.cli.chat_transfer import ChatExporter, ChatImporter, ExportTarget
from app.core.attachments import Attachment
from app.core.chats import (
    Chat,
    ChatFolder,
    ChatPatch,
    ChatShelf,
    ChatSummary,
    MessageStatus,
    NewChat,
    NewChatFolder,
    NewTurn,
    Turn,
)
from app.core.errors import BadRequest
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway_pool import GatewayPool

FIXTURES = Path(__file__).parents[2] / "fixtures" / "chats"


@pytest.fixture(scope="module")
def first(real_gateways: GatewayPool[RealGateway]) -> Iterator[RealGateway]:
    with real_gateways.lend_gateway() as gateway:
        yield gateway


@pytest.fixture(scope="module")
def second(real_gateways: GatewayPool[RealGateway]) -> Iterator[RealGateway]:
    with real_gateways.lend_gateway() as gateway:
        yield gateway


def summaries_of(gateway: RealGateway) -> list[ChatSummary]:
    return gateway.client.get("/chats?limit=200", list[ChatSummary])


def chats_of(gateway: RealGateway) -> list[Chat]:
    return [gateway.client.get(f"/chats/{summary.id}", Chat) for summary in summaries_of(gateway)]


def without_ids_of_files(chat: Chat) -> object:
    return [
        (message.id, message.parent, message.content, [(part.name, part.hash) for part in message.attachments])
        for message in chat.messages
    ]


def test_chats_of_every_program_go_from_one_service_to_another(
    first: RealGateway, second: RealGateway, tmp_path: Path
) -> None:
    report = ChatImporter(first.client).import_file(FIXTURES)
    assert (report.added + report.unchanged, report.unreadable) == (7, 1)
    again = ChatImporter(first.client).import_file(FIXTURES)
    assert (again.added, again.extended, again.unchanged) == (0, 0, 7)

    file = tmp_path / "all.json"
    ChatExporter(first.client, ExportTarget(file, "json", overwrites=False)).export_all(summaries_of(first))
    import_report = ChatImporter(second.client).import_file(file)
    assert (import_report.added, import_report.left_out) == (7, 0)
    there = {chat.id: without_ids_of_files(chat) for chat in chats_of(second)}
    assert {chat.id: without_ids_of_files(chat) for chat in chats_of(first)}.items() <= there.items()
    names = {part.name for chat in chats_of(second) for message in chat.messages for part in message.attachments}
    assert names == {"shed.txt", "yard.txt"}
    assert all(message.status is MessageStatus.COMPLETE for chat in chats_of(second) for message in chat.messages)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["md", "html", "pdf", "json"])
def test_a_chat_is_written_in_every_format(kind: str, first: RealGateway, tmp_path: Path) -> None:
    ChatImporter(first.client).import_file(FIXTURES / "claude.json")
    summary = next(summary for summary in summaries_of(first) if summary.title == "Turntables")
    file = tmp_path / f"chat.{kind}"
    exporter = ChatExporter(first.client, ExportTarget(file, kind, overwrites=False))
    exporter.export_one(summary)
    data = file.read_bytes()
    assert data.startswith(b"%PDF") if kind == "pdf" else b"It is 23 m." in data
    if kind == "md":
        assert (tmp_path / "chat files" / "shed.txt").read_bytes() == b"23 m, 12 roads"
        assert b"[shed.txt](<chat files/shed.txt>)" in data
    with pytest.raises(BadRequest, match="exists already"):
        exporter.export_one(summary)
    assert file.read_bytes() == data


def test_a_folder_gets_a_file_for_every_chat_whatever_they_are_called(second: RealGateway, tmp_path: Path) -> None:
    export = tmp_path / "messages.json"
    titles = ["../../etc/passwd", "CON", "a/b\\c:d*?", "same", "same", "\u202egnp.exe", "." * 300]
    for number, title in enumerate(titles):
        messages = [{"role": "user", "content": str(number)}]
        export.write_text(json.dumps({"id": f"t{number}", "title": title, "messages": messages}))
        ChatImporter(second.client).import_file(export)
    folder = tmp_path / "out"
    target = ExportTarget(folder, "md", overwrites=False)
    report = ChatExporter(second.client, target).export_all(summaries_of(second))
    written_paths = [path for path in folder.iterdir() if path.is_file()]
    assert len(written_paths) == report.chats >= len(titles)
    assert all(path.suffix == ".md" and path.name.isprintable() for path in written_paths)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["messages.json", "out"]


def begin_chat(gateway: RealGateway, title: str, folder: str = "", files: list[str] | None = None) -> Chat:
    """Return a chat with a question; its answer fails at once, for nobody has that model."""
    new = NewChat(title=title, model="broken", folder=folder, tags=["work", "Boilers"], system_prompt="Be brief.")
    chat = gateway.client.post("/chats", new, Chat)
    gateway.client.post(f"/chats/{chat.id}/turns", NewTurn(content="How high?", attachments=files or []), Turn)
    return chat


def upload(gateway: RealGateway, name: str, content: bytes) -> Attachment:
    return gateway.client.post(f"/attachments?name={name}", content, Attachment)


def list_content(gateway: RealGateway) -> tuple[object, object]:
    """Return folders and chats as they are anywhere, without the ids that attachments have in one place."""
    folders = gateway.client.get("/chats/folders", list[ChatFolder])
    shelves = (ChatShelf.CURRENT, ChatShelf.ARCHIVED)
    summaries = [
        summary
        for shelf in shelves
        for summary in gateway.client.get(f"/chats?limit=200&shelf={shelf}", list[ChatSummary])
    ]
    chats = [gateway.client.get(f"/chats/{summary.id}", Chat) for summary in summaries]
    return (
        [
            (folder.id, folder.name, folder.model, folder.system_prompt, [file.hash for file in folder.files])
            for folder in folders
        ],
        [
            (
                *(chat.title, chat.folder, chat.tags, chat.is_pinned, chat.is_archived, chat.system_prompt),
                *(chat.model, without_ids_of_files(chat)),
            )
            for chat in chats
        ],
    )


@pytest.fixture
def pair(real_gateways: GatewayPool[RealGateway]) -> Iterator[tuple[RealGateway, RealGateway]]:
    with real_gateways.lend_gateway() as source, real_gateways.lend_gateway() as target:
        yield source, target


@contextmanager
def without_folder(folder: Path) -> Iterator[None]:
    """Have a folder be lost meanwhile."""
    elsewhere = folder.rename(folder.with_suffix(".lost"))
    try:
        yield
    finally:
        elsewhere.rename(folder)


@pytest.mark.slow
def test_folders_tags_pins_and_the_archive_go_along(pair: tuple[RealGateway, RealGateway], tmp_path: Path) -> None:
    source, target = pair
    rules = [upload(source, name, content).id for name, content in (("b.txt", b"No smoking."), ("a.txt", b"Quiet."))]
    folder = source.client.post(
        "/chats/folders",
        NewChatFolder(name="Sheds / CON", model="broken", system_prompt="Answer in metres.", files=rules),
        ChatFolder,
    )
    source.client.post("/chats/folders", NewChatFolder(name="Empty"), ChatFolder)
    note = upload(source, "note.txt", b"23 m")
    begin_chat(source, "In it", folder.id, [note.id])
    pinned_chat, archived_chat = begin_chat(source, "Pinned"), begin_chat(source, "Archived")
    source.client.patch(f"/chats/{pinned_chat.id}", ChatPatch(is_pinned=True), Chat)
    source.client.patch(f"/chats/{archived_chat.id}", ChatPatch(is_archived=True), Chat)

    file = tmp_path / "all.json"
    summaries = [summary for shelf in IN_SIGHT for summary in list_summaries(source.client, ChatRequest(shelf=shelf))]
    export_report = ChatExporter(source.client, ExportTarget(file, "json", overwrites=False)).export_all(summaries)
    assert (export_report.chats, export_report.folders, export_report.left_out) == (3, 2, [])
    report = ChatImporter(target.client).import_file(file)
    assert (report.added, report.folders, report.left_out, report.unreadable) == (3, 2, 0, 0)
    there = list_content(target)
    assert there == list_content(source)

    again = ChatImporter(target.client).import_file(file)
    assert (again.added, again.folders, again.unchanged) == (0, 0, 3)
    assert list_content(target) == there

    pages = tmp_path / "pages"
    ChatExporter(source.client, ExportTarget(pages, "md", overwrites=False)).export_all(summaries)
    assert sorted(path.parent.relative_to(pages).as_posix() for path in pages.rglob("*.md")) == [".", ".", "Sheds CON"]
    (inside,) = (pages / "Sheds CON").glob("*.md")
    assert "#Boilers #work" in inside.read_text()


@pytest.mark.slow
def test_an_export_says_what_is_not_in_it(pair: tuple[RealGateway, RealGateway], tmp_path: Path) -> None:
    source, target = pair
    rules, note = upload(source, "rules.txt", b"No smoking."), upload(source, "note.txt", b"23 m")
    source.client.post("/chats/folders", NewChatFolder(name="Sheds", files=[rules.id]), ChatFolder)
    begin_chat(source, "With a note", files=[note.id])
    page = tmp_path / "chat.html"
    (summary,) = summaries_of(source)
    export_report = ChatExporter(source.client, ExportTarget(page, "html", overwrites=False)).export_one(summary)
    assert export_report.left_out == ["note.txt"]
    assert "note.txt, which is not in this export" in page.read_text()

    file = tmp_path / "all.json"
    with without_folder(source.paths.data / "attachments"):
        export_report = ChatExporter(source.client, ExportTarget(file, "json", overwrites=False)).export_all([summary])
    assert export_report.left_out == ["note.txt", "rules.txt"] == json.loads(file.read_bytes())["left_out"]
    report = ChatImporter(target.client).import_file(file)
    assert (report.added, report.folders, report.left_out) == (1, 1, 2)


def test_a_folder_that_is_none_keeps_no_chat_out(pair: tuple[RealGateway, RealGateway], tmp_path: Path) -> None:
    source, target = pair
    folder = source.client.post("/chats/folders", NewChatFolder(name="Sheds"), ChatFolder)
    begin_chat(source, "In it", folder.id)
    file = tmp_path / "all.json"
    ChatExporter(source.client, ExportTarget(file, "json", overwrites=False)).export_all(summaries_of(source))
    export = json.loads(file.read_bytes())
    (good,) = export["folders"]
    export["folders"] = [
        good | {"id": "../x"},
        good | {"id": "f2", "name": " "},
        {"name": 3},
        "text",
        good | {"files": 7},
    ]
    file.write_text(json.dumps(export))
    report = ChatImporter(target.client).import_file(file)
    assert (report.added, report.folders, report.unreadable) == (1, 0, 4)
    (chat,) = chats_of(target)
    assert chat.folder == ""
