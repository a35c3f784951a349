"""Count wrong keys per peer, in bounded memory, so that guessing gets slow and the log stays readable.

A right key always passes, whoever else tried wrong ones from the same address: keys are random and long, so a guess is
never right, while a household behind one address has more than one program.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

ALLOWED = 10
"""Wrong keys a peer may show within `WINDOW_S`; a person who pastes wrongly needs two or three."""
WINDOW_S = 60.0
MAX_PEERS = 4096
"""Those who tried least recently are forgotten first; a peer takes about 200 bytes."""
_V6_PREFIX = 64
"""A household has at least a /64 of IPv6: single addresses cost it nothing."""


@dataclass(slots=True)
class _Tally:
    began: float
    count: int


class Attempts:
    """Wrong keys by peer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tallies: OrderedDict[str, _Tally] = OrderedDict()

    def __len__(self) -> int:
        """Return how many peers are remembered."""
        return len(self._tallies)

    def note_wrong_key(self, peer: str) -> float:
        """Note a wrong key. Return for how many seconds this peer should wait; 0 while it may try on."""
        now, who = self._clock(), _network_of(peer)
        tally = self._tallies.pop(who, None)
        if tally is None or now - tally.began >= WINDOW_S:
            tally = _Tally(now, 0)
        tally.count += 1
        self._tallies[who] = tally
        if len(self._tallies) > MAX_PEERS:
            self._tallies.popitem(last=False)
        return tally.began + WINDOW_S - now if tally.count > ALLOWED else 0.0


def _network_of(peer: str) -> str:
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((address, _V6_PREFIX), strict=False))
    return str(address)
