"""`roundhouse plan` and `roundhouse estimate`: what to run, on this machine or any other, with the arithmetic shown."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, show_result, write_fields
from app.core import words
from app.core.across import AcrossPlan, AcrossRequest
from app.core.advice import (
    Advice,
    Amount,
    Estimate,
    EstimateRequest,
    FitVerdict,
    Intent,
    Plan,
    PlanRequest,
    PoolUse,
    Rate,
    ServicePlan,
)
from app.core.engines import Reason
from app.core.errors import BadRequest
from app.core.hub import MachineAdvice

_TIMEOUT_S = 120.0
"""A repository's headers may have to be read first."""
_LABELLED = "  {:<10}{}"

_VERDICTS = {
    FitVerdict.FITS: ("It fits.", "green"),
    FitVerdict.SLOW: ("It fits, but is too slow to talk to.", "yellow"),
    FitVerdict.TOO_LARGE: ("It does not fit.", "red"),
}

machine_option = click.option(
    "--machine",
    "machine_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Plan for the machine this JSON file describes instead of this one.",
)


@click.command()
@click.argument("model", default="")
@click.option("--intent", type=click.Choice([intent.value for intent in Intent]), default=Intent.CHAT.value)
@click.option("--users", type=click.IntRange(1, 100_000), default=1, help="Users at once.")
@click.option("--context", type=click.IntRange(min=1), help="Tokens of context per conversation.")
@click.option("--loras", type=click.IntRange(0, 10_000), default=0, help="LoRA adapters served at the same time.")
@click.option("--kv", "kv_type", type=click.Choice(["f16", "q8_0", "q4_0"]), help="Type of the KV cache.")
@click.option("--across", default="", help="Paired machines to share the model out over, with commas.")
@click.option("--why", "with_reasons", is_flag=True, help="Show every reason, and which engines are ruled out and why.")
@machine_option
@json_option
def plan(
    *, model: str, across: str, machine_file: Path | None, as_json: bool, with_reasons: bool, **wishes: object
) -> None:
    """Recommend engines, formats and settings, best first, with reasons.

    MODEL is a name ("Qwen3 8B"), a model of the library, a GGUF file, a model folder or a repository; without it the
    best model of the catalogue for this machine is planned.
    """
    if across:
        _show_across(model, across, wishes["context"], as_json=as_json)
        return
    request = msgspec.convert({"model": _absolute_if_local(model), **wishes}, PlanRequest)
    request = msgspec.structs.replace(request, machine=_read_machine_file(machine_file))
    advice = connect_gateway().post("/plan", request, MachineAdvice, timeout_s=_TIMEOUT_S)
    if as_json:
        write_fields(advice)
        return
    for line in (*recommendation_lines(advice), *advice_lines(advice, with_reasons=with_reasons)):
        click.echo(line)


def _show_across(model: str, across: str, context: object, *, as_json: bool) -> None:
    names = [name.strip() for name in across.split(",") if name.strip()]
    body = {"model": _absolute_if_local(model), "across": names, "context": context}
    request = msgspec.convert(body, AcrossRequest)
    plan = connect_gateway().post("/plan/across", request, AcrossPlan, timeout_s=_TIMEOUT_S)
    show_result("across", plan, as_json=as_json, text=_across_lines)


def _across_lines(plan: AcrossPlan) -> Iterator[str]:
    """Yield which machine holds what, with the arithmetic, and why."""
    yield click.style(plan.sentence, bold=True)
    rows = (
        (
            share.name,
            f"{share.first_layer + 1} to {share.first_layer + share.layers}",
            f"{words.format_bytes(share.needed_bytes)} of {words.format_bytes(share.free_bytes)}",
            "" if share.token_ms is None else f"{share.token_ms:.2f} ms",
            share.arithmetic,
        )
        for share in plan.shares
    )
    yield from format_table(("MACHINE", "LAYERS", "MEMORY", "A TOKEN", "ARITHMETIC"), rows)
    yield from (f"  - {reason}" for reason in plan.reasons)


