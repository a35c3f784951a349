"""What smg is and can do. From 1.13.0 as installed: its flags, its log, and its answers in front of llama.cpp.

With a key of its own it passes on the key that it was asked with, whatever it knows of the replica: all of a fleet's
replicas therefore have one key. Its mode for OpenAI's backend is not used, since workers cannot be changed in it.
"""

from engines.api import Descriptor, EngineFamily, Route, WorkerRoutes
from engines.attached.descriptor import DESCRIPTOR as ENDPOINT

DESCRIPTOR = Descriptor(
    id="smg",
    name="smg",
    licence="Apache-2.0",
    homepage="https://pypi.org/project/smg/",
    family=EngineFamily.ROUTER,
    formats=ENDPOINT.formats,
    modalities=frozenset({"text"}),
    routes={Route.CHAT: "/chat/completions", Route.COMPLETIONS: "/completions"},
    features=ENDPOINT.features,
    platforms=frozenset({"linux"}),
    accelerators=("cpu",),
    closes_after_stream=True,  # what its replicas do is not known
    has_helpers=True,
    worker_routes=WorkerRoutes(listing="/workers", addition="/workers", removal="/workers/{id}"),
    verified=(
        "Run for real on Linux x86-64 on the CPU in November 2026, in front of two and three llama.cpp replicas with "
        "one key, and of two of vLLM: chat and completions, whole and streamed, a replica that was down at first and "
        "came later, one that was killed, one drained, and its metrics."
    ),
    unverified=(
        "Not run with replicas of SGLang, over TLS, on Arm, or with prefill and decode apart. Its metrics are on a "
        "second port of this computer alone, without a key, and name no prompts."
    ),
)
