"""Kubernetes manifests: replicas of vLLM or SGLang as a StatefulSet, and smg in front of them.

No namespace stands in them: `kubectl apply -n` says it, and the router asks its own pod for it.
"""

from collections.abc import Mapping, Sequence

from app.core.deployments import DeploymentFile, DeploymentRequest
from app.gateway.deploying.containers import (
    ENGINE_PORT,
    MODELS,
    ROUTER_PORT,
    Container,
    engine_container,
    router_container,
)
from app.gateway.deploying.yaml_writing import Node, Remark, write_documents
from engines.images import DRAIN_S, IMAGES

SHARED_MEMORY = "8Gi"
_WHY_SMG = (
    "The router in front of the replicas: smg, whose version and flags Roundhouse knows, and which it runs itself for "
    "fleets. Production-stack's router and llm-d come with Helm charts of their own: where these are in use, keep them."
)
_WARNING_S = 15
"""Between a pod's being taken from the lists and its engine's being told to end."""
_START_S = 3600
_PROBE_S = 10


def kubernetes_files(request: DeploymentRequest, versions: Mapping[str, str]) -> list[DeploymentFile]:
    """Return the replicas' file and the router's. Raises ValueError for what the engine's flags cannot say."""
    engine = engine_container(request, versions)
    settings = {
        "service_discovery": True,
        "selector": tuple(f"{name}={text}" for name, text in labels_of(request, "worker").items()),
        "service_discovery_port": ENGINE_PORT,
        "service_discovery_namespace": "$(POD_NAMESPACE)",
    }
    router = router_container(settings, versions)
    workers = [
        _headless_service(request),
        _worker_set(request, engine),
        _disruption_budget(request),
        _network_policy(request),
    ]
    router_documents = [*_discovery_rights(request), _router_deployment(request, router), _router_service(request)]
    heading = f"{request.replicas} replicas of {request.model}, written by `roundhouse deploy render`."
    return [
        DeploymentFile(name="workers.yaml", text=write_documents(heading, workers)),
        DeploymentFile(name="router.yaml", text=write_documents(_WHY_SMG, router_documents)),
    ]


def labels_of(request: DeploymentRequest, component: str) -> dict[str, str]:
    """Return the labels by which objects of one part find each other."""
    return {"app.kubernetes.io/instance": request.name, "app.kubernetes.io/component": component}


