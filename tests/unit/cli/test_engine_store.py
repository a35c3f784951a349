"""Engines on the command line: what is shown, what is asked of the gateway, and how a job is followed to its end."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.cli import engine_store, main
from app.core.api import SettingInfo
from app.core.engine_store import (
    EngineJob,
    EngineListing,
    EngineOffer,
    EngineUpdate,
    EngineVersion,
    InstallEngine,
    Proof,
    TestEngine,
    UseEngine,
)
from app.core.errors import ErrorBody
from app.core.events import EngineJobChanged, EnginesChanged, Event, LogLine

PROOF = Proof(at=1.0, model="the Guide", tokens_per_s=1281.9, device="CPU")
STOCK = EngineListing(
    id="llama.cpp",
    name="llama.cpp",
    licence="MIT",
    homepage="https://example.org",
    formats=["gguf"],
    rank=1,
    advice="The best choice.",
    versions=[
        EngineVersion(name="2-cpu", version="2", backend="cpu", is_current=True, size_bytes=1 << 20, proof=PROOF),
        EngineVersion(name="bundled", version="1", backend="cpu", is_previous=True),
        EngineVersion(name="3-cpu", version="3", backend="cpu", problem="It wrote nonsense."),
    ],
    offers=[EngineOffer(variant="vulkan", version="4", backend="vulkan", download_bytes=1 << 20)],
    size_bytes=1 << 20,
)
JOB = EngineJob(id="7", engine="llama.cpp", verb="install", stage="Making an environment")
DONE = msgspec.structs.replace(JOB, stage="Done", is_done=True, version="2-cpu", proofs=[PROOF])


class Gateway:
    """Answers from a table and notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, object]] = []
        self.end = DONE
        self.update = EngineUpdate(engine="llama.cpp", variant="cpu", current="2", to="4", changes=["numpy 1 -> 2"])
        self.interrupts = False
        self.stock = [STOCK]

    def get(self, path: str, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del reply, timeout_s
        if path == "/engines/stock":
            return self.stock
        if path == "/settings":
            return [SettingInfo(**{**SETTING, "value": ["openvino"]})]
        if path == "/engines/log":
            return [LogLine(model="llama.cpp", stream="out", text="install: Done", at=1.0)]
        return self.update

    def post(self, path: str, body: object, reply: Any, *, timeout_s: float | None = None) -> Any:  # noqa: ANN401 -- any type
        del timeout_s
        self.requests.append(("POST", path, body))
        is_at_once = reply is type(None) or (isinstance(body, UseEngine) and not body.path)
        return None if is_at_once else JOB

    def patch(self, path: str, body: object, reply: Any) -> Any:  # noqa: ANN401 -- any type
        del reply
        self.requests.append(("PATCH", path, body))

    def delete(self, path: str) -> None:
        self.requests.append(("DELETE", path, None))

    def stream_events(self, path: str, event: Any, *, timeout_s: float | None = None) -> Iterator[Event]:  # noqa: ANN401 -- any type
        del path, event, timeout_s
        yield EnginesChanged(engine="llama.cpp")
        yield EngineJobChanged(job=JOB)
        yield EngineJobChanged(job=msgspec.structs.replace(JOB, id="other", is_done=True))
        if self.interrupts:
            raise KeyboardInterrupt
        yield EngineJobChanged(job=self.end)


SETTING: dict[str, Any] = {
    "name": "engines.preferred",
    "section": "engines",
    "title": "",
    "help": "",
    "kind": "list",
    "default": [],
    "source": "file",
}


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    played_gateway = Gateway()
    monkeypatch.setattr(engine_store, "connect_gateway", lambda: played_gateway)
    return played_gateway


def run(*arguments: str) -> Any:  # noqa: ANN401 -- click's
    return CliRunner().invoke(main.roundhouse, ["engines", *arguments])


def test_the_list_says_what_suits_and_what_is_used(gateway: Gateway) -> None:
    stdout = run().stdout
    assert stdout == run("list").stdout
    assert "llama.cpp" in stdout
    assert "2 (cpu)" in stdout
    assert "#1: The best choice." in stdout


def test_what_was_run_for_real_is_said_of_all_and_of_each(gateway: Gateway) -> None:
    ran = "Run for real on Linux x86-64 on the CPU in November 2026: chat."
    gateway.stock = [
        msgspec.structs.replace(STOCK, verified=ran, unverified="Not run on a Mac.", span="Never over two.")
    ]
    assert "Run for real on Linux x86-64 on the CPU: llama.cpp.\n" in run().stdout
    assert f"{ran}\nNot run on a Mac.\nNever over two.\n" in run("list", "llama.cpp").stdout
    gateway.stock = [STOCK]
    assert "Run for real" not in run().stdout


def test_what_nobody_should_begin_with_is_listed_on_demand_or_where_it_is(gateway: Gateway) -> None:
    old = EngineListing(id="old", name="Old", licence="MIT", homepage="", formats=["gguf"], legacy="It was archived.")
    gateway.stock = [STOCK, old]
    assert "old" not in run().stdout
    assert "old" in run("list", "--legacy").stdout
    assert "Old, MIT" in run("list", "old").stdout
    gateway.stock = [msgspec.structs.replace(old, versions=[EngineVersion(name="bundled", version="3")])]
    assert "old" in run().stdout


def test_one_engine_is_shown_with_its_versions_and_offers(gateway: Gateway) -> None:
    stdout = run("list", "llama.cpp").stdout
    assert "1,282 tok/s on CPU with the Guide" in stdout
    assert "It wrote nonsense." in stdout
    assert "Could be installed: 4 (vulkan), 1.0 MiB to download." in stdout
    missing_output = run("list", "nobody")
    assert missing_output.exit_code == 2
    assert "It has llama.cpp." in missing_output.stderr


def test_json_is_versioned(gateway: Gateway) -> None:
    assert json.loads(run("list", "--json").stdout)["engines"][0]["id"] == "llama.cpp"
    assert json.loads(run("install", "llama.cpp", "--json").stdout)["job"]["version"] == "2-cpu"


def test_an_install_is_followed_to_its_end(gateway: Gateway) -> None:
    result = run("install", "llama.cpp", "--variant", "cpu", "--no-use")
    assert result.stdout == "llama.cpp 2-cpu is installed.\n  1,282 tok/s on CPU with the Guide\n"
    assert result.stderr == "Making an environment\n"
    assert gateway.requests == [("POST", "/engines/llama.cpp/install", InstallEngine(variant="cpu", use=False))]


def test_a_job_that_failed_is_an_error_with_the_last_words(gateway: Gateway) -> None:
    error = ErrorBody(code="gibberish", sentence="Its test failed.", hint="Wait.", detail="last words")
    gateway.end = msgspec.structs.replace(DONE, error=error)
    result = run("install", "llama.cpp")
    assert result.exit_code == 1
    assert "Its test failed.\nWait.\nlast words\n" in result.stderr
    assert json.loads(run("install", "llama.cpp", "--json").stdout)["error"]["code"] == "gibberish"


def test_ctrl_c_calls_it_off(gateway: Gateway) -> None:
    gateway.interrupts = True
    result = run("install", "llama.cpp")
    assert result.exit_code == 130
    assert gateway.requests[-1] == ("DELETE", "/engines/job", None)


def test_a_gateway_that_ends_is_said(gateway: Gateway) -> None:
    gateway.end = msgspec.structs.replace(DONE, is_done=False)
    result = run("test", "llama.cpp", "2-cpu")
    assert result.exit_code == 1
    assert "stopped during the job" in result.stderr
    assert gateway.requests[-1] == ("POST", "/engines/llama.cpp/test", TestEngine(version="2-cpu"))


def test_an_update_is_shown_first_and_made_only_when_wanted(gateway: Gateway) -> None:
    check_result = run("update", "llama.cpp", "--check")
    assert check_result.stdout == "llama.cpp 2 -> 4 (cpu)\n  numpy 1 -> 2\n"
    refusal = run("update", "llama.cpp")
    assert refusal.exit_code == 2
    assert "--yes" in refusal.stderr
    assert gateway.requests == []
    assert run("update", "llama.cpp", "--yes", "--channel", "latest").exit_code == 0
    assert gateway.requests == [
        ("POST", "/engines/llama.cpp/update", InstallEngine(variant="cpu", channel="latest", version="4"))
    ]
    gateway.update = msgspec.structs.replace(gateway.update, to="")
    assert "is the newest version on the stable channel" in run("update", "llama.cpp", "--yes").stdout


def test_removing_says_what_is_free_again(gateway: Gateway) -> None:
    assert run("remove", "llama.cpp", "2-cpu").stdout == "llama.cpp 2-cpu was removed; 1.0 MiB freed.\n"
    assert gateway.requests == [("DELETE", "/engines/llama.cpp/versions/2-cpu", None)]


def test_using_an_engine_prefers_it_and_a_path_is_a_program_of_ones_own(gateway: Gateway, tmp_path: Path) -> None:
    assert run("use", "llama.cpp", "2-cpu").stdout == "llama.cpp 2-cpu is in use.\n"
    assert gateway.requests == [
        ("POST", "/engines/llama.cpp/use", UseEngine(version="2-cpu")),
        ("PATCH", "/settings", {"engines.preferred": ["llama.cpp", "openvino"]}),
    ]
    gateway.requests.clear()
    own = tmp_path / "llama-server"
    assert run("use", "llama.cpp", str(own)).exit_code == 0
    assert gateway.requests[0] == ("POST", "/engines/llama.cpp/use", UseEngine(path=str(own)))
    run("use", "llama.cpp", "3-cpu", "--force")
    assert gateway.requests[2] == ("POST", "/engines/llama.cpp/use", UseEngine(version="3-cpu", force=True))


def test_a_program_on_path_and_what_failed_are_marked(gateway: Gateway) -> None:
    on_path = EngineVersion(name="llama-server", version="b7", path="/usr/bin/llama-server", is_on_path=True)
    offer = EngineOffer(variant="sycl", version="4", backend="sycl", problem="It crashed.")
    bundled_version = EngineVersion(name="bundled", version="1", is_current=True, problem="It wrote nonsense.")
    gateway.stock = [msgspec.structs.replace(STOCK, versions=[bundled_version, on_path], offers=[offer])]
    stdout = run("list", "llama.cpp").stdout
    assert "llama-server (b7)" in stdout
    assert "on PATH" in stdout
    assert "/usr/bin/llama-server: not tested" in stdout
    assert "bundled (1)" in stdout
    assert "in use, failed" in stdout
    assert "Could be installed: 4 (sycl). It failed when it was last installed: It crashed." in stdout


def test_an_engine_that_passed_its_test_here_is_not_said_to_be_unable(gateway: Gateway) -> None:
    gateway.stock = [msgspec.structs.replace(STOCK, rank=None)]
    stdout = run().stdout
    assert "cannot run" not in stdout
    assert "runs: The best choice." in stdout


def test_an_update_that_is_here_already_is_said_to_be(gateway: Gateway) -> None:
    gateway.update = msgspec.structs.replace(gateway.update, is_here=True)
    assert "llama.cpp 2 -> 4 (cpu), installed already\n" in run("update", "llama.cpp", "--check").stdout


def test_rolling_back_cancelling_and_logs(gateway: Gateway) -> None:
    assert run("rollback", "llama.cpp").stdout == "llama.cpp 2-cpu is in use.\n"
    assert run("cancel").stdout == "No job is running now.\n"
    assert "install: Done" in run("logs").stdout
    assert [path for _, path, _ in gateway.requests] == ["/engines/llama.cpp/rollback", "/engines/job"]


def test_a_bundle_says_itself_which_engine_it_holds(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "x.bundle"
    with tarfile.open(path, "w") as archive:
        about = b'{"engine": "openvino"}'
        info = tarfile.TarInfo("bundle.json")
        info.size = len(about)
        archive.addfile(info, io.BytesIO(about))
    assert run("install", "--from", str(path)).exit_code == 0
    assert gateway.requests == [("POST", "/engines/openvino/install", InstallEngine(bundle=str(path)))]
    path.write_bytes(b"something else")
    refusal = run("install", "--from", str(path))
    assert (refusal.exit_code, "is not an engine bundle" in refusal.stderr) == (2, True)
    assert run("install").exit_code == 2
