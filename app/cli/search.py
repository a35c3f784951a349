"""`roundhouse search`: find models that suit this computer. `roundhouse show`: one model, here or on the hub."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import urlencode

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result, write_fields
from app.cli.tuning import model_details
from app.client.http import GatewayClient
from app.core import words
from app.core.advice import FitVerdict, Rate
from app.core.errors import BadRequest
from app.core.hub import (
    CatalogueInfo,
    HubCard,
    HubModel,
    HubPick,
    HubResults,
    HubSort,
    HubTask,
    HubUse,
    HubVariant,
)
from app.core.models import ModelInfo

_TIMEOUT_S = 120.0
"""Reading a model's header over a slow line."""
_COUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([bm]?)", re.IGNORECASE)
_UNITS = {"b": 1e9, "m": 1e6, "": 1e9}


@click.command("search")
@click.argument("text", nargs=-1)
@click.option(
    "--best", type=click.Choice([use.value for use in HubUse]), help="What the catalogue recommends; works offline."
)
@click.option(
    "--catalogue", is_flag=True, help="List the catalogue's models, with those that came since the last look; offline."
)
@click.option("--format", "format_", default="", help="gguf, mlx, exl3, exl2, awq, gptq, fp8, openvino, onnx-genai ...")
@click.option("--task", type=click.Choice([task.value for task in HubTask]), help="What the model is for.")
@click.option("--publisher", default="", help="The publisher of the models.")
@click.option("--licence", default="", help="As written on the hub: apache-2.0, mit ...")
@click.option("--sort", type=click.Choice([sort.value for sort in HubSort]), default="downloads", show_default=True)
@click.option("--min-params", default="", help="At least this many parameters, such as 7b or 500m.")
@click.option("--max-params", default="", help="At most this many parameters.")
@click.option("--days", type=click.IntRange(min=1, max=36_500), help="Changed within this many days.")
@click.option(
    "--gated/--open", default=None, help="Only gated models, whose terms must be accepted first, or only the others."
)
@click.option("--page", default="", help="The value that the previous page ended with.")
@click.option("--refresh-catalogue", is_flag=True, help="Download the list of recommended models again.")
@json_option
def search(  # noqa: PLR0913 -- one option each
    *,
    text: tuple[str, ...],
    best: str | None,
    catalogue: bool,
    format_: str,
    task: str | None,
    publisher: str,
    licence: str,
    sort: str,
    min_params: str,
    max_params: str,
    days: int | None,
    gated: bool | None,
    page: str,
    refresh_catalogue: bool,
    as_json: bool,
) -> None:
    """Search the hub for models by words in their name, with the memory each needs on this computer."""
    client = connect_gateway()
    if refresh_catalogue:
        info = client.post("/hub/catalogue", None, CatalogueInfo, timeout_s=_TIMEOUT_S)
        print_note(f"The catalogue dates from {info.issued} and lists {info.models} models.")
    if catalogue:
        _show_catalogue(client, best or HubUse.CHAT.value, " ".join(text), as_json=as_json)
        return
    if best is not None:
        picks = client.get(f"/hub/best?use={best}", list[HubPick])
        _show_picks(picks, as_json=as_json)
        return
    parameters = {
        "text": " ".join(text),
        "format": format_.lower(),
        "task": task,
        "publisher": publisher,
        "licence": licence,
        "sort": sort,
        "min_parameters": _parse_count(min_params),
        "max_parameters": _parse_count(max_params),
        "days": days,
        "gated": None if gated is None else str(gated).lower(),
        "page": page,
    }
    query = urlencode({name: value for name, value in parameters.items() if value not in {None, ""}})
    results = client.get(f"/hub/search?{query}", HubResults, timeout_s=_TIMEOUT_S)
    show_result("search", results, as_json=as_json, text=_result_lines)


