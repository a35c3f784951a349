"""What a running router has as its replicas, and telling it of others: it goes on with the requests that it has."""

import logging
from collections.abc import Collection
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from app.supervisor.lease import ReadyEndpoint
from app.supervisor.readiness import OK, EngineEndpoint
from engines.api import WorkerRoutes

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""Some routers look at a replica before they answer."""


class RouterWorker(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as its router lists it."""

    url: str
    id: str = ""
    load: int | None = None
    is_healthy: bool | None = None


class _WorkerList(msgspec.Struct, frozen=True):
    workers: list[RouterWorker]


class RouterAdmin:
    """A router that runs."""

    def __init__(self, router: ReadyEndpoint, routes: WorkerRoutes) -> None:
        self._root = EngineEndpoint(
            base_url=urlunsplit((*urlsplit(router.base_url)[:2], "", "", "")), key=router.key, served_name=""
        )
        self._routes = routes

    async def list_workers(self) -> list[RouterWorker]:
        """Return its replicas. Raises OSError or ValueError."""
        reply = await self._root.send_request("GET", self._routes.listing, timeout_s=_PATIENCE_S)
        if reply.status != OK:
            raise ValueError(f"it answers {reply.status}")
        return msgspec.json.decode(reply.body, type=_WorkerList).workers

    async def keep_workers(self, urls: Collection[str]) -> list[RouterWorker]:
        """Have it choose among these replicas alone, and return what it had. Raises OSError or ValueError."""
        present = await self.list_workers()
        for url in urls:
            if all(worker.url != url for worker in present):
                await self._post(self._routes.addition, url)
        for worker in present:
            if worker.url not in urls:
                await self._remove(worker)
        return present

    async def _post(self, path: str, url: str) -> None:
        body = msgspec.json.encode({"url": url, "api_key": self._root.key})
        reply = await self._root.send_request(
            "POST", path.format(url=quote(url, safe="")), body=body, timeout_s=_PATIENCE_S
        )
        log.info("The router was told to add %s and answers %s", url, reply.status)

    async def _remove(self, worker: RouterWorker) -> None:
        path = self._routes.removal.format(url=quote(worker.url, safe=""), id=quote(worker.id, safe=""))
        reply = await self._root.send_request(self._routes.removes_by, path, timeout_s=_PATIENCE_S)
        log.info("The router was told to remove %s and answers %s", worker.url, reply.status)
