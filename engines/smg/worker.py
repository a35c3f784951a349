"""Runs smg inside its own environment: its key comes by the environment, and it ends with us.

Started by its own command it would have its key in argv, for every user of the computer to read.
"""

import socket
from importlib import import_module
from typing import Any

from engines import worker_base

HEALTH_S = 2
"""Between two looks at a replica, and for how long one may take: what was lost is noticed after three of them."""
GRACE_S = 10
"""For answers that are being written when it is told to end."""
WEEK_S = 7 * 24 * 3600
"""A long answer is nobody's fault: the gateway in front ends what is too long."""
SETTINGS: dict[str, object] = {
    "history_backend": "none",
    "disable_tokenizer_autoload": True,
    "request_timeout_secs": WEEK_S,
    "log_json": True,
}
"""What it is told wherever it runs: to keep no conversations, and to need nothing of the model."""


def serve(launch: worker_base.WorkerLaunch) -> None:
    """Start the router and return when it ended."""
    module: Any = import_module("smg.launch_router")
    arguments: Any = import_module("smg.router_args")
    worker_base.emit("progress", stage="Starting", fraction=None)
    settings = build_arguments(launch)
    worker_base.emit("metrics", port=settings["prometheus_port"])
    module.launch_router(arguments.RouterArgs(**settings))


def build_arguments(launch: worker_base.WorkerLaunch) -> dict[str, object]:
    """Return smg's own names for what it is told.

    Its circuit breakers stay as they are. The key is asked of whoever calls it, and of whoever changes its replicas.
    """
    return {
        "host": launch.config["host"],
        "port": launch.config["port"],
        "policy": launch.config["policy"],
        "worker_urls": launch.config["replicas"],
        "api_key": launch.key,
        "control_plane_api_keys": [("gateway", "gateway", launch.key, "admin")],
        "prometheus_host": launch.config["host"],
        "prometheus_port": find_free_port(str(launch.config["host"])),
        "health_check_interval_secs": HEALTH_S,
        "health_check_timeout_secs": HEALTH_S,
        "shutdown_grace_period_secs": GRACE_S,
        **SETTINGS,
    }


def find_free_port(host: str) -> int:
    """Return a port for its metrics, which it always serves: on port 29000 of every address, unless told otherwise."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    worker_base.run(serve)
