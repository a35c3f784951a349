"""ExLlamaV2 or ExLlamaV3 in a process of its own: `python -m engines.exllama.worker`."""

from collections.abc import Mapping

from engines import worker_base
from engines.exllama.backend import Exllama
from engines.exllama.backend2 import Exl2
from engines.exllama.backend3 import Exl3
from engines.serving.server import serve

_BACKENDS: Mapping[str, type[Exllama]] = {backend.name: backend for backend in (Exl2, Exl3)}


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(lambda launch: serve(launch, _BACKENDS[str(launch.config["library"])]))


if __name__ == "__main__":
    main()
