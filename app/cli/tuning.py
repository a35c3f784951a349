"""`roundhouse tune`: what counts for one model, whichever way it is loaded, and what there is to choose from."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.measuring import follow_job
from app.cli.output import json_option, print_note, show_result
from app.cli.self_tuning import measure_settings
from app.client.http import GatewayClient, quote_segment
from app.core import words
from app.core.advice import TryDrafts
from app.core.benchmarks import BUILT_IN_WORKLOADS, MOST_CONCURRENCY, StartTune, Workload
from app.core.events import DraftTrialChanged
from app.core.models import (
    AUTOMATIC,
    DRAFT_OFF,
    MAX_SLOTS,
    NO_PARSER,
    NO_PROJECTOR,
    Companion,
    CompanionKind,
    ModelChoices,
    ModelInfo,
    ModelSampling,
    ModelSettings,
    SetModel,
)
from app.core.thinking import ThinkingLevel

_NOT_SET = "same as for all models"
_READ_HERE = "read by Roundhouse"
_MINUTE_S = 60.0
_DISK_S = 60.0
"""Looking through the library for drafts and adapters, on a drive that slept."""
_SAMPLING = frozenset(ModelSampling.__struct_fields__)
_NOT_NAMED = frozenset({"uses_model_sampling", "code_from"})
_NAMES = (*(name for name in ModelSettings.__struct_fields__ if name not in _NOT_NAMED), *sorted(_SAMPLING))
F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = (
    click.option(
        "--idle-minutes",
        type=click.IntRange(0, 10_080),
        help="Unload it after this many minutes without use; 0 keeps it.",
    ),
    click.option("--context", type=click.IntRange(256, 4_194_304), help="Tokens of context per request."),
    click.option("--slots", type=click.IntRange(1, MAX_SLOTS), help="Requests answered at once."),
    click.option("--kv-type", type=click.Choice(["f16", "q8_0", "q4_0"]), help="Type of the KV cache."),
    click.option("--threads", type=click.IntRange(1, 512), help="Processor threads that it computes with."),
    click.option(
        "--batch-tokens",
        type=click.IntRange(32, 65_536),
        help="Tokens of prompts that are read in one piece, where the engine has such a limit.",
    ),
    click.option("--flash-attention", type=click.Choice(["on", "off"]), help="Instead of what the engine chooses."),
    click.option("--gpu-layers", type=click.IntRange(0, 10_000), help="Layers on the GPU, instead of as planned."),
    click.option(
        "--cpu-moe-layers",
        type=click.IntRange(1, 10_000),
        help="Layers whose experts stay in system memory, instead of as planned.",
    ),
    click.option("--gpu", metavar="UUID", help="The card it is put on, of several; `tune MODEL` lists them."),
    click.option(
        "--gpu-memory-fraction",
        type=click.FloatRange(0.05, 1),
        help="Share of GPU memory (on a processor: of the computer's), where the engine takes one.",
    ),
    click.option("--engine", help="Id of the engine that runs it."),
    click.option(
        "--temperature",
        type=click.FloatRange(0, 5),
        help="Default for requests that do not set it, like the next four.",
    ),
    click.option(
        "--top-p",
        type=click.FloatRange(0, 1, min_open=True),
        help="The most likely words that together reach this probability.",
    ),
    click.option("--top-k", type=click.IntRange(0, 100_000), help="This many of the most likely words; 0 for all."),
    click.option(
        "--min-p", type=click.FloatRange(0, 1), help="Words at least this likely compared with the most likely one."
    ),
    click.option(
        "--repeat-penalty", type=click.FloatRange(0.1, 5), help="Above 1, words already used become less likely."
    ),
    click.option(
        "--model-sampling/--no-model-sampling",
        "uses_model_sampling",
        default=None,
        help="Whether to use the sampling that the model's files recommend.",
    ),
    click.option(
        "--thinking",
        type=click.Choice([AUTOMATIC, *ThinkingLevel]),
        help=f"How much it thinks for requests that do not say; {AUTOMATIC} as its makers recommend, "
        f"{ThinkingLevel.DEFAULT} as its chat template does by itself.",
    ),
    click.option(
        "--thinking-budget",
        type=click.IntRange(0, 4_194_304),
        help="End its thinking after this many tokens (llama.cpp).",
    ),
    click.option(
        "--template",
        "chat_template",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A file with a chat template in Jinja, instead of the model's own.",
    ),
    click.option(
        "--draft",
        help=f"What drafts for it: {AUTOMATIC} (what a trial showed to be faster), {DRAFT_OFF}, ngram (words it wrote "
        "or read before), mtp (its own head), or a smaller model with the same vocabulary, by name or path.",
    ),
    click.option("--lora", "loras", multiple=True, help="A LoRA adapter's file; can be given repeatedly."),
    click.option("--projector", help=f"The projector, the file that lets it read images, or {NO_PROJECTOR!r}."),
    click.option("--tool-parser", help=f"The engine's name for the parser of tool calls, or {NO_PARSER!r}."),
    click.option("--reasoning-parser", help="The same for reasoning."),
    click.option(
        "--arg",
        "extra_args",
        multiple=True,
        help="An extra argument for the engine, as in --arg=--seed=7; can be given repeatedly.",
    ),
    click.option(
        "--allow-code/--no-allow-code",
        "allows_code",
        default=None,
        help=f"Whether the model's own code may run. {words.CODE_MEANING}",
    ),
    click.option("--unset", multiple=True, type=click.Choice(_NAMES), help="Reset this setting."),
)


def _with_options(command: F) -> F:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("model")
@_with_options
@click.option("--try-draft", is_flag=True, help="Try on this machine whether drafts make it faster.")
@click.option("--measure", is_flag=True, help="Find its fastest settings by measuring, and use them.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.5, 120),
    default=2.0,
    show_default=True,
    help="How long --measure may take, about.",
)
@click.option(
    "--workload",
    type=click.Choice([kind.value for kind in BUILT_IN_WORKLOADS]),
    default=Workload.CHAT.value,
    show_default=True,
    help="What --measure asks.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, MOST_CONCURRENCY),
    default=1,
    show_default=True,
    help="Requests that --measure sends at once; with more than one it tries numbers of slots too.",
)
@click.option(
    "--kv-loss",
    type=click.FloatRange(0, 10, min_open=True),
    help="Have --measure try smaller KV caches too: the most that answers may change, as mean KL divergence (0.01 is "
    "hard to notice).",
)
@click.option(
    "--keep-disturbed",
    is_flag=True,
    help="Have --measure go on while other programs are busy: show what comes of it, and change nothing.",
)
@click.option("--reset", is_flag=True, help="First reset all settings of the model, including its pin.")
@json_option
def tune(  # noqa: PLR0913 -- the options of one command
    model: str,
    *,
    unset: tuple[str, ...],
    try_draft: bool,
    measure: bool,
    minutes: float,
    workload: str,
    concurrency: int,
    kv_loss: float | None,
    keep_disturbed: bool,
    reset: bool,
    as_json: bool,
    **option_values: Any,  # noqa: ANN401 -- options of every type
) -> None:
    """Show or change the settings of MODEL. Without options, show them and the possible choices.

    Values in a request take precedence over these settings, and these over what the model recommends. With --measure
    the model is loaded with other settings, one after the other, and what is faster beyond noise is used from then on.
    """
    client = connect_gateway()
    if measure:
        tuning_request = StartTune(
            model=model,
            workload=Workload(workload),
            duration_s=minutes * _MINUTE_S,
            concurrency=concurrency,
            most_loss=kv_loss,
            keeps_disturbed=keep_disturbed,
        )
        measure_settings(client, tuning_request, as_json=as_json)
        return
    path = f"/model-settings/{quote_segment(model)}"
    if try_draft:
        _try_drafts(client, model)
    choices = client.get(path, ModelChoices, timeout_s=_DISK_S)
    changes = {name: value for name, value in option_values.items() if value not in (None, ())}
    if not (changes or unset or reset):
        show_result("model_choices", choices, as_json=as_json, text=_choice_lines)
        return
    before = ModelSettings() if reset else _unset_options(choices.settings, unset)
    request = SetModel(model=model, settings=_apply_changes(before, changes))
    saved_settings = client.post("/model-settings", request, ModelSettings, timeout_s=_DISK_S)
    now = client.get(path, ModelChoices, timeout_s=_DISK_S)
    show_result("model_settings", saved_settings, as_json=as_json, text=lambda _: _setting_lines(now))
    if saved_settings.allows_code and not choices.settings.allows_code:
        print_note(f"{words.CODE_MEANING} To forbid it again: roundhouse tune {model} --no-allow-code")
    if now.needs_reload:
        print_note(f"{model} runs as before until it is loaded again: roundhouse unload {model}")


def _try_drafts(client: GatewayClient, model: str) -> None:
    """Begin and follow to the end. Raises EngineFailed with what went wrong."""
    client.post("/draft-trials", TryDrafts(model=model), type(None), timeout_s=_DISK_S)
    follow_job(client, DraftTrialChanged, stop="/draft-trials")


def _unset_options(settings: ModelSettings, names: tuple[str, ...]) -> ModelSettings:
    unset, nothing = ModelSettings(), ModelSampling()
    unset_sampling = {name: getattr(nothing, name) for name in names if name in _SAMPLING}
    sampling = msgspec.structs.replace(settings.sampling, **unset_sampling)
    others = {name: getattr(unset, name) for name in names if name not in _SAMPLING}
    return msgspec.structs.replace(settings, **{"sampling": sampling, **others})


def _apply_changes(settings: ModelSettings, changes: dict[str, Any]) -> ModelSettings:
    values = dict(changes)
    sampling = {name: values.pop(name) for name in list(values) if name in _SAMPLING}
    if "chat_template" in values:
        values["chat_template"] = values["chat_template"].read_text(encoding="utf-8", errors="replace")
    if "extra_args" in values:
        values["extra_args"] = list(values["extra_args"])
    if "loras" in values:
        values["loras"] = [str(Path(path_given).expanduser().absolute()) for path_given in values["loras"]]
    if values.get("projector") not in (None, NO_PROJECTOR):
        values["projector"] = str(Path(values["projector"]).expanduser().absolute())
    for name in ("draft", "thinking"):
        if values.get(name) == AUTOMATIC:
            values[name] = None
    if values.get("thinking") is not None:
        values["thinking"] = ThinkingLevel(values["thinking"])
    if Path(values.get("draft") or "").suffix == ".gguf":
        values["draft"] = str(Path(values["draft"]).expanduser().absolute())
    return msgspec.structs.replace(settings, **values, sampling=msgspec.structs.replace(settings.sampling, **sampling))


def model_details(client: GatewayClient, model: ModelInfo) -> Iterator[tuple[str, str]]:
    """Yield (what, how it is) for `roundhouse show`: what is recommended, what counts, and what could go with it."""
    if model.problem:
        return
    choices = client.get(f"/model-settings/{quote_segment(model.name)}", ModelChoices, timeout_s=_DISK_S)
    if model.chats:
        yield "sampling", _sampling(choices)
        yield "thinking", words.describe_thinking(choices)
    if choices.maker_note:
        yield "its makers say", choices.maker_note
    yield from (("template", line) for line in _template_lines(choices))
    if choices.engine:
        yield "engine", choices.engine
    if choices.brings_code or choices.settings.allows_code:
        yield "custom code", _code(choices)
    for companion in choices.companions:
        yield companion.kind.value, _companion(companion)
    if choices.aliases:
        yield "answers to", ", ".join(choices.aliases)


def _choice_lines(choices: ModelChoices) -> Iterator[str]:
    yield from _setting_lines(choices)
    for option in choices.companions:
        if not option.is_used:
            yield f"{'Available':14}{option.kind.value}: {_companion(option)}"
    others = [option.id for option in choices.engines if option.is_installed and option.id != choices.engine]
    if others:
        yield f"{'Also runs on':14}{', '.join(others)}"


def _setting_lines(choices: ModelChoices) -> Iterator[str]:
    own = choices.settings
    minutes = own.idle_minutes
    idle_words = _NOT_SET if minutes is None else f"after {minutes} minutes" if minutes else "never"
    rows = (
        ("Pinned", "yes" if own.pinned else "no"),
        ("Unload", idle_words),
        ("Context", own.context or _NOT_SET),
        ("At once", own.slots or _NOT_SET),
        ("KV cache", own.kv_type or _NOT_SET),
        *_how_it_computes(own),
        ("Engine", own.engine or f"the best installed{f', {choices.engine}' if choices.engine else ''}"),
        ("Sampling", _sampling(choices)),
        ("Thinking", words.describe_thinking(choices)),
        ("Template", "not the model's own" if own.chat_template else "the model's own"),
        *(("", line) for line in _template_lines(choices)),
        ("Draft", _draft(choices)),
        ("LoRA", ", ".join(Path(path_given).name for path_given in own.loras) or "none"),
        ("Projector", _projector(choices)),
        ("Answers to", ", ".join(choices.aliases) or "its own name only"),
        ("Custom code", _code(choices)),
        *_engine_only(choices),
    )
    yield from (f"{name:14}{value}" for name, value in rows)


def _draft(choices: ModelChoices) -> str:
    """Return what drafts with the next load, and why; what could be tried where nothing was."""
    text = ", ".join(filter(None, (choices.draft or "none", "" if choices.settings.draft else AUTOMATIC)))
    hint = f" Try it: roundhouse tune {choices.model} --try-draft" if _is_untried(choices) else ""
    return f"{text}. {choices.draft_reason}{hint}" if choices.draft_reason else text


def _is_untried(choices: ModelChoices) -> bool:
    return bool(choices.draft_candidate) and not choices.is_draft_tried and not choices.settings.draft


def _template_lines(choices: ModelChoices) -> list[str]:
    template_reading = choices.template_reading
    return [] if template_reading is None else [template_reading.summary, *template_reading.notes]


def _how_it_computes(own: ModelSettings) -> Iterator[tuple[str, str]]:
    """Yield what is set of how its engine computes; nothing of what is left to it."""
    names = {
        "threads": "Threads",
        "batch_tokens": "Batch",
        "flash_attention": "Flash attn",
        "gpu_layers": "GPU layers",
        "cpu_moe_layers": "Experts",
    }
    for name, title in names.items():
        value = getattr(own, name)
        if value is not None:
            yield title, str(value)


def _engine_only(choices: ModelChoices) -> Iterator[tuple[str, str]]:
    """Yield what is shown only where the engine has it, or somebody set it."""
    own = choices.settings
    for option in choices.gpus:
        size = words.format_bytes(option.memory_bytes)
        yield "Card", f"{option.uuid}: {option.name}, {size}{', chosen' if option.uuid == own.gpu else ''}"
    if own.gpu_memory_fraction or "gpu_memory_fraction" in choices.takes:
        share = own.gpu_memory_fraction
        yield "Memory share", "as the engine does" if share is None else f"{share:g}"
    if own.tool_parser or "tool_parser" in choices.takes:
        by_template = f"{choices.tool_parser}, by its chat template" if choices.tool_parser else _READ_HERE
        yield "Tool calls", own.tool_parser or by_template
    if own.reasoning_parser or "reasoning_parser" in choices.takes:
        yield "Reasoning", own.reasoning_parser or _READ_HERE
    if own.extra_args:
        yield "Arguments", shlex.join(own.extra_args)


def _code(choices: ModelChoices) -> str:
    if choices.settings.allows_code:
        return "allowed: programs among its files run with your permissions"
    return "not allowed, though the model contains some" if choices.brings_code else "not allowed"


def _sampling(choices: ModelChoices) -> str:
    own, recommended_text = words.format_sampling(choices.settings.sampling), words.format_sampling(choices.sampling)
    if not choices.settings.uses_model_sampling:
        return (
            f"{own or 'as the engine does'}; the model's own is ignored"
            if recommended_text
            else own or "as the engine does"
        )
    recommended_words = f"{recommended_text} ({_source(choices)})" if recommended_text else ""
    return "; else ".join(filter(None, (own, recommended_words))) or "as the engine does"


def _source(choices: ModelChoices) -> str:
    unchecked_note = ", not compared with what its makers publish" if choices.is_sampling_unchecked else ""
    return f"from the model: {choices.sampling_source}{unchecked_note}"


def _projector(choices: ModelChoices) -> str:
    if choices.settings.projector == NO_PROJECTOR:
        return "none, as you said"
    used_projector = next(
        (
            companion
            for companion in choices.companions
            if companion.kind is CompanionKind.PROJECTOR and companion.is_used
        ),
        None,
    )
    return used_projector.title if used_projector is not None else "none"


def _companion(companion: Companion) -> str:
    title = companion.name if companion.kind is CompanionKind.DRAFT else companion.title
    size = words.format_bytes(companion.size_bytes) if companion.size_bytes else ""
    text = ", ".join(filter(None, (title, size, "in use" if companion.is_used else "")))
    return f"{text}. {companion.problem}" if companion.problem else text
