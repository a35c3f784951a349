"""Print every command an engine would be started with, here or over several computers; nothing is started."""

import shlex
from collections.abc import Iterator

import click

from app.cli.gateway import connect_gateway
from app.cli.loading import resolve_model_name
from app.cli.output import json_option, show_result
from app.client.http import quote_segment
from app.core.engine_plans import EnginePlan, EnginePlanRequest, PlannedStep
from app.core.models import LoadOptions


@click.command()
@click.argument("model")
@click.option("--engine", required=True, help="Such as llama.cpp, vllm, dynamo.")
@click.option(
    "--node", "nodes", multiple=True, help="A computer of the team; the first one answers. Can be given repeatedly."
)
@click.option(
    "--tensor-parallel", default=1, show_default=True, type=click.IntRange(1), help="GPUs that share a layer."
)
@click.option("--context", type=click.IntRange(1), help="Tokens of context per request.")
@click.option("--slots", type=click.IntRange(1), help="Requests answered at once.")
@click.option("--kv-type", help="Type of the KV cache.")
@click.option("--dry-run", is_flag=True, help="Only print; this command does nothing else.")
@json_option
def plan(model: str, *, as_json: bool, dry_run: bool, **asked: object) -> None:
    """Print the commands that would serve MODEL with an engine, one process after the other."""
    del dry_run
    client = connect_gateway()
    names = ("context", "slots", "kv_type")
    options = LoadOptions(**{name: asked[name] for name in names})  # type: ignore[arg-type]  # click checked the types
    body = EnginePlanRequest(
        model=resolve_model_name(client, model),
        nodes=list(asked["nodes"]),  # type: ignore[call-overload]  # a tuple of names
        tensor_parallel=asked["tensor_parallel"],  # type: ignore[arg-type]  # a number
        options=options,
    )
    engine_plan = client.post(f"/engines/{quote_segment(str(asked['engine']))}/plan", body, EnginePlan)
    show_result("engine_plan", engine_plan, as_json=as_json, text=_plan_lines)


def _plan_lines(engine_plan: EnginePlan) -> Iterator[str]:
    for step in engine_plan.steps:
        yield from _step_lines(step)
    yield f"# It answers at {engine_plan.base_url}."
    yield from (f"# A private file is written beside it: {name}" for name in engine_plan.files)
    yield from (f"# {note}" for note in engine_plan.notes)


def _step_lines(step: PlannedStep) -> Iterator[str]:
    yield f"# {step.machine}: {step.role}"
    yield " ".join([*(f"{name}={shlex.quote(value)}" for name, value in step.env.items()), step.command])
