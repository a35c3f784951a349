"""`roundhouse deploy`: files with which a Kubernetes cluster or Docker Compose serves replicas of one model."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from app.cli.gateway import connect_gateway
from app.cli.output import format_table, json_option, print_note, show_result
from app.client.deployment_files import write_files
from app.core.deployments import TARGETS, Deployment, DeploymentFile, DeploymentRequest


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def deploy(ctx: click.Context, *, as_json: bool) -> None:
    """Write files that serve a model elsewhere: `roundhouse deploy render Qwen/Qwen3-8B`.

    Without a command, list the engines that there are files for.
    """
    if ctx.invoked_subcommand is None:
        show_result("targets", dict(TARGETS), as_json=as_json, text=_target_lines)


@deploy.command()
@click.argument("model")
@click.option("--engine", default="vllm", show_default=True, help="vllm, sglang or dynamo.")
@click.option("--target", default="kubernetes", show_default=True, help="kubernetes or compose.")
@click.option("--replicas", default=2, show_default=True, help="How many serve the model alike.")
@click.option("--cards", default=1, show_default=True, help="GPUs of each replica.")
@click.option("--context", type=int, help="Tokens of context; without it, as many as the model takes.")
@click.option("--name", default="", help="What clients call the model; without it, the repository's name.")
@click.option("--disk-gib", default=200, show_default=True, help="Room for the model's files, in GiB.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the files into this folder.")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@json_option
def render(out: Path | None, *, force: bool, as_json: bool, **fields: Any) -> None:  # noqa: ANN401 -- click checks them
    """Write manifests or a compose file for MODEL, a repository on Hugging Face as OWNER/NAME. Nothing is run."""
    request = DeploymentRequest(**fields)
    deployment = connect_gateway().post("/deployments/render", request, Deployment)
    if out is not None:
        write_files(out, deployment.files, force=force)
    if not as_json:
        for note in deployment.notes:
            print_note(note)
    show_result(
        "deployment",
        deployment,
        as_json=as_json,
        text=lambda deployment: _file_lines(deployment.files) if out is None else _path_lines(out, deployment.files),
    )


def _target_lines(targets: Mapping[str, Sequence[str]]) -> list[str]:
    return format_table(("ENGINE", "TARGETS"), [(engine, ", ".join(names)) for engine, names in targets.items()])


def _file_lines(files: list[DeploymentFile]) -> Iterator[str]:
    for file in files:
        yield f"# {file.name}"
        yield file.text.removesuffix("\n")


def _path_lines(folder: Path, files: list[DeploymentFile]) -> Iterator[str]:
    for file in files:
        yield str(folder / file.name)
