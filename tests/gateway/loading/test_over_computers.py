"""A model that lies over several computers is looked for anew by every request: a computer of it may have gone."""

import msgspec
import pytest

from app.core.across import AcrossPlan, LayerShare
from app.core.errors import Unavailable
from app.core.models import LoadOptions
from app.gateway.loading.launch import resolve_model
from app.gateway.machines.trust import TrustedMachines
from engines.api import LaunchOptions
from tests.gateway.played import Gateway

MODEL = "guide"


class PlayedSpread:
    """Layers on one other computer, which goes when the test says so."""

    def __init__(self) -> None:
        shares = [
            LayerShare(name=name, first_layer=0, layers=1, needed_bytes=1, free_bytes=9) for name in ("here", "desk")
        ]
        self.plan = AcrossPlan(model=MODEL, context=512, shares=shares, engine="llama.cpp", sentence="", fits=True)
        self.loss_reason = ""

    async def connect(self) -> None:
        if self.loss_reason:
            raise Unavailable("It lends no memory.")

    def complete_options(self, options: LaunchOptions) -> LaunchOptions:
        return msgspec.structs.replace(options, rpc_servers=("127.0.0.1:50052",))

    def close(self) -> None:
        """Nothing is held."""


async def lay_over_two(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> PlayedSpread:
    async def open_nothing(_machines: TrustedMachines) -> None: ...

    spread = PlayedSpread()
    monkeypatch.setattr(TrustedMachines, "open_list", open_nothing)
    monkeypatch.setattr("app.gateway.across.spreads.LayerSpread", lambda *_arguments: spread)
    await gateway.services.spreads.connect_machines(MODEL, spread.plan)
    return spread


async def test_a_request_right_after_another_is_told_of_a_computer_that_went_meanwhile(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = await lay_over_two(gateway, monkeypatch)
    assert (await resolve_model(gateway.services, MODEL)).load.options.rpc_servers
    spread.loss_reason = "desk went away."
    with pytest.raises(Unavailable, match=r"desk went away\. It lends no memory\."):
        await resolve_model(gateway.services, MODEL)


async def test_a_request_right_after_another_loads_the_model_as_it_lies_since(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_over_computers() -> bool:
        resolution = await resolve_model(gateway.services, MODEL, LoadOptions())
        return resolution.load.options.is_over_computers

    assert not await is_over_computers()
    await lay_over_two(gateway, monkeypatch)
    assert await is_over_computers()
    gateway.services.spreads.forget_model(MODEL)
    assert not await is_over_computers()
