"""Files that the hub keeps in Xet: right bytes whatever the storage does, from there or over plain HTTP."""

import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest

from app.config.environment import is_xet_off
from app.core.connections import Connection, Program, merge_connections
from app.core.errors import Forbidden, NotFound
from app.hub.download import xet
from app.hub.download.chunk_map import bytes_written
from app.hub.download.job import ConnectionsMade, DownloadDone, DownloadMessage, DownloadNote, DownloadProgress
from app.hub.download.program import JobFetcher
from app.hub.download.transfer import CHUNK_BYTES
from tests.fake_hub import faults
from tests.fake_hub.faults import Fault, first
from tests.fake_hub.hub import FakeHub
from tests.fake_hub.uploading import forget_uploads, keep_in_xet
from tests.unit.hub.download.conftest import CHUNK, FILE, NAME, Arena
from tests.unit.hub.download.test_program import job_for, run, start_program

if TYPE_CHECKING:
    from app.hub.repositories.ranges import RemoteHost

Make = Callable[..., Arena]
TOKEN = "hf_secret"


def model_like(size: int) -> bytes:
    """Bytes of which some pack well, some do not, and some are there twice, as in a model."""
    noise = random.Random(size).randbytes(size // 2)  # noqa: S311 -- bytes to send
    words = array("I", range(size // 16)).tobytes()
    return (noise + words + noise)[:size]


SMALL = model_like(2 << 20)


@pytest.fixture(scope="module")
def large() -> Iterator[bytes]:
    """28 MB, made when a test needs them and not wherever tests are collected."""
    yield model_like(28 << 20)
    forget_uploads()


@pytest.fixture
def arena(arena: Make) -> Make:
    """The usual one, with content that is in Xet."""

    def make(content: bytes = SMALL) -> Arena:
        there = arena(0)
        there.content = content
        there.hub.repositories[NAME].branches["main"][FILE] = content
        keep_in_xet(there.hub, content)
        return there

    return make


@pytest.fixture(autouse=True)
def own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_XET_LOG_DEST", os.devnull)
    monkeypatch.setenv("HF_XET_CACHE", "as it was")  # so that it is put back: loading sets it
    monkeypatch.delenv("HF_XET_CACHE")
    monkeypatch.setattr(xet, "_SETTINGS", {**xet._SETTINGS, "client.retry_base_delay": "5ms"})
    monkeypatch.setattr(xet, "_LOOK_S", 0.02)


class Brought:
    """What came of fetching the file in this process."""

    def __init__(self, there: Arena, **more: object) -> None:
        self.there, self.notes = there, list[str]()
        job = msgspec.structs.replace(job_for(there), xet=True, token=TOKEN)
        ways = JobFetcher(
            job, there.means(**more), lambda note: self.notes.append(note.sentence), lambda _machine: None
        )
        ways.fetch_file(there.cache, there.file)

    @property
    def is_right(self) -> bool:
        return self.there.cache.blob_path(self.there.file).read_bytes() == self.there.content and sum(
            self.there.progress_bytes
        ) == len(self.there.content)

    @property
    def is_from_xet_alone(self) -> bool:
        return not self.notes and not self.there.hub.tokens_at_storage


def test_a_file_comes_from_xet_and_no_token_goes_astray(arena: Make, large: bytes, tmp_path: Path) -> None:
    there = arena(large)
    there.hub.repositories[NAME].gated = "manual"
    there.hub.repositories[NAME].readers.add(TOKEN)
    messages = run(msgspec.structs.replace(job_for(there), xet=True, token=TOKEN))
    assert isinstance(messages[-1], DownloadDone)
    assert (Path(messages[-1].folder) / FILE).read_bytes() == large
    assert [message.present_bytes for message in messages if isinstance(message, DownloadProgress)][-1] == len(
        large
    ) + 2
    assert there.hub.tokens_at_storage == []
    received_by_host = {(message.host, message.by): message.received_bytes for message in calls_of(messages)}
    assert received_by_host["localhost", Program.DOWNLOADER] > len(large)
    assert received_by_host["127.0.0.1", Program.DOWNLOADER] < 10_000
    grants = {(kind, authorization) for kind, _range, authorization in there.hub.cas.requests}
    assert grants == {("grant", f"Bearer {TOKEN}"), ("reconstruction", "Bearer xet-0"), ("xorb", None)}
    written_paths = [path for path in tmp_path.rglob("*") if path.is_file() and "models--" not in str(path)]
    assert written_paths == []


def calls_of(messages: list[DownloadMessage]) -> list[Connection]:
    connections: dict[object, Connection] = {}
    for connection in (
        connection for message in messages if isinstance(message, ConnectionsMade) for connection in message.connections
    ):
        connections[connection.key] = (
            merge_connections(connections[connection.key], connection) if connection.key in connections else connection
        )
    return list(connections.values())


@pytest.mark.slow
def test_huggingfaces_own_client_reads_the_same_storage(arena: Make, tmp_path: Path) -> None:
    there = arena()
    fetch = "import sys, huggingface_hub; print(huggingface_hub.hf_hub_download(*sys.argv[1:3], endpoint=sys.argv[3]))"
    variables = {**os.environ, "HF_HOME": str(tmp_path / "theirs"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    argv = [sys.executable, "-c", fetch, NAME, FILE, there.hub.url]
    process = subprocess.run(argv, env=variables, check=True, capture_output=True, text=True)
    assert Path(process.stdout.strip()).read_bytes() == SMALL
    assert there.hub.cas.asked_for("xorb")
    assert there.hub.tokens_at_storage == []


MENDED: dict[str, tuple[str, Fault]] = {
    "the token ends": ("reconstruction", first(1, faults.status(401))),
    "nobody knows it for a moment": ("reconstruction", first(1, faults.status(503))),
    "the hub is busy for a moment": ("grant", first(1, faults.status(503))),
    "the connection breaks": ("xorb", first(2, faults.breaks_after(1000))),
    "half a xorb": ("xorb", first(2, faults.truncates(70_000))),
    "a different part": ("xorb", first(1, faults.status(416))),
}


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(("kind", "fault"), MENDED.values(), ids=MENDED)
def test_what_another_try_mends_is_mended_within_xet(arena: Make, kind: str, fault: Fault) -> None:
    there = arena()
    there.hub.cas.faults[kind] = fault
    came = Brought(there)
    assert came.is_right
    assert came.is_from_xet_alone


def test_a_token_that_ends_in_the_middle_is_asked_for_anew(arena: Make, large: bytes) -> None:
    there, refusal = arena(large), faults.status(401)
    tokens = there.hub.cas.tokens
    there.hub.cas.faults["reconstruction"] = after(
        len(large) // 2, lambda request, content: len(tokens) == 1 and refusal(request, content)
    )
    came = Brought(there)
    assert came.is_right
    assert came.is_from_xet_alone
    assert len(tokens) > 1


def elsewhere(request: object, _content: object) -> bool:
    request.reply_json({"accessToken": "x", "exp": 4_000_000_000, "casUrl": "http://elsewhere.invalid"})  # type: ignore[attr-defined]
    return True


def unsafe(request: object, content: object) -> bool:
    answer = content.content.replace(b"http://localhost:", b"http://elsewhere.invalid:")  # type: ignore[attr-defined]
    request.reply(200, answer, {})  # type: ignore[attr-defined]
    return True


def nonsense(request: object, _content: object) -> bool:
    request.reply(200, b"<html>Welcome to this hotel's network</html>", {})  # type: ignore[attr-defined]
    return True


LEFT: dict[str, tuple[str, Fault]] = {
    "no grant": ("grant", faults.status(403)),
    "no such route": ("grant", faults.status(404)),
    "no grant for now": ("grant", faults.status(500)),
    "a grant that is none": ("grant", nonsense),
    "a storage that is not safe": ("grant", elsewhere),
    "no token is good": ("reconstruction", faults.status(401)),
    "forbidden": ("reconstruction", faults.status(403)),
    "unknown there": ("reconstruction", faults.status(404)),
    "too many requests": ("reconstruction", faults.status(429)),
    "broken there": ("reconstruction", faults.status(500)),
    "a plan that leads elsewhere, in the clear": ("reconstruction", unsafe),
    "a plan that is none": ("reconstruction", nonsense),
    "signed address that has ended": ("xorb", faults.status(403)),
    "lost": ("xorb", faults.status(404)),
    "broken": ("xorb", faults.status(503)),
    "always breaks": ("xorb", faults.breaks_after(1000)),
    "always half": ("xorb", faults.truncates(70_000)),
    "no xorb": ("xorb", nonsense),
    "damaged": ("xorb", faults.wrong_bytes(at=50_000)),
    "damaged head": ("xorb", faults.wrong_bytes(at=1)),
}


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(("kind", "fault"), LEFT.values(), ids=LEFT)
def test_what_xet_cannot_do_plain_http_does(arena: Make, kind: str, fault: Fault) -> None:
    there = arena()
    there.hub.cas.faults[kind] = fault
    came = Brought(there)
    assert came.is_right
    (note,) = came.notes
    assert note.startswith(f"{FILE} is downloaded over plain HTTP: ")
    assert "secret" not in note


def test_a_storage_that_says_nothing_is_left(arena: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xet, "PATIENCE_S", 0.2)
    there, over = arena(), threading.Event()
    there.hub.cas.faults["xorb"] = faults.stalls(over)
    came = Brought(there)
    over.set()
    assert came.is_right
    assert came.notes == [f"{FILE} is downloaded over plain HTTP: Xet storage is sending almost no data."]


def test_plain_http_goes_on_where_xet_gave_up(arena: Make, large: bytes) -> None:
    there = arena(large)
    there.hub.cas.faults["xorb"] = after(len(large) // 3, faults.status(404))
    came = Brought(there, streams=1)
    assert came.is_right
    assert len(came.notes) == 1
    (first_range, _again) = there.hub.ranges_of(FILE)  # of the hub, and of the storage it redirects to
    kept_bytes = int(first_range.removeprefix("bytes=").split("-")[0])
    assert kept_bytes >= xet.BLOCK_BYTES
    assert kept_bytes % CHUNK == 0


def after(begin: int, fault: Fault) -> Fault:
    """Go wrong from a position in the storage on."""

    def later(request: object, content: object) -> bool:
        start = int(request.headers["Range"].removeprefix("bytes=").split("-")[0])  # type: ignore[attr-defined]
        return start >= begin and fault(request, content)  # type: ignore[arg-type]

    return later


@pytest.mark.slow
def test_what_went_wrong_once_is_not_tried_for_every_file(arena: Make) -> None:
    there = arena()
    there.hub.repositories[NAME].branches["main"]["other.gguf"] = other = SMALL[::-1]
    keep_in_xet(there.hub, other)
    there.hub.cas.faults["grant"] = faults.status(404)
    notes: list[DownloadNote] = []
    job = msgspec.structs.replace(job_for(there), xet=True)
    ways = JobFetcher(job, there.means(), notes.append, lambda _machine: None)
    for file in job.files:
        ways.fetch_file(there.cache, file)
    assert len(notes) == 1
    assert len(there.hub.cas.asked_for("grant")) == 1


def test_when_plain_http_fails_too_its_error_is_the_one(arena: Make) -> None:
    there = arena()
    there.hub.cas.faults["grant"] = faults.status(404)
    there.hub.faults[FILE] = faults.status(403)
    with pytest.raises(Forbidden):
        Brought(there)
    assert not there.cache.blob_path(there.file).exists()


def test_a_limit_that_is_set_on_the_way_is_kept_over_plain_http(arena: Make) -> None:
    there = arena()
    means = there.means()

    def note_progress(count: int) -> None:
        there.progress_bytes.append(count)
        means.throttle.bytes_per_s = 1e12

    came = Brought(there, progress=note_progress, throttle=means.throttle)
    assert came.is_right
    assert came.notes == [f"{FILE} is downloaded over plain HTTP: A speed limit was set."]


@pytest.mark.parametrize("more", [{"xet": False}, {"bytes_per_s": 1e12}], ids=["off", "limited"])
def test_it_is_left_alone_where_it_should_be(arena: Make, more: dict[str, object]) -> None:
    there = arena()
    assert isinstance(run(msgspec.structs.replace(job_for(there), **{"xet": True, **more}))[-1], DownloadDone)
    assert there.hub.cas.requests == []
    assert not [request for request in there.hub.requests if request[0] == "HEAD"]


@pytest.mark.slow
def test_a_killed_download_from_xet_goes_on(arena: Make, large: bytes) -> None:
    there, over = arena(large), threading.Event()
    there.hub.cas.faults["xorb"] = after(len(large) // 2, faults.stalls(over))
    job = msgspec.structs.replace(job_for(there), xet=True)
    with start_program(job):
        ends_at = time.monotonic() + 60
        while not (kept_bytes := bytes_written(there.part)) and time.monotonic() < ends_at:
            time.sleep(0.01)
    over.set()
    assert kept_bytes >= CHUNK_BYTES
    there.hub.cas.faults.clear()
    before = len(there.hub.cas.requests)
    assert isinstance(run(job)[-1], DownloadDone)
    assert there.cache.blob_path(there.file).read_bytes() == large
    ranges = [asked_range for kind, asked_range, _status in there.hub.cas.requests[before:] if kind == "reconstruction"]
    assert min(int(asked_range.removeprefix("bytes=").split("-")[0]) for asked_range in ranges) >= kept_bytes
    assert there.hub.tokens_at_storage == []


def test_the_proxy_of_the_environment_is_used_for_both_ways(
    arena: Make, monkeypatch: pytest.MonkeyPatch, hub: FakeHub
) -> None:
    there = arena()
    job = msgspec.structs.replace(job_for(there), xet=True, endpoint="http://hub.invalid")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", hub.url)
    hub.cas.address = "http://hub.invalid/cas"
    assert isinstance(run(job)[-1], DownloadDone)
    assert hub.cas.asked_for("xorb")
    assert there.cache.blob_path(there.file).read_bytes() == there.content


def test_where_the_system_has_proxies_of_its_own_it_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"https": "http://proxy.invalid:8080"})
    assert xet.load_library(tmp_path) is None


def test_xet_is_told_to_send_no_telemetry() -> None:
    hf_xet = pytest.importorskip("hf_xet")
    assert hf_xet.XetConfig().with_config(dict(xet._SETTINGS)).get("telemetry.enabled") is False


def test_a_version_with_other_settings_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(xet, "_SETTINGS", {"no.such.setting": 1})
    assert xet.load_library(tmp_path) is None


def test_without_it_nothing_is_missing_but_the_way(monkeypatch: pytest.MonkeyPatch, arena: Make) -> None:
    monkeypatch.setitem(sys.modules, "hf_xet", None)
    there = arena()
    came = Brought(there)
    assert came.is_right
    assert came.notes == []
    assert there.hub.cas.requests == []
    assert there.hub.tokens_at_storage


@pytest.mark.parametrize(("value", "is_off"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_the_variable_that_switches_it_off_everywhere_is_known(value: str, is_off: bool) -> None:  # noqa: FBT001
    assert is_xet_off({"HF_HUB_DISABLE_XET": value}) is is_off


@pytest.mark.parametrize("knows_second", [True, False])
def test_a_storage_is_asked_in_the_second_versions_words_and_then_in_the_firsts(*, knows_second: bool) -> None:
    questions: list[tuple[str, str]] = []

    class Host:
        def read_small_file(self, url: str, _most: int, headers: dict[str, str]) -> bytes:
            questions.append((url, headers["Range"]))
            if "/v2/" in url and not knows_second:
                raise NotFound("There is no such address.")
            return b'{"xorbs": {"a": [{"url": "https://a.example/1"}]}, "fetch_info": {"b": [{"url": "https://b.example"}]}}'

    grant = xet.ReadGrant(access_token="t", cas_url="https://cas.example/", exp=0)
    plan = xet._read_fetch_plan(cast("RemoteHost", Host()), xet.XetFile("h", 10, "a"), grant, 5)
    versions = ["v2"] if knows_second else ["v2", "v1"]
    assert questions == [(f"https://cas.example/{each}/reconstructions/h", "bytes=5-5") for each in versions]
    assert sorted(plan.urls) == ["https://a.example/1", "https://b.example"]
