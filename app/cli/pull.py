"""`roundhouse pull`: bring a model here. `roundhouse downloads`: what is on its way.

`roundhouse update-models`: whether the hub has newer files of the models here, and fetching them.
"""

import sys
import time
from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient
from app.core import words
from app.core.downloads import Download, DownloadState, MoveDownload, Pull
from app.core.errors import EnvironmentFault, NotFound, RoundhouseError
from app.core.library import Freshness, ModelUpdate

_CHOOSING_TIMEOUT_S = 120.0
"""Reading a repository's description and a model's header, over a slow line."""
_FIRST_S, _EVERY_S = 0.05, 0.25
"""Between two looks at how far it is: at first often, so that what is small is over when it is."""
_SLOWER = 1.3
_OVER = frozenset({DownloadState.DONE, DownloadState.FAILED, DownloadState.PAUSED})
_BAR = 24


@click.command("pull")
@click.argument("model")
@click.option(
    "--quant", "quantization", default="", help="The quantisation, such as Q4_K_M, instead of the recommended one."
)
@click.option(
    "--format", "format_", default="", help="gguf, mlx, exl3 ..., instead of the one planned for this computer."
)
@click.option("--no-projector", is_flag=True, help="Without the projector, the file that lets it read images.")
@click.option("--with", "companions", multiple=True, help="A draft or LoRA adapter of the same repository, by path.")
@click.option("--anyway", is_flag=True, help="Also if no installed engine can load it yet.")
@click.option("--detach", is_flag=True, help="Do not wait; the service continues by itself.")
@json_option
def pull(  # noqa: PLR0913 -- one option each
    *,
    model: str,
    quantization: str,
    format_: str,
    no_projector: bool,
    companions: tuple[str, ...],
    anyway: bool,
    detach: bool,
    as_json: bool,
) -> None:
    """Download MODEL from the hub: qwen3:8b, owner/name, owner/name:Q4_K_M, owner/name@branch, or its address.

    Without a quantisation or a format, the best one for this computer is chosen. Ctrl-C pauses; pulling again resumes.
    """
    client = connect_gateway()
    request = Pull(
        model=model,
        quantization=quantization,
        format=format_,
        projector=not no_projector,
        companions=list(companions),
        anyway=anyway,
    )
    download = client.post("/downloads", request, Download, timeout_s=_CHOOSING_TIMEOUT_S)
    print_note(f"{download.title}: {words.format_bytes(download.total_bytes)}. {download.reason}".rstrip())
    for path in download.could_have:
        print_note(f"Optional: roundhouse pull {download.repository}/{path}")
    last_state = download if detach else _follow_download(client, download)
    show_result("download", last_state, as_json=as_json, text=_end_lines)
    if last_state.error is not None:
        raise _failure(last_state)


@click.group("downloads", invoke_without_command=True)
@json_option
@click.pass_context
def downloads(ctx: click.Context, *, as_json: bool) -> None:
    """List what is being downloaded; pause, resume, move or remove it."""
    if ctx.invoked_subcommand is None:
        show_result(
            "downloads", connect_gateway().get("/downloads", list[Download]), as_json=as_json, text=_download_lines
        )


@downloads.command("pause")
@click.argument("name")
@json_option
def pause_download(*, name: str, as_json: bool) -> None:
    """Pause the download NAME, and keep what was downloaded."""
    _change_download("pause", name, as_json=as_json)


@downloads.command("resume")
@click.argument("name")
@json_option
def resume_download(*, name: str, as_json: bool) -> None:
    """Resume the download NAME."""
    _change_download("resume", name, as_json=as_json)


@downloads.command("move")
@click.argument("name")
@click.argument("position", type=click.IntRange(min=1))
@json_option
def move_download(*, name: str, position: int, as_json: bool) -> None:
    """Move the download NAME to another place in the queue; 1 is the first."""
    client = connect_gateway()
    download = _find_download(client, name)
    queue = client.post(f"/downloads/{download.id}/move", MoveDownload(position=position - 1), list[Download])
    show_result("downloads", queue, as_json=as_json, text=_download_lines)


@downloads.command("remove")
@click.argument("name")
@json_option
def remove_download(*, name: str, as_json: bool) -> None:
    """Remove the download NAME from the list; the files of an unfinished one are deleted."""
    client = connect_gateway()
    download = _find_download(client, name)
    client.delete(f"/downloads/{download.id}")
    show_result(
        "removed",
        download,
        as_json=as_json,
        text=lambda old_download: [f"{old_download.title} was removed from the list."],
    )


def _change_download(what: str, name: str, *, as_json: bool) -> None:
    client = connect_gateway()
    changed_download = client.post(f"/downloads/{_find_download(client, name).id}/{what}", None, Download)
    show_result("download", changed_download, as_json=as_json, text=lambda download: _download_lines([download]))


def _find_download(client: GatewayClient, name: str) -> Download:
    """Return the download of that id or title; the newest of several. Raises NotFound from the gateway for none."""
    downloads_there = client.get("/downloads", list[Download])
    matches = [download for download in downloads_there if name in {download.id, download.title, download.repository}]
    return (
        matches[-1] if matches else Download(id=name, title=name, repository="", revision="", commit="", files=[])
    )  # the gateway says that there is no such download


