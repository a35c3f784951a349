"""`roundhouse collections`: folders of documents that are searched by passages, in the terminal and for questions."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core.documents import (
    MOST_PASSAGES,
    AnswerSource,
    Collection,
    CollectionPatch,
    CollectionStage,
    DocumentFile,
    NewCollection,
    Passage,
    PassageQuery,
    PassageResults,
    SearchMeans,
)
from app.core.errors import BadRequest
from app.core.words import format_bytes

_LOOK_S = 0.3
_SEARCH_S = 300.0
"""An embedding model may have to be loaded first."""
_LONGEST_EXCERPT = 400
_MOST_FILES = 10_000
_MEANS = {
    SearchMeans.WORDS: "by their words",
    SearchMeans.MEANING: "by what they mean",
    SearchMeans.RERANKER: "put in order by a reranker",
}


@click.group("collections", invoke_without_command=True)
@json_option
@click.pass_context
def collections(ctx: click.Context, *, as_json: bool) -> None:
    """List collections of documents, make them, and search them."""
    if ctx.invoked_subcommand is None:
        _show_collections(as_json=as_json)


@collections.command("list")
@json_option
def list_collections(*, as_json: bool) -> None:
    """List the collections that `roundhouse run MODEL --collection NAME` may look into."""
    _show_collections(as_json=as_json)


@collections.command("add")
@click.argument("name")
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--served", is_flag=True, help="Let programs on this computer search it at the endpoint, too.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Let programs with this access key search it.")
@click.option("--wait/--no-wait", default=True, help="Wait until everything is read.")
@json_option
def add_collection(  # noqa: PLR0913 -- one option each
    *, name: str, folders: tuple[Path, ...], served: bool, keys: tuple[str, ...], wait: bool, as_json: bool
) -> None:
    """Add the collection NAME of FOLDERS. They are read now, and whenever something in them changes."""
    client = connect_gateway()
    paths = [str(folder.resolve()) for folder in folders]
    new = NewCollection(name=name, folders=paths, is_served=served, keys=list(keys))
    collection = client.post("/collections", new, Collection)
    _show_when_read(client, collection, wait=wait, as_json=as_json)


@collections.command("show")
@click.argument("name")
@click.option("--unread", is_flag=True, help="Only the files that cannot be read.")
@json_option
def show_collection(*, name: str, unread: bool, as_json: bool) -> None:
    """Show the collection NAME with its files, and what is wrong with those that cannot be read."""
    client = connect_gateway()
    collection = client.get(_path_of(name), Collection)
    query = {"limit": _MOST_FILES, **({"unread": "true"} if unread else {})}
    files = client.get(f"{_path_of(name)}/files?{urlencode(query)}", list[DocumentFile])
    index = CollectionFiles(collection, files)
    show_result("collection", index, as_json=as_json, text=_file_lines)


@collections.command("search")
@click.argument("name")
@click.argument("question", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, MOST_PASSAGES), default=8, show_default=True, help="Passages at most.")
@json_option
def search_collection(*, name: str, question: tuple[str, ...], limit: int, as_json: bool) -> None:
    """Search the collection NAME for passages that answer QUESTION."""
    query = PassageQuery(text=" ".join(question), collections=[name], limit=limit)
    results = connect_gateway().post("/collections/search", query, PassageResults, timeout_s=_SEARCH_S)
    if results.note:
        print_note(results.note)
    show_result("passages", results, as_json=as_json, text=_passage_lines)


@collections.command("index")
@click.argument("name")
@click.option("--wait/--no-wait", default=True, help="Wait until everything is read.")
@json_option
def index_collection(*, name: str, wait: bool, as_json: bool) -> None:
    """Look at the folders of the collection NAME now; that happens by itself every half minute."""
    client = connect_gateway()
    collection = client.post(f"{_path_of(name)}/index", None, Collection)
    _show_when_read(client, collection, wait=wait, as_json=as_json)


@collections.command("change")
@click.argument("name")
@click.option("--rename", metavar="NAME", help="Another name.")
@click.option(
    "--folder",
    "folders",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="These folders instead of those it has.",
)
@click.option("--served/--not-served", default=None, help="Whether programs on this computer may search it.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="These access keys instead of those it has.")
@click.option("--no-keys", is_flag=True, help="No access keys.")
@json_option
def change_collection(  # noqa: PLR0913 -- one option each
    *,
    name: str,
    rename: str | None,
    folders: tuple[Path, ...],
    served: bool | None,
    keys: tuple[str, ...],
    no_keys: bool,
    as_json: bool,
) -> None:
    """Change the folders of the collection NAME, its name, or who may search it."""
    if keys and no_keys:
        raise BadRequest("--key and --no-keys contradict each other.", code="usage")
    patch = CollectionPatch(
        name=rename,
        folders=[str(folder.resolve()) for folder in folders] or None,
        is_served=served,
        keys=list(keys) if keys or no_keys else None,
    )
    collection = connect_gateway().patch(_path_of(name), patch, Collection)
    show_result(
        "collection",
        collection,
        as_json=as_json,
        text=lambda changed_collection: _collection_lines([changed_collection]),
    )


@collections.command("remove")
@click.argument("name")
@json_option
def remove_collection(*, name: str, as_json: bool) -> None:
    """Remove the collection NAME and its index; its folders stay as they are."""
    client = connect_gateway()
    collection = client.get(_path_of(name), Collection)
    client.delete(_path_of(name))
    show_result(
        "removed", collection, as_json=as_json, text=lambda old_collection: [f"{old_collection.name} was removed."]
    )


class CollectionFiles(msgspec.Struct, frozen=True):
    """A collection, and its files."""

    collection: Collection
    files: list[DocumentFile]


def wait_until_read(client: GatewayClient, collection: Collection) -> Collection:
    """Return a collection once nothing is to be done for it; says how far it is meanwhile."""
    shown_line = ""
    while collection.stage is not CollectionStage.READY:
        line = _describe_stage(collection)
        if line != shown_line:
            print_note(line)
            shown_line = line
        time.sleep(_LOOK_S)
        collection = client.get(_path_of(collection.id), Collection)
    return collection


def _show_when_read(client: GatewayClient, collection: Collection, *, wait: bool, as_json: bool) -> None:
    if wait:
        collection = wait_until_read(client, collection)
        if collection.problem:
            print_note(collection.problem)
    show_result("collection", collection, as_json=as_json, text=lambda ready: _collection_lines([ready]))


def _show_collections(*, as_json: bool) -> None:
    entries = connect_gateway().get("/collections", list[Collection])
    show_result("collections", entries, as_json=as_json, text=_collection_lines)


def _path_of(name: str) -> str:
    return f"/collections/{quote_segment(name)}"


def _collection_lines(entries: Sequence[Collection]) -> Iterator[str]:
    if not entries:
        yield "There are no collections. `roundhouse collections add NAME FOLDER` makes one."
        return
    yield from format_table(("NAME", "FILES", "PASSAGES", "FOUND BY", "INDEX", "STATE"), map(_collection_row, entries))
    for collection in entries:
        if collection.problem:
            yield f"{collection.name}: {collection.problem}"


def _collection_row(collection: Collection) -> tuple[str, ...]:
    files = str(collection.files)
    if collection.unread_files:
        files += f", {collection.unread_files} not read"
    means = "words, meaning" if collection.passages and collection.embedded == collection.passages else "words"
    size = format_bytes(collection.size_bytes)
    return (collection.name, files, str(collection.passages), means, size, _describe_stage(collection))


def _describe_stage(collection: Collection) -> str:
    if collection.stage is CollectionStage.READY:
        return "folder missing" if collection.missing_folders else "ready"
    if not collection.total:
        return collection.stage.value
    return f"{collection.stage.value} {collection.done} of {collection.total}"


def _file_lines(index: CollectionFiles) -> Iterator[str]:
    yield from _collection_lines([index.collection])
    for folder in index.collection.folders:
        missing_note = "  (missing now)" if folder in index.collection.missing_folders else ""
        yield f"Folder: {folder}{missing_note}"
    rows = [(str(file.passages), file.path, file.problem) for file in index.files]
    yield from format_table(("PASSAGES", "FILE", "PROBLEM"), rows)
    if len(index.files) == _MOST_FILES:
        yield f"The first {_MOST_FILES} files are shown."


def _passage_lines(results: PassageResults) -> Iterator[str]:
    if not results.passages:
        yield "Nothing was found."
        return
    for number, passage in enumerate(results.passages, 1):
        yield f"[{number}] {describe_place(passage)}"
        yield f"    {_excerpt(passage.text)}"
    means = ", ".join(_MEANS[mean] for mean in results.means)
    yield f"Found {means}, in {results.seconds * 1000:.0f} ms."


def describe_place(passage: Passage | AnswerSource) -> str:
    """Return where a passage is, in a line."""
    page = f", page {passage.page}" if passage.page else ""
    heading = f" ({passage.heading})" if passage.heading else ""
    return f"{passage.path}{page}{heading}"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_EXCERPT else f"{line[:_LONGEST_EXCERPT]}…"
