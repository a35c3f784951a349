"""The gateway as a command meets it: found, or started first and said so."""

from app.cli.output import print_note
from app.client.discovery import ensure_gateway, find_running_gateway
from app.client.http import GatewayClient
from app.config.paths import default_paths
from app.core.api import Status
from app.core.errors import GatewayGone


def connect_gateway() -> GatewayClient:
    """Return a client of the running gateway, starting one if there is none."""
    paths = default_paths()
    gateway = find_running_gateway(paths)
    if gateway is None:
        print_note("Starting Roundhouse's service ...")
        gateway = ensure_gateway(paths)
        notice = GatewayClient(gateway).get("/status", Status).notice
        if notice:
            print_note(notice)
    return GatewayClient(gateway)


def connect_running() -> GatewayClient:
    """Return a client of the running gateway. Raises GatewayGone when there is none."""
    gateway = find_running_gateway(default_paths())
    if gateway is None:
        raise GatewayGone("Roundhouse's service is not running.", hint="`roundhouse up` starts it.")
    return GatewayClient(gateway)
