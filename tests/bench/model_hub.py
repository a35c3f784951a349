"""A hub with one model of a size, not kept in Xet, its hashes known before anybody asks.

python -m tests.bench.model_hub PORT BYTES
"""

import random
import sys
import threading

from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub


def main(port: int, size: int) -> None:
    content = random.Random(port).randbytes(size)  # noqa: S311 -- bytes to send
    hub = FakeHub()
    repository = hub.add("bench/model", {"model-Q4_K_M.gguf": content})
    for file in repository.files("main"):
        file.describe_file()
    with serve_hub(hub, port):
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
