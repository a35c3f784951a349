"""A disk that is full in the middle of every write the gateway makes: nothing lost, and one sentence for all of them.

A disk that takes nothing needs no mount: `RLIMIT_FSIZE` of a running gateway makes every write to a file fail, as a
full disk does, and can be taken back. The error is another (EFBIG), and a person is told the same.
"""

import errno
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from app.client.discovery import NO_ROOM
from app.config.programs import child_environment, module_command
from app.core.chats import AnswerDone, AnswerEvent, Chat, MessageStatus, NewChat, NewTurn, Turn
from app.core.downloads import Download, DownloadState
from app.core.engines import EngineState, EngineStatus
from app.core.errors import EngineFailed, StorageFault, is_disk_full, write_fault
from app.core.models import LoadModel
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.server import serve_hub
from tests.gateway.admin.real_gateway import RealGateway, run_gateway
from tests.gguf_files import TinyLlama
from tests.patience import PATIENCE_S, wait_until

if sys.platform != "linux":
    pytest.skip("only Linux limits what another process may write", allow_module_level=True)

SENTENCE = "The disk is full: {} could not be {}."
WRITES = {
    "settings": ("PATCH", "/settings", {"gateway.max_body_mib": 19}, ("the settings", "saved")),
    "keys": ("POST", "/keys", {"name": "another", "scopes": ["inference"]}, ("the keys", "saved")),
    "revoked key": ("DELETE", "/keys/first", None, ("the keys", "saved")),
    "model settings": (
        *("POST", "/model-settings", {"model": "quick", "settings": {"pinned": True}}),
        ("the settings of quick", "saved"),
    ),
    "made model": ("POST", "/made", {"name": "mine", "base": "quick"}, ("the list of made models", "saved")),
    "token": ("POST", "/hub/token", {"token": "hf_" + "a" * 30}, ("the hub's token", "saved")),
    "headers for traces": (
        "POST",
        "/traces/headers",
        {"headers": {"api-key": "a" * 20}},
        ("the headers for traces", "saved"),
    ),
    "tool": ("POST", "/tools/codex/connect", {}, ("what undoes the change", "saved")),
}


@contextmanager
def full_disk(process: psutil.Process, left_bytes: int = 0) -> Iterator[None]:
    """Let a process write no file beyond so many bytes."""
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (left_bytes, before[1]))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, before)


def files_of(home: Path) -> dict[Path, bytes]:
    """Return what is kept, but for what is written all the time."""
    kept_paths = (path for folder in ("config", "data", "person") for path in (home / folder).rglob("*"))
    return {path: path.read_bytes() for path in kept_paths if path.is_file() and "roundhouse.db" not in path.name}


def call(gateway: RealGateway, name: str) -> None:
    method, path, body, _ = WRITES[name]
    if method == "DELETE":
        gateway.client.delete(path)
    elif method == "PATCH":
        gateway.client.patch(path, body, object)
    else:
        gateway.client.post(path, body, object)


