"""A worker's life: listen, load while telling how far it is, answer, and end when asked to."""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from engines import worker_base
from engines.serving.backend import LoadResult, WorkerBackend
from engines.serving.http import WorkerConnection
from engines.serving.metrics import WorkerMetrics
from engines.serving.routes import ServedModel, WorkerRoutes
from engines.serving.scheduler import Scheduler
from engines.serving.templates import ChatTemplate

GRACE_S = 5.0
"""How long answers may take to their end once the worker was asked to stop; the gateway has drained by then."""
_BACKLOG = 512


def serve_backend(launch: worker_base.WorkerLaunch, make: Callable[[], WorkerBackend]) -> None:
    """Serve what `make` returns until told to end. Raises as `worker_base.run` expects it of a worker."""
    asyncio.run(_Server(launch).run(make()))


class _Server:
    def __init__(self, launch: worker_base.WorkerLaunch) -> None:
        self._config = launch.config
        self._metrics = WorkerMetrics()
        self._routes = WorkerRoutes(launch.key, self._metrics)
        self._connections: set[WorkerConnection] = set()

    async def run(self, backend: WorkerBackend) -> None:
        listener = await self._listen()
        try:
            worker_base.emit("listening", port=listener.sockets[0].getsockname()[1])
            await self._serve(backend)
        finally:
            listener.close()
            for connection in list(self._connections):
                connection.close()

    async def _serve(self, backend: WorkerBackend) -> None:
        loaded_model, template = await asyncio.to_thread(self._load, backend)
        scheduler = Scheduler(backend, slots=loaded_model.slots, metrics=self._metrics, gather_s=loaded_model.gather_s)
        self._metrics.cache = backend.cache_use
        usual = self._config.get("usual_sampling")
        model = ServedModel(str(self._config["alias"]), backend, loaded_model, scheduler, template)
        model.usual = usual if isinstance(usual, dict) else {}
        self._routes.model = model
        self._stop_on_signals()
        worker_base.emit("device", name=loaded_model.device, description=loaded_model.device_name)
        worker_base.emit("context", tokens=loaded_model.context, slots=loaded_model.slots)
        worker_base.emit("progress", stage="Ready", fraction=1.0)
        await self._run_until_stopped(scheduler)

    async def _listen(self) -> asyncio.Server:
        host, port = str(self._config["host"]), self._config["port"]
        if not isinstance(port, int):
            raise TypeError("the port is no number")
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: WorkerConnection(self._routes.handle_request, self._connections), host, port, backlog=_BACKLOG
            )
        except OSError as error:
            raise RuntimeError(f"couldn't bind HTTP server socket, hostname: {host}, port: {port}: {error}") from error

    def _load(self, backend: WorkerBackend) -> tuple[LoadResult, ChatTemplate | None]:
        """Load on a thread of its own, which the library may keep for minutes."""
        loaded_model = backend.load(self._config, self._report_progress)
        override = self._config.get("chat_template")
        text = override if isinstance(override, str) else loaded_model.chat_template
        return loaded_model, ChatTemplate(text, loaded_model.specials) if text else None

    def _report_progress(self, stage: str, fraction: float | None = None) -> None:
        self._routes.stage, self._routes.fraction = stage, fraction
        worker_base.emit("progress", stage=stage, fraction=fraction)

    def _stop_on_signals(self) -> None:
        """From now on end in good order; while loading, a signal ends the process at once (see `worker_base`)."""
        if sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._routes.stop.set)

    async def _run_until_stopped(self, scheduler: Scheduler) -> None:
        """Compute until a stop is asked for and nobody waits, or the grace is over. Raises what the library raises."""
        compute_task = asyncio.create_task(scheduler.run())
        stop_wait = asyncio.create_task(self._wait_for_stop(scheduler))
        try:
            await asyncio.wait({compute_task, stop_wait}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # what was last said is still to be sent
            if compute_task.done():
                compute_task.result()
        finally:
            compute_task.cancel()
            stop_wait.cancel()

    async def _wait_for_stop(self, scheduler: Scheduler) -> None:
        await self._routes.stop.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(scheduler.wait_until_idle(), GRACE_S)
