"""A door that nobody else goes through, in the place of this process's own."""

import pytest

from app.network import connector, egress, relay, urls
from app.network.egress import EgressGate


@pytest.fixture
def own_door(monkeypatch: pytest.MonkeyPatch) -> EgressGate:
    gate = EgressGate()
    for module in (egress, urls, connector, relay):
        monkeypatch.setattr(module, "egress_gate", gate)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return gate
