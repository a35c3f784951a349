"""vllm-router's adapter: one process that `engines.vllm_router.worker` starts, so that no key stands in argv."""

from engines.api import FailureKind
from engines.clues import compile_clues
from engines.log_lines import stage_row
from engines.router_adapter import RouterAdapter, router_failures
from engines.vllm_router.descriptor import DESCRIPTOR

_K = FailureKind

ADAPTER = RouterAdapter(
    descriptor=DESCRIPTOR,
    worker="engines.vllm_router.worker",
    policies=frozenset({"cache_aware", "round_robin", "random", "power_of_two", "consistent_hash"}),
    reader=router_failures(
        DESCRIPTOR.name,
        compile_clues(
            (_K.PORT_IN_USE, (r"Address already in use",)),
            (_K.STALLED, (r"none of the replicas answers",)),
        ),
    ),
    log=(stage_row(r"Waiting for \d+ unique hosts", "Looking for replicas"), stage_row(r"Router ready ", "Ready")),
)