class _PickAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What `--best --json` prints: the models that run well here, the best first, and those that do not."""

    recommended: list[HubPick]
    others: list[HubPick]
    note: str = ""
    """Why none is recommended."""


def _show_picks(picks: list[HubPick], *, as_json: bool) -> None:
    if not as_json:
        for line in _pick_lines(picks):
            click.echo(line)
        return
    recommended_picks = [pick for pick in picks if pick.is_recommended]
    note = picks[0].reason if picks and not recommended_picks else ""
    others = [pick for pick in picks if not pick.is_recommended]
    write_fields(_PickAnswer(recommended=recommended_picks, others=others, note=note))


@click.command("show")
@click.argument("name")
@json_option
def show_model(*, name: str, as_json: bool) -> None:
    """Show the model NAME: facts about an installed model, or what its repository on the hub offers."""
    client = connect_gateway()
    local = _find_local(client, name)
    if local is not None:
        show_result(
            "model", local, as_json=as_json, text=lambda model: _local_lines(model, model_details(client, model))
        )
        return
    hub_model = client.get(f"/hub/model?{urlencode({'name': name})}", HubModel, timeout_s=_TIMEOUT_S)
    show_result("hub_model", hub_model, as_json=as_json, text=_hub_lines)


def _parse_count(typed_text: str) -> int | None:
    if not typed_text:
        return None
    match = _COUNT.fullmatch(typed_text.strip())
    if match is None:
        raise BadRequest(
            f"{typed_text!r} is not a number of parameters.", hint="Write 7b or 500m.", code="invalid_value"
        )
    return round(float(match[1]) * _UNITS[match[2].lower()])


def _find_local(client: GatewayClient, name: str) -> ModelInfo | None:
    there = client.get("/models", list[ModelInfo])
    return next((model for model in there if name.casefold() in {model.name.casefold(), model.title.casefold()}), None)


def _result_lines(results: HubResults) -> Iterator[str]:
    if results.note:
        print_note(results.note)
    if not results.cards:
        print_note("Nothing was found.")
        return
    yield from format_table(
        ("MODEL", "PARAMETERS", "FITS", "MEMORY", "SPEED", "FORMATS", "GET IT"), map(_card, results.cards)
    )
    print_note("Memory and speed are estimates for the usual quantisation; `roundhouse show NAME` has exact sizes.")
    if results.next:
        print_note(f"There is more: --page {results.next}")


def _card(card: HubCard) -> tuple[str, ...]:
    usable = next((repository for repository in card.repositories if not repository.problem), card.repositories[0])
    formats = dict.fromkeys(kind for repository in card.repositories for kind in repository.formats)
    gated_note = " (gated)" if usable.gated else ""
    code = " (runs custom code)" if usable.needs_remote_code else ""
    return (
        card.title,
        words.format_parameters(card.parameters),
        fit_word(card.verdict),
        words.format_bytes(card.memory_bytes) if card.memory_bytes else "",
        words.format_rate(card.decode.tokens_per_second) if card.decode else "",
        " ".join(formats),
        usable.problem or f"{_source(card)}{gated_note}{code}",
    )


def _source(card: HubCard) -> str:
    """Return the repository to take: the most downloaded in the format the figures are for."""
    candidates = (
        repository.repository
        for repository in card.repositories
        if card.format in repository.formats and not repository.problem
    )
    return next(candidates, card.repositories[0].repository)


def _pick_lines(picks: list[HubPick]) -> Iterator[str]:
    rows = (
        (
            pick.pull,
            f"{pick.name}{' (unchecked)' if pick.card.unchecked else ''}",
            f"{pick.quality}{'*' if pick.is_quality_derived else ''}" if pick.quality else "",
            fit_word(pick.card.verdict),
            words.format_bytes(pick.card.memory_bytes),
            words.format_rate(pick.card.decode.tokens_per_second) if pick.card.decode else "",
            pick.reason,
        )
        for pick in picks
    )
    if any(pick.is_quality_derived for pick in picks):
        print_note("* derived from another size of the same series: nobody published figures for this one.")
    if any(pick.card.unchecked for pick in picks):
        print_note("Unchecked: nobody verified that the repositories of these models exist.")
    yield from format_table(("NAME", "MODEL", "QUALITY", "FITS", "MEMORY", "SPEED", "WHY"), rows)


def _show_catalogue(client: GatewayClient, use: str, text: str, *, as_json: bool) -> None:
    query = urlencode({"use": use, "text": text})
    picks = client.get(f"/hub/catalogue?{query}", list[HubPick], timeout_s=_TIMEOUT_S)
    show_result("picks", picks, as_json=as_json, text=_catalogue_lines)
    if not as_json:  # a program that asks has not looked
        client.post("/hub/catalogue/look", None, type(None))


def _catalogue_lines(picks: list[HubPick]) -> Iterator[str]:
    if not picks:
        print_note("The catalogue has no such model.")
        return
    yield from format_table(
        ("NAME", "MODEL", "QUALITY", "FITS", "DOWNLOAD", "SPEED", "COMMERCIAL USE", "WHAT FOR"),
        map(_catalogue_row, picks),
    )


def _catalogue_row(pick: HubPick) -> tuple[str, ...]:
    card = pick.card
    marks = [("new", pick.is_new), ("here", pick.is_here), ("unchecked", card.unchecked)]
    marks_text = ", ".join(word for word, is_so in marks if is_so)
    return (
        pick.pull,
        f"{pick.name} ({marks_text})" if marks_text else pick.name,
        f"{pick.quality}{'*' if pick.is_quality_derived else ''}" if pick.quality else "",
        pick.needs or fit_word(card.verdict),
        words.format_bytes(card.download_bytes) if card.download_bytes else "",
        words.format_rate(card.decode.tokens_per_second) if card.decode else "",
        f"{pick.commercial.value} ({pick.licence or 'licence unknown'})",
        words.format_purpose(pick.good_for),
    )


def fit_word(verdict: FitVerdict | None) -> str:
    """Return whether something fits, in a word."""
    return {FitVerdict.FITS: "yes", FitVerdict.SLOW: "slow", FitVerdict.TOO_LARGE: "no", None: "unknown"}[verdict]


def _local_lines(model: ModelInfo, more: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = [
        ("name", model.name),
        ("title", model.title),
        ("where", model.attached or model.path),
        ("format", f"{model.format} {model.quantization}".strip()),
        ("size", words.format_bytes(model.size_bytes)),
        ("architecture", model.architecture or "unknown"),
        ("parameters", words.format_parameters(model.parameters)),
        ("trained context", words.format_tokens(model.trained_context)),
        ("can", words.format_capabilities(model.capabilities)),
        ("changed", datetime.fromtimestamp(model.modified_at, UTC).strftime("%Y-%m-%d")),
        *more,
        ("problem", model.problem),
    ]
    yield from (f"{name:16} {value}" for name, value in rows if value)


def _hub_lines(model: HubModel) -> Iterator[str]:
    capabilities = ", ".join(model.capabilities)
    parameters = words.format_parameters(model.parameters)
    yield f"{model.repository}  {parameters}  {model.architecture}  {capabilities}".rstrip()
    yield f"licence {model.licence or 'unknown'}, {model.downloads} downloads, {model.likes} likes, {model.page}"
    for sentence in (model.gate, model.note):
        if sentence:
            print_note(sentence)
    if model.needs_remote_code:
        print_note(words.BRINGS_CODE.tr())
    yield ""
    head = ("", "QUANT", "FORMAT", "SIZE", "FITS", "CONTEXT", "TOKENS/S", "ENGINE", "QUALITY")
    yield from format_table(head, map(_variant, model.variants))
    projector = next((entry for entry in model.variants if entry.projector), None)
    if projector is not None:
        yield ""
        size = words.format_bytes(projector.projector_bytes)
        yield f"With it comes {projector.projector}, {size}, which lets it see."
    for entry in model.companions:
        here = " (here)" if entry.is_here else f": roundhouse pull {model.repository}/{entry.path}"
        yield f"Optional: {entry.kind.value} {entry.path}, {words.format_bytes(entry.size_bytes)}{here}"
    best = next((entry for entry in model.variants if entry.is_recommended), None)
    if best is not None:
        yield ""
        yield f"* {best.quantization or best.format} is recommended. {best.reason}"


def _variant(variant: HubVariant) -> tuple[str, ...]:
    return (
        "*" if variant.is_recommended else "",
        variant.quantization or "-",
        variant.format,
        words.format_bytes(variant.size_bytes + variant.projector_bytes) + (" (here)" if variant.is_here else ""),
        fit_word(variant.verdict),
        words.format_tokens(variant.largest_context) if variant.largest_context else "",
        rate_interval(variant.decode),
        variant.engine_name,
        variant.quality or variant.reason,
    )


def rate_interval(rate: Rate | None) -> str:
    """Return a rate with the interval that holds nine of ten such predictions."""
    return f"{rate.tokens_per_second:.0f} ({rate.low:.0f} to {rate.high:.0f})" if rate else ""
