"""Gateways that are lent to one test after the other: a start takes a second or two of a processor.

A test may change whatever the API, the command line and the folder of models can change. Once it gives its gateway
back, the same API takes that back; the next test finds the gateway as it was when it had started, or gets another one.
Tests that end their gateway, damage its files, or show what starting does have one of their own.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from app.client.http import GatewayClient, quote_segment
from app.config.paths import Paths
from app.core.api import SettingInfo
from app.core.chats import ChatShelf, ChatSummary
from app.core.engines import EngineStatus
from app.core.errors import Conflict, NotFound
from app.core.models import ModelInfo, ModelSettings, SetModel, UnloadModel
from app.core.profiles import ProfileList, ProfilePlan, UseProfile
from tests.patience import wait_until

log = logging.getLogger(__name__)

LISTS = (
    *("/settings", "/model-settings", "/keys", "/attached", "/profiles", "/presets", "/downloads"),
    *("/chats", "/chats?shelf=archived", "/chats?shelf=trash", "/chats/folders", "/running", "/pause"),
)
"""What a gateway says of itself that tests change, but for its models."""
_NAMED = {"/keys": "name", "/attached": "name", "/presets": "name", "/downloads": "id", "/chats/folders": "id"}
"""Lists of which each entry can be deleted, and the field that names one."""
_SETTLE_S = 3.0
"""How long what was taken back may take to show."""


class LentGateway(Protocol):
    """What the pool has to know of a gateway."""

    @property
    def client(self) -> GatewayClient: ...

    @property
    def paths(self) -> Paths: ...


class GatewayState(msgspec.Struct, frozen=True):
    """What a gateway says of itself, and the files in its folder of models. Empty lists are left out."""

    lists: Mapping[str, object]
    models: frozenset[str]
    files: frozenset[Path]


GatewayT = TypeVar("GatewayT", bound=LentGateway)


class GatewayPool(Generic[GatewayT]):
    """Keeps gateways that nobody uses at the moment, and starts one where there is none. Close it in the end."""

    def __init__(self, start_gateway: Callable[[], AbstractContextManager[GatewayT]]) -> None:
        self._start_gateway = start_gateway
        self._idle: list[tuple[GatewayT, GatewayState, ExitStack]] = []

    @contextmanager
    def lend_gateway(self) -> Iterator[GatewayT]:
        """Lend a gateway that is as if just started. Raises what goes wrong with it when it is given back."""
        gateway, first, stack = self._idle.pop() if self._idle else self._open_gateway()
        is_as_first = False
        try:
            yield gateway
            is_as_first = restore_state(gateway, first)
        finally:
            if is_as_first:
                self._idle.append((gateway, first, stack))
            else:
                stack.close()

    def close_all(self) -> None:
        """End the gateways that nobody uses."""
        while self._idle:
            _, _, stack = self._idle.pop()
            stack.close()

    def _open_gateway(self) -> tuple[GatewayT, GatewayState, ExitStack]:
        with ExitStack() as until_read:
            gateway = until_read.enter_context(self._start_gateway())
            return gateway, read_state(gateway), until_read.pop_all()


def read_state(gateway: LentGateway) -> GatewayState:
    """Return what a gateway says of itself now."""
    client, paths = gateway.client, gateway.paths
    places = (*LISTS, *_rare_lists(paths))
    return GatewayState(
        lists={place: content for place in places if (content := client.get(place, object))},
        models=frozenset(model.name for model in client.get("/models", list[ModelInfo])),
        files=frozenset(paths.models.rglob("*")),
    )


def restore_state(gateway: LentGateway, first: GatewayState) -> bool:
    """Take back what a test changed, and tell whether the gateway says the same of itself as at first."""
    client = gateway.client
    client.delete("/pause")
    _reset_settings(client)
    _leave_profiles(client)
    _unload_models(client)
    _delete_entries(client, {**_NAMED, **_rare_lists(gateway.paths)})
    _delete_chats(client)
    _forget_models(gateway, first)
    deadline = time.monotonic() + _SETTLE_S
    while (state := read_state(gateway)) != first:
        if time.monotonic() > deadline:
            log.warning("A gateway is not lent again: %s is not %s", state, first)
            return False
        time.sleep(0.2)
    return True


def _rare_lists(paths: Paths) -> Mapping[str, str]:
    """Return further lists of `_NAMED`'s kind, which cost their reader imports, where something was ever in them."""
    rare = {"/mcp/servers": ("name", paths.mcp_file), "/collections": ("id", paths.collections)}
    return {place: name for place, (name, trace) in rare.items() if trace.exists()}


def _reset_settings(client: GatewayClient) -> None:
    names = [setting.name for setting in client.get("/settings", list[SettingInfo]) if setting.source == "file"]
    if names:
        client.patch("/settings", dict.fromkeys(names), list[SettingInfo])
    for model in client.get("/model-settings", dict[str, ModelSettings]):
        with suppress(NotFound):  # its file is gone
            client.post("/model-settings", SetModel(model=model), ModelSettings)


def _leave_profiles(client: GatewayClient) -> None:
    """Have no profile count, none be kept, and no switch be there to be taken back."""
    profiles = client.get("/profiles", ProfileList)
    if profiles == ProfileList():
        return
    client.post("/profile/use", UseProfile(name=""), ProfilePlan)  # ends what a switch still loads
    _unload_models(client)
    client.post("/profile/use", UseProfile(name=""), ProfilePlan)
    client.post("/profile/undo", None, ProfilePlan)
    for profile in profiles.profiles:
        client.delete(f"/profiles/{quote_segment(profile.name)}")


def _unload_models(client: GatewayClient) -> None:
    def is_empty() -> bool:
        statuses = client.get("/running", list[EngineStatus])
        for status in statuses:
            client.post("/unload", UnloadModel(model=status.model, force=True), EngineStatus)
        return not statuses

    wait_until(is_empty)


def _delete_entries(client: GatewayClient, id_fields: Mapping[str, str]) -> None:
    for place, field in id_fields.items():
        for entry in client.get(place, list[dict[str, Any]]):
            client.delete(f"{place}/{quote_segment(entry[field])}")


def _delete_chats(client: GatewayClient) -> None:
    """Delete all chats, and then what is in the trash for good."""
    for shelf in ChatShelf:
        query = "?for_good=true" if shelf is ChatShelf.TRASH else ""
        for chat in client.get(f"/chats?limit=200&shelf={shelf}", list[ChatSummary]):
            client.delete(f"/chats/{chat.id}{query}")


def _forget_models(gateway: LentGateway, first: GatewayState) -> None:
    """Take models off the list, and the files of those that are listed for where they lie out of the folder."""
    for model in gateway.client.get("/models", list[ModelInfo]):
        if model.name not in first.models:
            with suppress(Conflict, NotFound):
                gateway.client.delete(f"/models/{quote_segment(model.name)}")
    for path in gateway.paths.models.iterdir():
        if path in first.files:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
