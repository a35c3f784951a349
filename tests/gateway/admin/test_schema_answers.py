"""Every route answers as the document says: called once or more, area by area."""

import http.client
import json
import sys
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.gateway.admin.routes import ENDPOINTS
from app.hub.disk.duplicates import SMALLEST_BYTES
from tests.fake_hub.faults import breaks_after
from tests.fake_hub.hub import FakeHub
from tests.fake_mcp import server as fake_mcp
from tests.gateway.admin.checked_calls import CheckedCalls
from tests.gateway.admin.real_gateway import RealGateway
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S, wait_until
from tests.ports import free_port


@pytest.mark.slow
def test_every_route_answers_as_it_says(real_gateway: RealGateway, tmp_path: Path, fake_hub: FakeHub) -> None:
    call = CheckedCalls(real_gateway)
    for path in ("/status", "/machine", "/engines", "/choice", "/models", "/settings"):
        assert call("GET", path)
    assert isinstance(call("GET", "/running"), list)
    chats_answer_as_they_say(call)
    attachments_answer_as_they_say(call)
    presets_answer_as_they_say(call)
    profiles_answer_as_they_say(call)
    mcp_servers_answer_as_they_say(call)
    assert call("GET", "/agents")["is_on"] is False
    assert isinstance(call("GET", "/agents/sessions"), list)
    collections_answer_as_they_say(call, tmp_path)
    models_answer_as_they_say(call, TinyLlama().write(tmp_path / "a model:1.gguf"))
    advice_answers_as_it_says(call)
    keys_answer_as_they_say(call)
    tools_answer_as_they_say(call)
    requests_answer_as_they_say(call, real_gateway)
    files_for_clusters_answer_as_they_say(call)
    machines_answer_as_they_say(call)
    engines_answer_as_they_say(call)
    made_and_attached_models_answer_as_they_say(call)
    downloads_answer_as_they_say(call, fake_hub)
    lifecycle_answers_as_it_says(call)
    library_answers_as_it_says(call, real_gateway)
    updates_answer_as_they_say(call)
    traffic_answers_as_it_says(call)
    call("PATCH", "/settings", {"window.theme": "dark"})
    elsewhere = {(row.method, row.path) for row in ENDPOINTS if row.path.startswith("/engines/{id}/")}
    """What needs something to install: `test_engine_store`."""
    elsewhere.add(("POST", "/chats/{id}/answers/{message}/calls/{call}"))
    """What needs a model that calls tools: `test_chat_tools`."""
    elsewhere |= {("POST", "/machines"), ("POST", "/machines/wake"), ("POST", "/plan/across")}
    elsewhere |= {(method, "/machines/{name}") for method in ("PATCH", "DELETE")}
    """What needs another real_gateway: `test_paired_gateways`, `test_across`."""
    elsewhere.add(("POST", "/traces/test"))
    """What needs a collector: `test_traces`."""
    elsewhere.add(("POST", "/draft-trials"))
    """What needs an engine that drafts: `test_draft_trials`."""
    elsewhere |= {
        ("POST", "/benchmarks"),
        ("POST", "/races"),
        ("POST", "/trials"),
        ("POST", "/trials/switch"),
        ("POST", "/trials/undo"),
        ("POST", "/tunings"),
        ("POST", "/quantization-loss"),
        ("POST", "/quantizations"),
        ("POST", "/quantizations/plan"),
        ("GET", "/benchmarks/{id}"),
        ("GET", "/benchmarks/{id}/file"),
        ("DELETE", "/benchmarks/{id}"),
    }
    """What needs an engine to be timed: `test_benchmarks`; or one that quantises: `test_quantizing`."""
    elsewhere |= {(row.method, row.path) for row in ENDPOINTS if row.path.startswith("/agents/sessions")}
    """What needs a coding agent: `test_agents`."""
    elsewhere.add(("DELETE", "/kept-prompts/{id}"))
    """What needs an engine that has read a long prompt: `test_warm_resume`."""
    elsewhere.add(("POST", "/hub/catalogue"))
    """What needs a signed list: `test_hub`."""
    elsewhere |= {("POST", f"/update/{verb}") for verb in ("check", "install", "rollback")}
    """What needs a release: `test_updating`, and `test_update` end to end."""
    uncovered_rows = {(row.method, row.path) for row in ENDPOINTS} - call.covered_rows - elsewhere
    assert uncovered_rows == {("POST", "/shutdown"), ("GET", "/events")}


