"""smg's adapter: one process that `engines.smg.worker` starts, so that no key stands on a command line."""

from collections.abc import Mapping, Sequence

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.log_lines import stage_row
from engines.router_adapter import USUAL, RouterAdapter, router_failures
from engines.smg.descriptor import DESCRIPTOR
from engines.smg.worker import SETTINGS

_K = FailureKind
POLICIES = frozenset({"cache_aware", "round_robin", "random", "power_of_two", "prefix_hash"})
"""Its ways of choosing a replica that need nothing beside the request."""
POLICY = USUAL
"""Which of them is taken where nobody says."""


def command_arguments(settings: Mapping[str, object]) -> tuple[str, ...]:
    """Return smg's command line where nothing of ours starts it, in a container: a flag for each of its own names."""
    return tuple(word for name, value in {**settings, **SETTINGS}.items() for word in _flag_words(name, value))


def _flag_words(name: str, value: object) -> Sequence[str]:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return (flag,)
    return (flag, *(value if isinstance(value, tuple) else (str(value),)))


ADAPTER = RouterAdapter(
    descriptor=DESCRIPTOR,
    worker="engines.smg.worker",
    policies=POLICIES,
    reader=router_failures(
        DESCRIPTOR.name,
        compile_clues(
            (_K.PORT_IN_USE, (r"failed to bind .{0,200}address already in use",)),
            (_K.BAD_FLAG, (r"Configuration error: Validation failed",)),
        ),
    ),
    log=(
        stage_row(r"Starting server on ", "Looking for replicas"),
        stage_row(r"Activated \d+ of \d+ worker", "Ready"),
    ),
)
