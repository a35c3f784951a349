"""The engines' versions: list, install, update, remove, use, roll back, test, and what installing said.

Print every command an engine would be started with, here or over several computers; nothing is started.
"""

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.loading import resolve_model_name
from app.cli.output import format_table, json_option, print_note, show_result, write_json
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.api import SettingInfo
from app.core.engine_store import (
    BundleEngine,
    EngineJob,
    EngineListing,
    EngineOffer,
    EngineUpdate,
    EngineVersion,
    InstallEngine,
    Proof,
    TestEngine,
    UseEngine,
)
from app.core.engines import EnginePlan, EnginePlanRequest, PlannedStep
from app.core.errors import BadRequest, EngineFailed, ErrorBody, NotFound
from app.core.events import EngineJobChanged, Event, LogLine
from app.core.models import LoadOptions


@click.command()
@click.argument("model")
@click.option("--engine", required=True, help="Such as llama.cpp, vllm, dynamo.")
@click.option(
    "--node", "nodes", multiple=True, help="A computer of the team; the first one answers. Can be given repeatedly."
)
@click.option("--tensor-parallel", type=click.IntRange(1), help="GPUs that share a layer; by default as the plan says.")
@click.option("--context", type=click.IntRange(1), help="Tokens of context per request.")
@click.option("--slots", type=click.IntRange(1), help="Requests answered at once.")
@click.option("--kv-type", help="Type of the KV cache.")
@click.option("--dry-run", is_flag=True, help="Only print; this command does nothing else.")
@json_option
def plan(model: str, *, as_json: bool, dry_run: bool, **options_given: object) -> None:
    """Print the commands that would serve MODEL with an engine, one process after the other."""
    del dry_run
    client = connect_gateway()
    names = ("context", "slots", "kv_type")
    options = LoadOptions(**{name: options_given[name] for name in names})  # type: ignore[arg-type]  # click checked the types
    body = EnginePlanRequest(
        model=resolve_model_name(client, model),
        nodes=list(options_given["nodes"]),  # type: ignore[call-overload]  # a tuple of names
        tensor_parallel=options_given["tensor_parallel"],  # type: ignore[arg-type]  # a number
        options=options,
    )
    engine_plan = client.post(f"/engines/{quote_segment(str(options_given['engine']))}/plan", body, EnginePlan)
    show_result("engine_plan", engine_plan, as_json=as_json, text=_plan_lines)


def _plan_lines(engine_plan: EnginePlan) -> Iterator[str]:
    for step in engine_plan.steps:
        yield from _step_lines(step)
    yield f"# It answers at {engine_plan.base_url}."
    yield from (f"# A private file is written beside it: {name}" for name in engine_plan.files)
    yield from (f"# {note}" for note in engine_plan.notes)


def _step_lines(step: PlannedStep) -> Iterator[str]:
    yield f"# {step.machine}: {step.role}"
    yield " ".join([*(f"{name}={shlex.quote(value)}" for name, value in step.env.items()), step.command])


_LONG_S = 6 * 3600.0
"""A compiler on a slow machine; Ctrl-C calls it off at any time."""
_CHECK_S = 120.0
_channel = click.option("--channel", type=click.Choice(["stable", "latest"]), default="stable", show_default=True)


class _BundleAbout(msgspec.Struct):
    engine: str


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def engines(ctx: click.Context, *, as_json: bool) -> None:
    """List, install, update, test and remove engines. New versions are tested first; the previous one is kept."""
    if ctx.invoked_subcommand is None:
        _print_engines("", as_json=as_json, with_legacy=False)


engines.add_command(plan)


@engines.command("list")
@click.argument("engine", default="")
@click.option("--legacy", "with_legacy", is_flag=True, help="Also show engines not recommended to start with.")
@json_option
def list_engines(engine: str, *, with_legacy: bool, as_json: bool) -> None:
    """Show every engine, or one with its versions: what suits this machine, what is installed, what is available."""
    _print_engines(engine, as_json=as_json, with_legacy=with_legacy)


def _print_engines(engine: str, *, as_json: bool, with_legacy: bool) -> None:
    engines_found = [
        engine_found
        for engine_found in _read_stock(connect_gateway(), engine)
        if engine or with_legacy or not engine_found.is_hidden
    ]
    show_result("engines", engines_found, as_json=as_json, text=_detail_lines if engine else _overview_lines)