@click.command()
@click.argument("model")
@click.option("--context", type=click.IntRange(min=1), help="Tokens of context per conversation.")
@click.option("--kv", "kv_type", type=click.Choice(["f16", "q8_0", "q4_0"]), help="Type of the KV cache.")
@click.option("--slots", type=click.IntRange(1, 1024), help="Conversations at once.")
@click.option("--engine", help="Engine to estimate for, such as llama.cpp or vllm.")
@click.option("--gpu-layers", type=click.IntRange(min=0), help="Layers on the GPU; the others stay in system memory.")
@click.option("--depth", type=click.IntRange(min=0), default=0, help="Tokens already in the context, for the speed.")
@machine_option
@json_option
def estimate(*, model: str, machine_file: Path | None, as_json: bool, **wishes: object) -> None:
    """Estimate how much memory a model takes, whether it fits, its largest context and its speed.

    MODEL is a GGUF file, a model folder, a model of the library, a known name with a quantisation, or a repository.
    """
    request = msgspec.convert({"model": _absolute_if_local(model), **wishes}, EstimateRequest)
    request = msgspec.structs.replace(request, machine=_read_machine_file(machine_file))
    result = connect_gateway().post("/estimate", request, Estimate, timeout_s=_TIMEOUT_S)
    if as_json:
        write_fields(result)
        return
    for line in estimate_lines(result):
        click.echo(line)


def recommendation_lines(advice: MachineAdvice) -> Iterator[str]:
    """Yield which model to run and why, the fast one beside it, and how to get them; nothing where one was named."""
    if advice.note:
        yield from (advice.note, "")
    if not advice.recommended:
        return
    best, *others = advice.recommended
    yield f"{click.style(best.name, bold=True)}: {best.reason}"
    is_here = bool(best.installed)
    command = f"roundhouse run {best.installed}" if is_here else f"roundhouse pull {best.pull}"
    yield _LABELLED.format("Run it" if is_here else "Get it", command)
    fast = next((pick for pick in others if pick.is_fast), None)
    if fast is not None:
        rate = f", {words.format_rate(fast.card.decode.tokens_per_second)}" if fast.card.decode else ""
        yield _LABELLED.format("Faster", f"{fast.name}{rate}: roundhouse pull {fast.pull}")
    yield ""


def advice_lines(advice: Advice, *, with_reasons: bool = False) -> Iterator[str]:
    """Yield the best plan in full, the alternatives in a line each, and what something is missing for."""
    yield click.style(f"For {advice.machine}:", dim=True)
    best, *others = advice.plans
    yield from _plan_lines(best, with_reasons=with_reasons)
    yield from _service_lines(advice.service)
    obtainable = [other for other in others if other.obtainable]
    if obtainable:
        yield from ("", "Alternatives:")
        rows = (_plan_row(number, other) for number, other in enumerate(obtainable, 2))
        yield from format_table(("", "ENGINE", "BACKEND", "FORMAT", "QUANT", "CONTEXT", "SPEED", "NOTE"), rows)
    yield from _better_lines([other for other in others if other.is_preferred])
    yield from _lines_of_ruled_out(
        [other for other in others if not other.obtainable and not other.is_preferred], with_reasons=with_reasons
    )


def _service_lines(service: ServicePlan | None) -> Iterator[str]:
    """Yield how everybody is served, with the arithmetic."""
    if service is None:
        return
    yield from ("", click.style(service.sentence, bold=True))
    yield from _lines_of_reasons(service.reasons)
    yield from (f"  {number}. {step}" for number, step in enumerate(service.steps, 1))


def _better_lines(preferred_plans: Sequence[Plan]) -> Iterator[str]:
    """Yield what would stand first if something were not missing, and how to get that."""
    if preferred_plans:
        yield from ("", "Better, but not available here:")
    for other in preferred_plans:
        yield f"  {other.name}: {' '.join(other.missing)}"
        yield from (f"    {number}. {step}" for number, step in enumerate(other.steps, 1))


def _lines_of_ruled_out(ruled_out: Sequence[Plan], *, with_reasons: bool) -> Iterator[str]:
    if not ruled_out:
        return
    yield ""
    if not with_reasons:
        engines = "engine" if len(ruled_out) == 1 else "engines"
        yield click.style(f"{len(ruled_out)} {engines} ruled out; --why shows the reasons.", dim=True)
        return
    yield "Ruled out:"
    yield from (f"  {other.name}: {' '.join(other.missing)}" for other in ruled_out)


def estimate_lines(estimate_found: Estimate) -> Iterator[str]:
    """Yield the sum by component and pool, the verdict and the speed."""
    yield click.style(estimate_found.sentence or estimate_found.model, bold=True)
    rows = (
        (name, words.format_bytes(amount.bytes), amount.confidence, amount.arithmetic)
        for name, amount in _list_amounts(estimate_found)
    )
    yield from format_table(("", "SIZE", "FROM", "ARITHMETIC"), rows)
    for pool in estimate_found.pools:
        yield _pool_line(pool)
    yield _verdict(estimate_found)
    if estimate_found.fits:
        yield from _speed_lines(estimate_found)
    yield from estimate_found.notes


