"""What a request for files is checked for, and which files it gets."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import msgspec

from app.core.deployments import TARGETS, Deployment, DeploymentFile, DeploymentRequest
from app.core.errors import BadRequest, quote_value
from app.engine_store.recipe import InstallRecipe
from app.gateway.deploying.compose import SECRETS, compose_files
from app.gateway.deploying.containers import ROUTER_PORT
from app.gateway.deploying.dynamo_graph import graph_files
from app.gateway.deploying.kubernetes import kubernetes_files, secret_name
from engines.images import IMAGES

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
_LONGEST_NAME = 40
"""With what is put behind it, a name stays below the 63 characters that Kubernetes takes."""
_MOST_REPLICAS = {"kubernetes": 1000, "compose": 64}
_MOST_CARDS = 16
"""As many as one computer has."""
_MOST_CONTEXT = 10_000_000
_MOST_DISK_GIB = 100_000
_CODE = "bad_deployment"

Renderer = Callable[[DeploymentRequest, Mapping[str, str]], list[DeploymentFile]]

_RENDERERS: Mapping[str, Renderer] = MappingProxyType({"kubernetes": kubernetes_files, "compose": compose_files})
_OWN_RENDERERS: Mapping[str, Renderer] = MappingProxyType({"dynamo": graph_files})
"""Of engines whose operator takes something else than pods."""
_UNTRIED = (
    "No cluster has run such files, and no image was fetched. Tests check them against the schemas of Kubernetes and "
    "of compose files, except Dynamo's own type."
)


def render_deployment(request: DeploymentRequest, versions: Mapping[str, str]) -> Deployment:
    """Return the files; `versions` are those of the engines. Raises BadRequest for what cannot be written."""
    request = _check_request(request)
    try:
        renderer = _OWN_RENDERERS.get(request.engine, _RENDERERS[request.target])
        files = renderer(request, versions)
    except ValueError as error:
        raise BadRequest(str(error), code=_CODE) from error
    return Deployment(name=request.name, files=files, notes=_notes(request))


def stable_versions(recipes: Mapping[str, InstallRecipe]) -> dict[str, str]:
    """Return which version of each engine Roundhouse installs."""
    return {engine: recipe.variants[0].version for engine, recipe in recipes.items() if recipe.variants}


def _check_request(request: DeploymentRequest) -> DeploymentRequest:
    """Return the request with a name. Raises BadRequest."""
    _check_choices(request)
    if not _REPOSITORY.fullmatch(request.model):
        raise BadRequest(
            f"{quote_value(request.model)} is not a repository on Hugging Face.",
            hint="Name it as OWNER/NAME: a cluster downloads the model itself.",
            code=_CODE,
        )
    _check_range("replicas", request.replicas, _MOST_REPLICAS[request.target])
    _check_range("cards", request.cards, _MOST_CARDS)
    _check_range("disk_gib", request.disk_gib, _MOST_DISK_GIB)
    if request.context is not None:
        _check_range("context", request.context, _MOST_CONTEXT)
    name = request.name or _name_from(request.model)
    if not _NAME.fullmatch(name):
        raise BadRequest(
            f"{quote_value(name)} cannot be the name of objects in a cluster.",
            hint=f"Use up to {_LONGEST_NAME} lower-case letters, digits and dashes, with a letter first.",
            code=_CODE,
        )
    return msgspec.structs.replace(request, name=name)


def _check_choices(request: DeploymentRequest) -> None:
    if request.engine not in TARGETS:
        raise BadRequest(f"The engine can be {' or '.join(TARGETS)}, not {quote_value(request.engine)}.", code=_CODE)
    targets = TARGETS[request.engine]
    if request.target not in targets:
        raise BadRequest(
            f"The target of {request.engine} can be {' or '.join(targets)}, not {quote_value(request.target)}.",
            code=_CODE,
        )


def _check_range(field: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise BadRequest(f"{field} can be 1 to {most}, not {value}.", code=_CODE)


def _name_from(model: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", model.rpartition("/")[2].lower())
    return re.sub(r"^[^a-z]+", "", words)[:_LONGEST_NAME].strip("-")


def _notes(request: DeploymentRequest) -> list[str]:
    """Return what has to be there, how the files are used, and what was not tried."""
    secret = f"kubectl create secret generic {secret_name(request)}"
    if request.target == "compose":
        key = IMAGES[request.engine].key_variable
        cards = request.replicas * request.cards
        steps = [
            f"Write {SECRETS} beside it, mode 0600: {key}=..., and HF_TOKEN=... for models with terms to accept.",
            "`docker compose up -d` starts it.",
            f"`roundhouse attach http://127.0.0.1:{ROUTER_PORT}/v1 --ask-key` lists its model here.",
            f"It takes {cards} NVIDIA cards, and NVIDIA's container toolkit.",
        ]
    elif request.engine in _OWN_RENDERERS:
        steps = [
            f"Make the Secret first: `{secret} --from-env-file=FILE`, with HF_TOKEN=... in the file.",
            "`kubectl apply -f graph.yaml` starts it, where Dynamo's operator is installed.",
            "Dynamo's frontend asks for no key: keep its Service inside the cluster.",
        ]
    else:
        steps = [
            f"Make the Secret first: `{secret} --from-file=api-key=FILE`, the file without a line break at its end.",
            "For models with terms to accept, add `--from-file=hf-token=FILE`.",
            "`kubectl apply -f workers.yaml -f router.yaml` starts it, on nodes with NVIDIA's device plugin.",
            f"In its namespace it answers at http://{request.name}/v1.",
        ]
    return [*steps, _UNTRIED]
