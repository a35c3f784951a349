"""NVIDIA Dynamo in a cluster: one DynamoGraphDeployment, which Dynamo's operator makes pods, probes and Services of."""

from collections.abc import Mapping

from app.core.deployments import DeploymentFile, DeploymentRequest
from app.gateway.deploying.containers import MODELS, Container, graph_containers
from app.gateway.deploying.kubernetes import SHARED_MEMORY, head, secret_name
from app.gateway.deploying.yaml_writing import Node, Remark, write_documents


def graph_files(request: DeploymentRequest, versions: Mapping[str, str]) -> list[DeploymentFile]:
    """Return the volume and the graph. Raises ValueError for what the worker's flags cannot say."""
    frontend, worker = graph_containers(request, versions)
    heading = (
        f"{request.replicas} replicas of {request.model} under NVIDIA Dynamo's operator, written by `roundhouse deploy "
        "render`. The operator makes the probes: it asks each worker's own system port, not the frontend."
    )
    documents = [_volume_claim(request), _graph(request, frontend, worker)]
    return [DeploymentFile(name="graph.yaml", text=write_documents(heading, documents))]


def _volume_claim(request: DeploymentRequest) -> Node:
    return {
        **head("PersistentVolumeClaim", "v1", f"{request.name}-models"),
        "spec": {
            "accessModes": [
                Remark("ReadWriteMany", "The operator gives all workers one claim: the class must share it.")
            ],
            "resources": {
                "requests": {"storage": Remark(f"{request.disk_gib}Gi", "More than the repository takes on the hub.")}
            },
        },
    }


def _graph(request: DeploymentRequest, frontend: Container, worker: Container) -> Node:
    return {
        **head("DynamoGraphDeployment", "nvidia.com/v1alpha1", request.name),
        "spec": {
            "backendFramework": "vllm",
            "pvcs": [
                Remark(
                    {"name": f"{request.name}-models", "create": False},
                    "The claim above: what the operator made itself, it would delete with the graph.",
                )
            ],
            "services": {
                "Frontend": {
                    "componentType": "frontend",
                    "replicas": Remark(1, "It routes by what it sent where; two of them would each know half of it."),
                    **_pod(frontend),
                },
                "VllmWorker": _worker(request, worker),
            },
        },
    }


def _worker(request: DeploymentRequest, container: Container) -> Node:
    memory: dict[str, Node] = {
        "sharedMemory": Remark(
            {"size": SHARED_MEMORY}, "The processes of a replica's cards pass tensors through /dev/shm."
        )
    }
    return {
        "componentType": "worker",
        "replicas": Remark(request.replicas, "Change it as the load does, or leave it to Dynamo's planner."),
        "envFromSecret": Remark(secret_name(request), "HF_TOKEN, for models whose terms must be accepted."),
        "resources": {"limits": {"gpu": Remark(str(request.cards), "Cards are given whole, all of one node.")}},
        **(memory if request.cards > 1 else {}),
        "volumeMounts": [{"name": f"{request.name}-models", "mountPoint": MODELS}],
        **_pod(container, {"HF_HOME": MODELS}),
    }


def _pod(container: Container, more: Mapping[str, str] | None = None) -> dict[str, Node]:
    environment = {**container.environment, **(more or {})}
    return {
        "envs": [{"name": name, "value": text} for name, text in environment.items()],
        "extraPodSpec": {
            "mainContainer": {
                "image": Remark(container.image, "The version whose flags and log lines this Roundhouse knows."),
                "command": list(container.command),
                "args": list(container.arguments),
            }
        },
    }
