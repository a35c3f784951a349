"""Proof, under watch: what a real gateway calls is exactly what it lists, and offline it calls nobody at all."""

import json
import platform
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from app.client.http import GatewayClient
from app.config.programs import module_command
from app.core.api import SettingInfo
from app.core.connections import Connection, ConnectionList, ConnectionReason, Program
from app.core.downloads import Download, DownloadState, Pull
from app.core.engine_store import EngineJob, InstallEngine
from app.core.errors import RoundhouseError
from app.core.models import AttachEndpoint, UnloadModel
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.gateway.outside import OUTSIDE, Outside, outside
from tests.gguf_files import TinyLlama

PATIENCE_S = 120.0
NAME = "org/Tiny-GGUF"
INSTALLS = sys.platform == "linux" and platform.machine() == "x86_64"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Outside]:
    with outside(tmp_path) as played_world:
        for name in (NAME, "org/Other-GGUF"):
            played_world.hub.add(name, {"Tiny-Q4_K_M.gguf": TinyLlama(name="Tiny").content(), "README.md": b"#"})
        yield played_world


def run_watched(world: Outside, port: int) -> AbstractContextManager[RealGateway]:
    argv = world.watch_command(module_command("app.gateway"))
    return run_gateway(world.home, port, argv=argv, extra=world.environment, patience_s=PATIENCE_S)


def outcome(call: Callable[[], object]) -> str:
    """Return the code with which a call is refused, or that it went well."""
    try:
        call()
    except RoundhouseError as error:
        return error.code
    return "done"


def until(client: GatewayClient, path: str, kind: Any, is_over: Callable[[Any], bool]) -> Any:  # noqa: ANN401 -- as asked
    deadline = time.monotonic() + PATIENCE_S
    while not is_over(result := client.get(path, kind)):
        assert time.monotonic() < deadline, result
        time.sleep(0.05)
    return result


def pull(client: GatewayClient, name: str) -> None:
    client.post("/downloads", Pull(model=name), Download)
    over = {DownloadState.DONE, DownloadState.FAILED}
    finished_pull = until(
        client, "/downloads", list[Download], lambda downloads: all(download.state in over for download in downloads)
    )
    assert finished_pull[-1].state is DownloadState.DONE, finished_pull


def install(client: GatewayClient, engine: str, variant: str = "cpu") -> None:
    client.post(f"/engines/{engine}/install", InstallEngine(variant=variant), EngineJob)
    job = until(client, "/engines/job", EngineJob, lambda update: update.is_done)
    assert job.error is not None, "the release server and the index have nothing"


def chat(url: str, model: str, content: object = "Hi") -> str:
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": content}]}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode())  # noqa: S310 -- our own
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 -- as above
            return "done" if json.load(answer)["choices"] else "empty"
    except urllib.error.HTTPError as error:
        with error:
            return str(json.load(error)["error"]["code"])


def drive(gateway: RealGateway, world: Outside, name: str) -> dict[str, str]:
    """Do everything that goes out, and say how each ended."""
    client, url = gateway.client, gateway.port_file.url
    picture = [{"type": "image_url", "image_url": {"url": f"http://pictures{OUTSIDE}/cat.png"}}]
    endpoint = AttachEndpoint(url=world.url("far"), name="far")
    end_events = {
        "search": outcome(lambda: client.get(f"/hub/search?text={name}", object)),
        "look": outcome(lambda: client.get(f"/hub/model?name=org/{name}-GGUF", object)),
        "pull": outcome(lambda: pull(client, f"org/{name}-GGUF")),
        "updates": outcome(lambda: client.get("/library/updates", object)),
        "catalogue": outcome(lambda: client.post("/hub/catalogue", None, object)),
        "update": outcome(lambda: client.post("/update/check", None, object)),
        "archive": outcome(lambda: install(client, "llama.cpp", "server")),
        "newer": outcome(lambda: client.get("/engines/llama.cpp/update?channel=latest", object)),
        "environment": outcome(lambda: install(client, "openvino")),
        "attach": outcome(lambda: client.post("/attached", endpoint, object)),
        "ask": chat(url, "far"),
        "picture": chat(url, "guide", picture),
        "guide": chat(url, "guide"),
    }
    outcome(lambda: client.post("/unload", UnloadModel(model="far"), object))  # while it is in use it is looked at
    return end_events


