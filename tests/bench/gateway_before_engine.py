"""The gateway's whole request path before an engine that already runs, so that only the proxying is measured.

python -m tests.bench.gateway_before_engine PORT ENGINE_URL ENGINE_KEY [COLLECTOR_URL]

All but the engine's process is as it always is: the supervisor watches it as it watches an endpoint somebody else runs.
"""

import asyncio
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from app.config.open_files import raise_open_file_limit
from app.config.paths import Paths
from app.gateway.instance import bind
from app.gateway.loading.launch import policy_from
from app.gateway.main import open_runner
from app.gateway.runtime import leave_start_up_out_of_collections, run
from app.gateway.services import Limits, Services
from app.supervisor.pool import Supervisor, SupervisorFolders
from app.supervisor.readiness import EngineEndpoint
from app.supervisor.remote import list_remote_models
from engines.api import EngineInstallation, LaunchOptions, LaunchPlan, ListenOptions, ModelSource, Readiness, ReadyWhen
from engines.attached.launch import AttachedAdapter
from tests.gateway.played import Upstream, played_services

SLOTS = 1024


class Running(AttachedAdapter):
    """Takes every model to be the one that the engine already serves."""

    def __init__(self, engine: EngineEndpoint, key_file: Path) -> None:
        self._engine, self._key_file = engine, key_file

    def plan(
        self,
        model: ModelSource,  # noqa: ARG002 -- the contract's
        options: LaunchOptions,
        net: ListenOptions,  # noqa: ARG002 -- the contract's
        installation: EngineInstallation,  # noqa: ARG002 -- the contract's
    ) -> LaunchPlan:
        """Say where it is."""
        return LaunchPlan(
            processes=(),
            base_url=self._engine.base_url,
            served_name=self._engine.served_name,
            readiness=Readiness(when=ReadyWhen.MODEL_LISTED, path="/v1/models", interval_s=60.0, stall_s=60.0),
            key_file=self._key_file,
            context=options.context,
            slots=SLOTS,
        )


async def supervise_services(services: Services, folder: Path, upstream: Upstream) -> Services:
    """Return the services with the real supervisor before the engine."""
    unknown = EngineEndpoint(base_url=upstream.url, key=upstream.key, served_name="")
    engine = EngineEndpoint(
        base_url=upstream.url, key=upstream.key, served_name=(await list_remote_models(unknown, "/v1/models"))[0].id
    )
    key_file = folder / "key"
    key_file.write_text(upstream.key)
    supervisor = Supervisor(
        {"llama.cpp": Running(engine, key_file)},
        SupervisorFolders(records=folder / "records", logs=folder / "logs", scratch=folder / "scratch"),
        policy_from(services.settings),
        services.events.publish,
    )
    return replace(services, supervisor=supervisor)


async def serve(port: int, folder: Path, upstream: Upstream, environ: dict[str, str]) -> None:
    paths = Paths(config=folder, data=folder, state=folder, logs=folder)
    services = await supervise_services(await played_services(paths, environ, Limits(), upstream), folder, upstream)
    stop_event = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop_event.set)
    runner = await open_runner(services, bind("127.0.0.1", port, tries=1))
    leave_start_up_out_of_collections()
    await stop_event.wait()
    await runner.cleanup()
    await services.supervisor.close()


if __name__ == "__main__":
    raise_open_file_limit()
    with tempfile.TemporaryDirectory() as home:
        settings = dict(zip(("ROUNDHOUSE_TRACES_ENDPOINT",), sys.argv[4:], strict=False))
        run(serve(int(sys.argv[1]), Path(home), Upstream(url=sys.argv[2], key=sys.argv[3]), settings))