def _follow_download(client: GatewayClient, download: Download) -> Download:
    """Show how far it is until it is over. Asking now and then cannot miss the end, as listening from now on could."""
    last, pause_s = download, _FIRST_S
    try:
        while last.state not in _OVER:
            pause_s = min(pause_s, _EVERY_S)
            time.sleep(pause_s)
            pause_s *= _SLOWER
            there = (entry for entry in client.get("/downloads", list[Download]) if entry.id == download.id)
            before, last = last, next(there, None) or _raise_gone()
            if last.machine and last.machine != before.machine:
                _clear()
                print_note(f"It comes from {last.machine}, a computer of yours.")
            if last.note and last.note != before.note:
                _clear()
                print_note(last.note)
            _paint(last)
    except KeyboardInterrupt:
        _clear()
        client.post(f"/downloads/{download.id}/pause", None, Download)
        print_note("Paused. Pull again to resume.")
        raise
    _clear()
    return last


def _raise_gone() -> Download:
    raise NotFound("The download was removed from the list.", code="download_not_found")


def _paint(download: Download) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{progress_bar(download)}", err=True, nl=False)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def progress_bar(download: Download) -> str:
    """Return one line that says how far a download is."""
    share = download.present_bytes / download.total_bytes if download.total_bytes else 1.0
    filled_width = round(share * _BAR)
    rate = f"  {words.format_bytes(round(download.bytes_per_s))}/s" if download.bytes_per_s else ""
    time_left = f"  {_time_left(download.eta_s)} left" if download.eta_s is not None else ""
    sizes = f"{words.format_bytes(download.present_bytes)} of {words.format_bytes(download.total_bytes)}"
    source = f"  from {download.machine}" if download.machine else ""
    return f"{'█' * filled_width}{'░' * (_BAR - filled_width)} {share:4.0%}  {sizes}{rate}{time_left}{source}"


def _time_left(seconds: float) -> str:
    whole = time.gmtime(min(round(seconds), 359_999))
    hours = whole.tm_hour + 24 * (whole.tm_yday - 1)
    return f"{hours}:{whole.tm_min:02}:{whole.tm_sec:02}" if hours else f"{whole.tm_min}:{whole.tm_sec:02}"


def _end_lines(download: Download) -> Iterator[str]:
    if download.state is DownloadState.DONE:
        if download.is_companion:
            yield f"{download.title} was downloaded. `roundhouse tune MODEL` shows what it can be used with."
            return
        yield f"{download.title} was downloaded. Try it: roundhouse run {download.title}"
    elif download.error is None:
        yield f"{download.title} is {download.state.value}."


def _failure(download: Download) -> RoundhouseError:
    error = download.error
    assert error is not None  # noqa: S101 -- for the type checker: the caller looked
    return EnvironmentFault(error.sentence, hint=error.hint, code=error.code)


def _download_lines(downloads_shown: list[Download]) -> Iterator[str]:
    rows = [
        (download.title, download.state.value, _progress_text(download), _note(download))
        for download in downloads_shown
    ]
    yield from format_table(("NAME", "STATE", "DONE", "NOTE"), rows)


def _progress_text(download: Download) -> str:
    share = download.present_bytes / download.total_bytes if download.total_bytes else 1.0
    return f"{share:.0%} of {words.format_bytes(download.total_bytes)}"


def _note(download: Download) -> str:
    if download.error is not None:
        return download.error.sentence
    speed = f"{words.format_bytes(round(download.bytes_per_s))}/s" if download.bytes_per_s else ""
    is_running = download.state is DownloadState.RUNNING
    source = f"from {download.machine}" if download.machine and is_running else ""
    return "  ".join(part for part in (speed, source, download.note) if part)


_HUB_S = 600.0
"""A hundred repositories over a slow line."""
_CHOOSING_S = 120.0


@click.command("update-models")
@click.option("--check", is_flag=True, help="Only show what is newer, without downloading.")
@json_option
def update_models(*, check: bool, as_json: bool) -> None:
    """Check the hub for newer files of the models that came from it, and download them.

    Existing files are kept beside the new ones; remove them with `roundhouse rm`.
    """
    client = connect_gateway()
    updates = client.get("/library/updates", list[ModelUpdate], timeout_s=_HUB_S)
    show_result("updates", updates, as_json=as_json, text=_update_lines)
    if check:
        return
    for update in updates:
        if update.state is Freshness.NEWER:
            name = update.repository if update.revision == "main" else f"{update.repository}@{update.revision}"
            request = Pull(model=name, quantization=update.quantization)
            first_download = client.post("/downloads", request, Download, timeout_s=_CHOOSING_S)
            print_note(f"{first_download.title} is downloading: roundhouse downloads")


def _update_lines(updates: list[ModelUpdate]) -> Iterator[str]:
    if not updates:
        yield "None of your models came from a hub."
        return
    yield from format_table(("NAME", "STATE", "DOWNLOAD", "NOTE"), map(_row, updates))


def _row(update: ModelUpdate) -> tuple[str, ...]:
    size = words.format_bytes(update.download_bytes) if update.state is Freshness.NEWER else ""
    change_note = (
        f"{len(update.files)} files changed; the hub's version is from {update.modified[:10] or 'an unknown day'}."
    )
    return (update.model, update.state.value, size, change_note if update.state is Freshness.NEWER else update.note)
