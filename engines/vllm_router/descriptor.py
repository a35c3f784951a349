"""What vllm-router is and can do. From 0.1.17 as installed: its flags, its log, and its answers before llama.cpp.

It asks for no key unless it is told of a server that judges keys: then it asks that one for every request, on every
route. Ours stands beside it. It passes on the key that it was asked with: all of a fleet's replicas have one key.
"""

from engines.api import Descriptor, EngineFamily, Route, WorkerRoutes
from engines.attached.descriptor import DESCRIPTOR as ENDPOINT

DESCRIPTOR = Descriptor(
    id="vllm-router",
    name="vllm-router",
    licence="Apache-2.0",
    homepage="https://pypi.org/project/vllm-router/",
    family=EngineFamily.ROUTER,
    formats=ENDPOINT.formats,
    modalities=frozenset({"text"}),
    routes={Route.CHAT: "/chat/completions", Route.COMPLETIONS: "/completions"},
    features=ENDPOINT.features,
    platforms=frozenset({"linux"}),
    accelerators=("cpu",),
    closes_after_stream=True,  # what its replicas do is not known
    has_helpers=True,
    worker_routes=WorkerRoutes(
        listing="/workers",
        addition="/add_worker?url={url}",
        removal="/remove_worker?url={url}",
        removes_by="POST",
    ),
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026, in front of three llama.cpp replicas and two of "
        "vLLM that Roundhouse started: chats, whole and streamed, one replica drained and put back, and one killed, "
        "while they went on."
    ),
    unverified=(
        "Not run with replicas of SGLang, with KV events, over TLS, on Arm, or with prefill and decode apart. Its "
        "metrics are on a second port of this computer alone, without a key; reading them was tried with a played "
        "router."
    ),
)
