"""`roundhouse chats`: the window's conversations: list, search, export to files, import from other programs, delete."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from app.chat_files.writing import write_markdown
from app.cli import chat_messages
from app.cli.chat_folders import find_folder, folders
from app.cli.chat_names import IN_SIGHT, SHOWN_ID, ChatRequest, find_chat, list_summaries
from app.cli.chat_transfer import (
    FORMATS,
    ChatExporter,
    ChatImporter,
    ExportTarget,
    format_of,
)
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.client.http import quote_segment
from app.core.chats import Chat, ChatPatch, ChatShelf, ChatSummary, ExportReport, ImportReport, TagCount
from app.core.errors import BadRequest

_USUAL_LIMIT = 30
_SHOWN_NAMES = 5
_MARKS = re.compile("[\x02\x03]")


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def chats(ctx: click.Context, *, as_json: bool) -> None:
    """List, search, continue, export, import and delete the window's chats."""
    if ctx.invoked_subcommand is None:
        _print_chats("", _USUAL_LIMIT, {}, as_json=as_json)


for _command in chat_messages.COMMANDS:
    chats.add_command(_command)

_SHELF = click.option(
    "--shelf",
    type=click.Choice([shelf.value for shelf in ChatShelf]),
    default=ChatShelf.CURRENT.value,
    show_default=True,
    help="Where to look.",
)
_FOLDER = click.option("--folder", help="Only chats in this folder.")
_TAG = click.option("--tag", default="", help="Only chats with this tag.")
_LIMIT = click.option("--limit", type=click.IntRange(1), default=_USUAL_LIMIT, show_default=True, help="Chats shown.")


@chats.command("list")
@_SHELF
@_FOLDER
@_TAG
@_LIMIT
@json_option
def list_chats(*, limit: int, as_json: bool, **place: str | None) -> None:
    """List the chats, pinned ones first, then the newest."""
    _print_chats("", limit, place, as_json=as_json)


@chats.command("search")
@click.argument("words", nargs=-1, required=True)
@_SHELF
@_FOLDER
@_TAG
@_LIMIT
@json_option
def search_chats(words: tuple[str, ...], *, limit: int, as_json: bool, **place: str | None) -> None:
    """Search titles, messages and the text of attached files for all of WORDS."""
    _print_chats(" ".join(words), limit, place, as_json=as_json)


@chats.command("show")
@click.argument("chat")
@json_option
def show_chat(chat: str, *, as_json: bool) -> None:
    """Print CHAT (the beginning of its id, or its title) as Markdown."""
    client = connect_gateway()
    whole = client.get(f"/chats/{quote_segment(find_chat(client, chat).id)}", Chat)
    show_result("chat", whole, as_json=as_json, text=lambda chat_info: write_markdown(chat_info).decode().splitlines())


@chats.command("export")
@click.argument("chat", required=False)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--all", "is_all", is_flag=True, help="Every chat: one JSON file, or a folder with a file for each.")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="By default as FILE's name ends.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@json_option
def export(chat: str | None, file: Path | None, *, is_all: bool, as_json: bool, **options: object) -> None:
    """Write CHAT to FILE: Markdown, HTML or PDF of the branch that is shown, or JSON with everything.

    With --all, name only the FILE: `roundhouse chats export --all chats.json`.
    """
    if is_all and file is None:
        file = Path(chat or "")
        chat = None
    if file is None or not file.name or (chat is None) is not is_all:
        raise BadRequest("Say which chat, and where to: `roundhouse chats export CHAT FILE`.", code="usage")
    kind = str(options["kind"]) if options["kind"] else format_of(file)
    if is_all and not kind:
        kind = "md"
    if not kind:
        raise BadRequest(f"{file.name} does not say which format.", hint=f"--format takes {', '.join(FORMATS)}.")
    target = ExportTarget(file, kind, overwrites=bool(options["overwrite"]))
    client = connect_gateway()
    exporter = ChatExporter(client, target)
    report = (
        exporter.export_one(find_chat(client, chat))
        if chat
        else exporter.export_all(
            summary for shelf in IN_SIGHT for summary in list_summaries(client, ChatRequest(shelf=shelf))
        )
    )
    show_result("export", report, as_json=as_json, text=_export_lines)


