"""A gateway on a real socket, in front of an engine that the test plays itself: those of `tests/gateway`."""

from tests.gateway.conftest import (  # noqa: F401 -- fixtures
    environ,
    gateway,
    limits,
    paths,
    services,
    unreachable_hub,
    upstream,
)
