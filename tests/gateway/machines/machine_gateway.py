"""A gateway over fake engines that can attach endpoints too, as a program: what paired machines are tested with."""

import os
import sys

from app.gateway.main import main
from engines.registry import ADAPTERS
from tests.fake_engine.adapter import FakeAdapter
from tests.fake_engine.behaviour import Behaviour
from tests.gateway.admin.real_gateway import BEHAVIOURS
from tests.known_machine import share_machine

if __name__ == "__main__":
    assert os.environ["ROUNDHOUSE_HOME"]
    share_machine()
    fake = FakeAdapter(BEHAVIOURS | {"shared": Behaviour(echoes=True)}, has_lifeline=True)
    sys.exit(main([], adapters={"fake": fake, "attached": ADAPTERS["attached"]}))
