"""How long a search takes once the hub has answered it: cards with what each model would take on this machine.

The hub is played here, with a listing as the real one sends it: 20 well-known models, each in three repositories. What
is measured is a warm gateway over HTTP, as the window asks it; the hub is asked once.
"""

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from app.client.discovery import read_port_file
from app.client.http import GatewayClient
from app.core.hub import HubResults
from tests.bench.advice import median_s
from tests.bench.figures import BenchFigure, at_most, not_measured
from tests.bench.programs import start_program, wait_for
from tests.ports import free_port

NAME = "search to 20 cards with fit, metadata cached"
LIMIT_MS = 300.0
RUNS = 15
_MS = 1e3
_MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen3-1.7B",
    "Qwen/Qwen3-4B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen3-235B-A22B",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-Coder-14B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    "meta-llama/Llama-3.2-3B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "google/gemma-3-4b-it",
    "google/gemma-3-12b-it",
    "google/gemma-3-27b-it",
    "microsoft/phi-4",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
)
_GGUFS = ("BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q4_K_M", "Q4_K_S", "IQ4_XS", "Q3_K_L", "Q3_K_M", "Q2_K")


def measure() -> Sequence[BenchFigure]:
    """Return the median time of a search."""
    with _play_hub() as url, tempfile.TemporaryDirectory() as folder:
        environment = {
            "ROUNDHOUSE_HOME": folder,
            "ROUNDHOUSE_GATEWAY_PORT": str(port := free_port()),
            "HF_ENDPOINT": url,
        }
        with start_program("app.gateway", environment=environment) as child:
            wait_for(port, child)
            gateway = read_port_file(Path(folder) / "state" / "gateway.json")
            if gateway is None:
                return [not_measured(NAME, f"<= {LIMIT_MS:g} ms", "the gateway told no address")]
            client = GatewayClient(gateway, timeout_s=60)
            results = client.get("/hub/search?text=it", HubResults)
            if sum(card.fits is not None for card in results.cards) != len(_MODELS):
                return [not_measured(NAME, f"<= {LIMIT_MS:g} ms", "not every card says whether it fits")]
            seconds = median_s(lambda: client.get("/hub/search?text=it", HubResults), runs=RUNS)
    return [at_most(NAME, seconds * _MS, LIMIT_MS, "ms")]


@contextmanager
def _play_hub() -> Iterator[str]:
    """Play a hub that finds the same whatever it is asked; yield its address."""
    content = json.dumps([item for base in _MODELS for item in _items(base)]).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _items(base: str) -> Iterator[dict[str, object]]:
    name = base.rpartition("/")[2]
    tags = [f"base_model:{base}", f"base_model:quantized:{base}", "license:apache-2.0"]
    ggufs = [{"rfilename": f"{name}-{label}.gguf"} for label in _GGUFS]
    siblings = [{"rfilename": "model.safetensors"}, {"rfilename": "config.json"}]
    common = {"downloads": 1000, "likes": 10, "gated": False, "lastModified": "2026-10-01T00:00:00.000Z"}
    yield {"id": base, "siblings": siblings, "tags": ["license:apache-2.0"], **common}
    yield {"id": f"unsloth/{name}-GGUF", "siblings": ggufs, "tags": ["gguf", *tags], **common}
    yield {"id": f"mlx-community/{name}-4bit", "siblings": siblings, "tags": ["mlx", *tags], **common}
