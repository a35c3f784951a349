"""The gateway's whole request path before an engine that already runs, so that only the proxying is measured.

python -m tests.perf.gateway_before_engine PORT ENGINE_URL ENGINE_KEY
"""

import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from app.config.open_files import allow_many
from app.config.paths import Paths
from app.gateway.listen import bind
from app.gateway.main import leave_start_up_out_of_collections, opened
from app.gateway.services import Limits
from tests.gateway.played import Upstream, played_services


async def serve(port: int, folder: Path, upstream: Upstream) -> None:
    paths = Paths(config=folder, data=folder, state=folder, logs=folder)
    services = await played_services(paths, {}, Limits(), upstream)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    runner = await opened(services, bind("127.0.0.1", port, tries=1))
    leave_start_up_out_of_collections()
    await stopped.wait()
    await runner.cleanup()


if __name__ == "__main__":
    allow_many()
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(serve(int(sys.argv[1]), Path(home), Upstream(url=sys.argv[2], key=sys.argv[3])))
