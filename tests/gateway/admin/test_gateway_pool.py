"""A gateway that tests share is as if just started for each of them, and one that a test broke is lent to nobody."""

import pytest

from app.client.http import GatewayClient
from app.core.api import SettingInfo
from app.core.chats import Chat, NewChat, NewTurn, Turn
from app.core.engines import EngineStatus, Pause
from app.core.errors import GatewayGone
from app.core.keys import KeyWithSecret, NewKey
from app.core.models import LoadModel, MakeModel, ModelInfo, ModelSettings, SetModel
from app.core.profiles import Profile, ProfileModel, ProfilePlan, SaveProfile, UseProfile
from tests.gateway.admin.real_gateway import RealGateway
from tests.gateway_pool import GatewayPool, read_state
from tests.gguf_files import TinyLlama


def change_everything(gateway: RealGateway) -> None:
    client = gateway.client
    folder = gateway.paths.models / "folder"
    folder.mkdir()
    TinyLlama().write(folder / "third.gguf")
    client.post("/made", MakeModel(name="made", base="quick"), ModelInfo)
    client.post("/keys", NewKey(name="editor"), KeyWithSecret)
    client.post("/model-settings", SetModel(model="quick", settings=ModelSettings(pinned=True)), ModelSettings)
    client.patch("/settings", {"models.max_loaded": 2}, list[SettingInfo])
    chat = client.post("/chats", NewChat(model="slow"), Chat)
    client.post(f"/chats/{chat.id}/turns", NewTurn(content="Go on"), Turn)
    client.post("/load", LoadModel(model="quick"), EngineStatus)
    switch_profile(client)
    client.post("/pause", None, Pause)


def switch_profile(client: GatewayClient) -> None:
    profile = Profile(name="coding", models=[ProfileModel(model="heavy")])
    client.post("/profiles", SaveProfile(profile=profile), Profile)
    client.post("/profile/use", UseProfile(name="coding"), ProfilePlan)


@pytest.mark.slow
def test_what_a_test_changed_is_taken_back(real_gateways: GatewayPool[RealGateway]) -> None:
    with real_gateways.lend_gateway() as gateway:
        first = read_state(gateway)
        change_everything(gateway)
        changed_state = read_state(gateway)
        assert {"/chats", "/keys", "/model-settings"} <= changed_state.lists.keys() - first.lists.keys()
        assert changed_state.lists["/profiles"] != first.lists["/profiles"]
        assert {"made", "third"} <= changed_state.models
    with real_gateways.lend_gateway() as again:
        assert again.process.pid == gateway.process.pid
        assert read_state(again) == first


@pytest.mark.slow
def test_a_gateway_that_a_test_ended_is_told_and_lent_to_nobody(real_gateways: GatewayPool[RealGateway]) -> None:
    with pytest.raises(GatewayGone), real_gateways.lend_gateway() as gateway:
        gateway.kill()
    with real_gateways.lend_gateway() as another:
        assert another.process.pid != gateway.process.pid


@pytest.mark.slow
def test_a_gateway_whose_files_a_test_damaged_is_lent_to_nobody(real_gateways: GatewayPool[RealGateway]) -> None:
    with real_gateways.lend_gateway() as gateway:
        (gateway.paths.models / "quick.gguf").unlink()
    with real_gateways.lend_gateway() as another:
        assert another.process.pid != gateway.process.pid
        assert (another.paths.models / "quick.gguf").exists()
