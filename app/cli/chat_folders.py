"""`roundhouse chats folders`: folders of chats, and the model, system prompt and files that new chats in them get."""

from collections.abc import Sequence

import click

from app.cli.attachments import describe_attachment, upload_file
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.client.http import GatewayClient, quote_segment
from app.core.chats import ChatFolder, ChatFolderPatch, NewChatFolder
from app.core.errors import BadRequest, NotFound

_PATH = "/chats/folders"
_LEAST_ID = 4
"""Characters that name a folder by the beginning of its id."""
_SHOWN_ID = 8


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def folders(ctx: click.Context, *, as_json: bool) -> None:
    """List, add, change and delete folders of chats.

    New chats in a folder begin with its model, its system prompt and its files.
    """
    if ctx.invoked_subcommand is None:
        folder_list = connect_gateway().get(_PATH, list[ChatFolder])
        show_result("folders", folder_list, as_json=as_json, text=_folder_lines)


_MODEL = click.option("--model", help="Model of new chats; an empty one is the usual.")
_SYSTEM = click.option("--system", "system_prompt", help="System prompt of new chats.")
_FILE = click.option(
    "--file", "files", multiple=True, type=click.Path(), help="File that new chats get; may be given several times."
)


@folders.command("add")
@click.argument("name")
@_MODEL
@_SYSTEM
@_FILE
@json_option
def add(name: str, *, model: str | None, system_prompt: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """Add a folder called NAME."""
    client = connect_gateway()
    uploads = [upload_file(client, path).id for path in files]
    new = NewChatFolder(name=name, model=model or "", system_prompt=system_prompt or "", files=uploads)
    new_folder = client.post(_PATH, new, ChatFolder)
    show_result("folder", new_folder, as_json=as_json, text=lambda folder: [f"“{folder.name}” is there."])


@folders.command("show")
@click.argument("folder")
@json_option
def show(folder: str, *, as_json: bool) -> None:
    """Say what new chats in FOLDER get."""
    show_result("folder", find_folder(connect_gateway(), folder), as_json=as_json, text=_detail_lines)


@folders.command("set")
@click.argument("folder")
@click.option("--name", help="Another name.")
@_MODEL
@_SYSTEM
@_FILE
@click.option("--remove-file", "removed", multiple=True, help="Name of a file that it no longer has.")
@json_option
def change(
    folder: str, *, files: tuple[str, ...], removed: tuple[str, ...], as_json: bool, **fields: str | None
) -> None:
    """Change FOLDER (its name, or the beginning of its id). Chats that are in it stay as they are."""
    client = connect_gateway()
    before = find_folder(client, folder)
    changed_files = _changed_files(client, before, files, removed)
    patch = ChatFolderPatch(**fields, files=changed_files)
    changed_folder = client.patch(f"{_PATH}/{quote_segment(before.id)}", patch, ChatFolder)
    show_result("folder", changed_folder, as_json=as_json, text=_detail_lines)


def _changed_files(
    client: GatewayClient, folder: ChatFolder, paths: Sequence[str], removed_files: Sequence[str]
) -> list[str] | None:
    """Return the ids of all files that the folder has from now on; None where they stay."""
    unknown = set(removed_files) - {file.name for file in folder.files}
    if unknown:
        raise NotFound(f"“{folder.name}” has no file {', '.join(sorted(unknown))}.", code="attachment_not_found")
    if not paths and not removed_files:
        return None
    remaining_ids = [file.id for file in folder.files if file.name not in removed_files]
    return [*remaining_ids, *(upload_file(client, path).id for path in paths)]


@folders.command("delete")
@click.argument("folder")
@click.option("--with-chats", is_flag=True, help="Move its chats to the trash, too.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(folder: str, *, with_chats: bool, yes: bool, as_json: bool) -> None:
    """Delete FOLDER. Its chats stay, in no folder."""
    client = connect_gateway()
    match = find_folder(client, folder)
    chats = f" and move its chats ({match.chat_count}) to the trash" if with_chats else ""
    if not yes:
        click.confirm(f"Delete the folder “{match.name}”{chats}?", abort=True, err=True)
    client.delete(f"{_PATH}/{quote_segment(match.id)}{'?with_chats=true' if with_chats else ''}")
    rest = "Its chats are in the trash." if with_chats else "Its chats are in no folder now."
    show_result(
        "deleted", match, as_json=as_json, text=lambda _: [f"Deleted. {rest if match.chat_count else ''}".strip()]
    )


def find_folder(client: GatewayClient, name: str) -> ChatFolder:
    """Return the folder with that name, or whose id begins so. Raises NotFound, or BadRequest where several do."""
    folded_name = name.strip().casefold()
    matches = [
        folder
        for folder in client.get(_PATH, list[ChatFolder])
        if folder.name.casefold() == folded_name
        or (len(folded_name) >= _LEAST_ID and folder.id.startswith(folded_name))
    ]
    if len(matches) > 1:
        raise BadRequest(
            f"{len(matches)} folders are called “{name}”.", hint="Use an id: `roundhouse chats folders` lists them."
        )
    if not matches:
        hint = "`roundhouse chats folders` lists them, `roundhouse chats folders add NAME` adds one."
        raise NotFound(f"There is no folder “{name}”.", hint=hint, code="folder_not_found")
    return matches[0]


def _folder_lines(folder_list: Sequence[ChatFolder]) -> list[str]:
    if not folder_list:
        return ["No folders."]
    rows = [(item.id[:_SHOWN_ID], str(item.chat_count), _gives(item), item.name) for item in folder_list]
    return format_table(("ID", "CHATS", "NEW CHATS GET", "NAME"), rows)


def _gives(folder: ChatFolder) -> str:
    parts = [
        folder.model,
        "a system prompt" if folder.system_prompt else "",
        f"{len(folder.files)} {'file' if len(folder.files) == 1 else 'files'}" if folder.files else "",
    ]
    return ", ".join(part for part in parts if part) or "nothing"


def _detail_lines(folder: ChatFolder) -> list[str]:
    return [
        f"{folder.name} ({folder.id[:_SHOWN_ID]}), {folder.chat_count} chats",
        f"Model: {folder.model or 'the usual'}",
        f"System prompt: {folder.system_prompt or 'none'}",
        *(describe_attachment(file) for file in folder.files),
    ]