def traffic_answers_as_it_says(call: CheckedCalls) -> None:
    assert "connections" in call("GET", "/connections")
    call("DELETE", "/connections")
    assert call("GET", "/kept-prompts")["prompts"] == []
    call("DELETE", "/kept-prompts")
    assert call("POST", "/traces/headers", {"headers": {"X-Key": "v"}})["header_names"] == ["X-Key"]
    call("DELETE", "/traces/headers")
    assert call("GET", "/traces")["header_names"] == []


def lifecycle_answers_as_it_says(call: CheckedCalls) -> None:
    assert call("POST", "/model-settings", {"model": "quick", "settings": {"pinned": True}}) == {"pinned": True}
    assert call("GET", "/model-settings") == {"quick": {"pinned": True}}
    assert call("GET", "/model-settings/{name}", name="quick")["settings"] == {"pinned": True}
    call("POST", "/model-settings", {"model": "quick"})
    call("POST", "/load", {"model": "quick"})
    assert call("GET", "/memory")["pools"][0]["holders"]
    wait_until(lambda: not runs_replicas(call))  # of the fleet that was removed: each ends once it is ready
    assert call("POST", "/pause")["comes_back"] == ["quick"]
    assert call("GET", "/pause")["is_paused"]
    assert call("GET", "/status")["paused_since"]
    call("DELETE", "/pause")
    assert call("GET", "/pause")["is_paused"] is False


def runs_replicas(call: CheckedCalls) -> bool:
    return any("#" in run["model"] and run["state"] not in {"stopped", "failed"} for run in call("GET", "/running"))


def updates_answer_as_they_say(call: CheckedCalls) -> None:
    assert call("GET", "/update")["kind"] == "source"
    assert call("POST", "/update/skip", {"version": "99.0"})["release"] is None
    call("DELETE", "/update/job")


def library_answers_as_it_says(call: CheckedCalls, gateway: RealGateway) -> None:
    call("DELETE", "/library/job")
    file = TinyLlama(layers=1).write(gateway.paths.models / "unwanted.gguf")
    assert call("POST", "/removals/plan", {"model": "unwanted"})["files"] == [str(file)]
    assert call("POST", "/library/verify", {"model": "unwanted"})["kind"] == "verify"
    call("DELETE", "/library/job")
    assert call("GET", "/library/job")["is_done"]
    disk = call("GET", "/library/disk")
    assert disk["drives"][0]["models_bytes"] >= file.stat().st_size
    assert "unwanted" in {entry["model"] for entry in disk["holdings"]}
    equal_files_answer_as_they_say(call, gateway)
    assert isinstance(call("GET", "/library/updates"), list)
    removal = call("POST", "/removals", {"model": "unwanted", "for_good": sys.platform != "linux"})
    assert not file.exists()
    if removal["id"]:
        assert call("POST", "/removals/{id}/undo", id=removal["id"])["name"] == "unwanted"
        call("POST", "/removals", {"model": "unwanted"})
    else:
        call("POST", "/removals/{id}/undo", id="nothing")
    assert not file.exists()
    trashed_models = [drive["trashed"] for drive in call("GET", "/library/disk")["drives"] if drive["trashed"]]
    ours = [
        entry["digest"] for entry in trashed_models if entry["paths"] == [str(file)]
    ]  # never what somebody's own trash holds
    job = call("POST", "/library/empty-trash", {"digests": ours or ["nothing"]})
    if ours:
        assert job["kind"] == "empty"
        assert wait_for_job(call)["deleted_files"] == 1


def equal_files_answer_as_they_say(call: CheckedCalls, gateway: RealGateway) -> None:
    content = TinyLlama(layers=1).content() + bytes(SMALLEST_BYTES)
    files = [gateway.paths.models / f"equal-{number}.gguf" for number in range(2)]
    for file in files:
        file.write_bytes(content)
    call("POST", "/library/duplicates", {})
    (duplicate,) = wait_for_job(call)["duplicates"]
    call("POST", "/library/reclaim", {"sha256": [duplicate["sha256"]]})
    job = wait_for_job(call)
    assert job["reclaimed_bytes"] == len(content)
    if job["can_undo"]:
        call("POST", "/library/separate")
        assert wait_for_job(call)["reclaimed_bytes"] == -len(content)
    else:  # clones need no undoing, and there is nothing to answer with
        call.covered_rows.add(("POST", "/library/separate"))
    for file in files:
        assert file.read_bytes() == content
        file.unlink()


