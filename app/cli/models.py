"""`roundhouse list`: the models on this computer."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.core import words
from app.core.models import ModelInfo
from app.core.settings import SettingInfo


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
        return f"attached: {urlsplit(model.attached).netloc}"
    if model.store:
        return f"kept by {model.store}"
    return "tiny built-in help model" if model.is_builtin else ""
