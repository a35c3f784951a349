"""What runs in a cluster's containers: images by the versions that Roundhouse installs, arguments by its own adapters.

An engine is asked for a plan as for a start on this computer; what only belongs there is taken out again: our guard in
front of its server, and the order to stay offline, since here the model's files come from the hub.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from app.core.deployments import DeploymentRequest
from app.gateway.deploying.yaml_writing import Node, Remark
from engines.api import EngineInstallation, LaunchOptions, ListenOptions, ModelFormat, ModelSource
from engines.dynamo import launch as dynamo
from engines.flags import build_arguments
from engines.images import DRAIN_S, IMAGES
from engines.registry import ADAPTERS
from engines.server_adapter import QUIET
from engines.smg import launch as smg

ENGINE_PORT = 8000
ROUTER_PORT = 8080
MODELS = "/models"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 -- the address inside a container, which others must reach
_LOCAL_ONLY = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PYTHONPATH", "SGL_FORCE_SHUTDOWN"})
_AS_HERE = "As Roundhouse starts this engine itself: what is served, where it listens, under which name."
_AS_REQUESTED = "What was asked for: the context, and the cards that the model is cut over."
_DRAIN = f"Told to end, it goes on with the answers that it is writing, for {DRAIN_S} s; by default it breaks them off."


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """One container. `arguments` may hold reasons; `key_arguments` come last, with `{key}` where the key belongs."""

    image: str
    command: tuple[str, ...]
    arguments: tuple[Node, ...]
    environment: Mapping[str, str] = {}
    key_arguments: tuple[str, ...] = ()
    readiness_path: str = "/health"


def engine_container(request: DeploymentRequest, versions: Mapping[str, str]) -> Container:
    """Return one replica of vLLM or SGLang. Raises ValueError for what its flags cannot say."""
    adapter = ADAPTERS[request.engine]
    installation = _installation(request.engine, versions)
    net = ListenOptions(host=_EVERYWHERE, port=ENGINE_PORT, key="")
    plain = adapter.plan(source_of(request), LaunchOptions(), net, installation)
    plan = adapter.plan(source_of(request), options_of(request), net, installation)
    module, *opening_words = _server_words(plain.processes[0].argv)
    more = _server_words(plan.processes[0].argv)[1 + len(opening_words) :]
    image = IMAGES[request.engine]
    return Container(
        image=image_of(request.engine, versions),
        command=("python3", "-m", module),
        arguments=(
            *explain(opening_words, _AS_HERE),
            *explain(more, _AS_REQUESTED),
            *explain(image.drain_arguments, _DRAIN),
        ),
        environment={name: text for name, text in plan.processes[0].env.items() if name not in _LOCAL_ONLY},
        key_arguments=image.key_arguments,
        readiness_path=plan.readiness.path,
    )


def router_container(settings: Mapping[str, object], versions: Mapping[str, str]) -> Container:
    """Return smg; `settings` say in its own names where its replicas are."""
    # SGLang's /health writes a token, which waits its turn while the replica is busy.
    patience = {
        "health_check_interval_secs": 10,
        "health_check_timeout_secs": 20,
        "shutdown_grace_period_secs": DRAIN_S,
    }
    own = {"host": _EVERYWHERE, "port": ROUTER_PORT, "policy": smg.POLICY, **patience, **settings}
    reason = (
        "As Roundhouse starts this router itself. cache_aware sends a conversation to the replica that has its "
        "beginning in the cache. Some engines write a token for /health, so a busy replica is given 20 s."
    )
    return Container(
        image=image_of("smg", versions),
        command=("python3", "-m", "smg.launch_router"),
        arguments=explain(smg.command_arguments(own), reason),
        key_arguments=IMAGES["smg"].key_arguments,
    )


def graph_containers(request: DeploymentRequest, versions: Mapping[str, str]) -> tuple[Container, Container]:
    """Return Dynamo's frontend and one worker of it, which find each other through the cluster."""
    command_line = build_arguments(dynamo.TABLE, options_of(request), _installation("dynamo", versions))
    net = ListenOptions(host=_EVERYWHERE, port=ENGINE_PORT, key="")
    opening_arguments = dynamo.worker_arguments(source_of(request), dynamo.KUBERNETES, ())
    environment = {**_online(QUIET), **dynamo.PLAIN_LOG}
    image = image_of("dynamo", versions)
    routes = "As Roundhouse starts it itself: it routes by what it sent where; discovery goes through the cluster."
    return (
        Container(
            image=image,
            command=("python3", "-m", dynamo.FRONTEND),
            arguments=explain(dynamo.frontend_arguments(net, dynamo.KUBERNETES), routes),
            environment=environment,
        ),
        Container(
            image=image,
            command=("python3", "-m", dynamo.WORKER),
            arguments=(*explain(opening_arguments, _AS_HERE), *explain(command_line.args, _AS_REQUESTED)),
            environment={**environment, "VLLM_NO_USAGE_STATS": "1"},
        ),
    )


def image_of(engine: str, versions: Mapping[str, str]) -> str:
    """Return an engine's image, in the version that Roundhouse installs."""
    return IMAGES[engine].name.format(version=versions[engine])


def source_of(request: DeploymentRequest) -> ModelSource:
    """Return the model as adapters take it: the repository stands where a folder would."""
    return ModelSource(name=request.name, path=Path(request.model), format=ModelFormat.SAFETENSORS)


def options_of(request: DeploymentRequest) -> LaunchOptions:
    """Return the options that the request stands for."""
    return LaunchOptions(context=request.context, tensor_parallel=request.cards)


def explain(words: Sequence[str], reason: str) -> tuple[Node, ...]:
    """Return words with a reason above the first."""
    return (Remark(words[0], reason), *words[1:]) if words else ()


def _installation(engine: str, versions: Mapping[str, str]) -> EngineInstallation:
    return EngineInstallation(engine=engine, version=versions[engine], backend="cuda", python=Path("python3"))


def _server_words(argv: Sequence[str]) -> Sequence[str]:
    """Return the server's module and arguments, without our guard in front of it."""
    return argv[argv.index("engines.foreign_worker") + 1 :]


def _online(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name not in _LOCAL_ONLY}
