"""ExLlamaV2 or ExLlamaV3 in a process of its own: `python -m engines.exllama.worker`."""

from collections.abc import Mapping

from engines import worker_base
from engines.exllama.backend import ExllamaBackend
from engines.exllama.backend2 import Exl2Backend
from engines.exllama.backend3 import Exl3Backend
from engines.serving.server import serve_backend

_BACKENDS: Mapping[str, type[ExllamaBackend]] = {backend.name: backend for backend in (Exl2Backend, Exl3Backend)}


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(lambda launch: serve_backend(launch, _BACKENDS[str(launch.config["library"])]))


if __name__ == "__main__":
    main()
