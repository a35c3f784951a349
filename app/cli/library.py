"""The files of models: rm, verify, duplicates, import."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from app.cli.gateway import connect_gateway
from app.cli.library_job import carry_out
from app.cli.output import json_option, print_note, show_result
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.errors import BadRequest
from app.core.library import Duplicate, FindDuplicates, LibraryJob, Removal, RemoveModel, Verdict, VerifyModel
from app.core.models import ModelInfo, RegisterModel
from app.core.settings import SettingInfo

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
            "forgotten", model.name, as_json=as_json, text=lambda gone: [f"{gone} is no longer a model's name."]
        )
        return
    plan = client.post("/removals/plan", RemoveModel(model=name), Removal, timeout_s=_DISK_S)
    for line in _removal_plan_lines(plan, for_good=for_good):
        print_note(line)
    if not (yes or as_json):
        click.confirm("Remove it?", abort=True, err=True)
    done = client.post("/removals", RemoveModel(model=name, for_good=for_good), Removal, timeout_s=_DISK_S)
    show_result("removal", done, as_json=as_json, text=_removal_lines)


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
    show_result("job", job, as_json=as_json, text=lambda job_done: _duplicate_lines(job_done, reclaimed=reclaim))


@click.command("import")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@json_option
def import_model(path: Path, *, as_json: bool) -> None:
    """Add the model at PATH without copying it: a file, a model's folder, or a folder with models in it.

    Nothing is copied or changed. A folder is searched from now on, even if its drive is not always connected.
    """
    client, place = connect_gateway(), path.absolute()
    try:
        added = client.post("/models", RegisterModel(path=str(place)), ModelInfo, timeout_s=_DISK_S)
    except BadRequest:
        if not place.is_dir():
            raise
        _add_folder(client, place, as_json=as_json)
        return
    show_result("model", added, as_json=as_json, text=lambda model: [f"{model.name} was added from {model.path}."])


def _add_folder(client: GatewayClient, folder: Path, *, as_json: bool) -> None:
    settings = client.get("/settings", list[SettingInfo])
    now = next(setting.value for setting in settings if setting.name == _FOLDERS)
    others = [setting for setting in now if setting != str(folder)] if isinstance(now, list) else []
    client.patch("/settings", {_FOLDERS: [*others, str(folder)]}, list[SettingInfo])
    models = client.get("/models", list[ModelInfo], timeout_s=_LONG_S)
    models_found = [model for model in models if Path(model.path).is_relative_to(folder)]
    count = "1 model was" if len(models_found) == 1 else f"{len(models_found)} models were"
    show_result("models", models_found, as_json=as_json, text=lambda _known: [f"{count} added from {folder}."])


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


def _removal_lines(done: Removal) -> Iterator[str]:
    gone, size = words.describe_going(done.model, len(done.projectors)), words.format_bytes(done.frees_bytes)
    if done.goes_to_trash:
        yield f"{gone} in the trash. {size} will be freed once the trash is emptied."
    else:
        yield f"{gone} deleted. {size} freed."


def _check_lines(job: LibraryJob) -> Iterator[str]:
    for check in job.checks:
        yield f"{check.verdict.replace('_', ' '):8}  {check.path}  {check.note}".rstrip()


def _duplicate_lines(job: LibraryJob, *, reclaimed: bool) -> Iterator[str]:
    for duplicate in job.duplicates:
        yield from _copy_lines(duplicate)
    if reclaimed:
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