def head(kind: str, version: str, name: str) -> dict[str, Node]:
    """Return how every object begins."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def secret_name(request: DeploymentRequest) -> str:
    """Return what the Secret is called that holds the keys; a person makes it."""
    return f"{request.name}-keys"


def _worker_name(request: DeploymentRequest) -> str:
    return f"{request.name}-worker"


def _headless_service(request: DeploymentRequest) -> Node:
    return {
        **head("Service", "v1", _worker_name(request)),
        "spec": {
            "clusterIP": Remark("None", "A StatefulSet asks for it: a name for each replica, no address for all."),
            "selector": labels_of(request, "worker"),
            "ports": [{"name": "http", "port": ENGINE_PORT}],
        },
    }


def _worker_set(request: DeploymentRequest, container: Container) -> Node:
    return {
        **head("StatefulSet", "apps/v1", _worker_name(request)),
        "spec": {
            "serviceName": _worker_name(request),
            "replicas": Remark(
                request.replicas, "Change it as the load does: the router notices pods that come and go."
            ),
            "podManagementPolicy": Remark(
                "Parallel", "Replicas do not need each other: none waits until another loaded."
            ),
            "updateStrategy": {
                "type": Remark(
                    "RollingUpdate", "One after another, each on its own cards: no spare cards are needed for a change."
                )
            },
            "selector": {"matchLabels": labels_of(request, "worker")},
            "template": {
                "metadata": {"labels": labels_of(request, "worker")},
                "spec": _worker_pod(request, container),
            },
            "volumeClaimTemplates": [
                Remark(
                    _volume_claim(request),
                    "The model's files stay with their replica, so that a restart downloads nothing. A claim for each "
                    "replica works with every storage class; one for all would need ReadWriteMany.",
                )
            ],
        },
    }


def _volume_claim(request: DeploymentRequest) -> Node:
    return {
        "metadata": {"name": "models"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {
                "requests": {"storage": Remark(f"{request.disk_gib}Gi", "More than the repository takes on the hub.")}
            },
        },
    }


def _worker_pod(request: DeploymentRequest, container: Container) -> Node:
    memory = Remark(
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
        "The processes of a replica's cards pass tensors through /dev/shm, which has 64 MiB otherwise.",
    )
    pod: dict[str, Node] = {
        "terminationGracePeriodSeconds": Remark(
            _WARNING_S + DRAIN_S + 15,
            "The warning, the answers that are being written, and some seconds to free the card.",
        ),
        "enableServiceLinks": Remark(
            value=False,
            reason="Variables named after Services, such as VLLM_PORT, would be read by vLLM as settings of its own.",
        ),
        "automountServiceAccountToken": Remark(value=False, reason="An engine has nothing to ask the cluster for."),
        "containers": [_worker_container(request, container)],
    }
    return {**pod, "volumes": [memory]} if request.cards > 1 else pod


def _worker_container(request: DeploymentRequest, container: Container) -> Node:
    mounts: list[Node] = [{"name": "models", "mountPath": MODELS}]
    if request.cards > 1:
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 -- a path in the container
    token = _secret_variable(
        request,
        "HF_TOKEN",
        "hf-token",
        "For models whose terms must be accepted; may be missing for others.",
        optional=True,
    )
    cache = Remark({"name": "HF_HOME", "value": MODELS}, "Where the hub's files are kept: on the volume.")
    return {
        "name": request.engine,
        **_program(request, container),
        "env": [_key_variable(request), token, cache, *_variables(container.environment)],
        "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
        "resources": _worker_resources(request),
        "volumeMounts": mounts,
        **_worker_probes(container.readiness_path),
        "lifecycle": {"preStop": _wait_before_end()},
        "securityContext": {"allowPrivilegeEscalation": False},
    }


def _program(request: DeploymentRequest, container: Container) -> dict[str, Node]:
    key = f"$({IMAGES[request.engine].key_variable})"
    secrets = tuple(word.format(key=key) for word in container.key_arguments)
    reason = "It takes the key as an argument alone. Kubernetes puts it in from the Secret when the container starts."
    words = (Remark(secrets[0], reason), *secrets[1:]) if secrets else ()
    return {
        "image": Remark(container.image, "The version whose flags and log lines this Roundhouse knows."),
        "command": list(container.command),
        "args": [*container.arguments, *words],
    }


def _key_variable(request: DeploymentRequest) -> Node:
    reason = "One key for the replicas and the router, which passes on what it was asked with."
    return _secret_variable(request, IMAGES[request.engine].key_variable, "api-key", reason, optional=False)


def _secret_variable(request: DeploymentRequest, name: str, key: str, reason: str, *, optional: bool) -> Node:
    reference: dict[str, Node] = {"name": secret_name(request), "key": key}
    if optional:
        reference["optional"] = True
    return Remark({"name": name, "valueFrom": {"secretKeyRef": reference}}, reason)


def _variables(environment: Mapping[str, str]) -> list[Node]:
    return [{"name": name, "value": text} for name, text in environment.items()]


def _worker_resources(request: DeploymentRequest) -> Node:
    return {
        "requests": {
            "cpu": Remark(
                str(request.cards + 1), "A core for each card's process and one for the server, which tokenizes."
            )
        },
        "limits": {
            "nvidia.com/gpu": Remark(
                request.cards,
                "Cards are given whole, all of one node. Memory has no limit here: what loading takes of it depends on "
                "the model, and was not measured.",
            )
        },
    }


def _worker_probes(path: str) -> dict[str, Node]:
    request: Node = {"path": path, "port": "http"}
    return {
        "startupProbe": Remark(
            {
                "httpGet": request,
                "periodSeconds": _PROBE_S,
                "timeoutSeconds": 25,
                "failureThreshold": _START_S // _PROBE_S,
            },
            "The first start downloads the model, every start reads and compiles it: an hour until it has failed.",
        ),
        "readinessProbe": Remark(
            {"httpGet": request, "periodSeconds": _PROBE_S, "timeoutSeconds": 25, "failureThreshold": 2},
            "The engine's own word that it can answer. Some write a token for it, which may take 20 s under load.",
        ),
        "livenessProbe": Remark(
            {"httpGet": request, "periodSeconds": 30, "timeoutSeconds": 25, "failureThreshold": 5},
            "Only minutes without an answer end a replica: one that is merely busy must not lose its answers.",
        ),
    }


def _wait_before_end() -> Node:
    wait: Node = {"exec": {"command": ["sleep", str(_WARNING_S)]}}
    return Remark(
        wait, "The router is told at the same moment as the engine; it must have noticed before the engine ends."
    )


def _disruption_budget(request: DeploymentRequest) -> Node:
    return {
        **head("PodDisruptionBudget", "policy/v1", _worker_name(request)),
        "spec": {
            "maxUnavailable": Remark(1, "Nodes that are emptied take one replica at a time."),
            "selector": {"matchLabels": labels_of(request, "worker")},
        },
    }


def _network_policy(request: DeploymentRequest) -> Node:
    router: Node = {"podSelector": {"matchLabels": labels_of(request, "router")}}
    return {
        **head("NetworkPolicy", "networking.k8s.io/v1", _worker_name(request)),
        "spec": {
            "podSelector": {"matchLabels": labels_of(request, "worker")},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [
                        Remark(
                            router,
                            "The router alone: engines ask for the key at /v1 and leave /metrics and others open. Add "
                            "your Prometheus here if it reads them.",
                        )
                    ],
                    "ports": [{"port": ENGINE_PORT}],
                }
            ],
        },
    }


def _router_name(request: DeploymentRequest) -> str:
    return f"{request.name}-router"


def _discovery_rights(request: DeploymentRequest) -> Sequence[Node]:
    name = _router_name(request)
    rule: Node = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    return (
        head("ServiceAccount", "v1", name),
        {
            **head("Role", "rbac.authorization.k8s.io/v1", name),
            "rules": [
                Remark(rule, "The router follows the replicas' pods, of this namespace alone, and changes nothing.")
            ],
        },
        {
            **head("RoleBinding", "rbac.authorization.k8s.io/v1", name),
            "subjects": [{"kind": "ServiceAccount", "name": name}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        },
    )


def _router_deployment(request: DeploymentRequest, container: Container) -> Node:
    return {
        **head("Deployment", "apps/v1", _router_name(request)),
        "spec": {
            "replicas": Remark(1, "It remembers which replica has read what; two of them would each know half of it."),
            "selector": {"matchLabels": labels_of(request, "router")},
            "template": {
                "metadata": {"labels": labels_of(request, "router")},
                "spec": {
                    "serviceAccountName": _router_name(request),
                    "terminationGracePeriodSeconds": Remark(
                        _WARNING_S + DRAIN_S + 15, "As for the replicas: answers go through it to their end."
                    ),
                    "containers": [_router_pod_container(request, container)],
                },
            },
        },
    }


def _router_pod_container(request: DeploymentRequest, container: Container) -> Node:
    namespace: Node = {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    return {
        "name": "smg",
        **_program(request, container),
        "env": [_key_variable(request), Remark(namespace, "It looks for replicas in its own namespace alone.")],
        "ports": [{"name": "http", "containerPort": ROUTER_PORT}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "readinessProbe": Remark(
            {"httpGet": {"path": "/readiness", "port": "http"}, "periodSeconds": 5},
            "It is ready once a replica is, so that nobody is sent to it before.",
        ),
        "livenessProbe": {"httpGet": {"path": "/liveness", "port": "http"}, "periodSeconds": 10, "failureThreshold": 6},
        "lifecycle": {"preStop": _wait_before_end()},
        "securityContext": {"allowPrivilegeEscalation": False},
    }


def _router_service(request: DeploymentRequest) -> Node:
    return {
        **head("Service", "v1", request.name),
        "spec": {
            "type": Remark(
                "ClusterIP", "Inside the cluster alone. From outside: an Ingress with TLS, or `kubectl port-forward`."
            ),
            "selector": labels_of(request, "router"),
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
