"""Chats out of one service and into another, through the command line's own exporter and importer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.chat_transfer import ChatExporter, ChatImporter, ExportTarget
from app.core.chats import Chat, ChatSummary, MessageStatus
from app.core.errors import BadRequest
from tests.gateway.admin.real_gateway import RealGateway, running
from tests.ports import free_port

FIXTURES = Path(__file__).parents[2] / "fixtures" / "chats"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    with running(tmp_path_factory.mktemp("first"), free_port()) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealGateway]:
    with running(tmp_path_factory.mktemp("second"), free_port()) as gateway:
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
    moved = ChatImporter(second.client).import_file(file)
    assert (moved.added, moved.left_out) == (7, 0)
    there = {chat.id: without_ids_of_files(chat) for chat in chats_of(second)}
    assert {chat.id: without_ids_of_files(chat) for chat in chats_of(first)}.items() <= there.items()
    names = {part.name for chat in chats_of(second) for message in chat.messages for part in message.attachments}
    assert names == {"shed.txt", "yard.txt"}
    assert all(message.status is MessageStatus.COMPLETE for chat in chats_of(second) for message in chat.messages)


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
    done = ChatExporter(second.client, target).export_all(summaries_of(second))
    written = [path for path in folder.iterdir() if path.is_file()]
    assert len(written) == done.chats >= len(titles)
    assert all(path.suffix == ".md" and path.name.isprintable() for path in written)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["messages.json", "out"]
