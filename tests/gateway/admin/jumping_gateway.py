"""The gateway of `real_gateway`, whose clocks jump by what the file named in `ROUNDHOUSE_TEST_CLOCKS` says.

Two numbers, in seconds: for the time of day and for the monotonic clock, which on Windows counts while a computer
sleeps. The real clocks cannot be set: other programs live by them.
"""

import os
import sys
import time
from pathlib import Path

VARIABLE = "ROUNDHOUSE_TEST_CLOCKS"

_wall, _steady = time.time, time.monotonic


def _offsets() -> list[float]:
    return [float(word) for word in Path(os.environ[VARIABLE]).read_text(encoding="ascii").split()]


if __name__ == "__main__":
    time.time = lambda: _wall() + _offsets()[0]
    time.monotonic = lambda: _steady() + _offsets()[1]
    # Only now: a function may be a default of something that is imported.
    from app.gateway.main import main
    from tests.fake_engine.adapter import FakeAdapter
    from tests.gateway.admin.real_gateway import BEHAVIOURS
    from tests.known_machine import share_machine

    assert os.environ["ROUNDHOUSE_HOME"]
    share_machine()
    sys.exit(main([], adapters={"fake": FakeAdapter(BEHAVIOURS, has_lifeline=True)}))
