"""Repositories whose terms must be accepted first: told before anything is queued, with what to accept and where.

Blocks; call it from a thread.
"""

from app.core.connections import ConnectionReason, Purpose
from app.core.errors import Forbidden, Unauthorized
from app.hub.repositories.ranges import ReadBudget, RemoteHost
from app.hub.repositories.repository import Repository, resolve_address

_TOKEN = "`roundhouse token set`"  # noqa: S105 -- a command


def repository_page(endpoint: str, name: str) -> str:
    """Return a repository's page for people."""
    return f"{endpoint.rstrip('/')}/{name}"


def what_to_do(endpoint: str, name: str, *, has_token: bool) -> str:
    """Return what opens a gated repository, in a sentence."""
    accept = f"Open {repository_page(endpoint, name)}, sign in and accept its terms"
    if has_token:
        return f"{accept} with the account your token belongs to; some publishers approve each request by hand."
    return f"{accept}; then create a read token at {endpoint.rstrip('/')}/settings/tokens and give it to {_TOKEN}."


def check_gate(endpoint: str, repository: Repository, path: str, *, token: str = "") -> None:
    """Ask for a byte of a file of a gated repository. Raises Forbidden (hub_gated) with what to do."""
    if not repository.gated:
        return
    remote = RemoteHost(
        endpoint, Purpose(why=ConnectionReason.MODEL, about=repository.name), token=token, budget=ReadBudget()
    )
    address = resolve_address(endpoint, repository.name, repository.commit, path)
    try:
        remote.open_address(address, {"Range": "bytes=0-0"}).close()
    except (Unauthorized, Forbidden):
        raise Forbidden(
            f"{repository.name} is gated: its terms must be accepted first.",
            hint=what_to_do(endpoint, repository.name, has_token=bool(token)),
            code="hub_gated",
        ) from None
