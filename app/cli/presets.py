"""`roundhouse presets`: models, prompts and sampling under a name, for the window's chats and `roundhouse run`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from app.cli.answer_options import read_sampling, with_answer_options
from app.cli.chat_names import find_chat
from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result
from app.client.http import GatewayClient, quote_segment
from app.core.errors import BadRequest, NotFound, quote_value, write_fault
from app.core.presets import (
    ChatPreset,
    PresetFileContent,
    PresetImport,
    PresetImportResult,
    SavePreset,
    read_presets,
    write_presets,
)

PRESET_MODEL = "-"
"""In the place of a model's name: the preset's."""
_LARGEST_FILE = 64 << 20
"""Bytes; a thousand presets with long prompts have less."""
_SHOWN_PROMPT = 60


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def presets(ctx: click.Context, *, as_json: bool) -> None:
    """List, save, remove, import and export presets of chats."""
    if ctx.invoked_subcommand is None:
        _print_presets(as_json=as_json)


@presets.command("list")
@json_option
def list_presets(*, as_json: bool) -> None:
    """List the presets."""
    _print_presets(as_json=as_json)


@presets.command("show")
@click.argument("name")
@json_option
def show_preset(name: str, *, as_json: bool) -> None:
    """Show what the preset NAME holds."""
    show_result("preset", find_preset(connect_gateway(), name), as_json=as_json, text=_preset_lines)


@presets.command("save")
@click.argument("name")
@click.option("--model", default=None, help="Model that answers.")
@click.option("--system", "system_prompt", default=None, help="System prompt; {{name}} is asked for when it is used.")
@click.option("--prompt", default=None, help="Question; {{name}} is asked for when it is used.")
@click.option("--chat", default=None, help="A chat whose model, system prompt and sampling are kept.")
@click.option("--overwrite", is_flag=True, help="Replace a preset of this name.")
@with_answer_options
@json_option
def save_preset(name: str, *, chat: str | None, overwrite: bool, as_json: bool, **option_values: Any) -> None:  # noqa: ANN401 -- options of every type
    """Keep a preset under NAME. What the options say counts before what the chat has."""
    client = connect_gateway()
    source = find_chat(client, chat).id if chat else ""
    texts = {key: option_values.pop(key) for key in ("model", "system_prompt", "prompt")}
    preset = msgspec.structs.replace(
        _empty_preset(name),
        **{key: value for key, value in texts.items() if value is not None},
        sampling=read_sampling(option_values),
    )
    saved_preset = client.post("/presets", SavePreset(preset=preset, replaces=overwrite, chat=source), ChatPreset)
    show_result("preset", saved_preset, as_json=as_json, text=_preset_lines)


@presets.command("remove")
@click.argument("name")
@json_option
def remove_preset(name: str, *, as_json: bool) -> None:
    """Forget the preset NAME."""
    connect_gateway().delete(f"/presets/{quote_segment(name)}")
    show_result("removed", name, as_json=as_json, text=lambda preset_name: [f"{preset_name} is removed."])


@presets.command("import")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@json_option
def import_files(files: tuple[Path, ...], *, as_json: bool) -> None:
    """Add the presets of FILES, also of LM Studio (NAME.preset.json); one whose name is taken gets a number."""
    contents = [_read_file(file) for file in files]
    presets = [preset for content in contents for preset in content.presets]
    result = connect_gateway().post("/presets/import", PresetImport(presets=presets), PresetImportResult)
    left_out = dict.fromkeys(name for content in contents for name in content.left_out)
    report = msgspec.structs.replace(result, left_out=list(left_out))
    show_result("import", report, as_json=as_json, text=_import_lines)


def _read_file(file: Path) -> PresetFileContent:
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise BadRequest(f"{file.name} is too large for presets.", code="invalid_value")
        return read_presets(file.read_bytes())
    except OSError as error:
        raise BadRequest(f"{file} could not be read: {error.strerror}.", code="unreadable_file") from error


@presets.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("names", nargs=-1)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@json_option
def export_file(file: Path, names: tuple[str, ...], *, overwrite: bool, as_json: bool) -> None:
    """Write the presets of these NAMES, or all of them, to FILE."""
    client = connect_gateway()
    chosen_presets = [find_preset(client, name) for name in names] or client.get("/presets", list[ChatPreset])
    if file.exists() and not overwrite:
        raise BadRequest(f"{file} is there already.", hint="--overwrite replaces it.", code="file_exists")
    try:
        file.write_bytes(write_presets(chosen_presets))
    except OSError as error:
        raise write_fault(str(file), error) from error
    show_result("export", len(chosen_presets), as_json=as_json, text=lambda count: [f"{count} in {file}."])


def find_preset(client: GatewayClient, name: str) -> ChatPreset:
    """Return the preset of a name, whatever its case. Raises NotFound."""
    for preset in client.get("/presets", list[ChatPreset]):
        if preset.name.casefold() == name.casefold():
            return preset
    raise NotFound(
        f"There is no preset {quote_value(name)}.", hint="`roundhouse presets` lists them.", code="preset_not_found"
    )


def read_preset(client: GatewayClient, name: str | None, assignments: Sequence[str]) -> ChatPreset:
    """Return a preset with its variables filled in; one that says nothing without a name. Raises BadRequest."""
    if name is not None:
        return fill_preset(find_preset(client, name), assignments)
    if assignments:
        raise BadRequest("--set is for the variables of a preset.", hint="Name it: --preset NAME", code="usage")
    return ChatPreset(name="-")


def require_model(preset: ChatPreset) -> str:
    """Return a preset's model. Raises BadRequest for one without."""
    if not preset.model:
        raise BadRequest(
            "The preset names no model.", hint="Say which: `roundhouse run MODEL --preset NAME`.", code="model_required"
        )
    return preset.model


