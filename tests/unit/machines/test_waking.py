"""Wake-on-LAN: the packet that cards are made for, and none while offline."""

import pytest

from app.core.errors import Offline
from app.machines.waking import magic_packet, wake_card
from app.network.egress import egress_gate


def test_the_packet_names_the_card_sixteen_times() -> None:
    packet = magic_packet("02:fc:00:00:00:01")
    assert packet == bytes.fromhex("ff" * 6 + "02fc00000001" * 16)


def test_offline_nothing_is_sent() -> None:
    with egress_gate.apply_policy(is_closed=lambda: True, news=lambda: None), pytest.raises(Offline):
        wake_card("02:fc:00:00:00:01", "desk")
    egress_gate.take_connections()
