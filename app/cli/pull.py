"""`roundhouse pull`: bring a model here. `roundhouse downloads`: what is on its way."""

import sys
import time
from collections.abc import Iterator

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.client.http import Client
from app.core import words
from app.core.downloads import Download, DownloadState, MoveDownload, Pull
from app.core.errors import EnvironmentFault, NotFound, RoundhouseError

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
@click.option("--no-projector", is_flag=True, help="Without the projector, the file that lets it read images.")
@click.option("--with", "companions", multiple=True, help="A draft or LoRA adapter of the same repository, by path.")
@click.option("--detach", is_flag=True, help="Do not wait; the service continues by itself.")
@json_option
def pull(  # noqa: PLR0913 -- one option each
    *, model: str, quantization: str, no_projector: bool, companions: tuple[str, ...], detach: bool, as_json: bool
) -> None:
    """Download MODEL from the hub: owner/name, owner/name:Q4_K_M, owner/name@branch, or its address.

    Without a quantisation, the best one for this computer is chosen. Ctrl-C pauses; pulling again resumes.
    """
    client = connected()
    wanted = Pull(model=model, quantization=quantization, projector=not no_projector, companions=list(companions))
    begun = client.post("/downloads", wanted, Download, timeout_s=_CHOOSING_TIMEOUT_S)
    talk(f"{begun.title}: {words.size(begun.total_bytes)}. {begun.reason}".rstrip())
    for path in begun.could_have:
        talk(f"Optional: roundhouse pull {begun.repository}/{path}")
    ended = begun if detach else _followed(client, begun)
    show("download", ended, as_json=as_json, text=_ended)
    if ended.error is not None:
        raise _failure(ended)


@click.group("downloads", invoke_without_command=True)
@json_option
@click.pass_context
def downloads(ctx: click.Context, *, as_json: bool) -> None:
    """List what is being downloaded; pause, resume, move or remove it."""
    if ctx.invoked_subcommand is None:
        show("downloads", connected().get("/downloads", list[Download]), as_json=as_json, text=_lines)


@downloads.command("pause")
@click.argument("name")
@json_option
def pause(*, name: str, as_json: bool) -> None:
    """Pause the download NAME, and keep what was downloaded."""
    _change("pause", name, as_json=as_json)


@downloads.command("resume")
@click.argument("name")
@json_option
def resume(*, name: str, as_json: bool) -> None:
    """Resume the download NAME."""
    _change("resume", name, as_json=as_json)


@downloads.command("move")
@click.argument("name")
@click.argument("position", type=click.IntRange(min=1))
@json_option
def move(*, name: str, position: int, as_json: bool) -> None:
    """Move the download NAME to another place in the queue; 1 is the first."""
    client = connected()
    found = _named(client, name)
    moved = client.post(f"/downloads/{found.id}/move", MoveDownload(position=position - 1), list[Download])
    show("downloads", moved, as_json=as_json, text=_lines)


@downloads.command("remove")
@click.argument("name")
@json_option
def remove(*, name: str, as_json: bool) -> None:
    """Remove the download NAME from the list; the files of an unfinished one are deleted."""
    client = connected()
    found = _named(client, name)
    client.delete(f"/downloads/{found.id}")
    show("removed", found, as_json=as_json, text=lambda gone: [f"{gone.title} was removed from the list."])


def _change(what: str, name: str, *, as_json: bool) -> None:
    client = connected()
    changed = client.post(f"/downloads/{_named(client, name).id}/{what}", None, Download)
    show("download", changed, as_json=as_json, text=lambda one: _lines([one]))


def _named(client: Client, name: str) -> Download:
    """Return the download of that id or title; the newest of several. Raises NotFound from the gateway for none."""
    there = client.get("/downloads", list[Download])
    found = [one for one in there if name in {one.id, one.title, one.repository}]
    return (
        found[-1] if found else Download(id=name, title=name, repository="", revision="", commit="", files=[])
    )  # the gateway says that there is no such download


def _followed(client: Client, begun: Download) -> Download:
    """Show how far it is until it is over. Asking now and then cannot miss the end, as listening from now on could."""
    last, pause_s = begun, _FIRST_S
    try:
        while last.state not in _OVER:
            pause_s = min(pause_s, _EVERY_S)
            time.sleep(pause_s)
            pause_s *= _SLOWER
            there = (one for one in client.get("/downloads", list[Download]) if one.id == begun.id)
            before, last = last, next(there, None) or _gone()
            if last.note and last.note != before.note:
                _clear()
                talk(last.note)
            _paint(last)
    except KeyboardInterrupt:
        _clear()
        client.post(f"/downloads/{begun.id}/pause", None, Download)
        talk("Paused. Pull again to resume.")
        raise
    _clear()
    return last


def _gone() -> Download:
    raise NotFound("The download was removed from the list.", code="download_not_found")


def _paint(shown: Download) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{bar(shown)}", err=True, nl=False)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def bar(shown: Download) -> str:
    """Return one line that says how far a download is."""
    share = shown.present_bytes / shown.total_bytes if shown.total_bytes else 1.0
    filled = round(share * _BAR)
    rate = f"  {words.size(round(shown.bytes_per_s))}/s" if shown.bytes_per_s else ""
    left = f"  {_left(shown.eta_s)} left" if shown.eta_s is not None else ""
    sizes = f"{words.size(shown.present_bytes)} of {words.size(shown.total_bytes)}"
    return f"{'█' * filled}{'░' * (_BAR - filled)} {share:4.0%}  {sizes}{rate}{left}"


def _left(seconds: float) -> str:
    whole = time.gmtime(min(round(seconds), 359_999))
    hours = whole.tm_hour + 24 * (whole.tm_yday - 1)
    return f"{hours}:{whole.tm_min:02}:{whole.tm_sec:02}" if hours else f"{whole.tm_min}:{whole.tm_sec:02}"


def _ended(shown: Download) -> Iterator[str]:
    if shown.state is DownloadState.DONE:
        if shown.is_companion:
            yield f"{shown.title} was downloaded. `roundhouse tune MODEL` shows what it can be used with."
            return
        yield f"{shown.title} was downloaded. Try it: roundhouse run {shown.title}"
    elif shown.error is None:
        yield f"{shown.title} is {shown.state.value}."


def _failure(shown: Download) -> RoundhouseError:
    error = shown.error
    assert error is not None  # noqa: S101 -- for the type checker: the caller looked
    return EnvironmentFault(error.sentence, hint=error.hint, code=error.code)


def _lines(shown: list[Download]) -> Iterator[str]:
    rows = [(one.title, one.state.value, _done(one), _note(one)) for one in shown]
    yield from table(("NAME", "STATE", "DONE", "NOTE"), rows)


def _done(shown: Download) -> str:
    share = shown.present_bytes / shown.total_bytes if shown.total_bytes else 1.0
    return f"{share:.0%} of {words.size(shown.total_bytes)}"


def _note(shown: Download) -> str:
    if shown.error is not None:
        return shown.error.sentence
    speed = f"{words.size(round(shown.bytes_per_s))}/s" if shown.bytes_per_s else ""
    return "  ".join(part for part in (speed, shown.note) if part)
