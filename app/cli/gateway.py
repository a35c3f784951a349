"""The gateway as a command meets it: found, or started first and said so."""

from app.cli.output import talk
from app.client.discovery import ensure_gateway, running_gateway
from app.client.http import Client
from app.config.paths import default_paths
from app.core.api import Status
from app.core.errors import GatewayGone


def connected() -> Client:
    """Return a client of the running gateway, starting one if there is none."""
    paths = default_paths()
    found = running_gateway(paths)
    if found is None:
        talk("Starting Roundhouse's service ...")
        found = ensure_gateway(paths)
        notice = Client(found).get("/status", Status).notice
        if notice:
            talk(notice)
    return Client(found)


def running() -> Client:
    """Return a client of the running gateway. Raises GatewayGone when there is none."""
    found = running_gateway(default_paths())
    if found is None:
        raise GatewayGone("Roundhouse's service is not running.", hint="`roundhouse up` starts it.")
    return Client(found)