ONLINE = {
    **dict.fromkeys(("search", "look", "pull", "updates", "archive", "environment", "attach", "ask", "guide"), "done"),
    "catalogue": "model_not_found",
    "update": "model_not_found",
    "newer": "install_failed",
    "picture": "remote_media",
}
"""The catalogue, the releases and the index are answered 404; installs begin, and fail as jobs."""
OFFLINE = {**dict.fromkeys(ONLINE, "offline"), "picture": "remote_media", "guide": "done"}


def list_connections(gateway: RealGateway) -> list[Connection]:
    return gateway.client.get("/connections?limit=1000", ConnectionList).connections


def switch(gateway: RealGateway, *, is_offline: bool) -> None:
    gateway.client.patch("/settings", {"network.offline": is_offline}, list[SettingInfo])


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLS, reason="the engines installed here are those of Linux on x86_64")
def test_offline_nobody_is_called_and_online_those_who_are_listed(world: Outside, unused_port: int) -> None:
    (world.home / "config" / "settings.toml").write_text("[network]\noffline = true\n")
    with run_watched(world, unused_port) as gateway:
        # The catalogue is looked for at the start, by nobody's order.
        until(gateway.client, "/connections", ConnectionList, lambda listing: listing.connections)
        assert drive(gateway, world, "Tiny") == {**OFFLINE, "updates": "done", "ask": "model_not_found"}
        kept_back = list_connections(gateway)
        assert all(connection.refused for connection in kept_back)
        assert {connection.why for connection in kept_back} >= {
            ConnectionReason.SEARCH,
            ConnectionReason.MODEL,
            ConnectionReason.CATALOGUE,
            ConnectionReason.ATTACHED,
        }
        assert (world.count_calls(), world.looked_up()) == (Counter(), set())

        switch(gateway, is_offline=False)
        assert drive(gateway, world, "Tiny") == ONLINE
        check_the_list([connection for connection in list_connections(gateway) if not connection.refused], world)

        before = world.count_calls(), world.looked_up()
        switch(gateway, is_offline=True)
        assert drive(gateway, world, "Other") == OFFLINE
        assert (world.count_calls(), world.looked_up()) == before


def check_the_list(made_connections: list[Connection], world: Outside) -> None:
    """Hold what is listed against what the watch saw: the same hosts, each as often, by whom and why."""
    assert {connection.host for connection in made_connections} == world.looked_up()
    called_ports, index = world.count_calls(), world.ports[f"index{OUTSIDE}"]
    noted_counts = {port: count(made_connections, port) for port in world.ports.values()}
    # uv calls off what it no longer needs, which may be while its name is still being looked up: noted, and not made.
    assert 0 < called_ports.pop(index) <= noted_counts.pop(index)
    assert noted_counts == called_ports
    assert {connection.about for connection in made_connections if connection.why is ConnectionReason.ENGINE} == {
        "llama.cpp",
        "openvino-genai",
    }
    assert {(connection.why, connection.by) for connection in made_connections} == {
        (ConnectionReason.SEARCH, Program.GATEWAY),
        (ConnectionReason.MODEL, Program.GATEWAY),
        (ConnectionReason.DOWNLOAD, Program.DOWNLOADER),
        (ConnectionReason.MODEL_UPDATES, Program.GATEWAY),
        (ConnectionReason.CATALOGUE, Program.GATEWAY),
        (ConnectionReason.APP_UPDATE, Program.GATEWAY),
        (ConnectionReason.ENGINE, Program.GATEWAY),
        (ConnectionReason.ENGINE, Program.INSTALLER),
        (ConnectionReason.ATTACHED, Program.GATEWAY),
    }


def count(made_connections: list[Connection], port: int) -> int:
    return sum(connection.count for connection in made_connections if connection.port == port)
