"""Content put into the fake storage by the real client, in a process of its own: it has threads, and a log.

`python -m tests.fake_hub.uploading ENDPOINT` uploads what comes on standard input and prints its Xet hash.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.fake_hub.cas import FakeCas
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub

_ROOT = Path(__file__).resolve().parents[2]


def keep_in_xet(hub: FakeHub, content: bytes) -> None:
    """Have a hub keep content in Xet, wherever it is found in its repositories."""
    hub.cas.take_from(_upload_content(content))


@cache
def _upload_content(content: bytes) -> FakeCas:
    with serve_hub(FakeHub()) as hub, tempfile.TemporaryDirectory() as folder:
        quiet = {**os.environ, "HF_XET_LOG_DEST": os.devnull, "HF_XET_CACHE": folder, "HF_HUB_DISABLE_TELEMETRY": "1"}
        argv = [sys.executable, "-m", "tests.fake_hub.uploading", hub.cas.address]
        result = subprocess.run(argv, input=content, capture_output=True, env=quiet, cwd=_ROOT, check=True)
        hub.cas.xet_hashes[hashlib.sha256(content).hexdigest()] = result.stdout.decode().strip()
        return hub.cas


def forget_uploads() -> None:
    """Let go of what was uploaded, dozens of MB."""
    _upload_content.cache_clear()


def main() -> None:
    import hf_xet  # noqa: PLC0415 -- only here

    commit = hf_xet.XetSession().new_upload_commit(
        endpoint=sys.argv[1], token="any", token_expiry_unix_secs=4_000_000_000
    )
    upload = commit.start_upload_bytes(sys.stdin.buffer.read())
    commit.wait_to_finish()
    sys.stdout.write(upload.result().xet_info.hash)


if __name__ == "__main__":
    main()
