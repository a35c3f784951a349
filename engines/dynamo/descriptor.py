"""What NVIDIA Dynamo is and can do. From the wheels of 1.6.1 and its documentation."""

from engines.api import Descriptor, Family, Feature, Gauge, Route
from engines.vllm.descriptor import DESCRIPTOR as VLLM

DESCRIPTOR = Descriptor(
    id="dynamo",
    name="NVIDIA Dynamo",
    licence="Apache-2.0",
    homepage="https://github.com/ai-dynamo/dynamo",
    family=Family.VENV_CLI,
    formats=VLLM.formats,
    modalities=frozenset({"text"}),
    routes={
        Route.CHAT: "/v1/chat/completions",
        Route.COMPLETIONS: "/v1/completions",
        Route.EMBEDDINGS: "/v1/embeddings",
        Route.RESPONSES: "/v1/responses",
        Route.MESSAGES: "/v1/messages",
    },
    features=VLLM.features - {Feature.API_KEY, Feature.SLEEP, Feature.VISION},
    platforms=frozenset({"linux"}),
    accelerators=("cuda",),
    metrics_path="/metrics",
    metrics={
        Gauge.RUNNING: "dynamo_frontend_inflight_requests",
        Gauge.WAITING: "dynamo_frontend_queued_requests",
    },
    verified=(
        "Its command lines are held against reviewed ones; its frontend and worker are played under the supervisor, "
        "with their log lines and ends. Its lock resolves; nobody here has installed it."
    ),
    unverified=(
        "Never run with this adapter: it needs NVIDIA GPUs under Linux, and shows its worth in several computers. It "
        "has no access key: on the computer it runs on, every program can reach it."
    ),
)
