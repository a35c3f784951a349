"""`roundhouse search`: find models that suit this computer. `roundhouse show`: one model, here or on the hub."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import urlencode

import click

from app.cli.gateway import connected
from app.cli.output import json_option, show, table, talk
from app.cli.tuning import about
from app.client.http import Client
from app.core import words
from app.core.advice import Rate
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
    client = connected()
    if refresh_catalogue:
        info = client.post("/hub/catalogue", None, CatalogueInfo, timeout_s=_TIMEOUT_S)
        talk(f"The catalogue dates from {info.issued} and lists {info.models} models.")
    if best is not None:
        picks = client.get(f"/hub/best?use={best}", list[HubPick])
        show("picks", picks, as_json=as_json, text=_picks)
        return
    wanted = {
        "text": " ".join(text),
        "format": format_.lower(),
        "task": task,
        "publisher": publisher,
        "licence": licence,
        "sort": sort,
        "min_parameters": _count(min_params),
        "max_parameters": _count(max_params),
        "days": days,
        "gated": None if gated is None else str(gated).lower(),
        "page": page,
    }
    query = urlencode({name: value for name, value in wanted.items() if value not in {None, ""}})
    found = client.get(f"/hub/search?{query}", HubResults, timeout_s=_TIMEOUT_S)
    show("search", found, as_json=as_json, text=_results)


@click.command("show")
@click.argument("name")
@json_option
def show_model(*, name: str, as_json: bool) -> None:
    """Show the model NAME: facts about an installed model, or what its repository on the hub offers."""
    client = connected()
    local = _local(client, name)
    if local is not None:
        show("model", local, as_json=as_json, text=lambda model: _local_lines(model, about(client, model)))
        return
    found = client.get(f"/hub/model?{urlencode({'name': name})}", HubModel, timeout_s=_TIMEOUT_S)
    show("hub_model", found, as_json=as_json, text=_hub_lines)


def _count(typed: str) -> int | None:
    if not typed:
        return None
    found = _COUNT.fullmatch(typed.strip())
    if found is None:
        raise BadRequest(f"{typed!r} is not a number of parameters.", hint="Write 7b or 500m.", code="invalid_value")
    return round(float(found[1]) * _UNITS[found[2].lower()])


def _local(client: Client, name: str) -> ModelInfo | None:
    there = client.get("/models", list[ModelInfo])
    return next((one for one in there if name.casefold() in {one.name.casefold(), one.title.casefold()}), None)


def _results(found: HubResults) -> Iterator[str]:
    if found.note:
        talk(found.note)
    if not found.cards:
        talk("Nothing was found.")
        return
    yield from table(("MODEL", "PARAMETERS", "FITS", "MEMORY", "SPEED", "FORMATS", "GET IT"), map(_card, found.cards))
    talk("Memory and speed are estimates for the usual quantisation; `roundhouse show NAME` has exact sizes.")
    if found.next:
        talk(f"There is more: --page {found.next}")


def _card(card: HubCard) -> tuple[str, ...]:
    usable = next((one for one in card.repositories if not one.problem), card.repositories[0])
    formats = dict.fromkeys(kind for one in card.repositories for kind in one.formats)
    gated = " (gated)" if usable.gated else ""
    code = " (runs custom code)" if usable.needs_remote_code else ""
    return (
        card.title,
        words.parameters(card.parameters),
        fits(card.fits),
        words.size(card.memory_bytes) if card.memory_bytes else "",
        words.rate(card.decode.tokens_per_second) if card.decode else "",
        " ".join(formats),
        usable.problem or f"{_source(card)}{gated}{code}",
    )


def _source(card: HubCard) -> str:
    """Return the repository to take: the most downloaded in the format the figures are for."""
    said = (one.repository for one in card.repositories if card.format in one.formats and not one.problem)
    return next(said, card.repositories[0].repository)


def _picks(picks: list[HubPick]) -> Iterator[str]:
    rows = (
        (
            pick.name,
            fits(pick.card.fits),
            words.size(pick.card.memory_bytes),
            words.rate(pick.card.decode.tokens_per_second) if pick.card.decode else "",
            pick.reason,
        )
        for pick in picks
    )
    yield from table(("NAME", "FITS", "MEMORY", "SPEED", "WHY"), rows)


def fits(value: bool | None) -> str:  # noqa: FBT001 -- the value is all it is about
    """Return whether something fits, in a word."""
    return {True: "yes", False: "no", None: "unknown"}[value]


def _local_lines(model: ModelInfo, more: Iterable[tuple[str, str]]) -> Iterator[str]:
    rows = [
        ("name", model.name),
        ("title", model.title),
        ("where", model.attached or model.path),
        ("format", f"{model.format} {model.quantization}".strip()),
        ("size", words.size(model.size_bytes)),
        ("architecture", model.architecture or "unknown"),
        ("parameters", words.parameters(model.parameters)),
        ("trained context", words.tokens(model.trained_context)),
        ("can", words.capabilities(model.capabilities)),
        ("changed", datetime.fromtimestamp(model.modified_at, UTC).strftime("%Y-%m-%d")),
        *more,
        ("problem", model.problem),
    ]
    yield from (f"{name:16} {value}" for name, value in rows if value)


def _hub_lines(model: HubModel) -> Iterator[str]:
    capabilities = ", ".join(model.capabilities)
    yield f"{model.repository}  {words.parameters(model.parameters)}  {model.architecture}  {capabilities}".rstrip()
    yield f"licence {model.licence or 'unknown'}, {model.downloads} downloads, {model.likes} likes, {model.page}"
    for said in (model.gate, model.note):
        if said:
            talk(said)
    if model.needs_remote_code:
        talk(words.BRINGS_CODE)
    yield ""
    head = ("", "QUANT", "FORMAT", "SIZE", "FITS", "CONTEXT", "TOKENS/S", "ENGINE", "QUALITY")
    yield from table(head, map(_variant, model.variants))
    projector = next((one for one in model.variants if one.projector), None)
    if projector is not None:
        yield ""
        yield f"With it comes {projector.projector}, {words.size(projector.projector_bytes)}, which lets it see."
    for one in model.companions:
        here = " (here)" if one.is_here else f": roundhouse pull {model.repository}/{one.path}"
        yield f"Optional: {one.kind.value} {one.path}, {words.size(one.size_bytes)}{here}"
    best = next((one for one in model.variants if one.is_recommended), None)
    if best is not None:
        yield ""
        yield f"* {best.quantization or best.format} is recommended. {best.reason}"


def _variant(one: HubVariant) -> tuple[str, ...]:
    return (
        "*" if one.is_recommended else "",
        one.quantization or "-",
        one.format,
        words.size(one.size_bytes + one.projector_bytes) + (" (here)" if one.is_here else ""),
        fits(one.fits),
        words.tokens(one.largest_context) if one.largest_context else "",
        interval(one.decode),
        one.engine_name,
        one.quality or one.reason,
    )


def interval(rate: Rate | None) -> str:
    """Return a rate with the interval that holds nine of ten such predictions."""
    return f"{rate.tokens_per_second:.0f} ({rate.low:.0f} to {rate.high:.0f})" if rate else ""
