"""The files of models: list, import, rm, verify, duplicates, disk.

A job with them is followed from here: begun, shown while it goes on, called off by Ctrl-C.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.api import SettingInfo
from app.core.errors import BadRequest, EnvironmentFault
from app.core.events import Event, LibraryJobChanged
from app.core.library import (
    DiskUse,
    Drive,
    Duplicate,
    EmptyTrash,
    FindDuplicates,
    Folder,
    JobKind,
    LibraryJob,
    ModelHolding,
    Removal,
    RemoveModel,
    TrashContents,
    Verdict,
    VerifyModel,
)
from app.core.models import ModelInfo, RegisterModel

_LONG_S = 24 * 3600.0
"""Hashing a library of terabytes takes hours."""
_DISK_S = 60.0
"""A drive that sleeps takes its time to spin up."""
_FOLDERS = "models.folders"
_BAD = frozenset({Verdict.WRONG, Verdict.CUT_OFF})


@click.command("rm")
@click.argument("name")
@click.option("--for-good", is_flag=True, help="Delete at once instead of moving to the trash.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(name: str, *, for_good: bool, yes: bool, as_json: bool) -> None:
    """Remove the model NAME with its files, after a confirmation.

    Files go to the trash where there is one. Models of other programs are removed in those programs. A made model
    loses its name only.
    """
    client = connect_gateway()
    model = next(
        (
            model_info
            for model_info in client.get("/models", list[ModelInfo])
            if model_info.name.casefold() == name.casefold()
        ),
        None,
    )
    if model is not None and model.preset is not None:
        client.delete(f"/models/{quote_segment(model.name)}")
        show_result(
            "forgotten",
            model.name,
            as_json=as_json,
            text=lambda model_name: [f"{model_name} is no longer a model's name."],
        )
        return
    plan = client.post("/removals/plan", RemoveModel(model=name), Removal, timeout_s=_DISK_S)
    for line in _removal_plan_lines(plan, for_good=for_good):
        print_note(line)
    if not (yes or as_json):
        click.confirm("Remove it?", abort=True, err=True)
    model_removal = client.post("/removals", RemoveModel(model=name, for_good=for_good), Removal, timeout_s=_DISK_S)
    show_result("removal", model_removal, as_json=as_json, text=_removal_lines)


@click.command()
@click.argument("name")
@json_option
def verify(name: str, *, as_json: bool) -> None:
    """Read the files of the model NAME and compare them with their known hashes.

    Those are the hub's and Ollama's; a file without one is checked against its own header. Exit code 1: a file is
    damaged.
    """
    job = carry_out(connect_gateway(), "/library/verify", VerifyModel(model=name))
    show_result("job", job, as_json=as_json, text=_check_lines)
    if any(check.verdict in _BAD for check in job.checks):
        sys.exit(1)


@click.command("duplicates")
@click.option("--reclaim", is_flag=True, help="Let duplicate files share disk space.")
@click.option(
    "--undo",
    is_flag=True,
    help="Give files their own copies again, where they were reclaimed since the service started.",
)
@json_option
def find_duplicates(*, reclaim: bool, undo: bool, as_json: bool) -> None:
    """Find duplicate model files, and show how much sharing their disk space would free.

    Files of other programs are never changed; ours share the space of theirs.
    """
    if undo and reclaim:
        raise click.UsageError("--undo reverses --reclaim: use only one of them.")
    if undo:
        show_result(
            "job", carry_out(connect_gateway(), "/library/separate", None), as_json=as_json, text=_separation_lines
        )
        return
    job = carry_out(connect_gateway(), "/library/duplicates", FindDuplicates(reclaim=reclaim))
    show_result("job", job, as_json=as_json, text=lambda job_done: _duplicate_lines(job_done, is_reclaimed=reclaim))


@click.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@json_option
def import_model(path: Path, *, as_json: bool) -> None:
    """Add the model at PATH without copying it: a file, a model's folder, or a folder with models in it.

    Nothing is copied or changed. A folder is searched from now on, even if its drive is not always connected.
    """
    client, place = connect_gateway(), path.absolute()
    try:
        new_model = client.post("/models", RegisterModel(path=str(place)), ModelInfo, timeout_s=_DISK_S)
    except BadRequest:
        if not place.is_dir():
            raise
        _add_folder(client, place, as_json=as_json)
        return
    show_result("model", new_model, as_json=as_json, text=lambda model: [f"{model.name} was added from {model.path}."])


def _add_folder(client: GatewayClient, folder: Path, *, as_json: bool) -> None:
    settings = client.get("/settings", list[SettingInfo])
    now = next(setting.value for setting in settings if setting.name == _FOLDERS)
    others = [setting for setting in now if setting != str(folder)] if isinstance(now, list) else []
    client.patch("/settings", {_FOLDERS: [*others, str(folder)]}, list[SettingInfo])
    models = client.get("/models", list[ModelInfo], timeout_s=_LONG_S)
    models_found = [model for model in models if Path(model.path).is_relative_to(folder)]
    count = "1 model was" if len(models_found) == 1 else f"{len(models_found)} models were"
    show_result("models", models_found, as_json=as_json, text=lambda _models: [f"{count} added from {folder}."])


def _removal_plan_lines(plan: Removal, *, for_good: bool) -> Iterator[str]:
    where = "will be deleted permanently" if for_good else "will be moved to the trash"
    yield f"{plan.model}: {len(plan.files)} files, {words.format_bytes(plan.frees_bytes)}; it {where}."
    yield from (f"  {file}" for file in plan.files)
    if plan.projectors:
        yield f"Its projector is removed too, as no other model needs it: {', '.join(plan.projectors)}."
    if plan.made_models:
        yield f"Made from it, and unusable without it: {', '.join(plan.made_models)}."
    if plan.aliases:
        yield f"Its aliases: {', '.join(plan.aliases)}."
    yield from plan.left


def _removal_lines(model_removal: Removal) -> Iterator[str]:
    removal = words.describe_removal(
        model_removal.model, len(model_removal.projectors), to_trash=model_removal.goes_to_trash
    )
    size = words.format_bytes(model_removal.frees_bytes)
    yield (
        f"{removal} {size} will be freed once the trash is emptied."
        if model_removal.goes_to_trash
        else f"{removal} {size} freed."
    )


def _check_lines(job: LibraryJob) -> Iterator[str]:
    for check in job.checks:
        yield f"{check.verdict.replace('_', ' '):8}  {check.path}  {check.note}".rstrip()


def _duplicate_lines(job: LibraryJob, *, is_reclaimed: bool) -> Iterator[str]:
    for duplicate in job.duplicates:
        yield from _copy_lines(duplicate)
    if is_reclaimed:
        yield f"{words.format_bytes(job.reclaimed_bytes)} freed."
        return
    total = sum(duplicate.reclaims_bytes for duplicate in job.duplicates)
    yield (
        f"Sharing would free {words.format_bytes(total)}: roundhouse duplicates --reclaim"
        if total
        else "Nothing to reclaim."
    )


def _separation_lines(job: LibraryJob) -> Iterator[str]:
    yield f"Every file has its own copy again, using {words.format_bytes(-job.reclaimed_bytes)}."


def _copy_lines(duplicate: Duplicate) -> Iterator[str]:
    yield f"{words.format_bytes(duplicate.size_bytes)}, {len(duplicate.paths)} times"
    for path in duplicate.paths:
        yield f"  {path}{'  can share' if path in duplicate.reclaimable else ''}"
    yield from (f"  {note}" for note in duplicate.notes)


"""Hashing a library of terabytes takes hours."""

"""A drive that sleeps takes its time to spin up."""


def carry_out(client: GatewayClient, path: str, body: object) -> LibraryJob:
    """Begin a job and follow it to its end; Ctrl-C calls it off. Raises what it ended by."""
    events = client.stream_events("/events", Event, timeout_s=_LONG_S)
    job = client.post(path, body, LibraryJob, timeout_s=_DISK_S)
    try:
        finished_job = _wait_for_end(events, job, _make_progress_line() if sys.stderr.isatty() else lambda _job: None)
    except KeyboardInterrupt:
        client.delete("/library/job")
        raise
    if finished_job.error is not None:
        raise EnvironmentFault(finished_job.error.sentence, hint=finished_job.error.hint, code=finished_job.error.code)
    return finished_job


def _wait_for_end(events: Iterator[Event], job: LibraryJob, tell: Callable[[LibraryJob], None]) -> LibraryJob:
    for event in events:
        if isinstance(event, LibraryJobChanged) and event.job.id == job.id:
            tell(event.job)
            if event.job.is_done:
                return event.job
    raise EnvironmentFault("The service stopped during the job.", hint="Start it again.", code="gateway_gone")


def _make_progress_line() -> Callable[[LibraryJob], None]:
    def show_line(job: LibraryJob) -> None:
        share = job.done_bytes / job.total_bytes if job.total_bytes else 1.0
        line = "" if job.is_done else f"{share:4.0%} of {words.format_bytes(job.total_bytes)}  {Path(job.file).name}"
        click.echo(f"\r\x1b[K{line}", err=True, nl=False)

    return show_line


@click.command("list")
@json_option
def list_models(*, as_json: bool) -> None:
    """List the models on this computer."""
    client = connect_gateway()
    show_result("models", client.get("/models", list[ModelInfo]), as_json=as_json, text=_model_lines)
    if not as_json:
        for folder in _absent_folders(client.get("/settings", list[SettingInfo])):
            print_note(f"Unavailable: {folder}. Its models are listed again once its drive is connected.")


def _absent_folders(settings: list[SettingInfo]) -> list[str]:
    """Return the folders of the settings that are not there now, as those on external drives."""
    folders = next((entry.value for entry in settings if entry.name == "models.folders"), [])
    return [entry for entry in folders if not Path(entry).expanduser().is_dir()] if isinstance(folders, list) else []


def _model_lines(models: list[ModelInfo]) -> Iterator[str]:
    yield from format_table(("NAME", "SIZE", "QUANT", "PARAMETERS", "CONTEXT", "CAN", "NOTE"), map(_row, models))


def _row(model: ModelInfo) -> tuple[str, ...]:
    note = model.problem or _origin(model)
    return (
        model.name,
        words.format_bytes(None if model.attached else model.size_bytes),
        model.quantization or "unknown",
        words.format_parameters(model.parameters),
        words.format_tokens(model.trained_context),
        words.format_capabilities(model.capabilities),
        note,
    )


def _origin(model: ModelInfo) -> str:
    if model.preset is not None:
        return f"made from {model.preset.base}" if model.preset.base else "made from uploaded files"
    if model.attached:
        where = urlsplit(model.attached).netloc
        return f"attached: {where}, {model.served_by}" if model.served_by else f"attached: {where}"
    if model.store:
        return f"kept by {model.store}"
    return "tiny built-in help model" if model.is_builtin else ""


"""A drive that sleeps takes its time to spin up."""
_LARGEST = 10


@click.command("disk")
@click.option("--all", "is_all", is_flag=True, help="List every model, not only the ten largest.")
@click.option("--empty-trash", is_flag=True, help="Permanently delete the models that Roundhouse moved to the trash.")
@click.option("--yes", is_flag=True, help="With --empty-trash: do not ask.")
@json_option
def disk(*, is_all: bool, empty_trash: bool, yes: bool, as_json: bool) -> None:
    """Show how much of each disk models use, in which folders, and how much is in the trash.

    With --empty-trash, the models that Roundhouse moved to the trash are deleted permanently, after a confirmation.
    Everything else in the trash stays.
    """
    if yes and not empty_trash:
        raise click.UsageError("--yes answers the question of --empty-trash: use both.")
    client = connect_gateway()
    use = client.get("/library/disk", DiskUse, timeout_s=_DISK_S)
    if empty_trash:
        _empty_trash(client, use, yes=yes, as_json=as_json)
        return
    show_result("disk", use, as_json=as_json, text=lambda disk_use: _disk_lines(disk_use, None if is_all else _LARGEST))
    for folder in use.folders if not as_json else ():
        if folder.problem:
            print_note(f"{folder.path}: {folder.problem}")


def _empty_trash(client: GatewayClient, use: DiskUse, *, yes: bool, as_json: bool) -> None:
    trashed_models = [drive.trashed for drive in use.drives if drive.trashed is not None]
    if not trashed_models and any(drive.trash_bytes is not None for drive in use.drives):
        none = LibraryJob(id="", kind=JobKind.EMPTY, is_done=True)
        show_result("job", none, as_json=as_json, text=lambda _: ["There are no removed models in the trash."])
        return
    for path in (path for trashed_model in trashed_models for path in trashed_model.paths):
        print_note(f"  {path}")
    if trashed_models and not yes:
        print_note(f"{_trash_text(trashed_models)} will be deleted permanently. This cannot be undone.")
        click.confirm("Delete them?", abort=True, err=True)
    job = carry_out(
        client, "/library/empty-trash", EmptyTrash(digests=[trashed_model.digest for trashed_model in trashed_models])
    )
    show_result(
        "job",
        job,
        as_json=as_json,
        text=lambda ended_job: [words.describe_emptying(ended_job.deleted_files, ended_job.reclaimed_bytes)],
    )


def _trash_text(trashed_models: Sequence[TrashContents]) -> str:
    return words.describe_trash(
        sum(trashed_model.files for trashed_model in trashed_models),
        sum(trashed_model.size_bytes for trashed_model in trashed_models),
    )


def _disk_lines(use: DiskUse, most: int | None) -> Iterator[str]:
    yield from format_table(("DRIVE", "SIZE", "FREE", "MODELS", "TRASH", "REMOVED MODELS"), map(_drive, use.drives))
    yield ""
    yield from format_table(("FOLDER", "MODELS", "SIZE", "PATH"), map(_folder, use.folders))
    if use.holdings:
        yield ""
        yield from format_table(("MODEL", "SIZE", "SHARED", "IN"), map(_model_row, use.holdings[:most]))
    if use.saved_bytes:
        yield ""
        yield f"Models that share their space save {words.format_bytes(use.saved_bytes)}."
    if trashed_files := [drive.trashed for drive in use.drives if drive.trashed is not None]:
        yield ""
        yield f"In the trash: {_trash_text(trashed_files)}. To delete them permanently: roundhouse disk --empty-trash"


def _drive(drive: Drive) -> tuple[str, ...]:
    known_bytes = None if drive.trash_bytes is None else 0
    trashed_bytes = known_bytes if drive.trashed is None else drive.trashed.size_bytes
    figures = (drive.total_bytes, drive.free_bytes, drive.models_bytes, drive.trash_bytes, trashed_bytes)
    return (drive.path, *map(words.format_bytes, figures))


def _folder(folder: Folder) -> tuple[str, ...]:
    return (folder.title, str(folder.models), words.format_bytes(folder.size_bytes), folder.path)


def _model_row(model_files: ModelHolding) -> tuple[str, ...]:
    return (
        model_files.model,
        words.format_bytes(model_files.size_bytes),
        words.format_bytes(model_files.shared_bytes) if model_files.shared_bytes else "",
        model_files.place,
    )