def wait_for_job(call: CheckedCalls) -> Any:  # noqa: ANN401 -- any JSON
    deadline = time.monotonic() + PATIENCE_S
    while not (job := call("GET", "/library/job"))["is_done"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert job["error"] is None
    return job


def downloads_answer_as_they_say(call: CheckedCalls, hub: FakeHub) -> None:
    hub.add("org/small", {"small-F32.gguf": TinyLlama().content()})
    assert call("GET", "/hub/model", name="org/small")["variants"]
    assert call("GET", "/hub/search", text="small")["cards"]
    assert call("GET", "/hub/best", use="chat")
    assert call("GET", "/hub/catalogue", text="qwen3 8b")
    call("POST", "/hub/catalogue/look")
    assert call("POST", "/hub/token", {"token": "hf_of_nobody"})["place"] == "file"
    assert "hf_of_nobody" not in str(call("GET", "/hub/token"))
    call("DELETE", "/hub/token")
    first = call("POST", "/downloads", {"model": "org/small"})
    assert call("GET", "/downloads") != []
    assert call("POST", "/downloads/{id}/move", {"position": 0}, id=first["id"])
    assert call("POST", "/downloads/{id}/resume", id=first["id"])["id"] == first["id"]
    hub.add("org/other", {"other-F32.gguf": TinyLlama(layers=3).content()})
    hub.faults["other-F32.gguf"] = breaks_after(10)
    other = call("POST", "/downloads", {"model": "org/other"})
    assert call("POST", "/downloads/{id}/pause", id=other["id"])["state"] == "paused"
    for download in (first, other):
        call("DELETE", "/downloads/{id}", id=download["id"])


class Far(BaseHTTPRequestHandler):
    """An endpoint that lists one model."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "big"}]}')

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def machines_answer_as_they_say(call: CheckedCalls) -> None:
    assert call("GET", "/machines")["port"] == 0
    call("PATCH", "/settings", {"machines.enabled": True, "machines.host": "127.0.0.1", "machines.port": free_port()})
    assert call("POST", "/machines/code")["seconds"] > 0
    assert call("GET", "/machines")["port"] > 0
    assert call("GET", "/machines/memory") == []
    call("DELETE", "/machines/code")
    call("PATCH", "/settings", {"machines.enabled": False})


def made_and_attached_models_answer_as_they_say(call: CheckedCalls) -> None:
    made_model = call("POST", "/made", {"name": "terse", "base": "quick", "preset": {"system": "Be brief."}})
    assert made_model["preset"]["base"] == "quick"
    call("DELETE", "/models/{name}", name="terse")
    with ThreadingHTTPServer(("127.0.0.1", 0), Far) as far:
        threading.Thread(target=far.serve_forever, daemon=True).start()
        (attached_model,) = call("POST", "/attached", {"url": f"http://127.0.0.1:{far.server_port}", "name": "far"})
        text = f'model = "several"\nserves = "{attached_model["served_as"]}"\nreplicas = ["http://127.0.0.1:{far.server_port}"]'
        fleet = call("POST", "/fleets", {"text": text})
        assert [fleet_info["model"] for fleet_info in call("GET", "/fleets")] == [fleet["name"]] == ["several"]
        replica = {"url": f"http://localhost:{far.server_port}"}
        assert len(call("POST", "/fleets/{name}/replicas", replica, name="several")["replicas"]) == 2
        for what in ("drain", "resume"):
            call("POST", "/fleets/{name}/replicas/{replica}/" + what, name="several", replica="2")
        assert len(call("DELETE", "/fleets/{name}/replicas/{replica}", name="several", replica="2")["replicas"]) == 1
        assert call("POST", "/fleets/{name}/stop", name="several")["is_stopped"]
        assert not call("POST", "/fleets/{name}/start", name="several")["is_stopped"]
        far.shutdown()
    call("DELETE", "/attached/{name}", name="several")
    call("POST", "/fleets", {"text": 'model = "own"\nserves = "quick"\nreplicas = 2'})
    assert call("POST", "/fleets/{name}/roll", {}, name="own")["rolling"]
    call("DELETE", "/attached/{name}", name="own")
    assert call("GET", "/attached") == [attached_model]
    assert call("PATCH", "/attached/{name}", {"can": ["embedding"]}, name="far")["capabilities"] == ["embedding"]
    call("DELETE", "/attached/{name}", name="far")


def files_for_clusters_answer_as_they_say(call: CheckedCalls) -> None:
    deployment = call("POST", "/deployments/render", {"model": "Qwen/Qwen3-8B"})
    assert [file["name"] for file in deployment["files"]] == ["workers.yaml", "router.yaml"]


def engines_answer_as_they_say(call: CheckedCalls) -> None:
    (stock,) = call("GET", "/engines/stock")
    assert [(version["name"], version["is_current"]) for version in stock["versions"]] == [("bundled", True)]
    assert stock["confinement"]["sentence"]
    assert call("GET", "/engines/confinement")["sentence"]
    assert call("GET", "/engines/job") is None
    assert call("GET", "/engines/log") == []
    call("DELETE", "/engines/job")


def attachments_answer_as_they_say(call: CheckedCalls) -> None:
    attachment = call("POST", "/attachments", b"some text", name="a.txt")
    assert call("GET", "/attachments/{id}", id=attachment["id"]) == attachment
    assert call("GET", "/attachments/{id}/content", id=attachment["id"]) == b"some text"
    call("DELETE", "/attachments/{id}", id=attachment["id"])


def mcp_servers_answer_as_they_say(call: CheckedCalls) -> None:
    settings = {"command": sys.executable, "args": [fake_mcp.__file__]}
    server = call("POST", "/mcp/servers", {"name": "fake", "settings": settings})
    assert server in call("GET", "/mcp/servers")  # beside what was made from the document
    assert call("GET", "/mcp/servers/{server}", server="fake") == server
    assert call("PATCH", "/mcp/servers/{server}", {"network": False}, server="fake") == server
    assert call("POST", "/mcp/servers/{server}/start", server="fake")["tools"]
    names = {"server": "fake", "tool": "echo"}
    assert call("POST", "/mcp/servers/{server}/tools/{tool}/permission", {"permission": "block"}, **names)
    assert call("POST", "/mcp/servers/{server}/tools/{tool}/call", {"arguments": {"text": "a"}}, **names)["text"] == "a"
    text = json.dumps({"mcpServers": {"fake": settings}})
    assert call("POST", "/mcp/servers/import", {"text": text}) == {"added": [], "skipped": ["fake"]}
    call("DELETE", "/mcp/servers/{server}", server="fake")


def collections_answer_as_they_say(call: CheckedCalls, folder: Path) -> None:
    (folder / "note.txt").write_text("The locomotive stood in the roundhouse.")
    collection = call("POST", "/collections", {"name": "notes of a test", "folders": [str(folder)]})
    names = {"collection": collection["id"]}
    deadline = time.monotonic() + PATIENCE_S
    while call("GET", "/collections/{collection}", **names)["stage"] != "ready":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert collection["id"] in {item["id"] for item in call("GET", "/collections")}
    (file,) = call("GET", "/collections/{collection}/files", **names, limit="5")
    assert call("GET", "/collections/{collection}/files/{file}/text", **names, file=file["id"])["text"]
    assert call("POST", "/collections/search", {"text": "locomotive", "collections": [collection["id"]]})["passages"]
    assert call("PATCH", "/collections/{collection}", {"is_served": True}, **names)["is_served"]
    call("POST", "/collections/{collection}/index", **names)
    call("DELETE", "/collections/{collection}", **names)


def profiles_answer_as_they_say(call: CheckedCalls) -> None:
    profile = {"name": "of a test", "models": [{"model": "quick", "context": 512}], "aliases": ["gpt-*=quick"]}
    saved_profile = call("POST", "/profiles", {"profile": profile})
    assert saved_profile in call("GET", "/profiles")["profiles"]
    assert call("GET", "/profiles/{name}", name="of a test") == saved_profile
    assert call("GET", "/profile/draft")["name"] == "new"
    assert call("POST", "/profile/plan", {"name": "of a test"})["steps"]
    assert call("POST", "/profile/use", {"name": "of a test"})["profile"] == "of a test"
    assert call("POST", "/profile/undo")["profile"] != "of a test"
    call("DELETE", "/profiles/{name}", name="of a test")


def presets_answer_as_they_say(call: CheckedCalls) -> None:
    saved_preset = call("POST", "/presets", {"preset": {"name": "a/b", "prompt": "{{x}}"}, "replaces": True})
    assert saved_preset in call("GET", "/presets")
    assert call("POST", "/presets/import", {"presets": [saved_preset]})["unchanged"] == 1
    call("DELETE", "/presets/{name}", name="a/b")
    assert call("POST", "/tokens", {"model": "quick", "text": "Hm?"})["tokens"] > 0


def folders_answer_as_they_say(call: CheckedCalls, chat: str) -> None:
    folder = call("POST", "/chats/folders", {"name": "Steam"})["id"]
    call("PATCH", "/chats/{id}", {"folder": folder, "tags": ["work"]}, id=chat)
    assert [found_chat["id"] for found_chat in call("GET", "/chats", folder=folder, shelf="archived", tag="work")] == [
        chat
    ]
    assert "work" in {item["tag"].casefold() for item in call("GET", "/chats/tags")}
    call("PATCH", "/chats/folders/{id}", {"system_prompt": "Be brief."}, id=folder)
    assert call("GET", "/chats/folders/{id}", id=folder) in call("GET", "/chats/folders")
    call("DELETE", "/chats/folders/{id}", id=folder)


def messages_answer_as_they_say(call: CheckedCalls, chat: str) -> None:
    question, answer = (message["id"] for message in call("GET", "/chats/{id}", id=chat)["messages"])
    fork = call("POST", "/chats/{id}/fork", {"message": answer, "title": "Fork"}, id=chat)
    version = call("POST", "/chats/{id}/messages/{message}/versions", {"content": "Ah."}, id=chat, message=answer)
    assert version["content"] == "Ah."
    call("DELETE", "/chats/{id}/messages/{message}", id=chat, message=version["id"])
    back = call("POST", "/chats/{id}/messages/{message}/restore", id=chat, message=version["id"])
    assert {message["id"] for message in back["messages"]} == {question, answer, version["id"]}
    call("DELETE", "/chats/{id}", id=fork["id"])


def chats_answer_as_they_say(call: CheckedCalls) -> None:
    chat = call("POST", "/chats", {"model": "quick", "sampling": {"seed": 1}})["id"]
    turn = call("POST", "/chats/{id}/turns", {"content": "Hm?"}, id=chat)
    names = {"id": chat, "message": turn["answer"]["id"]}
    events = call("GET", "/chats/{id}/answers/{message}", **names, offset="0")
    assert {event["type"] for event in events} >= {"delta", "done"}
    call("POST", "/chats/{id}/answers/{message}/stop", **names)
    call("PATCH", "/chats/{id}", {"title": "Renamed"}, id=chat)
    version = call("POST", "/chats/{id}/messages/{message}/versions", {"content": "Mine"}, **names)
    edited_names = {"id": chat, "message": version["id"]}
    call("DELETE", "/chats/{id}/messages/{message}", **edited_names)
    call("POST", "/chats/{id}/messages/{message}/restore", **edited_names)
    call("POST", "/chats/{id}/fork", {"message": version["id"], "title": "Points"}, id=chat)
    call("DELETE", "/chats/{id}/messages/{message}", **edited_names)
    assert [found_chat["id"] for found_chat in call("GET", "/chats", query="renamed", limit="5")] == [chat]
    call("DELETE", "/chats/{id}", id=chat)
    call("POST", "/chats/{id}/restore", id=chat)
    whole = call("GET", "/chats/{id}", id=chat)
    assert len(whole["messages"]) == 2
    assert call("POST", "/chats/import", {"chats": [whole]})["unchanged"] == 1
    messages_answer_as_they_say(call, chat)
    call("PATCH", "/chats/{id}", {"is_pinned": True, "is_archived": True}, id=chat)
    assert chat in {summary["id"] for summary in call("GET", "/chats", shelf="archived")}
    folders_answer_as_they_say(call, chat)
    call("DELETE", "/chats/{id}", id=chat)
    assert chat in {summary["id"] for summary in call("GET", "/chats", shelf="trash")}
    call("DELETE", "/chats/{id}", id=chat, for_good="true")
    assert chat not in {summary["id"] for summary in call("GET", "/chats", shelf="trash")}


def models_answer_as_they_say(call: CheckedCalls, file: Path) -> None:
    name = call("POST", "/models", {"path": str(file)})["name"]
    assert call("POST", "/load", {"model": name})["state"] == "ready"
    call("GET", "/logs", model=name, tail="5")
    assert call("POST", "/unload", {"model": name})["state"] == "stopped"
    call("DELETE", "/models/{name}", name=name)


def keys_answer_as_they_say(call: CheckedCalls) -> None:
    new_key = call("POST", "/keys", {"name": "an editor: mine", "scopes": ["inference"]})
    assert new_key in [{**key, "key": new_key["key"]} for key in call("GET", "/keys")]
    limited_key = call("POST", "/keys/{name}/limits", {"tokens_per_day": 9, "models": ["guide"]}, name=new_key["name"])
    assert (limited_key["limits"]["tokens_per_day"], limited_key["usage"]["tokens_last_day"]) == (9, 0)
    renamed_key = call("POST", "/keys/{name}/rename", {"name": "another"}, name=new_key["name"])
    assert (renamed_key["name"], renamed_key["id"], renamed_key["limits"]) == (
        "another",
        new_key["id"],
        limited_key["limits"],
    )
    call("POST", "/keys/{name}/rename", {"name": new_key["name"]}, name="another")
    call("DELETE", "/keys/{name}", name=new_key["name"])
    assert call("POST", "/keys/{name}/restore", name=new_key["name"])["name"] == new_key["name"]
    call("DELETE", "/keys/{name}", name=new_key["name"])


def requests_answer_as_they_say(call: CheckedCalls, gateway: RealGateway) -> None:
    connection = http.client.HTTPConnection(urlsplit(gateway.port_file.url).netloc, timeout=PATIENCE_S)
    with closing(connection):
        connection.request("POST", "/v1/chat/completions", b'{"model": "nobody"}', {"User-Agent": "tester/1"})
        assert connection.getresponse().status == 404
    request = call("GET", "/requests", limit="1", outcome="refused")[0]
    assert request["client"] == "tester"
    assert call("GET", "/requests/{id}", id=request["id"])["request"] == request
    assert call("POST", "/requests/{id}/cancel", id=request["id"]) == request
    assert "tester" in [row["client"] for row in call("GET", "/usage")["today"]]
    assert [row["key_id"] for row in call("GET", "/usage/keys", days="1")] == [""]
    call("DELETE", "/requests")


def advice_answers_as_it_says(call: CheckedCalls) -> None:
    machine = {"os": "linux", "ram_gb": 64, "gpus": [{"name": "RTX 4090"}]}
    assert call("POST", "/plan", {"model": "Qwen3 8B", "machine": machine})["plans"]
    assert call("POST", "/estimate", {"model": "Qwen3 8B", "machine": machine})["fits"]
    assert call("POST", "/guide", {"question": "Which version is this?"})["topic"] == "version"
    assert call("GET", "/calibration") == []
    call("DELETE", "/calibration")
    call("POST", "/calibrate")
    call("DELETE", "/calibrate")
    call("DELETE", "/draft-trials")
    assert call("GET", "/benchmarks") == []
    assert call("GET", "/benchmarks/accuracy")["first_count"] == 0
    assert call("GET", "/benchmarks/job") is None
    call("DELETE", "/benchmarks/job")
    assert call("GET", "/races/plan", model="quick")["model"] == "quick"
    assert call("GET", "/races/job") is None
    assert call("GET", "/tunings/job") is None
    assert "codex" in {part["tool"] for part in call("GET", "/preflights", model="quick")}
    call("DELETE", "/tunings/job")
    assert call("GET", "/quantizations/job") is None
    call("DELETE", "/quantizations/job")
    call("DELETE", "/races/job")
    assert call("GET", "/trials") == []
    assert call("GET", "/trials/job") is None
    assert call("GET", "/trials/words") == []
    call("DELETE", "/trials/job")
    assert call("GET", "/draft-trials") == []
    assert isinstance(call("GET", "/loads"), list)
    assert call("GET", "/doctor")["confinement"] == call("GET", "/engines/confinement")
    assert call("GET", "/bundle")["files"][0]["name"] == "manifest.json"


def tools_answer_as_they_say(call: CheckedCalls) -> None:
    assert call("POST", "/autocomplete", {"model": ""})["model"] == ""
    assert call("GET", "/autocomplete")["choices"] == []
    assert "codex" in {tool["id"] for tool in call("GET", "/tools")}
    preview = call("POST", "/tools/{id}/preview", {"model": "quick"}, id="codex")
    assert "model_provider" in preview["diff"]
    assert call("POST", "/tools/{id}/connect", {"model": "quick"}, id="codex")["is_written"]
    assert call("POST", "/tools/{id}/launch", {"model": "quick"}, id="codex")["program"] == "codex"
    assert call("POST", "/tools/{id}/probe", {"model": "quick"}, id="aider")["ok"]
    assert call("POST", "/tools/{id}/undo", id="codex")["is_written"]