def _plan_lines(best: Plan, *, with_reasons: bool) -> Iterator[str]:
    yield click.style(best.sentence, bold=True)
    yield _LABELLED.format("Settings", _settings_text(best))
    if best.estimate is not None:
        yield _LABELLED.format("Memory", best.estimate.sentence)
        labels = ("Speed", "")
        yield from map(_LABELLED.format, labels, _speed_lines(best.estimate))
    yield from (_LABELLED.format("Missing", sentence) for sentence in best.missing)
    if with_reasons:
        yield from _reason_lines(best)
    yield from (f"  ! {warning}" for warning in best.warnings)
    yield from (f"  ~ {other.text}" for other in best.counterfactuals)


def _reason_lines(best: Plan) -> Iterator[str]:
    yield from _lines_of_reasons(best.reasons)


def _lines_of_reasons(reasons: Sequence[Reason]) -> Iterator[str]:
    for reason in reasons:
        source = click.style(f"  [{reason.source}]", dim=True) if reason.source else ""
        yield f"  - {reason.text}{source}"


def _settings_text(best: Plan) -> str:
    parts = [
        best.format,
        best.quantization,
        f"{words.format_tokens(best.context)} context",
        f"{best.kv_type} KV",
    ]
    spread = best.parallelism
    if spread.mode != "single":
        parts.append(f"{spread.mode} parallel over {max(spread.tensor, spread.pipeline, spread.replicas)}")
    if spread.slots > 1:
        parts.append(f"{spread.slots} at once")
    if best.draft:
        parts.append(f"{best.draft} drafts")
    return ", ".join(part for part in parts if part.strip())


def _plan_row(number: int, other: Plan) -> tuple[str, ...]:
    speed = (
        words.format_rate(other.estimate.decode.tokens_per_second) if other.estimate and other.estimate.decode else ""
    )
    note = "" if other.is_installed else "not installed"
    context = words.format_tokens(other.context)
    return (
        str(number),
        other.name,
        other.backend,
        other.format,
        other.quantization,
        context,
        speed,
        note,
    )


def _list_amounts(estimate_found: Estimate) -> Iterator[tuple[str, Amount]]:
    for name in ("weights", "kv", "state", "compute", "output", "projector", "draft", "runtime", "total"):
        amount: Amount | None = getattr(estimate_found, name)
        if amount is not None and (amount.bytes or name == "total"):
            yield name, amount


def _pool_line(pool: PoolUse) -> str:
    free = "an unknown amount" if pool.free is None else words.format_bytes(pool.free)
    return f"{pool.name}: {words.format_bytes(pool.needed_bytes)} of {free} free"


def _verdict(estimate_found: Estimate) -> str:
    if not estimate_found.fits and not estimate_found.largest_context:
        return click.style("It does not fit, with any context.", fg="red")
    sentence, color = _VERDICTS[estimate_found.verdict]
    fits = click.style(sentence, fg=color)
    offload_note = " with this much of it off the GPU" if estimate_found.is_parted else ""
    largest = words.format_tokens(estimate_found.largest_context)
    return f"{fits} The largest context here{offload_note} is {largest} tokens."


def _speed_lines(estimate_found: Estimate) -> Iterator[str]:
    if estimate_found.decode:
        at = f" with {words.format_tokens(estimate_found.depth)} tokens in the context" if estimate_found.depth else ""
        yield _rate_line("Writing answers", estimate_found.decode) + at
    if estimate_found.prefill:
        yield _rate_line("Reading prompts", estimate_found.prefill)


def _rate_line(verb: str, rate: Rate) -> str:
    low, high = (words.format_rate(edge).removesuffix(" tok/s") for edge in (rate.low, rate.high))
    return f"{verb}: {words.format_rate(rate.tokens_per_second)} ({low} to {high}, {rate.confidence})"


def _absolute_if_local(model: str) -> str:
    """Return an absolute path for a file or folder that is here: the service has another working directory."""
    path = Path(model).expanduser()
    return str(path.resolve()) if model and path.exists() else model


def _read_machine_file(file: Path | None) -> dict[str, msgspec.Raw] | None:
    if file is None:
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, msgspec.Raw])
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}.", code="machine_invalid") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadRequest(f"{file} does not describe a machine: {error}.", code="machine_invalid") from error
