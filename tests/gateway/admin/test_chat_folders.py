"""Folders and tags over HTTP and in the terminal, and what a folder gives on its way to the model."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from app.cli import chat_folders, chats, main
from app.core.attachments import Attachment
from app.core.chats import (
    Chat,
    ChatFolder,
    ChatFolderPatch,
    ChatShelf,
    ChatSummary,
    NewChat,
    NewChatFolder,
    NewTurn,
    Turn,
)
from app.core.events import ChatChanged, ChatFoldersChanged, Event
from app.gateway.chats.tidying import keep_chats_tidy
from tests.gateway.admin.conftest import LAST, Api, Pen, chunk
from tests.gateway.admin.real_gateway import RealGateway
from tests.patience import PATIENCE_S

DAY_S = 24 * 3600.0


async def add_folder(api: Api, **fields: object) -> ChatFolder:
    return await api.call("POST", "/chats/folders", ChatFolder, {"name": "Steam", **fields})


async def upload(api: Api, name: str, content: bytes) -> Attachment:
    return await api.call("POST", f"/attachments?name={name}", Attachment, content)


async def finish(api: Api, pen: Pen, turn: Turn) -> None:
    pen.write(chunk("Yes."), LAST)
    pen.end()
    assert (await api.read_to_end(turn.answer)).status == "complete"


async def test_the_first_question_brings_the_folders_prompt_and_files(api: Api, pen: Pen) -> None:
    rules = await upload(api, "rules.txt", b"No smoking.")
    folder = await add_folder(api, system_prompt="Be brief.", files=[rules.id])
    chat = await api.chat(folder=folder.id, model="guide")
    turn = await api.ask(chat.id)
    assert turn.question is not None
    assert [file.name for file in turn.question.attachments] == ["rules.txt"]
    await finish(api, pen, turn)
    system, question = json.loads(api.gateway.upstream.bodies[-1])["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert "No smoking." in json.dumps(question)
    again = await api.ask(chat.id, "And?", parent=turn.answer.id)
    assert again.question is not None
    assert again.question.attachments == []
    await finish(api, pen, again)


async def test_files_named_already_do_not_come_twice(api: Api, pen: Pen) -> None:
    rules = await upload(api, "rules.txt", b"No smoking.")
    folder = await add_folder(api, files=[rules.id])
    chat = await api.chat(folder=folder.id, model="guide")
    body = NewTurn(content="Why?", attachments=[rules.id], has_folder_files=True)
    turn = await api.call("POST", f"/chats/{chat.id}/turns", Turn, body)
    assert turn.question is not None
    assert [file.name for file in turn.question.attachments] == ["rules.txt"]
    await finish(api, pen, turn)


async def test_every_window_hears_of_folders(api: Api) -> None:
    async with api.events("/events", Event) as events:
        folder = await add_folder(api)
        assert isinstance(await anext(events), ChatFoldersChanged)
        chat = await api.chat(folder=folder.id)
        assert await anext(events) == ChatFoldersChanged()
        assert await anext(events) == ChatChanged(chat=chat.id)
        await api.raw("DELETE", f"/chats/folders/{folder.id}?with_chats=true")
        assert await anext(events) == ChatChanged(chat=chat.id, deleted=True)
        assert await anext(events) == ChatFoldersChanged()
    assert await api.call("GET", "/chats/folders", list[ChatFolder]) == []


async def test_a_folder_that_is_not_there_is_said(api: Api) -> None:
    not_there = (404, "folder_not_found")
    assert await api.expect_refusal("GET", "/chats/folders/gone") == not_there
    assert await api.expect_refusal("PATCH", "/chats/folders/gone", ChatFolderPatch(name="x")) == not_there
    assert await api.expect_refusal("DELETE", "/chats/folders/gone") == not_there
    assert await api.expect_refusal("POST", "/chats", NewChat(folder="gone")) == not_there
    assert await api.expect_refusal("POST", "/chats/folders", NewChatFolder(name=" ")) == (400, "folder_without_name")
    too_many = NewChatFolder(name="x", files=[str(number) for number in range(21)])
    assert await api.expect_refusal("POST", "/chats/folders", too_many) == (400, "invalid_value")


async def test_the_list_is_of_one_folder_or_tag(api: Api) -> None:
    folder = await add_folder(api)
    inside, tagged_chat = (
        await api.chat(title="in", folder=folder.id),
        await api.chat(title="out", tags=["work & play"]),
    )

    async def ids_of(query: str) -> list[str]:
        return [summary.id for summary in await api.call("GET", f"/chats?{query}", list[ChatSummary])]

    assert await ids_of(f"folder={folder.id}") == [inside.id]
    assert await ids_of("folder=") == [tagged_chat.id]
    assert await ids_of("tag=work%20%26%20play") == [tagged_chat.id]
    assert await ids_of("folder=gone") == []
    assert await ids_of("") == [tagged_chat.id, inside.id]


async def test_the_trash_is_emptied_while_the_service_runs(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    store, events = api.gateway.services.chats, api.gateway.services.events
    old, recent = await api.chat(title="old"), await api.chat(title="recent")
    now = time.time()
    for chat, days in ((old, 31.1), (recent, 30.9)):
        monkeypatch.setattr(time, "time", lambda days=days: now - days * DAY_S)
        await store.delete_chat(chat.id)
    monkeypatch.setattr(time, "time", lambda: now)
    async with api.events("/events", Event) as all_events:
        tidy_task = asyncio.create_task(keep_chats_tidy(store, events, every_s=0.0))
        assert await asyncio.wait_for(anext(all_events), PATIENCE_S) == ChatChanged(chat=old.id, deleted=True)
        tidy_task.cancel()
    trash = await api.call("GET", f"/chats?shelf={ChatShelf.TRASH}", list[ChatSummary])
    assert [summary.id for summary in trash] == [recent.id]


@pytest.fixture
def cli(service: RealGateway, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    for module in (chats, chat_folders):
        monkeypatch.setattr(module, "connect_gateway", lambda: service.client)
    return CliRunner()


def run(cli: CliRunner, *arguments: str) -> Result:
    return cli.invoke(main.roundhouse, ["chats", *arguments])


def test_folders_and_tags_from_the_terminal(service: RealGateway, cli: CliRunner, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("Twelve roads.")
    assert run(cli, "folders").stdout == "No folders.\n"
    result = run(cli, "folders", "add", "Sheds", "--system", "Be brief.", "--model", "quick", "--file", str(notes))
    assert result.exit_code == 0, result.output
    assert "notes.txt" in run(cli, "folders", "show", "sheds").stdout
    folders = json.loads(run(cli, "folders", "--json").stdout)["folders"]
    assert [(folder["name"], folder["system_prompt"]) for folder in folders] == [("Sheds", "Be brief.")]
    chat = service.client.post("/chats", NewChat(title="Turntable"), Chat)
    assert run(cli, "move", "Turntable", "Sheds").stdout == "“Turntable” is in “Sheds”.\n"
    assert run(cli, "tag", "Turntable", "#iron", "steam").stdout == "“Turntable” has #iron #steam.\n"
    assert run(cli, "tag", "Turntable", "iron", "--off").stdout == "“Turntable” has #steam.\n"
    assert "Turntable #steam" in run(cli, "list", "--folder", "Sheds", "--tag", "steam").stdout
    assert run(cli, "list", "--tag", "iron").stdout == "No chats.\n"
    assert run(cli, "tags").stdout.split() == ["CHATS", "TAG", "1", "steam"]
    change_result = run(cli, "folders", "set", "Sheds", "--name", "Yards", "--remove-file", "notes.txt")
    assert "notes.txt" not in change_result.stdout
    assert "Be brief." in change_result.stdout
    assert run(cli, "folders", "delete", "Yards", "--yes").stdout == "Deleted. Its chats are in no folder now.\n"
    assert service.client.get(f"/chats/{chat.id}", Chat).folder == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("folders", "show", "Nowhere"), "There is no folder “Nowhere”."),
        (("folders", "add", " "), "A folder needs a name."),
        (("folders", "add", "x", "--file", "/nowhere/notes.txt"), "/nowhere/notes.txt cannot be read"),
        (("move", "Turntable"), "Say which folder, or --out"),
        (("list", "--folder", "Nowhere"), "There is no folder “Nowhere”."),
        (("tag", "No such chat", "x"), "There is no chat “No such chat”."),
    ],
)
def test_mistakes_are_said(cli: CliRunner, arguments: tuple[str, ...], words: str) -> None:
    result = run(cli, *arguments)
    assert result.exit_code in {1, 2}
    assert words in result.stderr
