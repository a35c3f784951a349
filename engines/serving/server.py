"""A worker's life: listen, load while telling how far it is, answer, and end when asked to."""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from engines import worker_base
from engines.serving.backend import Backend, Loaded
from engines.serving.http import Connection
from engines.serving.metrics import Metrics
from engines.serving.routes import Model, Routes
from engines.serving.scheduler import Scheduler
from engines.serving.templates import Template

GRACE_S = 5.0
"""How long answers may take to their end once the worker was asked to stop; the gateway has drained by then."""
_BACKLOG = 512


def serve(launch: worker_base.Launch, make: Callable[[], Backend]) -> None:
    """Serve what `make` returns until told to end. Raises as `worker_base.run` expects it of a worker."""
    asyncio.run(_Server(launch).run(make()))


class _Server:
    def __init__(self, launch: worker_base.Launch) -> None:
        self._config = launch.config
        self._metrics = Metrics()
        self._routes = Routes(launch.key, self._metrics)
        self._connections: set[Connection] = set()

    async def run(self, backend: Backend) -> None:
        listener = await self._listen()
        try:
            worker_base.emit("listening", port=listener.sockets[0].getsockname()[1])
            await self._serve(backend)
        finally:
            listener.close()
            for connection in list(self._connections):
                connection.close()

    async def _serve(self, backend: Backend) -> None:
        loaded, template = await asyncio.to_thread(self._load, backend)
        scheduler = Scheduler(backend, slots=loaded.slots, metrics=self._metrics)
        self._metrics.cache = backend.cache_use
        usual = self._config.get("usual_sampling")
        model = Model(str(self._config["alias"]), backend, loaded, scheduler, template)
        model.usual = usual if isinstance(usual, dict) else {}
        self._routes.model = model
        self._stop_on_signals()
        worker_base.emit("device", name=loaded.device, description=loaded.device_name)
        worker_base.emit("context", tokens=loaded.context, slots=loaded.slots)
        worker_base.emit("progress", stage="Ready", fraction=1.0)
        await self._until_stopped(scheduler)

    async def _listen(self) -> asyncio.Server:
        host, port = str(self._config["host"]), self._config["port"]
        if not isinstance(port, int):
            raise TypeError("the port is no number")
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: Connection(self._routes.handle, self._connections), host, port, backlog=_BACKLOG
            )
        except OSError as error:
            raise RuntimeError(f"couldn't bind HTTP server socket, hostname: {host}, port: {port}: {error}") from error

    def _load(self, backend: Backend) -> tuple[Loaded, Template | None]:
        """Load on a thread of its own, which the library may keep for minutes."""
        loaded = backend.load(self._config, self._tell)
        override = self._config.get("chat_template")
        text = override if isinstance(override, str) else loaded.chat_template
        return loaded, Template(text, loaded.specials) if text else None

    def _tell(self, stage: str, fraction: float | None = None) -> None:
        self._routes.stage, self._routes.fraction = stage, fraction
        worker_base.emit("progress", stage=stage, fraction=fraction)

    def _stop_on_signals(self) -> None:
        """From now on end in good order; while loading, a signal ends the process at once (see `worker_base`)."""
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._routes.stop.set)

    async def _until_stopped(self, scheduler: Scheduler) -> None:
        """Compute until a stop is asked for and nobody waits, or the grace is over. Raises what the library raises."""
        computing = asyncio.create_task(scheduler.run())
        stopped = asyncio.create_task(self._stopped(scheduler))
        try:
            await asyncio.wait({computing, stopped}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # what was last said is still to be sent
            if computing.done():
                computing.result()
        finally:
            computing.cancel()
            stopped.cancel()

    async def _stopped(self, scheduler: Scheduler) -> None:
        await self._routes.stop.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(scheduler.drained(), GRACE_S)