@chats.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def import_chats(path: Path, *, as_json: bool) -> None:
    """Add the chats in PATH: a file, archive or folder that this or another program exported.

    Read are exports of Roundhouse, ChatGPT, Claude, Open WebUI, LM Studio, Jan and llama.cpp's web page. Importing the
    same chats again changes nothing.
    """
    report = ChatImporter(connect_gateway()).import_file(path)
    show_result("import", report, as_json=as_json, text=_import_lines)


@chats.command("delete")
@click.argument("chat")
@click.option("--for-good", is_flag=True, help="Delete what is in the trash; it cannot be restored.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(chat: str, *, for_good: bool, yes: bool, as_json: bool) -> None:
    """Move CHAT to the trash, where it can be restored for 30 days."""
    client = connect_gateway()
    summary = find_chat(client, chat, [ChatShelf.TRASH] if for_good else IN_SIGHT)
    if not yes:
        click.confirm(f"Delete “{summary.title}”{' for good' if for_good else ''}?", abort=True, err=True)
    client.delete(f"/chats/{quote_segment(summary.id)}{'?for_good=true' if for_good else ''}")
    way_back = "" if for_good else f" `roundhouse chats restore {summary.id[:SHOWN_ID]}` brings it back for 30 days."
    show_result("deleted", summary, as_json=as_json, text=lambda _: [f"Deleted.{way_back}"])


@chats.command("restore")
@click.argument("chat")
@json_option
def restore(chat: str, *, as_json: bool) -> None:
    """Bring CHAT back from the trash."""
    client = connect_gateway()
    summary = find_chat(client, chat, [ChatShelf.TRASH])
    restored_chat = client.post(f"/chats/{quote_segment(summary.id)}/restore", None, Chat)
    show_result("chat", restored_chat, as_json=as_json, text=lambda chat_info: [f"“{chat_info.title}” is back."])


@chats.command("pin")
@click.argument("chat")
@click.option("--off", is_flag=True, help="Unpin it.")
@json_option
def pin(chat: str, *, off: bool, as_json: bool) -> None:
    """Keep CHAT above the others."""
    _change_chat(chat, ChatPatch(is_pinned=not off), "is not pinned any more" if off else "is pinned", as_json=as_json)


@chats.command("archive")
@click.argument("chat")
@click.option("--off", is_flag=True, help="Take it out of the archive.")
@json_option
def archive(chat: str, *, off: bool, as_json: bool) -> None:
    """Put CHAT out of the way; it stays as it is."""
    change = "is among your chats again" if off else "is archived"
    _change_chat(chat, ChatPatch(is_archived=not off), change, as_json=as_json)


@chats.command("move")
@click.argument("chat")
@click.argument("folder", required=False)
@click.option("--out", "is_out", is_flag=True, help="Take it out of its folder.")
@json_option
def move(chat: str, folder: str | None, *, is_out: bool, as_json: bool) -> None:
    """Move CHAT into FOLDER; it keeps its own model and system prompt."""
    if (folder is None) is not is_out:
        raise BadRequest("Say which folder, or --out: `roundhouse chats move CHAT FOLDER`.", code="usage")
    match = None if folder is None else find_folder(connect_gateway(), folder)
    change = f"is in “{match.name}”" if match else "is in no folder"
    _change_chat(chat, ChatPatch(folder=match.id if match else ""), change, as_json=as_json)


@chats.command("tag")
@click.argument("chat")
@click.argument("tags", nargs=-1, required=True)
@click.option("--off", is_flag=True, help="Take these tags off it.")
@json_option
def tag_chat(chat: str, tags: tuple[str, ...], *, off: bool, as_json: bool) -> None:
    """Put TAGS on CHAT."""
    client = connect_gateway()
    summary = find_chat(client, chat)
    names = {tag.strip().lstrip("#").casefold() for tag in tags}
    others = [tag for tag in summary.tags if tag.casefold() not in names]
    patch = ChatPatch(tags=others if off else [*others, *tags])
    tagged_chat = client.patch(f"/chats/{quote_segment(summary.id)}", patch, Chat)
    show_result("chat", tagged_chat, as_json=as_json, text=_tag_lines)


@chats.command("tags")
@json_option
def list_tags(*, as_json: bool) -> None:
    """List the tags that chats have."""
    tags = connect_gateway().get("/chats/tags", list[TagCount])
    show_result("tags", tags, as_json=as_json, text=_tag_count_lines)


chats.add_command(folders)


def _tag_lines(chat: Chat) -> list[str]:
    return [f"“{chat.title}” has {' '.join(f'#{tag}' for tag in chat.tags) or 'no tags'}."]


def _tag_count_lines(tags: Sequence[TagCount]) -> list[str]:
    return format_table(("CHATS", "TAG"), [(str(item.count), item.tag) for item in tags]) if tags else ["No tags."]


def _change_chat(name: str, patch: ChatPatch, change: str, *, as_json: bool) -> None:
    client = connect_gateway()
    summary = find_chat(client, name)
    changed_chat = client.patch(f"/chats/{quote_segment(summary.id)}", patch, Chat)
    show_result("chat", changed_chat, as_json=as_json, text=lambda chat: [f"“{chat.title}” {change}."])


def _print_chats(query: str, limit: int, place: Mapping[str, str | None], *, as_json: bool) -> None:
    client = connect_gateway()
    folder = place.get("folder")
    request = ChatRequest(
        query,
        ChatShelf(place.get("shelf") or ChatShelf.CURRENT),
        folder=None if folder is None else find_folder(client, folder).id,
        tag=place.get("tag") or "",
    )
    summaries = list(itertools.islice(list_summaries(client, request), limit))
    show_result("chats", summaries, as_json=as_json, text=_summary_lines)


def _summary_lines(summaries: Sequence[ChatSummary]) -> list[str]:
    if not summaries:
        return ["No chats."]
    rows = [
        (
            summary.id[:SHOWN_ID],
            f"{datetime.fromtimestamp(summary.updated_at).astimezone():%Y-%m-%d %H:%M}",
            str(summary.message_count),
            " — ".join(filter(None, (summary.title, summary.file, _MARKS.sub("", summary.snippet))))
            + (" (pinned)" if summary.is_pinned else "")
            + "".join(f" #{tag}" for tag in summary.tags),
        )
        for summary in summaries
    ]
    return format_table(("ID", "CHANGED", "MESSAGES", "TITLE"), rows)


def _export_lines(report: ExportReport) -> Iterator[str]:
    folders = f" and {_count(report.folders, 'folder', 'folders')}" if report.folders else ""
    yield f"{_count_chats(report.chats)}{folders} written to {report.path}."
    if report.left_out:
        names = ", ".join(report.left_out[:_SHOWN_NAMES]) + (", …" if len(report.left_out) > _SHOWN_NAMES else "")
        yield f"{_count(len(report.left_out), 'attached file', 'attached files')} not in it: {names}."


def _import_lines(report: ImportReport) -> Iterator[str]:
    source = f", from {', '.join(report.programs)}" if report.programs else ""
    yield f"{_count_chats(report.added)} added{source}."
    if report.folders:
        yield f"{_count(report.folders, 'folder', 'folders')} added."
    if report.extended:
        yield f"{_count_chats(report.extended)} extended with newer messages."
    if report.unchanged:
        yield f"{_count_chats(report.unchanged)} were here already."
    if report.deleted:
        yield f"{_count_chats(report.deleted)} are in the trash and stay there."
    if report.unreadable:
        yield f"{_count_chats(report.unreadable)} without a text that can be read."
    if report.left_out:
        yield f"{report.left_out:,} pictures and files were not taken over."


def _count_chats(count: int) -> str:
    return _count(count, "chat", "chats")


def _count(count: int, thing: str, things: str) -> str:
    return f"1 {thing}" if count == 1 else f"{count:,} {things}"
