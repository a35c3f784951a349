"""The gateway's whole request path before an engine that already runs, so that only the proxying is measured.

python -m tests.bench.gateway_before_engine PORT ENGINE_URL ENGINE_KEY

All but the engine's process is as it always is: the supervisor watches it as it watches an endpoint somebody else runs.
"""

import asyncio
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from app.config.open_files import allow_many
from app.config.paths import Paths
from app.gateway.instance import bind
from app.gateway.loading.launch import policy_from
from app.gateway.main import opened
from app.gateway.runtime import leave_start_up_out_of_collections, run
from app.gateway.services import Limits, Services
from app.supervisor.pool import Folders, Supervisor
from app.supervisor.readiness import Endpoint
from app.supervisor.remote import models_at
from engines.api import Installation, LaunchOptions, LaunchPlan, ModelSource, Net, Readiness, ReadyWhen
from engines.attached.launch import Attached
from tests.gateway.played import Upstream, played_services

SLOTS = 1024


class Running(Attached):
    """Takes every model to be the one that the engine already serves."""

    def __init__(self, engine: Endpoint, key_file: Path) -> None:
        self._engine, self._key_file = engine, key_file

    def plan(self, model: ModelSource, options: LaunchOptions, net: Net, found: Installation) -> LaunchPlan:  # noqa: ARG002 -- the contract's
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


async def supervised(services: Services, folder: Path, upstream: Upstream) -> Services:
    """Return the services with the real supervisor before the engine."""
    unknown = Endpoint(base_url=upstream.url, key=upstream.key, served_name="")
    engine = Endpoint(
        base_url=upstream.url, key=upstream.key, served_name=(await models_at(unknown, "/v1/models"))[0].id
    )
    key_file = folder / "key"
    key_file.write_text(upstream.key)
    supervisor = Supervisor(
        {"llama.cpp": Running(engine, key_file)},
        Folders(records=folder / "records", logs=folder / "logs", scratch=folder / "scratch"),
        policy_from(services.settings),
        services.events.publish,
    )
    return replace(services, supervisor=supervisor)


async def serve(port: int, folder: Path, upstream: Upstream) -> None:
    paths = Paths(config=folder, data=folder, state=folder, logs=folder)
    services = await supervised(await played_services(paths, {}, Limits(), upstream), folder, upstream)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    runner = await opened(services, bind("127.0.0.1", port, tries=1))
    leave_start_up_out_of_collections()
    await stopped.wait()
    await runner.cleanup()
    await services.supervisor.close()


if __name__ == "__main__":
    allow_many()
    with tempfile.TemporaryDirectory() as home:
        run(serve(int(sys.argv[1]), Path(home), Upstream(url=sys.argv[2], key=sys.argv[3])))
