"""MLX-LM's own server, made fit to stand behind a gateway: `python -m engines.mlx_lm.worker`.

As it comes it has no key, loads or downloads whatever model a request names, says it is well while it loads and for
ever after a failed load, answers any fault with 404, and goes on generating for a client that has gone. Its handler of
requests is wrapped, not copied (see `handler`), and a failed load ends the process.
"""

import importlib
import os
import socket
import sys
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any, NoReturn

from engines import worker_base
from engines.mlx_lm.batches import install_batches, look_after_each_step
from engines.mlx_lm.handler import GuardedHandler, is_loaded

WITHOUT_LIMIT = 1 << 20
"""For --max-tokens where no context is set: its default of 512 would cut answers short."""
OPENS_PORT = "_run_http_server"
"""The function of mlx_lm.server that opens the port: the one seam where another handler can be put in."""
POLL_S = 0.05
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(serve_mlx_lm)


def serve_mlx_lm(launch: worker_base.WorkerLaunch) -> None:
    """Load and answer until ended. Raises ImportError without mlx_lm, RuntimeError when it does not load."""
    worker_base.emit("progress", stage="Starting MLX-LM")
    os.environ.update(_OFFLINE)
    server = importlib.import_module("mlx_lm.server")
    sys.argv = ["mlx_lm.server", *build_arguments(launch.config)]
    setattr(server, OPENS_PORT, make_runner(server, launch))
    install_batches(server)
    server.main()


def build_arguments(config: dict[str, Any]) -> list[str]:
    """Return the command line of mlx_lm.server: what Roundhouse decides, then what the options came to."""
    return [
        *("--model", str(config["model"]), "--host", str(config["host"]), "--port", str(config["port"])),
        *("--max-tokens", str(config["context"] or WITHOUT_LIMIT), "--allowed-origins", "https://nobody.invalid"),
        *(str(argument) for argument in config["arguments"]),
    ]


def make_runner(server: Any, launch: worker_base.WorkerLaunch) -> Callable[..., None]:  # noqa: ANN401 -- mlx_lm has no types here
    """Return what takes the place of the function that opens the port."""

    def run(host: str, port: int, response_generator: Any, *_unused: object) -> None:  # noqa: ANN401 -- as above
        look_after_each_step(response_generator)
        watcher = threading.Thread(target=_until_loaded, args=(response_generator,), daemon=True)
        watcher.start()
        handler = handler_class(server, launch)
        fingerprint = server.get_system_fingerprint()

        def handle(*given: Any) -> Any:  # noqa: ANN401 -- socketserver's own arguments
            return handler(response_generator, *given, system_fingerprint=fingerprint)

        ThreadingHTTPServer.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        httpd = _open_server(host, port, handle)
        worker_base.emit("listening", port=httpd.server_port)
        httpd.serve_forever()

    return run


def _open_server(host: str, port: int, handle: Callable[..., Any]) -> ThreadingHTTPServer:
    """Return the server with its port open. A taken port ends the process: mlx_lm's threads would keep it alive."""
    try:
        return ThreadingHTTPServer((host, port), handle)
    except OSError as error:
        _end_now(f"{type(error).__name__}: {error}\n")


def _until_loaded(generator: Any) -> None:  # noqa: ANN401 -- mlx_lm has no types here
    """Tell when the model is loaded; end the process when its thread died, which it would survive as a shell."""
    worker_base.emit("progress", stage="Reading weights")
    is_told = False
    while generator.generation_available():
        if not is_told and is_loaded(generator):
            is_told = True
            worker_base.emit("ready")
        threading.Event().wait(POLL_S)
    _end_now("")


def _end_now(message: str) -> NoReturn:
    sys.stderr.write(message)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(worker_base.ExitCode.REFUSED)


def handler_class(server: Any, launch: worker_base.WorkerLaunch) -> type:  # noqa: ANN401 -- as above
    """Return mlx_lm's request handler with ours before it."""
    values = {"key": launch.key, "served_name": str(launch.config["name"]), "context": launch.config["context"]}
    return type("Handler", (GuardedHandler, server.APIHandler), values)


if __name__ == "__main__":
    main()
