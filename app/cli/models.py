"""`roundhouse list`: the models on this computer."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.core import words
from app.core.models import ModelInfo
from app.core.settings import SettingInfo


@click.command("list")
@json_option
def list_models(*, as_json: bool) -> None:
    """List the models on this computer."""
    client = connected()
    show("models", client.get("/models", list[ModelInfo]), as_json=as_json, text=_lines)
    if not as_json:
        for folder in _away(client.get("/settings", list[SettingInfo])):
            talk(f"Unavailable: {folder}. Its models are listed again once its drive is connected.")


def _away(settings: list[SettingInfo]) -> list[str]:
    """Return the folders of the settings that are not there now, as those on external drives."""
    folders = next((one.value for one in settings if one.name == "models.folders"), [])
    return [one for one in folders if not Path(one).expanduser().is_dir()] if isinstance(folders, list) else []


def _lines(models: list[ModelInfo]) -> Iterator[str]:
    yield from table(("NAME", "SIZE", "QUANT", "PARAMETERS", "CONTEXT", "CAN", "NOTE"), map(_row, models))


def _row(model: ModelInfo) -> tuple[str, ...]:
    note = model.problem or _origin(model)
    return (
        model.name,
        words.size(None if model.attached else model.size_bytes),
        model.quantization or "unknown",
        words.parameters(model.parameters),
        words.tokens(model.trained_context),
        words.capabilities(model.capabilities),
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