def run_command(gateway: RealGateway, *words: str) -> "subprocess.CompletedProcess[str]":
    home = gateway.paths.data.parent
    extra = {"ROUNDHOUSE_HOME": str(home), "HOME": str(home / "person")}
    return subprocess.run(
        module_command("app.cli") + list(words),
        env=child_environment(extra),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
def test_every_write_is_refused_with_the_same_sentence_and_changes_nothing(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        gateway.client.post("/keys", {"name": "first", "scopes": ["inference"]}, object)
        gateway.client.patch("/settings", {"gateway.max_body_mib": 17}, object)
        (tmp_path / "person" / ".codex").mkdir(parents=True)
        (tmp_path / "person" / ".codex" / "config.toml").write_text('model = "mine"\n', encoding="utf-8")
        wait_until((gateway.paths.data / "headers.bin").exists)  # what starting writes by itself, a little later
        before = files_of(tmp_path)
        with full_disk(psutil.Process(gateway.process.pid)):
            for name, (_, _, _, what) in WRITES.items():
                with pytest.raises(StorageFault) as error:
                    call(gateway, name)
                assert (error.value.code, str(error.value)) == ("disk_full", SENTENCE.format(*what)), name
                assert "Free some space" in error.value.hint
            process = run_command(gateway, "settings", "gateway.max_body_mib", "21")
            assert (process.returncode, process.stderr.splitlines()[0]) == (1, SENTENCE.format("the settings", "saved"))
            assert files_of(tmp_path) == before
        for name in WRITES:
            call(gateway, name)
        changed_files = files_of(tmp_path)
    assert b"19" in changed_files[gateway.paths.settings_file]
    assert {key["name"] for key in json.loads(changed_files[gateway.paths.keys_file])["keys"]} == {"another"}


@pytest.mark.slow
def test_a_loaded_model_answers_on_a_full_disk_and_another_says_why_not(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        gateway.client.post("/load", LoadModel(model="quick"), EngineStatus)
        with full_disk(psutil.Process(gateway.process.pid)):
            document = json.dumps({"model": "quick", "input": "hi"}).encode()
            where = urllib.request.Request(  # noqa: S310 -- our own gateway
                f"{gateway.port_file.url}/v1/responses", document, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(where, timeout=PATIENCE_S) as reply:  # noqa: S310 -- as above
                assert json.load(reply)["status"] == "completed"
            with pytest.raises(EngineFailed) as error:  # a launch without a record would outlive a killed gateway
                gateway.client.post("/load", LoadModel(model="heavy"), EngineStatus)
            assert (error.value.code, str(error.value)) == ("disk_full", SENTENCE.format("the engine", "started"))
        assert gateway.client.post("/load", LoadModel(model="heavy"), EngineStatus).state is EngineState.READY


@pytest.mark.slow
def test_an_answer_in_a_chat_keeps_what_was_written_and_is_stored_once_there_is_space(
    tmp_path: Path, unused_port: int
) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        client = gateway.client
        chat = client.post("/chats", NewChat(model="slow"), Chat)
        answer = client.post(f"/chats/{chat.id}/turns", NewTurn(content="Go on"), Turn).answer
        wait_until(lambda: bool(client.get(f"/chats/{chat.id}", Chat).messages[-1].content))
        with full_disk(psutil.Process(gateway.process.pid)):
            events = client.stream_events(f"/chats/{chat.id}/answers/{answer.id}", AnswerEvent, timeout_s=PATIENCE_S)
            ended_message = next(event.message for event in events if isinstance(event, AnswerDone))
            assert (ended_message.status, bool(ended_message.content)) == (MessageStatus.FAILED, True)
            assert "disk" in ended_message.error
            with pytest.raises(StorageFault):
                client.post("/chats", NewChat(model="slow"), Chat)
        stored_message = client.get(f"/chats/{chat.id}", Chat).messages[-1]
        assert stored_message.content.startswith(ended_message.content)


@pytest.mark.slow
def test_a_download_goes_on_where_the_disk_was_full(tmp_path: Path, unused_port: int) -> None:
    content = TinyLlama(name="Large").content() + bytes(20 << 20)
    with serve_hub(FakeHub()) as hub, run_gateway(tmp_path, unused_port, hub=hub.url) as gateway:
        hub.add("org/Model-GGUF", {"Model-Q8_0.gguf": content})
        client = gateway.client
        client.patch("/settings", {"downloads.limit_mb_s": 4}, object)
        download = client.post("/downloads", {"model": "org/Model-GGUF:Q8_0"}, Download)
        wait_until(lambda: client.get("/downloads", list[Download])[0].present_bytes > 0)
        child = next(
            child
            for child in psutil.Process(gateway.process.pid).children()
            if "app.hub.download.program" in child.cmdline()
        )
        child.rlimit(psutil.RLIMIT_FSIZE, (0, psutil.RLIM_INFINITY))
        wait_until(lambda: client.get("/downloads", list[Download])[0].state is DownloadState.FAILED)
        failed_download = client.get("/downloads", list[Download])[0]
        assert failed_download.error is not None
        assert (failed_download.error.code, failed_download.error.sentence) == (
            "disk_full",
            SENTENCE.format("the download", "saved"),
        )
        client.patch("/settings", {"downloads.limit_mb_s": 0}, object)
        client.post(f"/downloads/{download.id}/resume", None, Download)
        wait_until(lambda: client.get("/downloads", list[Download])[0].state is DownloadState.DONE)
        finished_download = client.get("/downloads", list[Download])[0]
        assert (Path(finished_download.folder) / "Model-Q8_0.gguf").read_bytes() == content


@pytest.mark.slow
def test_a_gateway_that_cannot_start_says_so_though_its_log_cannot(tmp_path: Path, unused_port: int) -> None:
    with run_gateway(tmp_path, unused_port) as gateway:
        pass
    limited_start = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY)); "
    limited_start += "os.execv(sys.argv[1], sys.argv[1:])"
    home = {"ROUNDHOUSE_HOME": str(tmp_path), "ROUNDHOUSE_GATEWAY_PORT": str(unused_port)}
    process = subprocess.run(
        [sys.executable, "-c", limited_start, *module_command("app.cli"), "up"],
        env=child_environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (process.returncode, NO_ROOM.sentence in process.stderr, NO_ROOM.hint in process.stderr) == (1, True, True)
    with run_gateway(tmp_path, unused_port) as gateway:
        assert {model["name"] for model in gateway.client.get("/models", list[dict[str, object]])} >= {"quick", "slow"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_a_used_up_quota_and_a_limit_are_told_alike(number: int) -> None:
    fault = write_fault("the settings", OSError(number, os.strerror(number)), place="/home/me")
    assert (fault.code, str(fault)) == ("disk_full", SENTENCE.format("the settings", "saved"))
    assert "/home/me" in fault.hint


def test_another_reason_is_named() -> None:
    fault = write_fault("the settings", OSError(errno.EROFS, "Read-only file system"))
    assert (fault.code, str(fault)) == ("storage", "The settings could not be saved: Read-only file system.")
    assert not is_disk_full(ValueError())
