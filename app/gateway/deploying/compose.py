"""A compose file for one computer with several cards: a service for each replica, and smg in front of them."""

from collections.abc import Mapping

from app.core.deployments import DeploymentFile, DeploymentRequest
from app.gateway.deploying.containers import (
    ENGINE_PORT,
    MODELS,
    ROUTER_PORT,
    Container,
    engine_container,
    explain,
    router_container,
)
from app.gateway.deploying.yaml_writing import Node, Remark, write_documents
from engines.images import DRAIN_S, IMAGES

SECRETS = "secrets.env"
_START_PERIOD = "1h"
_CHECK = (
    "import sys, urllib.request as r; sys.exit(r.urlopen('http://127.0.0.1:{port}{path}', timeout=25).status != 200)"
)
"""Python, because not every image has curl."""


def compose_files(request: DeploymentRequest, versions: Mapping[str, str]) -> list[DeploymentFile]:
    """Return the compose file. Raises ValueError for what the engine's flags cannot say."""
    engine = engine_container(request, versions)
    names = [f"worker-{number}" for number in range(request.replicas)]
    router = router_container({"worker_urls": tuple(f"http://{name}:{ENGINE_PORT}" for name in names)}, versions)
    services: dict[str, Node] = {"router": _router(request, router, names)}
    for number, name in enumerate(names):
        services[name] = _worker(request, engine, number)
    document: Node = {
        "name": request.name,
        "services": services,
        "volumes": {"models": Remark({}, "The hub's files, kept when the containers go; all replicas share them.")},
    }
    heading = f"{request.replicas} replicas of {request.model} on one computer, written by `roundhouse deploy render`."
    return [DeploymentFile(name="compose.yaml", text=write_documents(heading, [document]))]


def _worker(request: DeploymentRequest, container: Container, number: int) -> Node:
    first = number * request.cards
    cards = [str(card) for card in range(first, first + request.cards)]
    device: Node = {"driver": "nvidia", "device_ids": cards, "capabilities": ["gpu"]}
    shared_nodes: dict[str, Node] = {
        "shm_size": Remark("8gb", "The processes of a replica's cards pass tensors through /dev/shm, 64 MiB otherwise.")
    }
    return {
        **_program(request, container),
        "environment": {**container.environment, "HF_HOME": Remark(MODELS, "Where the hub's files are kept.")},
        "volumes": [f"models:{MODELS}"],
        **(shared_nodes if request.cards > 1 else {}),
        "deploy": {
            "resources": {
                "reservations": {"devices": [Remark(device, "Cards of this replica alone, as nvidia-smi counts.")]}
            }
        },
        "healthcheck": _health_check(ENGINE_PORT, container.readiness_path),
    }


def _router(request: DeploymentRequest, container: Container, workers: list[str]) -> Node:
    ready = {name: {"condition": "service_healthy"} for name in workers[:1]}
    return {
        **_program(request, container),
        "ports": [
            Remark(
                f"127.0.0.1:{ROUTER_PORT}:{ROUTER_PORT}", "This computer alone: there is no TLS. Replicas have no port."
            )
        ],
        "depends_on": Remark(ready, "With one replica ready it can answer; the others are taken in when they are."),
        "healthcheck": _health_check(ROUTER_PORT, "/readiness"),
    }


def _program(request: DeploymentRequest, container: Container) -> dict[str, Node]:
    return {
        "image": Remark(container.image, "The version whose flags and log lines this Roundhouse knows."),
        **_command(request, container),
        "env_file": [Remark(SECRETS, "The key and the hub's token stand in this file alone, not here.")],
        "restart": Remark("unless-stopped", "What ended is started again; the model's files are on the volume."),
        "stop_grace_period": Remark(f"{DRAIN_S + 15}s", "Answers that are being written are finished first."),
    }


def _command(request: DeploymentRequest, container: Container) -> dict[str, Node]:
    """Return entry point and command: a shell puts the key in where it is taken as an argument alone."""
    if not container.key_arguments:
        return {"entrypoint": list(container.command), "command": list(container.arguments)}
    key = "$$" + IMAGES[request.engine].key_variable
    words = " ".join(f'"{word.format(key=key)}"' for word in container.key_arguments)
    shell = ("sh", "-c", f'exec "$$0" "$$@" {words}')
    reason = (
        "It takes the key as an argument alone: the shell in the container puts it in, so that it is not in this file."
    )
    return {
        "entrypoint": [*explain(shell, reason)],
        "command": [*container.command, *container.arguments],
    }


def _health_check(port: int, path: str) -> Node:
    return {
        "test": ["CMD", "python3", "-c", _CHECK.format(port=port, path=path)],
        "interval": "30s",
        "timeout": "30s",
        "retries": 5,
        "start_period": Remark(
            _START_PERIOD, "The first start downloads the model, every start reads and compiles it."
        ),
        "start_interval": "10s",
    }