def fill_preset(preset: ChatPreset, assignments: Iterable[str]) -> ChatPreset:
    """Return a preset with its variables: those given as NAME=VALUE, the rest asked for. Raises BadRequest."""
    values = dict(_split_assignment(text, preset) for text in assignments)
    missing_names = [name for name in preset.variables if name not in values]
    if missing_names and not sys.stdin.isatty():
        raise BadRequest(
            f"The preset asks for {', '.join(missing_names)}.",
            hint=f"Say it: --set {missing_names[0]}=VALUE",
            code="variable_required",
        )
    return preset.fill_in({**values, **{name: click.prompt(name, err=True) for name in missing_names}})


def _split_assignment(text: str, preset: ChatPreset) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or name not in preset.variables:
        known_names = ", ".join(preset.variables) or "none"
        raise BadRequest(
            f"--set takes NAME=VALUE, not {quote_value(text)}.",
            hint=f"The preset's variables: {known_names}.",
            code="invalid_value",
        )
    return name, value


def _empty_preset(name: str) -> ChatPreset:
    try:
        return msgspec.convert({"name": name}, ChatPreset)
    except msgspec.ValidationError:
        raise BadRequest("A name has 1 to 80 characters in one line.", code="invalid_value") from None


def _print_presets(*, as_json: bool) -> None:
    presets = connect_gateway().get("/presets", list[ChatPreset])
    show_result("presets", presets, as_json=as_json, text=_list_lines)


def _list_lines(presets: list[ChatPreset]) -> list[str]:
    if not presets:
        return ["There are no presets. `roundhouse presets save NAME` keeps one."]
    rows = [(preset.name, preset.model, _first_line(preset.system_prompt or preset.prompt)) for preset in presets]
    return format_table(("name", "model", "prompt"), rows)


def _first_line(text: str) -> str:
    line = next(iter(text.strip().splitlines()), "")
    return line if len(line) <= _SHOWN_PROMPT else f"{line[: _SHOWN_PROMPT - 1]}…"


def _preset_lines(preset: ChatPreset) -> Iterator[str]:
    fields = {
        "name": preset.name,
        "model": preset.model,
        "system": preset.system_prompt,
        "prompt": preset.prompt,
        "asks for": ", ".join(preset.variables),
    }
    yield from (f"{name}: {value}" for name, value in fields.items() if value)
    yield from (f"{name}: {value}" for name, value in msgspec.to_builtins(preset.sampling).items())


def _import_lines(result: PresetImportResult) -> Iterator[str]:
    yield from (f"{name} is added." for name in result.added)
    if result.unchanged:
        yield f"{result.unchanged} {'was' if result.unchanged == 1 else 'were'} there already."
    if result.left_out:
        yield f"Not taken over: {', '.join(result.left_out)}."