@engines.command()
@click.argument("engine", default="")
@click.option("--variant", default="", help="Such as cpu, cuda, vulkan; by default, the first that suits.")
@_channel
@click.option("--version", default="", help="A version from its makers that has not been locked or tested yet.")
@click.option("--from", "bundle", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A bundle.")
@click.option("--no-use", is_flag=True, help="Install it, but keep using the current version.")
@json_option
def install(*, engine: str, bundle: Path | None, no_use: bool, as_json: bool, **wish: str) -> None:
    """Install ENGINE beside existing versions, test it, and use it."""
    client = connect_gateway()
    name = engine or (_engine_of(bundle) if bundle else "")
    if not name:
        raise BadRequest("Which engine?", hint="`roundhouse engines list` shows them.")
    path = str(bundle.resolve()) if bundle else ""
    body = InstallEngine(bundle=path, use=not no_use, **wish)
    _carry_out(client, f"/engines/{quote_segment(name)}/install", body, as_json=as_json)


@engines.command()
@click.argument("engine")
@_channel
@click.option("--check", is_flag=True, help="Only show what would change.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def update(engine: str, channel: str, *, check: bool, yes: bool, as_json: bool) -> None:
    """Show newer versions, then install them beside the current ones, test them with your models too, and use them."""
    client = connect_gateway()
    update_found = client.get(
        f"/engines/{quote_segment(engine)}/update?channel={channel}", EngineUpdate, timeout_s=_CHECK_S
    )
    if check or not update_found.to:
        show_result("update", update_found, as_json=as_json, text=_update_lines)
        return
    for line in _update_lines(update_found):
        print_note(line)
    if not yes and not (sys.stdin.isatty() and click.confirm("Update?", default=True, err=True)):
        raise BadRequest("Nothing was changed.", hint="--yes updates without asking.", code="not_confirmed")
    body = InstallEngine(
        channel=channel, variant=update_found.variant, version=update_found.to if channel == "latest" else ""
    )
    _carry_out(client, f"/engines/{quote_segment(engine)}/update", body, as_json=as_json)


@engines.command()
@click.argument("engine")
@click.argument("version")
@json_option
def remove(engine: str, version: str, *, as_json: bool) -> None:
    """Remove VERSION of ENGINE from the disk."""
    client = connect_gateway()
    (stock,) = _read_stock(client, engine)
    size = next(
        (installed_version.size_bytes for installed_version in stock.versions if installed_version.name == version), 0
    )
    client.delete(f"/engines/{quote_segment(engine)}/versions/{quote_segment(version)}")
    freed_note = f"; {words.format_bytes(size)} freed" if size else ""
    show_result("removed", version, as_json=as_json, text=lambda name: [f"{engine} {name} was removed{freed_note}."])


@engines.command()
@click.argument("engine")
@click.argument("version", default="")
@click.option("--force", is_flag=True, help="Use a version that failed, without testing it again.")
@json_option
def use(engine: str, version: str, *, force: bool, as_json: bool) -> None:
    """Use ENGINE for the formats it reads; with VERSION, that version, or your own program by its path.

    A program of your own, one on PATH, and a version that failed must pass their test first.
    """
    client = connect_gateway()
    is_path = "/" in version or "\\" in version
    path = str(Path(version).expanduser().resolve()) if is_path else ""
    _follow_job(
        client,
        f"/engines/{quote_segment(engine)}/use",
        UseEngine(version="" if is_path else version, path=path, force=force),
    )
    _prefer_engine(client, engine)
    (stock,) = _read_stock(client, engine)
    show_result("engine", stock, as_json=as_json, text=lambda stock_now: [_in_use_line(stock_now)])


@engines.command()
@click.argument("engine")
@json_option
def rollback(engine: str, *, as_json: bool) -> None:
    """Go back to the previous version of ENGINE."""
    client = connect_gateway()
    client.post(f"/engines/{quote_segment(engine)}/rollback", None, type(None))
    (stock,) = _read_stock(client, engine)
    show_result("engine", stock, as_json=as_json, text=lambda stock_now: [_in_use_line(stock_now)])


@engines.command()
@click.argument("engine")
@click.argument("version", default="")
@json_option
def test(engine: str, version: str, *, as_json: bool) -> None:
    """Load the Guide and your models in a version of ENGINE and show what it writes, on which device, and how fast."""
    _carry_out(
        connect_gateway(), f"/engines/{quote_segment(engine)}/test", TestEngine(version=version), as_json=as_json
    )


@engines.command()
@click.argument("engine")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--variant", default="", help="Such as cpu, cuda, vulkan; by default, the first that suits.")
@json_option
def bundle(engine: str, file: Path, variant: str, *, as_json: bool) -> None:
    """Write FILE, from which a computer without a network connection can install ENGINE."""
    body = BundleEngine(path=str(file.resolve()), variant=variant)
    _carry_out(connect_gateway(), f"/engines/{quote_segment(engine)}/bundle", body, as_json=as_json)


@engines.command()
@json_option
def cancel(*, as_json: bool) -> None:
    """Cancel the running install, update or test."""
    connect_gateway().delete("/engines/job")
    show_result("cancelled", value=True, as_json=as_json, text=lambda _value: ["No job is running now."])


@engines.command()
@json_option
def logs(*, as_json: bool) -> None:
    """Show the output of installs, updates and tests since the service started."""
    lines = connect_gateway().get("/engines/log", list[LogLine])
    if as_json:
        write_json("logs", lines)
        return
    for line in lines:
        clock = time.strftime("%H:%M:%S", time.localtime(line.at))
        click.echo(f"{click.style(clock, dim=True)} {click.style(line.model, dim=True)} {line.text}")


def _read_stock(client: GatewayClient, engine: str) -> list[EngineListing]:
    """Return every engine, or the one named. Raises NotFound."""
    stocks = client.get("/engines/stock", list[EngineListing], timeout_s=_CHECK_S)
    chosen_stocks = [stock for stock in stocks if engine in {"", stock.id}]
    if not chosen_stocks:
        raise NotFound(
            f"This version of Roundhouse has no engine called {engine!r}.",
            hint=f"It has {', '.join(stock.id for stock in stocks)}.",
            code="not_installed",
        )
    return chosen_stocks


def _engine_of(bundle: Path) -> str:
    """Return the engine a bundle holds: its first entry says so, before anything is sent anywhere."""
    import tarfile  # noqa: PLC0415 -- only bundles need it

    try:
        with tarfile.open(bundle, "r:") as archive:
            first = archive.next()
            content = archive.extractfile(first) if first is not None else None
            about = msgspec.json.decode(content.read(1 << 22) if content else b"", type=_BundleAbout)
    except (OSError, tarfile.TarError, msgspec.MsgspecError) as error:
        raise BadRequest(f"{bundle} is not an engine bundle.", code="bad_bundle") from error
    return about.engine


def _carry_out(client: GatewayClient, path: str, body: object, *, as_json: bool) -> None:
    """Begin a job, follow it to its end, and say what came of it."""
    outcome = _follow_job(client, path, body)
    show_result("job", outcome, as_json=as_json, text=lambda job: _outcome_lines(job) if job else [])


def _follow_job(client: GatewayClient, path: str, body: object) -> EngineJob | None:
    """Begin a job and follow it to its end; Ctrl-C calls it off. None where there was nothing to wait for."""
    events = client.stream_events("/events", Event, timeout_s=_LONG_S)
    job = client.post(path, body, EngineJob | None, timeout_s=_CHECK_S)  # type: ignore[arg-type]  # a union is no type to mypy
    if job is None:
        return None
    try:
        outcome = _wait_for_end(events, job)
    except KeyboardInterrupt:
        client.delete("/engines/job")
        raise
    if outcome.error is not None:
        _wipe()
        raise _error_of(outcome.error)
    return outcome


def _wait_for_end(events: Iterator[Event], job: EngineJob) -> EngineJob:
    stage = ""
    for event in events:
        if not isinstance(event, EngineJobChanged) or event.job.id != job.id:
            continue
        if event.job.is_done:
            _wipe()
            return event.job
        if sys.stderr.isatty():
            share = "" if event.job.fraction is None else f" {event.job.fraction:.0%}"
            click.echo(f"\r\x1b[K{event.job.stage}{share}", err=True, nl=False)
        elif event.job.stage != stage:
            print_note(event.job.stage)
        stage = event.job.stage
    raise EngineFailed(
        "The service stopped during the job.", hint="The previous version is still in use.", code="gateway_gone"
    )


def _wipe() -> None:
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", err=True, nl=False)


def _error_of(body: ErrorBody) -> EngineFailed:
    return EngineFailed(body.sentence, hint=body.hint, code=body.code, detail=body.detail)


def _prefer_engine(client: GatewayClient, engine: str) -> None:
    """Put an engine first among those a person prefers."""
    settings = client.get("/settings", list[SettingInfo])
    now = next(entry.value for entry in settings if entry.name == "engines.preferred")
    others = [entry for entry in now if entry != engine] if isinstance(now, list) else []
    client.patch("/settings", {"engines.preferred": [engine, *others]}, list[SettingInfo])


_RUN_FOR_REAL = ("Run for real on Linux x86-64 on the CPU", "Run for real on an NVIDIA H100")
"""How descriptors begin whose engines generated on a processor."""


def _overview_lines(stocks: list[EngineListing]) -> Iterator[str]:
    head = ("ENGINE", "IN USE", "VERSIONS", "DISK", "HERE")
    yield from format_table(head, map(_row, stocks))
    names = {place: [stock.name for stock in stocks if stock.verified.startswith(place)] for place in _RUN_FOR_REAL}
    if any(names.values()):
        yield ""
        yield from (f"{place}: {', '.join(there)}." for place, there in names.items() if there)
        yield "`roundhouse engines list ENGINE` says when, and what was run."


def _row(stock: EngineListing) -> tuple[str, ...]:
    current = _current_version(stock)
    in_use = f"{current.version} ({current.backend or current.name})" if current else "-"
    unranked_word = "runs" if stock.runs_here else "not needed" if stock.is_redundant else "cannot run"
    rank = f"#{stock.rank}" if stock.rank else unranked_word
    star = ", preferred" if stock.is_preferred else ""
    return (
        stock.id,
        in_use,
        str(len(stock.versions)),
        words.format_bytes(stock.size_bytes),
        f"{rank}{star}: {stock.advice}",
    )


def _detail_lines(stocks: list[EngineListing]) -> Iterator[str]:
    (stock,) = stocks
    yield f"{stock.name}, {stock.licence}, {stock.homepage}"
    yield f"Reads {', '.join(stock.formats)}. {stock.advice}"
    if stock.confinement is not None:
        yield stock.confinement.sentence
    yield from filter(None, (stock.verified, stock.unverified, stock.span))
    yield ""
    yield from format_table(("VERSION", "BACKEND", "DISK", "STATE", "TEST"), map(_version, stock.versions))
    for offer in stock.offers:
        if not offer.is_installed:
            yield _offer(offer)


def _version(version: EngineVersion) -> tuple[str, ...]:
    place = (
        "in use" if version.is_current else "before" if version.is_previous else "on PATH" if version.is_on_path else ""
    )
    state = ", ".join(filter(None, (place, "failed" if version.problem else "")))
    test = version.problem or (_proof(version.proof) if version.proof else "not tested")
    name = version.name if version.name.startswith(version.version) else f"{version.name} ({version.version})"
    where = "" if version.is_ours else version.path
    return (
        name,
        version.backend,
        words.format_bytes(version.size_bytes),
        state,
        ": ".join(filter(None, (where, test))),
    )


def _offer(offer: EngineOffer) -> str:
    size = f", {words.format_bytes(offer.download_bytes)} to download" if offer.download_bytes else ""
    failure_note = f"It failed when it was last installed: {offer.problem}" if offer.problem else ""
    parts = (f"Could be installed: {offer.version} ({offer.variant}){size}.", offer.note, offer.unfit, failure_note)
    return " ".join(filter(None, parts))


def _proof(proof: Proof) -> str:
    speed = f"{proof.tokens_per_s:,.0f} tok/s" if proof.tokens_per_s else "works"
    where = f" on {proof.device}" if proof.device else ""
    return f"{speed}{where} with {proof.model}"


def _outcome_lines(job: EngineJob) -> Iterator[str]:
    if job.verb == "test" and not job.proofs:
        yield f"There is no model to test {job.engine} with."
        return
    verbs = {"install": "is installed", "update": "is installed", "test": "passed its test", "bundle": "is bundled"}
    yield " ".join(filter(None, (f"{job.engine} {job.version} {verbs.get(job.verb, 'is done')}.", job.note)))
    for proof in job.proofs:
        yield f"  {proof.problem or _proof(proof)}"


def _update_lines(update_found: EngineUpdate) -> Iterator[str]:
    if not update_found.to:
        version = f"{update_found.engine} {update_found.current}"
        yield f"{version} is the newest version on the {update_found.channel} channel."
        return
    size = f", {words.format_bytes(update_found.download_bytes)} to download" if update_found.download_bytes else ""
    size = ", installed already" if update_found.is_here else size
    yield f"{update_found.engine} {update_found.current} -> {update_found.to} ({update_found.variant}){size}"
    for change in update_found.changes:
        yield f"  {change}"


def _current_version(stock: EngineListing) -> EngineVersion | None:
    return next((version for version in stock.versions if version.is_current), None)


def _in_use_line(stock: EngineListing) -> str:
    current = _current_version(stock)
    return f"{stock.name} {current.name} is in use." if current else f"No version of {stock.name} is installed."
