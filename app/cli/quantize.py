"""`roundhouse quantize`: EXL3 of a model's original weights, made on this computer's card by ExLlamaV3's converter."""

from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.measuring import follow_job
from app.cli.output import format_table, json_option, print_note, show_result
from app.core import words
from app.core.errors import EngineFailed
from app.core.events import QuantizeChanged
from app.core.quantize import QuantizeModel, QuantizePlan, QuantizeResult

_START_S = 60.0
"""Looking for the model on a drive that slept."""


@click.command("quantize")
@click.argument("model")
@click.option("--bits", type=click.FloatRange(1, 8), default=4.0, show_default=True, help="Bits a weight.")
@click.option("--head-bits", type=click.IntRange(1, 8), default=6, show_default=True, help="Bits of the output matrix.")
@click.option("--name", default="", help="Name of the new model; its own with the bits behind unless you say one.")
@click.option("--plan", "only_plans", is_flag=True, help="Say what it takes, and do nothing.")
@click.option("--restart", is_flag=True, help="Throw away what an earlier run left instead of going on from it.")
@json_option
def quantize_model(model: str, *, only_plans: bool, restart: bool, as_json: bool, **wishes: object) -> None:
    """Convert MODEL to EXL3 on this computer's card.

    MODEL is in its original weights (safetensors in 16 bits). It takes minutes for small models and hours for large
    ones. Ctrl-C stops it; the next run of the same model and bits goes on from its last checkpoint.
    """
    client = connect_gateway()
    request = QuantizeModel(model=model, restarts=restart, **wishes)  # type: ignore[arg-type]  # as click has checked them
    plan = client.post("/quantizations/plan", request, QuantizePlan, timeout_s=_START_S)
    if only_plans:
        show_result("quantization_plan", plan, as_json=as_json, text=_plan_lines)
        return
    for line in _plan_lines(plan):
        print_note(line)
    client.post("/quantizations", request, QuantizeChanged, timeout_s=_START_S)
    result = follow_job(client, QuantizeChanged, stop="/quantizations/job").result
    if result is None:
        raise EngineFailed("Quantising ended without a result.", code="quantization_failed")
    show_result("quantization", result, as_json=as_json, text=_result_lines)


def _plan_lines(plan: QuantizePlan) -> Iterator[str]:
    rows = [
        ("Model", f"{plan.model} to {plan.name}, {plan.bits:g} bits ({plan.head_bits} of the output)"),
        ("Result", f"about {words.format_bytes(plan.result_bytes)} in {plan.folder}"),
        ("Disk", f"{words.format_bytes(plan.disk_bytes)} while it goes on, {_free(plan.free_bytes)}"),
        ("Memory", f"about {words.format_bytes(plan.memory_bytes)}"),
        (
            "Card",
            f"{plan.card or 'none'}: about {words.format_bytes(plan.needed_card_bytes)}, {_free(plan.card_bytes)}",
        ),
    ]
    yield from format_table(("WHAT", "HOW MUCH"), rows)
    if plan.resumes:
        yield "It goes on where an earlier run ended."
    yield from plan.problems


def _free(size: int | None) -> str:
    return "free space unknown" if size is None else f"{words.format_bytes(size)} free"


def _result_lines(result: QuantizeResult) -> Iterator[str]:
    minutes = result.took_s / 60
    size = words.format_bytes(result.size_bytes)
    yield f"{result.model} is ready: {size} in {result.folder}, after {minutes:.0f} minutes."
