"""A hub that keeps four files in Xet, and serves them over plain HTTP as well.

python -m tests.bench.xet_hub PORT MEBIBYTES
"""

import random
import sys
import threading

from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.fake_hub.uploading import keep_in_xet

FILES = 4


def main(port: int, mebibytes: int) -> None:
    luck = random.Random(port)  # noqa: S311 -- bytes to send
    files = {f"model-{number}.gguf": luck.randbytes(mebibytes << 20) for number in range(FILES)}
    hub = FakeHub()
    hub.add("bench/model", files)
    for content in files.values():
        keep_in_xet(hub, content)
    with serve_hub(hub, port):
        threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
